"""``kbnav config``: every setting, its value and where that comes from."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kbnav.apps.cli.arguments import JsonOption, load


def config(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="SETTING", help="Some settings, or groups as in web; default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print every setting, its value, and whether that comes from a variable, from kbnav.toml or from nowhere."""
    from kbnav.errors import UsageError
    from kbnav.settings.plugins import did_you_mean
    from kbnav.settings.sources import explained

    found = explained(load())
    known = dict.fromkeys(part for one in found for part in (one.name.rpartition(".")[0] or one.name, one.name))
    for name in names or []:
        if not any(_is_in(one.name, name) for one in found):
            raise UsageError(f"no setting {name!r}{did_you_mean(name, known)}")
    if names:
        found = [one for one in found if any(_is_in(one.name, name) for name in names)]
    if as_json:
        print(json.dumps([one._asdict() for one in found], ensure_ascii=False, indent=1))
        return
    longest = max(len(one.name) for one in found)
    for one in found:
        where = "" if one.source == "default" else f"   ({one.source})"
        print(f"{one.name:<{longest}}  {_shown(one.value)}{where}".rstrip())
    print(f"\nwhat is followed by ( ) is set; {_HOW}")


_HOW = "the others have their defaults. docs/settings.md says what each one is"


def _is_in(name: str, group: str) -> bool:
    return name == group or name.startswith(f"{group}.")


def _shown(value: Any) -> str:
    if value == "" or value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
