"""Which of several things of one name an answer is about, and which others there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbnav.apps.web.service import Served
from kbnav.knowledge.base import Entity
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.models.offline.folding import fold
from kbnav.models.offline.wikidata.evidence import Found, read_search
from kbnav.trajectory import Run

MOST_OTHERS = 6
_SEARCH = "search_entities"


def readings(run: Run, served: Served) -> list[dict[str, Any]]:
    """Names that were looked up and that several things have: the one that the answer is about, and the others.

    Taken from what the searches showed, whoever read them. Nothing is asked again.
    """
    about = _about(run)
    found = _in_skb(run, served) if served.is_skb else _in_searches(run)
    told = {}
    for name, same in found:
        taken = next((one for one in same if one.id in about), None)
        others = [one for one in same if one is not taken]
        if taken and others:
            told[name.casefold()] = {
                "name": name,
                "taken": _data(taken, served),
                "others": [_data(one, served) for one in others[:MOST_OTHERS]],
            }
    return list(told.values())


def _about(run: Run) -> set[str]:
    """Ids that the final query names; for a ranking, those that a step began at."""
    if run.outcome.query:
        return set(entity_ids(run.outcome.query))
    texts = [str(value) for step in run.path if step.call.tool != _SEARCH for value in step.call.arguments.values()]
    seen = {node for step in run.path if step.call.tool == _SEARCH for node in step.nodes}
    return {node for node in seen if any(node in text for text in texts)}


def _in_searches(run: Run) -> Iterator[tuple[str, Sequence[Found]]]:
    for step in run.steps:
        if step.call.tool == _SEARCH and step.ok:
            query = str(step.call.arguments.get("query", ""))
            items = read_search(query, step.observation).items
            yield query, [one for one in items if fold(query) in (fold(one.label), fold(one.alias))]


def _in_skb(run: Run, served: Served) -> Iterator[tuple[str, Sequence[Found]]]:
    for step in run.steps:
        if step.call.tool == _SEARCH and step.ok and step.nodes:
            query = str(step.call.arguments.get("query", ""))
            known: Mapping[str, Entity] = served.kb.entities(step.nodes)  # type: ignore[attr-defined]
            same = [known[node] for node in step.nodes if node in known and fold(known[node].label) == fold(query)]
            yield query, [Found(one.id, one.label, one.description or one.kind) for one in same]


def _data(one: Found, served: Served) -> dict[str, str]:
    return {"id": one.id, "label": one.label or one.id, "about": one.about, "href": served.link(one.id)}
