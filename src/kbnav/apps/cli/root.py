"""The command line. Each command reads its settings, calls one function, and prints.

Exit codes: 0 answered, 1 no answer found, 2 wrong use, 3 a service or credentials, 70 a bug.
"""

from __future__ import annotations

import ast
import errno
import re
import sys
import tomllib
import traceback
from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

HELP = "Ask questions of Wikidata or of your own knowledge base, and see how the answer was found."
FIRST = """\b
Begin with:
  kbnav ask "Who discovered polonium?"     an answer without a key or a network
  kbnav ask --kb wikidata --model gpt-4o "Who discovered polonium?"     with a language model
  kbnav serve     the same as a page in the browser
"""

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_BUG = 70
"""The exit code of a bug, here or in a plug-in: ``EX_SOFTWARE`` of sysexits.h."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
"""Errors of a disk are no bugs: the operator can mend them."""


class Group(TyperGroup):
    """A group whose help shows the whole first sentence of each of its commands, by section."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # noqa: ARG002
        """Write the commands."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (place, title) in self.commands.places.items():  # type: ignore[attr-defined]
            row = (name.ljust(max(map(len, self.commands))), _first_sentence(place))
            sections.setdefault(title or "Commands", []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class _Root(Group):
    def __init__(self, **attributes: Any) -> None:
        tree = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
        places = {name: (place, section) for section, some in tree.items() for name, place in some.items()}
        super().__init__(**{**attributes, "commands": _Lazy(places)})


class _Lazy(UserDict[str, Any]):
    """Commands by name. A command's module is imported when the command is needed: ``kbnav ask`` imports no other."""

    def __init__(self, places: Mapping[str, tuple[Any, str | None]]) -> None:
        super().__init__(dict.fromkeys(places))
        self.places = places

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _built(name, self.places[name][0])
        return self.data[name]


def _built(name: str, place: Any) -> Any:
    """A command or a group, as ``commands.toml`` has it."""
    if not isinstance(place, str):
        commands: Any = _Lazy({one: (where, None) for one, where in place.items() if one != "help"})
        return Group(
            name=name, help=place["help"], commands=commands, no_args_is_help=True, rich_markup_mode=None,
            context_settings=_CONTEXT,
        )  # fmt: skip
    from kbnav.apps.cli.options import flattened

    module, _, function = place.partition(":")
    callback = getattr(import_module(f"kbnav.apps.cli.{module}"), function)
    info = CommandInfo(name=name, callback=flattened(callback), context_settings=_CONTEXT)
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


def _first_sentence(place: Any) -> str:
    """That of a command's or group's help, on one line; a command's module is read for it and not imported."""
    if not isinstance(place, str):
        return str(place["help"])
    module, _, function = place.partition(":")
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    line = " ".join((ast.get_docstring(found) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]


app = typer.Typer(
    cls=_Root, help=HELP, epilog=FIRST, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None, context_settings=_CONTEXT,
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"kbnav {version('kbnav')}")
        raise typer.Exit


@app.callback(help=HELP)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    del version, debug  # --debug may stand anywhere: ``main`` takes it out


def main() -> None:
    """Run the command of ``sys.argv``; an error is one clear line and its exit code."""
    from kbnav.errors import KbnavError

    debug = "--debug" in sys.argv
    sys.argv = [one for one in sys.argv if one != "--debug"]
    try:
        app(prog_name="kbnav")
    except KbnavError as error:
        _fail(str(error), getattr(error, "exit_code", 2), debug)
    except OSError as error:
        if error.errno not in _DISK:
            _fail(f"{type(error).__name__}: {error}", _BUG, debug)
        _fail(f"{error.filename or 'a file'}: cannot be written: {error.strerror}", 2, debug)
    except Exception as error:  # noqa: BLE001 - a bug, here or in a plug-in
        _fail(f"{type(error).__name__}: {error} (kbnav --debug … prints the traceback)", _BUG, debug)


def _fail(message: str, code: int, debug: bool) -> None:
    from kbnav.apps.cli.terminal import print_error

    if debug:
        traceback.print_exc()
    print_error(message)
    sys.exit(code)
