"""Provenance: which statements of a knowledge base make the rows of an answer true.

Two queries at most, whatever the number of rows: one binds the statements of each row
(``kbnav.knowledge.sparql.evidence``), one fetches their ranks, qualifiers and references, and what else is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from kbnav.answers.tables import AnswerTable, Brief, Cell, Term
from kbnav.errors import KbnavError
from kbnav.knowledge.absence import stated_none
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.several import asked_by
from kbnav.knowledge.sparql.evidence import EvidenceQuery, evidence_query
from kbnav.knowledge.sparql.syntax import is_variable
from kbnav.knowledge.sparql.verbalization import verbalize_groups
from kbnav.knowledge.sparql.vocabulary import Vocabulary, vocabulary_of
from kbnav.knowledge.wikidata.entities import date_text

MOST_ROWS = 20
"""Rows that evidence is looked for at once."""
_MOST_SOLUTIONS = 400
_MOST_TRIPLES = 5000
_DAY = 11
"""The precision of a date that says the day."""
_MOST_BESIDE = 5
"""Values of one property whose labels are fetched."""
_WIKIBASE = "http://wikiba.se/ontology#"
_DERIVED = "http://www.w3.org/ns/prov#wasDerivedFrom"
_OF_STATEMENTS = ("pq", "pqv", "pr", "psv", "psn")
"""Predicates of what a statement has; the statement is told with all of it."""
Rank = Literal["", "preferred", "normal", "deprecated"]
Source = Literal["graph", "document", "generated"]
"""Where a piece of evidence is from: the graph, a sentence of a document, or a model's word alone."""
_RANKS: Mapping[str, Rank] = {
    f"{_WIKIBASE}PreferredRank": "preferred",
    f"{_WIKIBASE}NormalRank": "normal",
    f"{_WIKIBASE}DeprecatedRank": "deprecated",
}


@dataclass(frozen=True)
class Link:
    """A property of a statement, or of a reference, with its value."""

    property: str
    value: Term


@dataclass(frozen=True)
class Evidence(Brief):
    """One statement; one triple or edge where the knowledge base has no statements; or a sentence of a document.

    ``property`` is a property's id or a predicate's IRI. ``statement`` is the IRI of its node, empty where there is
    none; only then are ``rank``, ``qualifiers`` and ``references`` empty because nothing can be stated. ``chain``: from
    subject to value by a path of any length. ``others`` are values of the same property and rank beside this one;
    ``lower`` are those of normal rank that a preferred one hides, ``higher`` the preferred ones that hide this one, so
    that ``wdt:`` does not find it. Of a sentence ``property`` is empty.
    """

    subject: Term
    property: str
    value: Term
    statement: str = ""
    rank: Rank = ""
    qualifiers: tuple[Link, ...] = ()
    references: tuple[tuple[Link, ...], ...] = ()
    others: tuple[Term, ...] = ()
    lower: tuple[Term, ...] = ()
    higher: tuple[Term, ...] = ()
    chain: bool = False
    source: Source = "graph"


@dataclass(frozen=True)
class Provenance(Brief):
    """What makes rows of an answer true: for each row asked for, in order, its evidence.

    ``absent`` says, in words, what was looked for and must not be found; ``cut``: there is more, which was not looked
    at. ``untold`` names the parts of the query that evidence is not looked for; ``failed`` says why nothing could be
    found out. ``labels`` has those of the ids in it. ``copy``: it is of a copy, which may lack references.
    """

    rows: tuple[tuple[Evidence, ...], ...] = ()
    absent: tuple[str, ...] = ()
    cut: bool = False
    untold: tuple[str, ...] = ()
    failed: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    copy: bool = False

    def __str__(self) -> str:
        """A line for each statement: its subject, property and value, by their names where these are known."""
        told = ((one.subject, Term("uri", one.property), one.value) for row in self.rows for one in row)
        return "\n".join(" — ".join(map(self._named, parts)) for parts in told) or self.failed

    def _named(self, one: Term) -> str:
        key = one.entity_id or one.value
        return f"{self.labels[key]} ({key})" if self.labels.get(key) else key


