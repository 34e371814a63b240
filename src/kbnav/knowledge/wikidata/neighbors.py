"""Edges of one item in both directions: the queries that fetch them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import Edge, Entity
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Vocabulary
from kbnav.knowledge.wikidata.values import term_value

FETCHED = 500
"""Edges fetched for each direction. A hub has millions: the limit is inside, before labels are looked up."""
SAMPLED = 20_000
Way = Literal["out", "in"]
Found = tuple[str, Edge, str]
"""Property id, edge (its relation by id alone) and description of the neighbour."""


def edges_query(item: str, direction: Way, relations: Sequence[str], languages: Sequence[str]) -> str:
    """SPARQL for the columns ``relation``, ``neighbor``, ``form``, ``label`` and ``description``.

    Truthy edges, and with ``form`` those of all statements that are not deprecated. Several ``relations`` share the
    limit evenly; none stands for all. Labels come by OPTIONAL, which every query service understands.
    """
    limit = FETCHED // max(1, len(relations))
    chosen = [f"VALUES ?relation {{ wd:{one} }} " for one in relations] or [""]
    direct = f"?relation wikibase:directClaim ?edge . {_triple(item, direction)}"
    stated = f"?relation wikibase:claim ?claim ; wikibase:statementProperty ?edge . {_statement(item, direction)}"
    forms = (("?relation ?neighbor", direct), ('?relation ?neighbor ("p" AS ?form)', stated))
    parts = [
        f"{{ SELECT {columns} WHERE {{ {one}?relation wikibase:propertyType ?type . {pattern} "
        f"FILTER(?type != wikibase:ExternalId) }} LIMIT {limit} }}"
        for columns, pattern in forms
        for one in chosen
    ]
    named = [
        f'OPTIONAL {{ ?neighbor rdfs:label ?l{number} . FILTER(LANG(?l{number}) = "{language}") }}'
        for number, language in enumerate(languages)
    ]
    labels = ", ".join(f"?l{number}" for number in range(len(languages)))
    described = (
        f'OPTIONAL {{ ?neighbor schema:description ?description . FILTER(LANG(?description) = "{languages[0]}") }}'
    )
    head = f"SELECT ?relation ?neighbor ?form (COALESCE({labels}) AS ?label) ?description WHERE {{"
    return "\n".join([head, "\nUNION ".join(parts), *named, described, "}"])


def relations_query(item: str, direction: Way) -> str:
    """SPARQL for the column ``relation``: the relations among the first 20,000 triples of a hub."""
    return (
        f"SELECT DISTINCT ?relation WHERE {{ {{ SELECT DISTINCT ?edge WHERE {{ {{ SELECT ?edge WHERE {{ "
        f"{_triple(item, direction)} }} LIMIT {SAMPLED} }} }} }} ?relation wikibase:directClaim ?edge }}"
    )


def _triple(item: str, direction: Way) -> str:
    return f"wd:{item} ?edge ?neighbor ." if direction == "out" else f"?neighbor ?edge wd:{item} ."


def _statement(item: str, direction: Way) -> str:
    """A statement of, or with, an item; a deprecated one is none."""
    subject, value = (f"wd:{item}", "?neighbor") if direction == "out" else ("?neighbor", f"wd:{item}")
    parts = [f"{subject} ?claim ?statement .", f"?statement ?edge {value} ."]
    rank = "MINUS { ?statement wikibase:rank wikibase:DeprecatedRank }"
    return " ".join([*(parts if direction == "out" else reversed(parts)), rank])


def edges(table: AnswerTable, direction: Way, words: Vocabulary = WIKIDATA_VOCABULARY) -> list[Found]:
    """Each different edge of such a query's result; one that is truthy too is only that."""
    found: dict[tuple[str, Term], Found] = {}
    form = table.columns.index("form") if "form" in table.columns else None
    rows = table.rows if form is None else sorted(table.rows, key=lambda row: row[form] is not None)
    for row in rows:
        cells = dict(zip(table.columns, row, strict=True))
        relation, neighbor, label = cells.get("relation"), cells.get("neighbor"), cells.get("label")
        if relation is None or neighbor is None or not (property_id := words.entity_id(relation.value)):
            continue
        name = label.value if label else ""
        value = term_value(neighbor, lambda one, name=name: name or one, words)  # type: ignore[misc]
        description = cells.get("description")
        edge = Edge(direction, Entity(property_id, kind="property"), value, indirect=cells.get("form") is not None)
        found.setdefault((property_id, neighbor), (property_id, edge, description.value if description else ""))
    return list(found.values())


def named(found: Iterable[Found], names: Mapping[str, Entity]) -> list[tuple[Edge, str]]:
    """Edges with the relation's label and datatype put in."""
    return [
        (replace(edge, relation=names.get(property_id, edge.relation)), description)
        for property_id, edge, description in found
    ]
