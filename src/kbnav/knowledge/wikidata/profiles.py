"""Profiles: how a property is used and what the members of a class have, counted with bounds by single queries.

Every count stops at a limit, and shares are those of a sample, so that a query service answers at once also where there
are millions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.knowledge.base import ClassProfile, Entity, PropertyProfile, Qualifier, Share, Stated, Statement
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.knowledge.wikidata.values import term_value

COUNTED = 20_000
"""Up to how many statements or members are counted."""
SAMPLED = 1_000
"""Statements, and members of a class, that are looked at for shares."""
LINKING = 5_000
"""Incoming edges that are counted by property."""
_LISTED = 6
_PROPERTIES = 12

Select = Callable[[str], AnswerTable]
Brief = Callable[[Sequence[str]], Mapping[str, Entity]]
"""Runs a query; gives names and descriptions of ids in one batch."""


def property_query(property_id: str, words: Vocabulary) -> str:
    """SPARQL for the columns ``what``, ``x`` and ``n``: counts, and what is commonest in a sample."""
    direct, whole = f"?s wdt:{property_id} ?o", f"?s p:{property_id} ?st"
    sample = f"{{ SELECT ?s ?st {{ {whole} }} LIMIT {SAMPLED} }}"
    truthy = f"{{ SELECT ?s ?o {{ {direct} }} LIMIT {SAMPLED} }}"
    parts = [
        _total("direct", f"SELECT ?s {{ {direct} }} LIMIT {COUNTED + 1}"),
        _total("statements", f"SELECT ?s {{ {whole} }} LIMIT {COUNTED + 1}"),
        _total("sampled", f"SELECT ?s ?st {{ {whole} }} LIMIT {SAMPLED}"),
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
    sample = f"{{ SELECT DISTINCT ?s {{ {below} }} LIMIT {SAMPLED} }}"
    used = (
        f"{sample} ?s ?edge ?value . ?x wikibase:directClaim ?edge ; wikibase:propertyType ?type . "
        "FILTER(?type != wikibase:ExternalId)"
    )
    parts = [
        _total("direct", f"SELECT ?s {{ ?s {first} wd:{item} }} LIMIT {COUNTED + 1}"),
        _total("below", f"SELECT DISTINCT ?s {{ {below} }} LIMIT {COUNTED + 1}"),
        _total("sampled", f"SELECT DISTINCT ?s {{ {below} }} LIMIT {SAMPLED}"),
        _top("properties", "?x", used, most=_PROPERTIES, distinct="?s"),
    ]
    return f"SELECT ?what ?x ?n {{ {' UNION '.join(parts)} }}"


def incoming_query(item: str) -> str:
    """SPARQL for the columns ``what``, ``x`` and ``n``: the edges that come in, counted by property."""
    sample = f"{{ SELECT ?s ?edge {{ ?s ?edge wd:{item} }} LIMIT {LINKING} }}"
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


def property_profile(
    select: Select, brief: Brief, property_id: str, words: Vocabulary = WIKIDATA_VOCABULARY
) -> PropertyProfile:
    """How a property is used. Raises what the query raises, QueryTimeout among it."""
    counts, lists = _read(select(property_query(property_id, words)), words)
    names = brief([one for ids in lists.values() for one, _ in ids])
    shares = {what: _shares(ids, names) for what, ids in lists.items()}
    qualifiers = shares.get("qualifiers", ())
    uses: tuple[Stated, ...] = ()
    if qualifiers:
        uses = _uses(select(uses_query(property_id, qualifiers[0].entity.id)), brief, property_id, words)
    return PropertyProfile(
        direct=counts.get("direct", 0),
        statements=counts.get("statements", 0),
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        subjects=counts.get("subjects", 0),
        qualifiers=qualifiers,
        units=shares.get("units", ()),
        subject_classes=shares.get("subject classes", ()),
        value_classes=shares.get("value classes", ()),
        uses=uses,
    )


def class_profile(select: Select, brief: Brief, item: str, words: Vocabulary = WIKIDATA_VOCABULARY) -> ClassProfile:
    """What the members of a class have. Raises what the query raises, QueryTimeout among it."""
    if not words.to_class:
        return ClassProfile(0, 0, COUNTED, 0)
    counts, lists = _read(select(class_query(item, words)), words)
    ids = lists.get("properties", [])
    return ClassProfile(
        direct=counts.get("direct", 0),
        below=counts.get("below", 0),
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        properties=_shares(ids, brief([one for one, _ in ids])),
    )


def incoming(select: Select, brief: Brief, item: str, words: Vocabulary) -> tuple[Share, ...]:
    """The properties by which most edges come in, with how many, of the first 5,000."""
    _, lists = _read(select(incoming_query(item)), words)
    ids = lists.get("incoming", [])
    return _shares(ids, brief([one for one, _ in ids]))


def _read(table: AnswerTable, words: Vocabulary) -> tuple[dict[str, int], dict[str, list[tuple[str, int]]]]:
    counts: dict[str, int] = {}
    lists: dict[str, list[tuple[str, int]]] = {}
    for row in table.rows:
        what, key, number = (dict(zip(table.columns, row, strict=True)).get(name) for name in ("what", "x", "n"))
        if what is None or number is None:
            continue
        if key is None:
            counts[what.value] = int(number.value)
        elif one := words.entity_id(key.value):
            lists.setdefault(what.value, []).append((one, int(number.value)))
    return counts, lists


def _shares(ids: Sequence[tuple[str, int]], names: Mapping[str, Entity]) -> tuple[Share, ...]:
    return tuple(Share(names.get(one, Entity(one)), number) for one, number in ids)


def _uses(table: AnswerTable, brief: Brief, property_id: str, words: Vocabulary) -> tuple[Stated, ...]:
    found: dict[str, tuple[Term, Term, list[tuple[Term, Term]]]] = {}
    for row in table.rows:
        subject, statement, value, qualifier, held = row
        if subject and statement and value and qualifier and held:
            one = found.setdefault(statement.value, (subject, value, []))
            one[2].append((qualifier, held))
    names = brief([named for one in found.values() for named in _named(one, words)])

    def name(one: str) -> str:
        return names[one].label or one if one in names else one

    def entity(term: Term) -> Entity:
        one = words.entity_id(term.value)
        return names.get(one, Entity(one))

    return tuple(
        Stated(
            entity(subject),
            Statement(
                Entity(property_id, kind="property"),
                term_value(value, name, words),
                qualifiers=tuple(Qualifier(entity(one), term_value(held, name, words)) for one, held in qualifiers),
            ),
        )
        for subject, value, qualifiers in found.values()
    )


def _named(one: tuple[Term, Term, list[tuple[Term, Term]]], words: Vocabulary) -> list[str]:
    cells: list[Cell] = [one[0], one[1], *(term for pair in one[2] for term in pair)]
    uris = [cell.value for cell in cells if cell is not None and cell.type == "uri"]
    return [named for iri in uris if (named := words.entity_id(iri))]
