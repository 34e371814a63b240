"""Labels of IRIs: by the predicates an endpoint has, in the asked language or what comes next, many in one query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import Entity
from kbnav.knowledge.endpoint.names import DESCRIPTIONS, TYPE, is_iri, values
from kbnav.knowledge.sparql.vocabulary import text_literal, words_of

Select = Callable[[str], AnswerTable]
"""Runs a query."""
BATCH = 100
"""IRIs that one query asks of."""
_KEPT = 50_000
"""Labels that are kept in memory."""


def languages(code: str) -> tuple[str, ...]:
    """Language tags, the best first: the asked one, no tag, several languages, English."""
    return tuple(dict.fromkeys((code, code.partition("-")[0], "", "mul", "en")))


@dataclass
class Labels:
    """Labels of one endpoint, kept while it is open; ``predicates`` are those of labels that it has, the best first."""

    select: Select
    predicates: Sequence[str]
    _known: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, iris: Iterable[str], code: str) -> dict[str, str]:
        """Labels by IRI; IRIs without a label are left out. Raises what the query raises."""
        wanted = [iri for iri in dict.fromkeys(iris) if is_iri(iri)]
        with self._lock:
            missing = [iri for iri in wanted if (iri, code) not in self._known]
        for start in range(0, len(missing) if self.predicates else 0, BATCH):
            batch = missing[start : start + BATCH]
            found = self._fetched(batch, code)
            with self._lock:
                if len(self._known) > _KEPT:
                    self._known.clear()
                self._known |= {(iri, code): found.get(iri, "") for iri in batch}
        with self._lock:
            return {iri: label for iri in wanted if (label := self._known.get((iri, code), ""))}

    def _fetched(self, iris: Sequence[str], code: str) -> dict[str, str]:
        return best(self.select(labels_query(iris, self.predicates, code)), self.predicates, code)


def labels_query(iris: Sequence[str], predicates: Sequence[str], code: str) -> str:
    """SPARQL for the columns ``s``, ``p`` and ``l``: labels in the languages wanted, and any other without ``p``."""
    wanted = ", ".join(text_literal(tag) for tag in languages(code))
    subjects = f"VALUES ?s {{ {values(iris)} }}"
    edges = f"VALUES ?p {{ {values(predicates)} }} ?s ?p ?o"
    return (
        f"SELECT ?s ?p ?l WHERE {{ {{ SELECT ?s ?p (?o AS ?l) WHERE {{ {subjects} {edges} . "
        f"FILTER(LANG(?o) IN ({wanted})) }} }} UNION "
        f"{{ SELECT ?s (SAMPLE(?o) AS ?l) WHERE {{ {subjects} {edges} . FILTER(isLiteral(?o)) }} GROUP BY ?s }} }}"
    )


def best(table: AnswerTable, predicates: Sequence[str], code: str) -> dict[str, str]:
    """The best label of each subject: by language first, then by predicate."""
    order = {tag: place for place, tag in enumerate(languages(code))}
    found: dict[str, tuple[tuple[int, int, str], str]] = {}
    for subject, predicate, label in table.rows:
        if subject is None or label is None or not label.value.strip():
            continue
        place = predicates.index(predicate.value) if predicate and predicate.value in predicates else len(predicates)
        rank = (order.get((label.language or "").lower(), len(order)), place, label.value)
        if subject.value not in found or rank < found[subject.value][0]:
            found[subject.value] = (rank, label.value)
    return {iri: label for iri, (_, label) in found.items()}


def fitting(terms: Sequence[Term], code: str) -> list[Term]:
    """Of texts in several languages those of the best language that there is; all others as they are."""
    tags = {(term.language or "").lower() for term in terms if term.type == "literal"}
    if not any(tags):
        return list(terms)
    chosen = next((tag for tag in languages(code) if tag in tags and tag), sorted(tags)[-1])
    return [term for term in terms if not term.language or term.language.lower() == chosen]


def told_query(iris: Sequence[str], code: str) -> str:
    """SPARQL for the columns ``s``, ``p`` and ``o``: types and descriptions of some IRIs."""
    wanted = ", ".join(text_literal(tag) for tag in languages(code))
    return (
        f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {values(iris)} }} VALUES ?p {{ {values([TYPE, *DESCRIPTIONS])} }} "
        f"?s ?p ?o . FILTER(isIRI(?o) || LANG(?o) IN ({wanted})) }} LIMIT {20 * len(iris)}"
    )


def described(table: AnswerTable, names: Callable[[Iterable[str]], Mapping[str, str]]) -> dict[str, str]:
    """A line on each subject: what it is, and its description where it has one."""
    types: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for subject, predicate, value in table.rows:
        if subject is None or predicate is None or value is None:
            continue
        if predicate.value == TYPE:
            types.setdefault(subject.value, []).append(value.value)
        elif value.type == "literal":
            texts.setdefault(subject.value, value.value)
    labels = names([one for own in types.values() for one in own])
    return {
        iri: "; ".join(
            filter(
                None, [", ".join(labels.get(one) or words_of(one) for one in types.get(iri, [])[:3]), texts.get(iri)]
            )
        )
        for iri in dict.fromkeys([*types, *texts])
    }


def entity_of(iri: str, short: str, label: str = "", description: str = "", kind: str = "item") -> Entity:
    """An IRI as an entity; without a label it is called by its last part, where that reads like a name."""
    return Entity(short, label or words_of(iri), description, kind=kind)
