"""Queries that kbnav makes itself: neighbours, examples of a property, profiles of properties and classes.

Every count stops at a limit, and shares are those of a sample, so that a query service answers at once also where there
are millions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import (
    Edge,
    Entity,
    Example,
    Qualifier,
    Share,
    Stated,
    Statement,
    Value,
)
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.knowledge.wikidata.entities import term_value

FETCHED = 500
"""Edges fetched for each direction. A hub has millions: the limit is inside, before labels are looked up."""
EDGES_SAMPLED = 20_000
Way = Literal["out", "in"]
FoundEdge = tuple[str, Edge, str]
"""Property id, edge (its relation by id alone), and labels and description of the neighbour."""


def edges_query(item: str, direction: Way, relations: Sequence[str], languages: Sequence[str]) -> str:
    """SPARQL for the columns ``relation``, ``neighbor``, ``form``, ``label`` and ``words``: labels, and a description.

    Truthy edges, "no value" among them, and with ``form`` those of all statements that are not deprecated. Several
    ``relations`` share the limit evenly; none stands for all. Labels come by OPTIONAL, which every query service
    understands.
    """
    limit = FETCHED // max(1, len(relations))
    chosen = [f"VALUES ?relation {{ wd:{one} }} " for one in relations] or [""]
    direct = f"?relation wikibase:directClaim ?edge . {_triple(item, direction)}"
    stated = f"?relation wikibase:claim ?claim ; wikibase:statementProperty ?edge . {_statement(item, direction)}"
    forms = [("?relation ?neighbor", direct), ('?relation ?neighbor ("p" AS ?form)', stated)]
    if direction == "out":
        forms.append(('?relation ("no value" AS ?neighbor)', f"wd:{item} a ?none . ?relation wikibase:novalue ?none ."))
    parts = [
        f"{{ SELECT {columns} WHERE {{ {one}?relation wikibase:propertyType ?type . {pattern} "
        f"FILTER(?type != wikibase:ExternalId) }} LIMIT {limit} }}"
        for columns, pattern in forms
        for one in chosen
    ]
    optional, label = label_clauses(languages, "?neighbor")
    described = (
        f'OPTIONAL {{ ?neighbor schema:description ?description . FILTER(LANG(?description) = "{languages[0]}") }}'
    )
    called = [*(f"?l{number}" for number in range(len(languages))), "?description"]
    words = ', " ", '.join(f'COALESCE({one}, "")' for one in called)
    head = f"SELECT ?relation ?neighbor ?form ({label} AS ?label) (CONCAT({words}) AS ?words) WHERE {{"
    return "\n".join([head, "\nUNION ".join(parts), *optional, described, "}"])


def label_clauses(languages: Sequence[str], thing: str) -> tuple[list[str], str]:
    """SPARQL that binds the labels of a thing, and the expression for that in the first language that has one."""
    clauses = [
        f'OPTIONAL {{ {thing} rdfs:label ?l{number} . FILTER(LANG(?l{number}) = "{language}") }}'
        for number, language in enumerate(languages)
    ]
    return clauses, f"COALESCE({', '.join(f'?l{number}' for number in range(len(languages)))})"


def relations_query(item: str, direction: Way) -> str:
    """SPARQL for the column ``relation``: the relations among the first 20,000 triples of a hub."""
    return (
        f"SELECT DISTINCT ?relation WHERE {{ {{ SELECT DISTINCT ?edge WHERE {{ {{ SELECT ?edge WHERE {{ "
        f"{_triple(item, direction)} }} LIMIT {EDGES_SAMPLED} }} }} }} ?relation wikibase:directClaim ?edge }}"
    )


def _triple(item: str, direction: Way) -> str:
    return f"wd:{item} ?edge ?neighbor ." if direction == "out" else f"?neighbor ?edge wd:{item} ."


def _statement(item: str, direction: Way) -> str:
    """A statement of, or with, an item; a deprecated one is none."""
    subject, value = (f"wd:{item}", "?neighbor") if direction == "out" else ("?neighbor", f"wd:{item}")
    parts = [f"{subject} ?claim ?statement .", f"?statement ?edge {value} ."]
    rank = "MINUS { ?statement wikibase:rank wikibase:DeprecatedRank }"
    return " ".join([*(parts if direction == "out" else reversed(parts)), rank])


def edges(table: AnswerTable, direction: Way, words: Vocabulary = WIKIDATA_VOCABULARY) -> list[FoundEdge]:
    """Each different edge of such a query's result; one that is truthy too is only that."""
    found: dict[tuple[str, Term], FoundEdge] = {}
    form = table.columns.index("form") if "form" in table.columns else None
    rows = table.rows if form is None else sorted(table.rows, key=lambda row: row[form] is not None)
    for row in rows:
        cells = dict(zip(table.columns, row, strict=True))
        relation, neighbor, label = (cells.get(one) for one in ("relation", "neighbor", "label"))
        if relation is None or neighbor is None or not (property_id := words.entity_id(relation.value)):
            continue
        name = label.value if label else ""
        value = term_value(neighbor, lambda one, name=name: name or one, words)  # type: ignore[misc]
        called = cells.get("words")
        edge = Edge(direction, Entity(property_id, kind="property"), value, indirect=cells.get("form") is not None)
        found.setdefault((property_id, neighbor), (property_id, edge, called.value if called else ""))
    return list(found.values())


