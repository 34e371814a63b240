"""How an answer is cited: what was asked, of which knowledge base in which state, by what, when, and the query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kbnav.knowledge.sparql.presentation import page_for, query_link
from kbnav.runs.trajectory import Run
from kbnav.settings.model import OFFLINE

_BIBTEX = re.compile(r"([{}\\%$&#_~^])")


def version_of(run: Run) -> str:
    """The version of kbnav that answered; empty where the run does not say."""
    return run.versions.get("kbnav", "")


def asked_with(run: Run) -> str:
    """What answered: the system and its model."""
    return f"{run.system}, {'rules without a language model' if run.model == OFFLINE else run.model}"


def knowledge_base(run: Run) -> str:
    """What was asked, and in which state: a copy's date, an SKB's name, or the address of the query service."""
    name, state = str(run.settings.get("kb", "")), run.kb
    if mirror := state.get("mirror"):
        return f"{name}, a copy of a part of Wikidata made {str(mirror.get('built', ''))[:10]}"
    if state.get("kind") == "skb":
        return f"{state.get('name', name)}, {state.get('nodes', 0):,} nodes and {state.get('edges', 0):,} edges"
    endpoint = _endpoint(state)
    return f"{name} ({endpoint})" if endpoint and endpoint != name else name


def _endpoint(state: Mapping[str, Any]) -> str:
    return str(state.get("url") or state.get("endpoints", {}).get("sparql") or "")


def link_of(run: Run, query_page: str = "") -> str:
    """A page on which the query can be opened and run; empty where there is none."""
    page = page_for(run.kb, query_page, run.outcome.query)
    return query_link(run.outcome.query, page) if run.outcome.query and page else ""


def citation(run: Run, query_page: str = "") -> str:
    """The citation as text."""
    query = " ".join(run.outcome.query.split())
    parts = [
        f"“{run.question}” Answer by kbnav {version_of(run)} ({asked_with(run)}), {run.started[:10]},",
        f"of {knowledge_base(run)}.",
        f"Query: {query}" if query else "",
        link_of(run, query_page),
        f"Run {run.id}.",
    ]
    return " ".join(filter(None, parts))


def bibtex(run: Run, query_page: str = "") -> str:
    """The citation as an entry of BibTeX; the query is in its link, or written out where there is none."""
    link = link_of(run, query_page)
    query = f" Query: {run.outcome.query}" if run.outcome.query and not link else ""
    fields = {
        "author": "{{kbnav}}",
        "title": "{" + _escaped(run.question) + "}",
        "year": "{" + run.started[:4] + "}",
        "howpublished": "{" + _escaped(f"Answer by kbnav {version_of(run)} ({asked_with(run)})") + "}",
        "note": "{" + _escaped(f"Of {knowledge_base(run)}, {run.started[:10]}. Run {run.id}.{query}") + "}",
        **({"url": "{" + link + "}"} if link else {}),
    }
    lines = ",\n".join(f"  {name} = {value}" for name, value in fields.items())
    return f"@misc{{{run.id},\n{lines}\n}}"


def _escaped(text: str) -> str:
    plain = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return _BIBTEX.sub(lambda found: plain.get(found[1], "\\" + found[1]), " ".join(text.split()))
