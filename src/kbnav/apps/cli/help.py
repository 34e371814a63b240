"""How commands present themselves: help in plain words and whole sentences, ``-h`` everywhere, groups in sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from kbnav.apps.cli.arguments import grouped

C = TypeVar("C", bound=Callable[..., Any])
Record = tuple[str, str]

_WIDTH = 100
"""Columns of help on a wide terminal."""
_RANGES = (
    (re.compile(r"(-?[\d.]+)<=?x<=?(-?[\d.]+)"), r"\1 to \2"),
    (re.compile(r"x>=(-?[\d.]+)"), r"at least \1"),
    (re.compile(r"x>(-?[\d.]+)"), r"above \1"),
    (re.compile(r"x<=(-?[\d.]+)"), r"at most \1"),
)


SECTIONS = ("Ask", "Knowledge bases", "Evaluation", "Serve", "This program", "Commands")
"""The headings of groups, in their order; the last is that of commands without one."""
_TYPES = (
    (re.compile(r"<(?:list\[)?int(?: range)?\]?>"), "N"),
    (re.compile(r"<(?:list\[)?float(?: range)?\]?>"), "NUMBER"),
    (re.compile(r"<(?:list\[)?path\]?>", re.IGNORECASE), "PATH"),
    (re.compile(r"<(?:list\[)?(?:str|text)\]?>"), "TEXT"),
)
"""What stands for a value whose option names none."""


class Command(TyperCommand):
    """A command whose help says what a number may be as one would say it."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the arguments and the options."""
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    """A group that shows the whole first sentence of each of its commands, in sections where these are named."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the options, then the commands."""
        _write_parameters(self, ctx, formatter)
        sections: dict[str, list[Record]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                title = getattr(command, "rich_help_panel", None)
                sections.setdefault(title if isinstance(title, str) else SECTIONS[-1], []).append(
                    (name, first_sentence(command.help or ""))
                )
        longest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for title, rows in sorted(sections.items(), key=lambda one: SECTIONS.index(one[0])):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), said) for name, said in rows])


def first_sentence(text: str) -> str:
    """The first sentence of a help text, on one line."""
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]


def _write_parameters(command: Any, ctx: typer.Context, formatter: Any) -> None:
    for kind, title in (("argument", "Arguments"), ("option", "Options")):
        if rows := list(_records(command, ctx, kind)):
            with formatter.section(title):
                formatter.write_dl(rows)


def _records(command: Any, ctx: typer.Context, kind: str) -> Iterator[Record]:
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and parameter.param_type_name == kind:
            name, said = record
            if kind == "argument":
                name = (parameter.metavar or parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
            for pattern, words in _RANGES:
                said = pattern.sub(words, said)
            for pattern, words in _TYPES:
                name = pattern.sub(words, name)
            yield name, said


class Commands(typer.Typer):
    """A group of commands, each a typed function; parameters of a dataclass's type become an option for each field."""

    def __init__(self, says: str, **more: Any) -> None:
        """``says`` is what the group is for."""
        super().__init__(
            cls=Group,
            help=says,
            no_args_is_help=True,
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,  # plain help starts twice as fast
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH},
            **more,
        )

    def add(self, command: C, name: str | None = None, *, section: str | None = None) -> C:
        """Take a function as a command."""
        self.command(name, cls=Command, rich_help_panel=section)(grouped(command))
        return command