def provenance(
    kb: KnowledgeBase, query: str, table: AnswerTable, rows: Sequence[int] = range(MOST_ROWS), language: str = "en"
) -> Provenance:
    """Find the statements that make rows of a query's result true.

    ``rows`` are numbers of rows of ``table``; those beyond its last are left out, and at most ``MOST_ROWS`` are taken.
    Of an ASK, or a count without groups, the whole is one row. A knowledge base that does not answer in time ends
    nothing: ``failed`` says why.
    """
    chosen = [number for number in rows if 0 <= number < len(table)][:MOST_ROWS]
    cells = [table.rows[number] for number in chosen] if table.boolean is None else [()]
    try:
        kb, denied = asked_by(kb, query), table.boolean is False
        vocabulary = vocabulary_of(kb)
        asked = evidence_query(query, vocabulary, table.columns, cells, _MOST_SOLUTIONS + 1, denied=denied)
        found = kb.execute_query(asked.text, language=language)
        told = [_of_row(asked, vocabulary, table.columns, row, found) for row in cells]
        if denied and not any(told) and (none := stated_none(kb, query)):  # which a statement says
            thing, _, name = none.part.partition(" wdt:")
            stated = f"SELECT ?statement {{ {thing} p:{name} ?statement . ?statement a wdno:{name} }}"
            return provenance(kb, stated, kb.execute_query(stated), language=language)
        details = _Details(kb, vocabulary, language, [one for some in told for one in some])
    except KbnavError as error:
        return Provenance(failed=str(error))
    labels = {**table.labels, **found.labels, **details.labels}
    full = tuple(tuple(details.completed(one) for one in some) for some in told)
    absent = () if denied else verbalize_groups(query, asked.negated, labels, language, vocabulary)
    cut, copy = len(found.rows) > _MOST_SOLUTIONS, is_mirror(kb.state())
    return Provenance(full, absent, cut, asked.untold, labels=labels, copy=copy)


def _of_row(
    asked: EvidenceQuery, words: Vocabulary, columns: Sequence[str], row: Sequence[Cell], found: AnswerTable
) -> list[Evidence]:
    """What makes a row true; a triple is left out where a statement says it, or how statements are written."""
    at = {name: place for place, name in enumerate(found.columns)}
    wanted = [(at[key], row[columns.index(key)]) for key in asked.keys if key in at]
    kept: dict[Evidence, None] = {}
    for solution in found.rows:
        if all((cell and cell.type == "bnode") or solution[place] == cell for place, cell in wanted):
            kept.update(dict.fromkeys(_bound(asked, words, solution, at)))
    nodes = {one.statement for one in kept if one.subject.value != one.statement}
    whole = [one for one in kept if one.subject.value not in nodes]
    stated = {(one.subject, one.property, one.value) for one in whole if one.statement}
    forms = {one for one in whole if stated and words.predicate(one.value.value)[0] not in ("", "wd", "wdno")}
    said = {one for one in whole if not one.statement and (one.subject, one.property, one.value) in stated}
    return [one for one in whole if one not in forms | said]


def _bound(
    asked: EvidenceQuery, words: Vocabulary, solution: Sequence[Cell], at: Mapping[str, int]
) -> Iterator[Evidence]:
    """The parts of one solution; a part of an OPTIONAL or of a UNION's other side is not bound, and left out.

    A statement that the query names by its node is told as one, of what bears it; its qualifiers are fetched with it.
    """
    bearers = {part.statement: part for part in asked.parts if part.role == "p"}
    valued = {part.statement for part in asked.parts if part.role == "ps"}
    for part in asked.parts:
        values = {name: solution[at[name[1:]]] for name in part.variables if name[1:] in at}
        bearer = bearers.get(part.subject) if part.role == "ps" else None
        missed = part.mark and values[part.mark] is None
        if missed or part.role in _OF_STATEMENTS or (part.role == "p" and part.statement in valued):
            continue
        start = bearer.subject if bearer else part.subject
        subject = asked.constants.get(start) or (solution[at[start[1:]]] if start[1:] in at else None)
        value = asked.constants.get(part.object) or values.get(part.object)
        predicate = values.get(part.predicate) if is_variable(part.predicate) else Term("uri", part.predicate)
        if subject is None or value is None or predicate is None or (part.chain and subject == value):
            continue
        role, relation = words.predicate(predicate.value) if is_variable(part.predicate) else (part.role, part.relation)
        node = value if role == "p" else values.get(part.statement)
        statement = node.value if node is not None else ""
        yield Evidence(subject, relation or predicate.value, value, statement, chain=part.chain)


