"""One thing of an endpoint: its triples as an entry, those of its nodes without a name in square brackets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import Entity, Entry, Qualifier, Statement, Value
from kbnav.knowledge.endpoint.labels import fitting
from kbnav.knowledge.endpoint.names import ALIASES, DESCRIPTIONS, TYPE
from kbnav.knowledge.sparql.vocabulary import words_of

TRIPLES = 1_000
"""Triples of one thing that are fetched."""
UNNAMED = "(a node without a name)"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_GEO = "http://www.opengis.net/ont/geosparql#wktLiteral"
_LONGEST = 2_000
"""Characters of one text."""

Short = Callable[[str], str]
"""From an IRI to its id."""


def triples_query(iri: str) -> str:
    """SPARQL for the columns ``p`` and ``o``."""
    return f"SELECT ?p ?o WHERE {{ <{iri}> ?p ?o }} LIMIT {TRIPLES + 1}"


def nested_query(iri: str) -> str:
    """SPARQL for the columns ``p``, ``b``, ``q`` and ``o``: what is said of the nodes without a name."""
    return f"SELECT ?p ?b ?q ?o WHERE {{ <{iri}> ?p ?b . FILTER(isBlank(?b)) ?b ?q ?o }} LIMIT {TRIPLES}"


@dataclass(frozen=True)
class Shown:
    """How things are called in what is shown of one entry."""

    short: Short
    labels: Mapping[str, str]

    def property(self, iri: str) -> Entity:
        """A predicate."""
        return Entity(self.short(iri), self.labels.get(iri) or words_of(iri), kind="property")

    def value(self, term: Term) -> Value:
        """A term: an IRI by its label, a literal with its language, and its datatype where that is not plain to see."""
        if term.type == "bnode":
            return Value(UNNAMED)
        if term.type == "uri":
            return Value(self.labels.get(term.value, ""), id=self.short(term.value))
        text = term.value if len(term.value) <= _LONGEST else f"{term.value[:_LONGEST]}…"
        return Value(f"{text} ({term.language})" if term.language else text, datatype=datatype(term, self.short))


def datatype(term: Term, short: Short) -> str:
    """``xsd:integer``, ``text`` for plain texts and those in a language."""
    if term.language or not term.datatype:
        return "text"
    return short(term.datatype)


def entry(
    entity: Entity, rows: Sequence[tuple[Term, Term]], nested: AnswerTable | None, shown: Shown, code: str,
    labelled_by: Sequence[str],
) -> Entry:  # fmt: skip
    """The entry of a thing from its triples; what its label and description are is not repeated."""
    grouped: dict[str, list[Term]] = {}
    for predicate, value in rows[:TRIPLES]:
        grouped.setdefault(predicate.value, []).append(value)
    inner = _inner(nested, shown)
    statements: list[Statement] = []
    aliases: list[str] = []
    omitted = max(0, len(rows) - TRIPLES)
    other = 0
    for edge in sorted(grouped, key=lambda one: one != TYPE):
        terms = fitting(grouped[edge], code)
        other += len(grouped[edge]) - len(terms)
        if edge in ALIASES:
            aliases += [term.value for term in terms]
            continue
        if edge in labelled_by or edge in DESCRIPTIONS:
            terms = [term for term in terms if term.value not in (entity.label, entity.description)]
        own = shown.property(edge)
        statements += [Statement(own, shown.value(term)) for term in terms if term.type != "bnode"]
        statements += [Statement(own, Value(UNNAMED), qualifiers=told) for told in inner.get(edge, ())]
    left = {name: number for name, number in (("other language", other), ("beyond the limit", omitted)) if number}
    return Entry(entity, tuple(statements), aliases=tuple(dict.fromkeys(aliases)), omitted=left)


def _inner(nested: AnswerTable | None, shown: Shown) -> dict[str, list[tuple[Qualifier, ...]]]:
    """What is said of each node without a name, by the predicate that leads to it."""
    found: dict[tuple[str, str], list[Qualifier]] = {}
    for predicate, node, edge, value in nested.rows if nested else ():
        if predicate and node and edge and value and edge.value != TYPE:
            told = Qualifier(shown.property(edge.value), shown.value(value))
            found.setdefault((predicate.value, node.value), []).append(told)
    by_predicate: dict[str, list[tuple[Qualifier, ...]]] = {}
    for (predicate_iri, _), qualifiers in found.items():
        by_predicate.setdefault(predicate_iri, []).append(tuple(qualifiers))
    return by_predicate
