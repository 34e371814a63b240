"""How an answer is cited: what answered, of which knowledge base, and its query with a link that opens it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kbnav.answers.question import kb_of
from kbnav.runs.trajectory import Run
from kbnav.settings.model import OFFLINE


def state_for(state: Mapping[str, Any], query: str) -> Mapping[str, Any]:
    """The state of the knowledge base that a query is for: of several, that which its line names."""
    none = {"query_page": ""}
    own = state.get("kbs", {}).get(kb_of(query)[0], none) if state.get("kind") == "several" else state
    return none if own.get("kind") == "skb" else own


def page_for(state: Mapping[str, Any], usual: str, query: str = "") -> str:
    """The page that opens a query of a knowledge base with this ``state``: the ``usual``, unless it has another."""
    return str(state_for(state, query).get("query_page", usual))


def query_link(query: str, state: Mapping[str, Any], usual: str) -> str:
    """A link to ``page_for`` a query, with that behind it in percent-encoded UTF-8; empty where there is none."""
    page = page_for(state, usual, query)
    return page + quote(query, safe="") if query and page else ""


def asked_with(run: Run) -> str:
    """What answered: the system and its model."""
    return f"{run.system}, {'rules without a language model' if run.model == OFFLINE else run.model}"


def knowledge_base(run: Run) -> str:
    """What was asked, and in which state: a copy's date, an SKB's name, or the address of the query service."""
    name, state = str(run.settings.get("kb", "")), run.kb
    if mirror := state.get("mirror"):
        how, date = ("taken", mirror["newest"]) if mirror.get("newest") else ("made", mirror.get("built", ""))
        return f"{name}, a copy of a part of Wikidata {how} {str(date)[:10]}"
    if state.get("kind") == "skb":
        return f"{state.get('name', name)}, {state.get('nodes', 0):,} nodes and {state.get('edges', 0):,} edges"
    endpoint = str(state.get("url") or state.get("endpoints", {}).get("sparql") or "")
    return f"{name} ({endpoint})" if endpoint and endpoint != name else name


def citation(run: Run, query_page: str = "") -> str:
    """The citation as text."""
    query = " ".join(run.outcome.query.split())
    parts = [
        f"“{run.question}” Answer by kbnav {run.versions.get('kbnav', '')} ({asked_with(run)}), {run.started[:10]},",
        f"of {knowledge_base(run)}.",
        f"Query: {query}" if query else "",
        query_link(run.outcome.query, run.kb, query_page),
        f"Run {run.id}.",
    ]
    return " ".join(filter(None, parts))