class _Details:
    def __init__(self, kb: KnowledgeBase, vocabulary: Vocabulary, language: str, told: Iterable[Evidence]) -> None:
        self._words = vocabulary
        self._links: dict[str, list[Link]] = {}
        self._references: dict[str, dict[str, list[Link]]] = {}
        self._values: dict[tuple[str, str], list[tuple[Rank, str, Term]]] = {}
        self._ranks: dict[str, Rank] = {}
        self._dates: dict[Term, Term] = {}
        """Those that are not stated to the day, as precise as they are."""
        self._valueless: set[tuple[str, str]] = set()
        """Statements, each with a property of which they say that there is no value: their own, or a qualifier's."""
        self.labels: Mapping[str, str] = {}
        known = [one for one in told if one.statement]
        named = {one.property for one in told if "/" not in one.property and ":" not in one.property}
        if known:
            self._add_statements(kb.execute_query(self._query(known), language=language))
        quoted = [*chain(*self._links.values(), *(chain(*some.values()) for some in self._references.values()))]
        ends = (end for one in told for end in (one.subject, one.value, Term("uri", one.property)))
        beside = (value for some in self._values.values() for _, _, value in some[:_MOST_BESIDE])
        terms = (*ends, *beside, *(link.value for link in quoted))
        named |= {link.property for link in quoted} | {self._words.entity_id(term.value) for term in terms}
        ids = named - {""}
        if ids and "execute_query" in kb.capabilities:
            self.labels = kb.labels(sorted(ids), language=language)

    def completed(self, one: Evidence) -> Evidence:
        if not one.statement:
            return replace(one, property=self._words.entity_id(one.property) or one.property)
        rank = self._ranks.get(one.statement, "")
        beside = self._values.get((one.subject.value, one.property), [])
        own = (value for _, node, value in beside if node == one.statement == one.value.value)
        value = next(own, self._dates.get(one.value, one.value))
        if (one.statement, one.property) in self._valueless:
            value = Term("literal", "no value")
        rest = dict.fromkeys((other, stated) for other, node, stated in beside if node != one.statement)
        ranked = {kind: tuple(stated for other, stated in rest if other == kind) for kind in ("preferred", "normal")}
        return replace(
            one,
            rank=rank,
            qualifiers=tuple(self._links.get(one.statement, ())),
            references=tuple(map(tuple, self._references.get(one.statement, {}).values())),
            others=tuple(other for other in ranked.get(rank, ()) if other != value),
            lower=ranked["normal"] if rank == "preferred" else (),
            higher=ranked["preferred"] if rank == "normal" else (),
            value=value,
        )

    def _query(self, known: Sequence[Evidence]) -> str:
        nodes = " ".join(dict.fromkeys(f"<{one.statement}>" for one in known))
        prefixes = self._words.prefixes
        bearers: dict[str, dict[str, None]] = {}
        for one in known:
            if one.subject.type == "uri" and not one.subject.value.startswith(prefixes["wds"]):
                bearers.setdefault(one.property, {})[f"<{one.subject.value}>"] = None
        branches = [
            f"{{ VALUES ?statement {{ {nodes} }} ?statement ?link ?value }}",
            f"{{ VALUES ?statement {{ {nodes} }} ?statement <{_DERIVED}> ?node . ?node ?link ?value }}",
            f"{{ VALUES ?statement {{ {nodes} }} ?statement <{_DERIVED}>? ?of . ?of ?link ?node . "
            f"?node <{_WIKIBASE}timeValue> ?bearer ; <{_WIKIBASE}timePrecision> ?value }}",
        ]
        for name, subjects in bearers.items():
            branches.append(
                f"{{ VALUES ?bearer {{ {' '.join(subjects)} }} ?bearer <{prefixes['p']}{name}> ?statement . "
                f"?statement <{_WIKIBASE}rank> ?node ; <{prefixes['ps']}{name}> ?value . BIND('{name}' AS ?link) }}"
            )
        return (
            f"SELECT ?bearer ?statement ?node ?link ?value WHERE {{ {' UNION '.join(branches)} }} LIMIT {_MOST_TRIPLES}"
        )

    def _add_statements(self, found: AnswerTable) -> None:
        precisions: dict[Term, set[int]] = {}
        for time, *_, value in found.rows:
            if time is not None and value is not None and time.type == "literal":
                precisions.setdefault(time, set()).add(int(value.value))
        told = {time: min(some) for time, some in precisions.items() if len(some) == 1 and min(some) < _DAY}
        self._dates = {time: Term("literal", date_text(time, precision)) for time, precision in told.items()}
        for bearer, statement, node, link, value in found.rows:
            if statement is None or link is None or value is None or (bearer and bearer.type == "literal"):
                continue
            value = self._dates.get(value, value)
            role, name = self._words.predicate(value.value)
            if role == "wdno":
                self._valueless.add((statement.value, name))
            elif bearer is not None and node is not None:
                beside = self._values.setdefault((bearer.value, link.value), [])
                beside.append((_RANKS.get(node.value, ""), statement.value, value))
            elif link.value == f"{_WIKIBASE}rank":
                self._ranks[statement.value] = _RANKS.get(value.value, "")
            elif node is None and (name := self._property_of("pq", link.value)):
                self._links.setdefault(statement.value, []).append(Link(name, value))
            elif node is not None and (name := self._property_of("pr", link.value)):
                self._references.setdefault(statement.value, {}).setdefault(node.value, []).append(Link(name, value))

    def _property_of(self, role: str, iri: str) -> str:
        """The property of a predicate such as ``pq:P580``; empty for others, those to whole values among them."""
        entity = self._words.entity_id(iri)
        return entity if entity and iri == self._words.prefixes[role] + entity else ""
