"""Edges of one item in both directions: the queries that fetch them, and how they are ranked against a phrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kbnav.answers import AnswerTable, Term
from kbnav.knowledge.base import Edge, Entity, Share
from kbnav.knowledge.wikidata.values import entity_id, term_value
from kbnav.relevance import relevance

FETCHED = 500
"""Edges fetched for each direction. A hub has millions: the limit is inside, before labels are looked up."""
SAMPLED = 20_000
RELATIONS = 8
"""Relations of a hub that are looked at, those that fit the phrase best."""
Way = Literal["out", "in"]
Found = tuple[str, Edge, str]
"""Property id, edge (its relation by id alone) and description of the neighbour."""
_SIMILARITY = 0.5
"""Weight of the similarity of spelling beside that of shared words, which is at most 1."""


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


def edges(table: AnswerTable, direction: Way) -> list[Found]:
    """Each different edge of such a query's result; one that is truthy too is only that."""
    found: dict[tuple[str, Term], Found] = {}
    form = table.columns.index("form") if "form" in table.columns else None
    rows = table.rows if form is None else sorted(table.rows, key=lambda row: row[form] is not None)
    for row in rows:
        cells = dict(zip(table.columns, row, strict=True))
        relation, neighbor, label = cells.get("relation"), cells.get("neighbor"), cells.get("label")
        if relation is None or neighbor is None or not (property_id := entity_id(relation.value)):
            continue
        name = label.value if label else ""
        value = term_value(neighbor, lambda one, name=name: name or one)  # type: ignore[misc]
        description = cells.get("description")
        edge = Edge(direction, Entity(property_id, kind="property"), value, indirect=cells.get("form") is not None)
        found.setdefault((property_id, neighbor), (property_id, edge, description.value if description else ""))
    return list(found.values())


def rank(candidates: Sequence[tuple[Edge, str]], phrase: str, limit: int) -> tuple[Edge, ...]:
    """The best edges for a phrase, with scores; without a phrase, the relations take turns."""
    if not phrase.strip():
        return tuple(_in_turn([edge for edge, _ in candidates]))[:limit]
    texts = [f"{edge.relation.label} {edge.neighbor.text} {description}" for edge, description in candidates]
    shared = _shared_words(phrase, texts)
    scored = [
        (words + _SIMILARITY * _spelling(phrase, [edge.relation.label, edge.neighbor.text]), edge)
        for (edge, _), words in zip(candidates, shared, strict=True)
    ]
    scored.sort(key=lambda pair: -pair[0])
    return tuple(replace(edge, score=round(score, 4)) for score, edge in scored[:limit])


def counted(candidates: Sequence[tuple[Edge, str]]) -> tuple[Share, ...]:
    """The relations of some edges, those that come in under ``^relation``, most frequent first."""
    names: dict[str, Entity] = {}
    numbers: Counter[str] = Counter()
    for edge, _ in candidates:
        key = edge.relation.id if edge.direction == "out" else f"^{edge.relation.id}"
        names[key] = replace(edge.relation, id=key)
        numbers[key] += 1
    return tuple(Share(names[key], number) for key, number in numbers.most_common())


def best_relations(relations: Sequence[Entity], phrase: str) -> list[str]:
    """Ids of the properties that fit a phrase best."""
    shared = _shared_words(phrase, [f"{one.label} {one.description}" for one in relations])
    score = {
        one.id: words + _SIMILARITY * _spelling(phrase, [one.label])
        for one, words in zip(relations, shared, strict=True)
    }
    return sorted(score, key=lambda one: -score[one])[:RELATIONS]


def _shared_words(phrase: str, texts: Sequence[str]) -> list[float]:
    """How well each text fits the phrase by its words, as a share of the best."""
    scores = relevance(phrase, texts)
    best = max(scores, default=0.0) or 1.0
    return [score / best for score in scores]


def _spelling(phrase: str, names: Sequence[str]) -> float:
    """How like the phrase the nearest of some names is spelled, from 0 to 1."""
    from rapidfuzz import fuzz, utils

    ratios = [fuzz.token_set_ratio(phrase, name, processor=utils.default_process) for name in names if name]
    return max(ratios, default=0.0) / 100


def _in_turn(found: Iterable[Edge]) -> list[Edge]:
    """One edge of each relation and direction, then a second of each, and so on."""
    seen: Counter[tuple[str, str]] = Counter()
    turns = []
    for edge in found:
        key = (edge.direction, edge.relation.id)
        turns.append((seen[key], edge))
        seen[key] += 1
    return [edge for _, edge in sorted(turns, key=lambda pair: pair[0])]


def named(found: Iterable[Found], names: Mapping[str, Entity]) -> list[tuple[Edge, str]]:
    """Edges with the relation's label and datatype put in."""
    return [
        (replace(edge, relation=names.get(property_id, edge.relation)), description)
        for property_id, edge, description in found
    ]