USES_SAMPLED = 20_000
"""Uses that are looked at. Query services keep them sorted by value: the first thousand may all have the same one."""
USES_FETCHED = 100
CANDIDATES = 24
"""Uses whose labels are looked up: two ids each and the property's fit into one request."""


def examples_query(property_id: str) -> str:
    """SPARQL for ``subject`` and ``value``, the best-known subjects of a sample first, else values mixed."""
    return (
        f"SELECT ?subject ?value WHERE {{ {{ SELECT ?subject ?value WHERE {{ ?subject wdt:{property_id} ?value }} "
        f"LIMIT {USES_SAMPLED} }} OPTIONAL {{ ?subject wikibase:sitelinks ?sitelinks }} }} "
        f"ORDER BY DESC(?sitelinks) MD5(STR(?subject)) LIMIT {USES_FETCHED}"
    )


Use = tuple[str, Value]
"""The subject's id and the value of a use of a property, before labels are known."""


def candidate_uses(table: AnswerTable, words: Vocabulary = WIKIDATA_VOCABULARY) -> list[Use]:
    """Of the result of ``examples_query``, at most 24 uses of different subjects.

    Behind the others come those with a value that one before has, unknown values, and subjects that are their own
    value, as countries are in their country.
    """
    subjects, values = set[str](), set[str]()
    fresh, others = list[Use](), list[Use]()
    for subject, cell in table.rows:
        one = words.entity_id(subject.value) if subject is not None and cell is not None else ""
        if not one or cell is None or one in subjects:
            continue
        subjects.add(one)
        value = term_value(cell, str, words)
        key = value.id or value.text
        dull = value.special or key == one or key in values
        values.add(key)
        (others if dull else fresh).append((one, value))
    return (fresh + others)[:CANDIDATES]


def shown_examples(uses: Sequence[Use], relation: Entity, known: Mapping[str, Entity], limit: int) -> list[Example]:
    """The examples to show: those of which every entity has a label first, and otherwise in order."""

    def named(one: str) -> Entity:
        return known.get(one) or Entity(one)

    ordered = sorted(uses, key=lambda use: sum(not named(one).label for one in (use[0], use[1].id) if one))
    return [
        Example(named(one), relation, replace(value, text=named(value.id).label or value.id) if value.id else value)
        for one, value in ordered[:limit]
    ]


PROFILE_COUNTED = 20_000
"""Up to how many statements or members are counted."""
PROFILE_SAMPLE = 1_000
"""Statements, and members of a class, that are looked at for shares."""
PROFILE_LINKING = 5_000
"""Incoming edges that are counted by property."""
_LISTED = 6
_PROPERTIES = 12

Brief = Callable[[Sequence[str]], Mapping[str, Entity]]
"""Gives names and descriptions of ids in one batch."""


def property_query(property_id: str, words: Vocabulary) -> str:
    """SPARQL for the columns ``what``, ``x`` and ``n``: counts, and what is commonest in a sample."""
    direct, whole = f"?s wdt:{property_id} ?o", f"?s p:{property_id} ?st"
    sample = f"{{ SELECT ?s ?st {{ {whole} }} LIMIT {PROFILE_SAMPLE} }}"
    truthy = f"{{ SELECT ?s ?o {{ {direct} }} LIMIT {PROFILE_SAMPLE} }}"
    parts = [
        _total("direct", f"SELECT ?s {{ {direct} }} LIMIT {PROFILE_COUNTED + 1}"),
        _total("statements", f"SELECT ?s {{ {whole} }} LIMIT {PROFILE_COUNTED + 1}"),
        _total("sampled", f"SELECT ?s ?st {{ {whole} }} LIMIT {PROFILE_SAMPLE}"),
        _total("subjects", f"SELECT DISTINCT ?s {{ {sample} }}"),
        _top("qualifiers", "?x", f"{sample} ?st ?edge ?value . ?x wikibase:qualifier ?edge", distinct="?st"),
        _top("units", "?x", f"{sample} ?st psv:{property_id} ?value . ?value wikibase:quantityUnit ?x"),
    ]
    if instance_of := words.of(INSTANCE_OF):
        parts += [
            _top("subject classes", "?x", f"{truthy} ?s wdt:{instance_of} ?x"),
            _top("value classes", "?x", f"{truthy} ?o wdt:{instance_of} ?x"),
        ]
    return f"SELECT ?what ?x ?n {{ {' UNION '.join(parts)} }}"


