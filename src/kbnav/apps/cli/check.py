"""``kbnav check``: whether a knowledge base can be asked, and what to set."""

from __future__ import annotations

import json

import typer

from kbnav.apps.cli.arguments import JsonOption, KbOption, load

_MARKS = {"works": "✓", "partly": "~", "fails": "✗", "absent": "-"}


def check(kb: KbOption = None, as_json: JsonOption = False) -> None:
    """Try every interface of a knowledge base: what works, what it costs, and what to set.

    The exit code is 0 where an agent has all that it needs, 1 where something of that fails, 2 for wrong use, and 3
    where the knowledge base cannot be opened at all.
    """
    from kbnav.apps.console import printable
    from kbnav.errors import UsageError
    from kbnav.knowledge.checking import broken, check_kb, in_short
    from kbnav.knowledge.open import open_kb
    from kbnav.settings.model import kb_names
    from kbnav.settings.systems import kb_kind

    settings = load(kb=kb)
    if len(kb_names(settings.kb)) > 1:
        raise UsageError("kbnav check tries one knowledge base: name one with --kb")
    findings = []
    with open_kb(settings) as opened:
        kind = kb_kind(opened)
        if not as_json:
            print(f"{settings.kb}: {_KINDS[kind]}")
        for finding in map(in_short, check_kb(opened, settings)):
            findings.append(finding)
            if as_json:
                continue
            cost = f"{finding.seconds:.1f} s" + (f", {counted(finding.requests)}" if finding.requests else "")
            print(f"{_MARKS[finding.verdict]} {finding.what:<12} {printable(finding.says)} ({cost})")
            if finding.remedy and finding.verdict != "works":
                print(f"  → {printable(finding.remedy)}")
        lacking = broken(findings, opened)
    if as_json:
        document = {"kb": settings.kb, "kind": kind, "lacking": lacking, "checks": [one.record for one in findings]}
        print(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        spent = sum(one.requests for one in findings), sum(one.seconds for one in findings)
        verdict = f"agents lack: {', '.join(lacking)}" if lacking else "agents have what they need"
        print(f"{verdict}; {counted(spent[0])}, {spent[1]:.1f} s")
    if lacking:
        raise typer.Exit(1)


def counted(requests: int) -> str:
    """How many requests, in words."""
    return f"{requests} request{'s' if requests != 1 else ''}"


_KINDS = {
    "wikibase": "Wikidata, a copy of it, or another Wikibase",
    "sparql": "a SPARQL endpoint",
    "skb": "a local knowledge base (SKB)",
}
