"""Which of several things of one name an answer is about, by what the searches of its run showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbnav.agents.offline.observations import SearchHit, read_search
from kbnav.answers.language import fold
from kbnav.knowledge.base import Entity, KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.runs.trajectory import Run

_SEARCH = "search_entities"


@dataclass(frozen=True)
class Meaning:
    """A name that several things have: the one that the answer is about, and the others."""

    name: str
    taken: SearchHit
    others: tuple[SearchHit, ...]


def meanings(run: Run, kb: KnowledgeBase) -> list[Meaning]:
    """Names that were looked up and that several things have; nothing is asked again."""
    about = _about(run)
    told: dict[str, Meaning] = {}
    for name, same in _in_skb(run, kb) if isinstance(kb, SkbKB) else _in_searches(run):
        taken = next((one for one in same if one.id in about), None)
        others = tuple(one for one in same if one is not taken)
        if taken and others:
            told[name.casefold()] = Meaning(name, taken, others)
    return list(told.values())


def _about(run: Run) -> set[str]:
    if run.outcome.query:
        return set(entity_ids(run.outcome.query))
    texts = [str(value) for step in run.path if step.call.tool != _SEARCH for value in step.call.arguments.values()]
    seen = {node for step in run.path if step.call.tool == _SEARCH for node in step.nodes}
    return {node for node in seen if any(node in text for text in texts)}


def _in_searches(run: Run) -> Iterator[tuple[str, Sequence[SearchHit]]]:
    for step in run.steps:
        if step.call.tool == _SEARCH and step.ok:
            query = str(step.call.arguments.get("query", ""))
            items = read_search(query, step.observation).items
            yield query, [one for one in items if fold(query) in (fold(one.label), fold(one.alias))]


def _in_skb(run: Run, kb: SkbKB) -> Iterator[tuple[str, Sequence[SearchHit]]]:
    for step in run.steps:
        if step.call.tool == _SEARCH and step.ok and step.nodes:
            query = str(step.call.arguments.get("query", ""))
            known: Mapping[str, Entity] = kb.entities(step.nodes)
            same = [known[node] for node in step.nodes if node in known and fold(known[node].label) == fold(query)]
            yield query, [SearchHit(one.id, one.label, one.description or one.kind) for one in same]
