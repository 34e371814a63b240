"""Entities of one name told apart: where descriptions do not do it, by what they are and one fact, in one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadResponse, TellModel
from kbnav.knowledge.base import Entity
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.knowledge.wikidata.values import term_value

_TELLING = ("P106", "P569", "P17", "P131", "P577", "P50", "P57", "P175", "P571", "P279")
"""What tells namesakes apart, by its ids on Wikidata, best first: occupation, birth, country, place, publication,
author, director, performer, beginning, wider class."""


def told_apart(
    entities: Sequence[Entity],
    select: Callable[[str], AnswerTable],
    languages: Sequence[str],
    words: Vocabulary = WIKIDATA_VOCABULARY,
) -> tuple[Entity, ...]:
    """The entities; to those whose name another has, and whose description does not tell them apart, facts are added.

    A query that fails leaves them as they are.
    """
    names = [entity.label.casefold() for entity in entities]
    described = [entity.description for entity in entities]
    alike = [
        entity
        for entity, name in zip(entities, names, strict=True)
        if names.count(name) > 1 and (not entity.description or described.count(entity.description) > 1)
    ]
    if not alike or not words.each((INSTANCE_OF, *_TELLING)):
        return tuple(entities)
    try:
        facts = _facts(select(_query([entity.id for entity in alike], languages, words)), words)
    except (TellModel, BadResponse):
        return tuple(entities)
    return tuple(
        replace(entity, description="; ".join(part for part in (entity.description, facts.get(entity.id, "")) if part))
        if entity in alike
        else entity
        for entity in entities
    )


def _query(ids: Sequence[str], languages: Sequence[str], words: Vocabulary) -> str:
    """SPARQL for the columns ``entity``, ``edge``, ``value`` and ``label``."""
    edges = " ".join(f"wdt:{one}" for one in words.each((INSTANCE_OF, *_TELLING)))
    labels = " ".join(
        f'OPTIONAL {{ ?value rdfs:label ?l{number} . FILTER(LANG(?l{number}) = "{language}") }}'
        for number, language in enumerate(languages)
    )
    found = ", ".join(f"?l{number}" for number in range(len(languages)))
    asked = " ".join(f"wd:{one}" for one in ids)
    return (
        f"SELECT ?entity ?edge ?value (COALESCE({found}) AS ?label) {{ VALUES ?entity {{ {asked} }} "
        f"VALUES ?edge {{ {edges} }} ?entity ?edge ?value {labels} }} LIMIT 200"
    )


def _facts(table: AnswerTable, words: Vocabulary) -> dict[str, str]:
    """A class and the most telling fact of each entity, as text."""
    found: dict[str, dict[str, str]] = {}
    for entity, edge, value, label in table.rows:
        if entity is None or edge is None or value is None:
            continue
        name = label.value if label else ""
        text = term_value(value, lambda one, name=name: name or one, words).text  # type: ignore[misc]
        found.setdefault(words.entity_id(entity.value), {}).setdefault(edge.value.rpartition("/")[2], text)
    first, telling = words.of(INSTANCE_OF), words.each(_TELLING)
    return {
        entity: "; ".join(
            facts[one] for one in (first, next((edge for edge in telling if edge in facts), "")) if one in facts
        )
        for entity, facts in found.items()
    }
