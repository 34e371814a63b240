"""``kbnav systems``: who answers questions, and what may be set of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.arguments import JsonOption

if TYPE_CHECKING:
    from kbnav.settings.systems import SystemEntry

_KBS = {"wikibase": "Wikidata", "skb": "SKBs"}
_NEEDS = {"model": "a language model", "vectors": "vectors in the SKB", "training": "training"}
_HOW = {
    "agent": "kbnav ask --system {name} [--set OPTION=VALUE] QUESTION",
    "retriever": "kbnav retrieve --system {name} [--set OPTION=VALUE] QUERY",
}


def systems(
    name: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="One of them, to see its options; one's own is module:function.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List what answers: agents (kbnav ask) and retrievers (kbnav retrieve), with their options and what they need."""
    from kbnav.settings import systems as registry

    if as_json:
        found = registry.find(name).record() if name else [entry.brief() for entry in registry.systems()]
        print(json.dumps(found, ensure_ascii=False, indent=1))
    elif name:
        _print_one(registry.find(name))
    else:
        _print_all(list(registry.systems()))


def _print_all(entries: list[SystemEntry]) -> None:
    for title, kind in (
        ("Agents (kbnav ask)", "agent"),
        ("Retrievers (kbnav retrieve)", "retriever"),
        ("Others", None),
    ):
        some = [entry for entry in entries if entry.kind == kind]
        if some:
            _print_table(title, ("name", "", "asks", "needs", "better with"), [_row(entry) for entry in some])
    print("options of one, with their defaults: kbnav systems NAME")


def _row(entry: SystemEntry) -> tuple[str, ...]:
    about = entry.about if entry.origin == "kbnav" else f"{entry.about} ({entry.origin})"
    return entry.name, about, _listed(entry.kbs, _KBS) or "any", _listed(entry.needs), _listed(entry.uses)


def _print_one(entry: SystemEntry) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    lines = {
        "answers questions of": _listed(entry.kbs, _KBS) or "any knowledge base",
        "needs": _listed(entry.needs, _NEEDS),
        "better with": _listed(entry.uses, _NEEDS),
        "comes from": entry.origin if entry.origin != "kbnav" else "",
    }
    console.print(f"{entry.name}: {entry.about}", style="bold", markup=False)
    for said, what in lines.items():
        if what:
            console.print(f"{said}: {what}", markup=False)
    record = entry.record()
    if record["options"]:
        rows = [(one["name"], _default(one["default"]), _about(one)) for one in record["options"]]
        _print_table("Options", ("--set", "default", ""), rows)
    else:
        console.print("options: none")
    console.print(_HOW.get(entry.kind or "", _HOW["agent"]).format(name=entry.name), style="dim", markup=False)


def _about(option: dict[str, Any]) -> str:
    return f"{option['about'].rstrip('.')} ({option['type']})." if option["about"] else f"{option['type']}."


def _default(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, {}) else str(value)


def _listed(names: tuple[str, ...], words: dict[str, str] | None = None) -> str:
    return ", ".join((words or {}).get(name, name) for name in names)


def _print_table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kbnav.apps.console import printable

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=not place, overflow="fold", header_style="dim")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    console.print(table)
    console.print()
