"""Which of several things of one name an answer is about, and what the answer were if another was meant.

Taken from what the searches of a run showed, whoever read them. Another reading is the same query with the other thing
in place of the one that was taken; it counts where it has an answer, and another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kbnav.agents.common.answering import plain_answer
from kbnav.agents.offline.wikidata import SearchHit, read_search
from kbnav.answers.language import fold
from kbnav.answers.tables import AnswerTable
from kbnav.errors import ServiceError, TellModel
from kbnav.knowledge.base import Entity, KnowledgeBase, asked_by
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.sparql.diagnose import is_empty_result
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.runs.trajectory import Run

MOST_TRIED = 3
"""Other things of one name that are tried."""
_SEARCH = "search_entities"


@dataclass(frozen=True)
class Meaning:
    """A name that several things have: the one that the answer is about, and the others."""

    name: str
    taken: SearchHit
    others: tuple[SearchHit, ...]


@dataclass(frozen=True)
class OtherAnswer:
    """What the answer were if a name meant another thing: the query with it, its result, and that in words."""

    name: str
    taken: SearchHit
    meant: SearchHit
    query: str
    table: AnswerTable
    text: str

    def question(self, asked: str) -> str:
        """The question that says what the name stands for."""
        return f"{asked} ({self.name}: {self.meant.id})"


def named(one: SearchHit) -> str:
    """A thing by its name and what it is."""
    return f"{one.label or one.id} ({one.about or one.id})"


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


def other_answers(run: Run, kb: KnowledgeBase) -> list[OtherAnswer]:
    """The answers that differ from a run's where a name in its question means another thing; a small query for each.

    None where the answer has no query, or failed, and of names of which the question says what they mean. What a
    service does not answer is left out.
    """
    outcome = run.outcome
    if not outcome.query or outcome.table is None or outcome.status not in ("answered", "best effort"):
        return []
    base = asked_by(kb, outcome.query)
    found = []
    said = run.question.casefold()
    for meaning in (one for one in meanings(run, kb) if f"({one.name.casefold()}: " not in said):
        for other in meaning.others[:MOST_TRIED]:
            query = _with(outcome.query, meaning.taken.id, other.id)
            with suppress(TellModel, ServiceError):  # the answer is there; only what it might also be is not
                table = base.execute_query(query, language=run.language)
                if not is_empty_result(query, table) and _said(table) != _said(outcome.table):
                    found.append(OtherAnswer(meaning.name, meaning.taken, other, query, table, plain_answer(table)))
    return found


def _with(query: str, taken: str, other: str) -> str:
    return re.sub(rf"(?<=[:/]){re.escape(taken)}(?![\w-])", other, query)


def _said(table: AnswerTable) -> object:
    return table.boolean if table.boolean is not None else frozenset(table.rows)


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
