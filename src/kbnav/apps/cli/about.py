"""``kbnav systems``, ``check`` and ``config``: what there is, and whether it works."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from textwrap import indent
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbnav.answers.language import plural
from kbnav.apps.cli.options import Json, Kbs, argument, load
from kbnav.apps.cli.terminal import print_json
from kbnav.apps.console import printable
from kbnav.errors import UsageError
from kbnav.settings import systems as registry
from kbnav.settings.model import Settings, explained, kb_names
from kbnav.settings.plugins import did_you_mean
from kbnav.settings.systems import SystemEntry, kb_kind

_KBS = {"wikibase": "Wikidata", "sparql": "endpoints", "several": "several at once", "skb": "SKBs"}
_NEEDS = {"model": "a language model", "vectors": "vectors in the SKB", "training": "training"}
_COMMANDS = {"agent": "ask", "retriever": "retrieve"}


def systems(
    name: Annotated[str, argument("SYSTEM", "One of them, or your own as module:function, to see its options.")] = "",
    as_json: Json = False,
) -> None:
    """List what answers: agents (kbnav ask) and retrievers (kbnav retrieve), with their options and what they need.

    For example: kbnav systems kar
    """
    if as_json:
        print_json(registry.find(name).record() if name else [entry.brief() for entry in registry.systems()])
    elif name:
        _print_system(registry.find(name))
    else:
        entries = list(registry.systems())
        titles = {"agent": "Agents (kbnav ask)", "retriever": "Retrievers (kbnav retrieve)", None: "Others"}
        for kind, title in titles.items():
            rows = [_row(entry) for entry in entries if entry.kind == kind]
            if rows:
                print_table(title, ("name", "", "asks", "needs", "better with"), rows)
        print("options of one, with their defaults: kbnav systems NAME")


def _row(entry: SystemEntry) -> tuple[str, ...]:
    about = entry.about if entry.origin == "kbnav" else f"{entry.about} ({entry.origin})"
    return entry.name, about, _joined(entry.kbs, _KBS) or "any", ", ".join(entry.needs), ", ".join(entry.uses)


def _print_system(entry: SystemEntry) -> None:
    console = Console(highlight=False)
    lines = {
        "answers questions of": _joined(entry.kbs, _KBS) or "any knowledge base",
        "paper": entry.paper,
        "needs": _joined(entry.needs, _NEEDS),
        "better with": _joined(entry.uses, _NEEDS),
        "comes from": entry.origin if entry.origin != "kbnav" else "",
    }
    console.print(f"{entry.name}: {entry.about}", style="bold", markup=False)
    for label, text in lines.items():
        if text:
            console.print(f"{label}: {text}", markup=False)
    print_options(entry.record()["options"])
    for command in [_COMMANDS[entry.kind]] if entry.kind else _COMMANDS.values():
        print(f"kbnav {command} --system {entry.name} [--set OPTION=VALUE] QUESTION")
    if not entry.kind:
        print("the first where it builds an agent, the second where it builds a retriever")


def print_options(options: Sequence[Mapping[str, Any]]) -> None:
    """A table of what ``--set`` may set."""
    rows = []
    for one in options:
        default, about = one["default"], one["about"].rstrip(".")
        if isinstance(default, list):
            default = ",".join(map(str, default))
        elif isinstance(default, bool):
            default = str(default).lower()
        shown = "" if default in (None, {}) else str(default)
        rows.append((one["name"], shown, f"{about} ({one['type']})." if about else f"{one['type']}."))
    if rows:
        print_table("Options", ("--set", "default", ""), rows)
    else:
        print("options: none")


def _joined(names: Sequence[str], words: Mapping[str, str]) -> str:
    return ", ".join(words.get(name, name) for name in names)


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without lines; its first column is not broken."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=not place, overflow="fold", header_style="dim")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    console.print(table)
    console.print()


def check(kb: Kbs = None, as_json: Json = False) -> None:
    """Try every interface of a knowledge base: what works, what it costs, and what to set.

    The exit code is 0 where an agent has all that it needs, and 1 where some of that fails. It is 2 for wrong use,
    and 3 where the knowledge base cannot be opened at all.

    For example: kbnav check --kb https://example.org/sparql
    """
    settings, tried = load(kb=kb), list[dict[str, Any]]()
    for name in kb_names(settings.kb):
        if tried and not as_json:
            print()
        tried.append(_check(settings.model_copy(update={"kb": name}), as_json=as_json))
    if as_json:
        print_json(tried if len(tried) > 1 else tried[0])
    if any(one["lacking"] for one in tried):
        raise typer.Exit(1)


def _check(settings: Settings, *, as_json: bool) -> dict[str, Any]:
    """What came of trying one knowledge base, printed as it comes unless ``as_json``."""
    from kbnav.knowledge.checking import broken, check_kb
    from kbnav.knowledge.open import open_kb

    def say(line: str) -> None:
        if not as_json:
            print(line)

    findings = []
    with open_kb(settings) as opened:
        kind, title = kb_kind(opened), printable(settings.source.title)
        say(f"{settings.kb}: {_KINDS[kind]}{title and f', {title}'}")
        for finding in check_kb(opened, settings):
            findings.append(finding)
            cost = f"{finding.seconds:.1f} s" + (f", {plural(finding.requests, 'request')}" if finding.requests else "")
            say(f"{_MARKS[finding.verdict]} {finding.what:<12} {printable(finding.says)} ({cost})")
            if finding.remedy and finding.verdict != "works":
                say(indent(f"→ {printable(finding.remedy)}", "  "))
        lacking = broken(findings, opened)
    untried = [one.what for one in findings if one.verdict == "not tried"]
    told = [f"agents lack: {', '.join(lacking)}"] if lacking else [] if untried else ["agents have what they need"]
    told += [f"there was no time to try: {', '.join(untried)}"] if untried else []
    requests = plural(sum(one.requests for one in findings), "request")
    say(f"{'; '.join(told)}; {requests}, {sum(one.seconds for one in findings):.1f} s")
    checks = [asdict(one) for one in findings]
    return {"kb": settings.kb, "kind": kind, "lacking": lacking, "checks": checks}


_MARKS = {"works": "✓", "partly": "~", "fails": "✗", "absent": "-", "not tried": "…"}
_KINDS = {
    "wikibase": "Wikidata, a copy of it, or another Wikibase",
    "sparql": "a SPARQL endpoint",
    "skb": "a local knowledge base (SKB)",
}


def config(
    names: Annotated[list[str] | None, argument("SETTING", "Some settings, or groups as in web; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Print every setting, its value, and whether that comes from a variable, from kbnav.toml or is the default.

    For example: kbnav config budget web.port
    """
    found = explained(load())
    parts = {one.name: {one.name, one.name.rpartition(".")[0]} for one in found}
    for name in names or ():
        if not any(name in some for some in parts.values()):
            raise UsageError(f"no setting {name!r}{did_you_mean(name, filter(None, chain(*parts.values())))}")
    found = [one for one in found if not names or not parts[one.name].isdisjoint(names)]
    if as_json:
        print_json([one._asdict() for one in found])
        return
    longest = max(len(one.name) for one in found)
    for one in found:
        value = one.value if isinstance(one.value, str) else json.dumps(one.value, ensure_ascii=False)
        source = "" if one.source == "default" else f"   ({one.source})"
        print(f"{one.name:<{longest}}  {'-' if one.value in ('', None) else value}{source}".rstrip())
    print("\n( ) says where a setting was set; all others are defaults. docs/settings.md says what each one is")
