"""Examples of a property: which of its uses are asked for, and which of them are worth showing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.answers.tables import AnswerTable, Term
from kbnav.knowledge.base import Entity, Example, Value
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Vocabulary
from kbnav.knowledge.wikidata.entities import example_values, snak_ids
from kbnav.knowledge.wikidata.values import Name, snak_value, term_value

SAMPLED = 20_000
"""Uses that are looked at. Query services keep them sorted by value: the first thousand may all have the same one."""
FETCHED = 100
CANDIDATES = 24
"""Uses whose labels are looked up: two ids each and the property's fit into one request."""
CURATED = ("P1855", "P2271", "P5192", "P5977")
"""Wikidata property example, and its like for properties, lexemes and senses, by their ids there."""


@dataclass(frozen=True)
class Use:
    """A use of a property before labels are known: its subject, its value as it came, and the ids in that."""

    subject: str
    value: Term | Mapping[str, Any]
    ids: tuple[str, ...] = ()

    def read(self, name: Name, words: Vocabulary = WIKIDATA_VOCABULARY) -> Value:
        """The value, its entities named by ``name``."""
        return term_value(self.value, name, words) if isinstance(self.value, Term) else snak_value(self.value, name)


def uses_query(property_id: str) -> str:
    """SPARQL for the columns ``subject`` and ``value``: those of the best-known subjects in a sample.

    Subjects with as many sitelinks, or all where there are none, come in an order that mixes values.
    """
    return (
        f"SELECT ?subject ?value WHERE {{ {{ SELECT ?subject ?value WHERE {{ ?subject wdt:{property_id} ?value }} "
        f"LIMIT {SAMPLED} }} OPTIONAL {{ ?subject wikibase:sitelinks ?sitelinks }} }} "
        f"ORDER BY DESC(?sitelinks) MD5(STR(?subject)) LIMIT {FETCHED}"
    )


def curated(document: Mapping[str, Any], property_id: str, words: Vocabulary = WIKIDATA_VOCABULARY) -> list[Use]:
    """The examples that a property's own document gives. Raises BadResponse where it is not of the promised form."""
    uses = []
    for one in words.each(CURATED):
        for subject, snak in example_values(document, one, property_id):
            uses.append(Use(subject, snak, tuple(snak_ids(snak))))
    return uses


def found(table: AnswerTable, words: Vocabulary = WIKIDATA_VOCABULARY) -> list[Use]:
    """The uses in the result of ``uses_query``."""
    uses = []
    for subject, value in table.rows:
        if subject is not None and value is not None and (one := words.entity_id(subject.value)):
            named = words.entity_id(value.value) if value.type == "uri" else ""
            uses.append(Use(one, value, (named,) if named else ()))
    return uses


def candidates(uses: Iterable[Use], words: Vocabulary = WIKIDATA_VOCABULARY) -> list[Use]:
    """At most 24 uses of different subjects, in order; behind them those with a value that one before has.

    As far behind come unknown values and subjects that are their own value, as countries are in their country.
    """
    subjects: set[str] = set()
    values: set[str] = set()
    fresh: list[Use] = []
    others: list[Use] = []
    for use in uses:
        if use.subject not in subjects:
            subjects.add(use.subject)
            value = use.read(str, words)
            key = value.id or value.text
            dull = value.special or key == use.subject or key in values
            values.add(key)
            (others if dull else fresh).append(use)
    return (fresh + others)[:CANDIDATES]


def shown(
    uses: Sequence[Use],
    relation: Entity,
    known: Mapping[str, Entity],
    limit: int,
    words: Vocabulary = WIKIDATA_VOCABULARY,
) -> list[Example]:
    """The examples to show: those of which every entity has a label first, and otherwise in order."""

    def label(one: str) -> str:
        return known[one].label if one in known else ""

    ordered = sorted(uses, key=lambda use: sum(not label(one) for one in (use.subject, *use.ids)))
    return [
        Example(known.get(use.subject, Entity(use.subject)), relation, use.read(lambda one: label(one) or one, words))
        for use in ordered[:limit]
    ]
