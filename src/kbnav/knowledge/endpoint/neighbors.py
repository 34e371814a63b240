"""Edges of one thing of an endpoint in both directions, and how its properties are used: bounded queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import Edge, Entity, Example, Share, Value
from kbnav.knowledge.endpoint.names import TYPE

FETCHED = 500
"""Edges fetched for each direction."""
LINKING = 5_000
"""Incoming edges that are counted by property."""
Way = Literal["out", "in"]
Found = tuple[Way, str, Term]
"""Direction, predicate and other end."""


def edges_query(iri: str, way: Way, relation: str = "") -> str:
    """SPARQL for the columns ``p`` and ``x``."""
    edge = f"<{relation}>" if relation else "?p"
    triple = f"<{iri}> {edge} ?x" if way == "out" else f"?x {edge} <{iri}>"
    bound = f" BIND(<{relation}> AS ?p)" if relation else ""
    return f"SELECT ?p ?x WHERE {{ {triple} .{bound} }} LIMIT {FETCHED}"


def counts_query(iri: str, way: Way) -> str:
    """SPARQL for the columns ``p`` and ``n``: the edges of a thing counted by property, of the first 5,000."""
    triple = f"<{iri}> ?p ?x" if way == "out" else f"?x ?p <{iri}>"
    inner = f"SELECT ?p WHERE {{ {triple} }} LIMIT {LINKING}"
    return f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ {{ {inner} }} }} GROUP BY ?p ORDER BY DESC(?n) LIMIT 50"


def found(table: AnswerTable, way: Way) -> list[Found]:
    """The edges of such a query's result, each once; what things are is no neighbour of theirs."""
    rows = [(row[0], row[1]) for row in table.rows]
    return list(dict.fromkeys((way, edge.value, other) for edge, other in rows if edge and other))


def counted(table: AnswerTable) -> list[tuple[str, int]]:
    """Predicates with their number of edges."""
    return [(row[0].value, int(float(row[1].value))) for row in table.rows if row[0] and row[1]]


def edges(
    of: Sequence[Found], relation: Callable[[str], Entity], value: Callable[[Term], Value]
) -> list[tuple[Edge, str]]:
    """Edges as they are ranked: each with a line on its neighbour."""
    shown = [(Edge(way, relation(predicate), value(other)), predicate) for way, predicate, other in of]
    return [(edge, "") for edge, predicate in shown if predicate != TYPE or edge.direction == "out"]


def examples_query(iri: str, limit: int) -> str:
    """SPARQL for the columns ``s`` and ``o``: uses of a property."""
    return f"SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} LIMIT {limit}"


def examples(
    table: AnswerTable, prop: Entity, subject: Callable[[str], Entity], value: Callable[[Term], Value], limit: int
) -> tuple[Example, ...]:
    """Uses of a property, of different subjects and values first."""
    rows = [(row[0], row[1]) for row in table.rows if row[0] and row[1] and row[0].type == "uri"]
    subjects: set[str] = set()
    values: set[str] = set()
    first: list[tuple[Term, Term]] = []
    later: list[tuple[Term, Term]] = []
    for one, other in rows:
        (later if one.value in subjects or other.value in values else first).append((one, other))
        subjects.add(one.value)
        values.add(other.value)
    chosen = (first + later)[:limit]
    return tuple(Example(subject(one.value), prop, value(other)) for one, other in chosen)


def shares(counts: Sequence[tuple[str, int]], names: Mapping[str, Entity]) -> tuple[Share, ...]:
    """Counted things with their names."""
    return tuple(Share(names[iri], number) for iri, number in counts if iri in names)
