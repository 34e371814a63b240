"""The texts that statements and their qualifiers have as values, indexed by their words beside the names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from pyoxigraph import Literal, NamedNode, Store

from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.words import split

SCHEMA = """
CREATE TABLE value (number INTEGER PRIMARY KEY, entity TEXT NOT NULL);
CREATE VIRTUAL TABLE value_words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
"""
_TEXTS = frozenset(f"{v.WIKIBASE}{v.DATATYPES[name]}" for name in ("string", "monolingualtext"))
"""Types of properties whose values are words; identifiers, formulas and names of files are none."""


def index_values(store: Store, predicates: Iterable[str], index: sqlite3.Connection, here: v.Namespaces) -> int:
    """Write the index of the values of a store with these predicates; returns how many there are."""
    index.executescript(SCHEMA)
    found = dict.fromkeys(_values(store, _properties(store, predicates, here), here))
    rows = [(number, entity, split(text)) for number, (entity, text) in enumerate(found, 1)]
    index.executemany("INSERT INTO value VALUES (?, ?)", (row[:2] for row in rows))
    index.executemany("INSERT INTO value_words (rowid, text) VALUES (?, ?)", ((one, text) for one, _, text in rows))
    index.execute("INSERT INTO value_words (value_words) VALUES ('optimize')")
    return len(rows)


def _values(store: Store, properties: Iterable[str], here: v.Namespaces) -> Iterator[tuple[str, str]]:
    """Entity and text of every value, the same one perhaps as the value of a statement and as truthy."""
    for property_id in properties:
        for form in (here.wdt, here.ps, here.pq):
            for quad in store.quads_for_pattern(None, NamedNode(form + property_id), None, None):
                if not isinstance(quad.object, Literal) or not isinstance(quad.subject, NamedNode):
                    continue
                text = quad.object.value
                if not text or not (quad.object.language or quad.object.datatype.value == f"{v.XSD}string"):
                    continue
                entity = here.local_id(quad.subject.value) if form == here.wdt else _subject(store, quad.subject, here)
                if entity:
                    yield entity, text


def _properties(store: Store, predicates: Iterable[str], here: v.Namespaces) -> list[str]:
    """The properties whose values may be texts: those of that type, and those whose type is not known."""
    known: dict[str, str] = {}
    for quad in store.quads_for_pattern(None, v.PROPERTY_TYPE, None, None):
        if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode):
            known[here.local_id(quad.subject.value)] = quad.object.value
    names = (one.removeprefix(form) for one in predicates for form in (here.wdt, here.ps, here.pq))
    used = {one for one in names if v.is_entity_id(one)}
    return sorted(one for one in used if known.get(one, next(iter(_TEXTS))) in _TEXTS)


def _subject(store: Store, statement: NamedNode, here: v.Namespaces) -> str:
    """The entity that a statement is about."""
    for quad in store.quads_for_pattern(None, None, statement, None):
        if quad.predicate.value.startswith(here.p) and isinstance(quad.subject, NamedNode):
            return here.local_id(quad.subject.value)
    return ""