def class_query(item: str, words: Vocabulary) -> str:
    """SPARQL for the columns ``what``, ``x`` and ``n``: members of a class, and the properties they have."""
    first, _, wider = words.to_class.partition("/")
    below = f"?class {wider} wd:{item} . ?s {first} ?class" if wider else f"?s {first} wd:{item}"
    sample = f"{{ SELECT DISTINCT ?s {{ {below} }} LIMIT {PROFILE_SAMPLE} }}"
    used = (
        f"{sample} ?s ?edge ?value . ?x wikibase:directClaim ?edge ; wikibase:propertyType ?type . "
        "FILTER(?type != wikibase:ExternalId)"
    )
    parts = [
        _total("direct", f"SELECT ?s {{ ?s {first} wd:{item} }} LIMIT {PROFILE_COUNTED + 1}"),
        _total("below", f"SELECT DISTINCT ?s {{ {below} }} LIMIT {PROFILE_COUNTED + 1}"),
        _total("sampled", f"SELECT DISTINCT ?s {{ {below} }} LIMIT {PROFILE_SAMPLE}"),
        _top("properties", "?x", used, most=_PROPERTIES, distinct="?s"),
    ]
    return f"SELECT ?what ?x ?n {{ {' UNION '.join(parts)} }}"


def incoming_query(item: str) -> str:
    """SPARQL for the columns ``what``, ``x`` and ``n``: the edges that come in, counted by property."""
    sample = f"{{ SELECT ?s ?edge {{ ?s ?edge wd:{item} }} LIMIT {PROFILE_LINKING} }}"
    return f"SELECT ?what ?x ?n {{ {_top('incoming', '?x', f'{sample} ?x wikibase:directClaim ?edge')} }}"


def uses_query(property_id: str, qualifier: str) -> str:
    """SPARQL for two statements that have a qualifier, with all their qualifiers."""
    statements = f"?s p:{property_id} ?st . ?st ps:{property_id} ?value ; pq:{qualifier} ?any"
    return (
        f"SELECT ?s ?st ?value ?qualifier ?held {{ {{ SELECT DISTINCT ?s ?st ?value {{ {statements} }} LIMIT 2 }} "
        "?st ?edge ?held . ?qualifier wikibase:qualifier ?edge }"
    )


def _total(what: str, query: str) -> str:
    return f'{{ SELECT ("{what}" AS ?what) (COUNT(*) AS ?n) {{ {{ {query} }} }} }}'


def _top(what: str, key: str, pattern: str, *, most: int = _LISTED, distinct: str = "*") -> str:
    counted = f"COUNT(DISTINCT {distinct})" if distinct != "*" else "COUNT(*)"
    inner = f"SELECT {key} ({counted} AS ?n) {{ {pattern} }} GROUP BY {key} ORDER BY DESC(?n) {key} LIMIT {most}"
    return f'{{ SELECT ("{what}" AS ?what) {key} ?n {{ {{ {inner} }} }} }}'


def read_profile(
    table: AnswerTable, brief: Brief, words: Vocabulary
) -> tuple[Mapping[str, int], Mapping[str, tuple[Share, ...]]]:
    """Counts and shares by what they are of, in the result of one of these queries."""
    counts: dict[str, int] = {}
    lists: dict[str, list[tuple[str, int]]] = {}
    for row in table.rows:
        what, key, number = (dict(zip(table.columns, row, strict=True)).get(name) for name in ("what", "x", "n"))
        if what and number and key is None:
            counts[what.value] = int(number.value)
        elif what and number and key and (one := words.entity_id(key.value)):
            lists.setdefault(what.value, []).append((one, int(number.value)))
    names = brief([one for ids in lists.values() for one, _ in ids])
    shares = {what: tuple(Share(names.get(one, Entity(one)), many) for one, many in ids) for what, ids in lists.items()}
    return counts, shares


def read_uses(table: AnswerTable, brief: Brief, property_id: str, words: Vocabulary) -> tuple[Stated, ...]:
    """The statements, with their qualifiers, in the result of ``uses_query``."""
    found: dict[str, list[tuple[Term, Term, Term, Term]]] = {}
    for subject, statement, value, qualifier, held in table.rows:
        if subject and statement and value and qualifier and held:
            found.setdefault(statement.value, []).append((subject, value, qualifier, held))
    terms = [term for rows in found.values() for row in rows for term in row]
    names = brief([one for term in terms if term.type == "uri" and (one := words.entity_id(term.value))])

    def name(one: str) -> str:
        return names[one].label or one if one in names else one

    def entity(term: Term) -> Entity:
        one = words.entity_id(term.value)
        return names.get(one, Entity(one))

    stated = []
    for rows in found.values():
        own = tuple(Qualifier(entity(one), term_value(held, name, words)) for _, _, one, held in rows)
        main = term_value(rows[0][1], name, words)
        stated.append(Stated(entity(rows[0][0]), Statement(Entity(property_id, kind="property"), main, qualifiers=own)))
    return tuple(stated)
