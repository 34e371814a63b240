"""The index of names and texts beside the store: one SQLite file, built once, opened in a millisecond.

Names (labels, aliases, lemmas) are found by their beginning, without case and accents, as wbsearchentities does; texts
(names and descriptions) by all of their words, as the full-text search does, or, where a script has no spaces between
words, by parts of them: Chinese characters and kana are indexed in pairs. Equal matches are ordered by prominence:
how many truthy statements an entity has and is the value of, and how many sitelinks.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import log2
from pathlib import Path

from pyoxigraph import Literal, NamedNode, QuerySolution, QuerySolutions, Store

from kbnav.errors import DataError
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.store import NAMES

_RUN = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Han, hiragana and katakana."""
_OR = re.compile(r"\s+OR\s+")
_ACCENTS = re.compile("[\u0300-\u036f]")


def fold(text: str) -> str:
    """A text as names are compared: without case, accents and doubled spaces."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(text.casefold().split())


def split(text: str | None) -> str | None:
    """A text with each run of Chinese characters or kana in pairs, the last alone too: ``北京 京市 市`` of ``北京市``.

    So each part of a run is a phrase of pairs, or a single character the beginning of one.
    """
    return text and _RUN.sub(
        lambda run: f" {' '.join(run[0][place : place + 2] for place in range(len(run[0])))} ", text
    )


def phrases(text: str) -> Iterator[str]:
    """The words of a text as the index's query language has them, each quoted; operators are plain words."""
    for word in re.findall(r"\w+", _RUN.sub(r" \g<0> ", text)):
        if _RUN.fullmatch(word) is None:
            yield f'"{word}"'
        elif len(word) == 1:
            yield f'"{word}" *'
        else:
            yield f'"{" ".join(word[place : place + 2] for place in range(len(word) - 1))}"'


def any_of(text: str) -> str:
    """The query for all words of a text or, with ``OR`` between them, those of one side; empty where it has none."""
    return " OR ".join(some for part in _OR.split(text) if (some := " ".join(phrases(part))))


def as_phrase(text: str) -> str:
    """The query for the words of a text one behind the other; empty where it has none."""
    words = [phrase.strip('"* ') for phrase in phrases(text)]
    return f'"{" ".join(words)}"' if words else ""


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


_SCHEMA = """
CREATE TABLE entity (number INTEGER PRIMARY KEY, id TEXT NOT NULL, kind TEXT NOT NULL, weight REAL NOT NULL);
CREATE TABLE name (folded TEXT NOT NULL, entity INTEGER NOT NULL, language TEXT NOT NULL, label INTEGER NOT NULL,
    text TEXT NOT NULL);
CREATE TABLE description (entity INTEGER NOT NULL, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (names, descriptions, content='', tokenize='unicode61 remove_diacritics 2');
"""
_FINISH = """
CREATE INDEX name_folded ON name (folded);
INSERT INTO words (rowid, names, descriptions)
    SELECT number,
        split((SELECT group_concat(text, ' ') FROM (SELECT DISTINCT text FROM name WHERE entity = number))),
        split((SELECT group_concat(text, ' ') FROM description WHERE entity = number))
    FROM entity;
DROP TABLE description;
DROP INDEX name_entity;
INSERT INTO words (words) VALUES ('optimize');
"""
# An exact match goes before every longer name; a label is worth four times the prominence of an alias, and a name in a
# language that was not asked for an eighth.
_PREFIX = """
SELECT e.id, n.language, n.label, n.text,
    MAX((n.folded = :query) * 1000 + e.weight + n.label * 2 - (n.language NOT IN ({languages})) * 3) AS score
FROM name n JOIN entity e ON e.number = n.entity
WHERE n.folded >= :query AND n.folded < :end AND e.kind = :kind {strict}
GROUP BY e.number ORDER BY score DESC, e.number LIMIT :limit OFFSET :offset
"""
_WORDS = """
SELECT e.id FROM words JOIN entity e ON e.number = words.rowid
WHERE words MATCH :query AND e.kind IN ({kinds})
ORDER BY bm25(words, 4.0, 1.0) - e.weight, e.number LIMIT :limit OFFSET :offset
"""
_ALIKE = """
SELECT n.folded, n.text, e.weight FROM name n JOIN entity e ON e.number = n.entity
WHERE n.folded >= :begin AND n.folded < :end AND LENGTH(n.folded) BETWEEN :length - :off AND :length + :off
    AND e.kind IN ({kinds})
"""
BEGINNING = 2
"""Letters that a name shares with its misspelling."""
SHORTEST = 4
"""Letters that a text must have to be taken for a misspelling."""
LONGER = 2
"""Letters by which the two may differ in length."""
ALIKE = 80
"""How like two names must be, of 100 (twice what they share, by the length of both)."""
_RANKED = """
SELECT id FROM entity WHERE id IN (SELECT value FROM json_each(:ids)) AND kind IN ({kinds})
ORDER BY weight DESC, number
"""
_VALUES = """
SELECT DISTINCT v.entity FROM value_words JOIN value v ON v.number = value_words.rowid WHERE value_words MATCH :query
"""
_COUNT = """
SELECT COUNT(*) FROM words JOIN entity e ON e.number = words.rowid WHERE words MATCH :query AND e.kind IN ({kinds})
"""


@dataclass(frozen=True)
class Match:
    """An entity that a search by name found, and the name that matched."""

    id: str
    type: str
    """``label`` or ``alias``."""
    language: str
    text: str


def build_index(store: Store, path: Path, here: v.Namespaces = v.OF_WIKIDATA) -> tuple[int, int]:
    """Write the index of a store; returns the number of entities and of names in it. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path)) as index:
        index.create_function("split", 1, split, deterministic=True)
        index.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        numbers: dict[str, int] = {}
        names = 0
        for predicate, label in ((v.RDFS_LABEL, 1), (v.LEMMA, 1), (v.ALT_LABEL, 0)):
            names += index.executemany(
                "INSERT INTO name VALUES (?, ?, ?, ?, ?)",
                (
                    (fold(text), numbers.setdefault(entity, len(numbers)), language, label, text)
                    for entity, text, language in _texts(store, predicate, here)
                ),
            ).rowcount
        index.executemany(
            "INSERT INTO description VALUES (?, ?)",
            ((numbers[entity], text) for entity, text, _ in _texts(store, v.DESCRIPTION, here) if entity in numbers),
        )
        predicates = [row["p"].value for row in _rows(store, "SELECT DISTINCT ?p { ?s ?p ?o }")]
        weights = _weights(store, numbers, predicates, here)
        index.executemany(
            "INSERT INTO entity VALUES (?, ?, ?, ?)",
            ((number, entity, v.entity_kind(entity), weights[number]) for entity, number in numbers.items()),
        )
        index.executescript(
            "CREATE INDEX name_entity ON name (entity); CREATE INDEX description_entity ON description (entity);"
            + _FINISH
        )
        index_values(store, predicates, index, here)
        index.commit()
        index.execute("VACUUM")
    return len(numbers), max(names, 0)


def _texts(store: Store, predicate: NamedNode, here: v.Namespaces) -> Iterator[tuple[str, str, str]]:
    """Entity, text and language of every triple with the predicate."""
    for quad in store.quads_for_pattern(None, predicate, None, None):
        entity = here.local_id(quad.subject.value) if isinstance(quad.subject, NamedNode) else ""
        # Forms and senses of lexemes have labels too, and are no entities of their own to a search.
        if entity and "-" not in entity and isinstance(quad.object, Literal):
            yield entity, quad.object.value, quad.object.language or "und"


def _weights(store: Store, numbers: dict[str, int], used: Sequence[str], here: v.Namespaces) -> list[float]:
    """Logarithms of degrees: truthy statements that an entity is subject, property or value of, and its sitelinks."""
    degrees = [0] * len(numbers)
    predicates = [f"<{one}>" for one in used if one.startswith(here.wdt)]
    truthy = f"VALUES ?p {{ {' '.join(predicates)} }} ?s ?p ?o"
    ends = [f"SELECT ?{end} (COUNT(*) AS ?n) WHERE {{ {truthy} }} GROUP BY ?{end}" for end in "spo"]
    for query in (*ends, f"SELECT ?s ?n WHERE {{ ?s {v.SITELINKS} ?n }}"):
        for row in _rows(store, query):
            entity, count = row[0], row[1]
            iri = entity.value if isinstance(entity, NamedNode) else ""
            number = numbers.get(here.local_id(iri) or iri.removeprefix(here.wdt))
            if number is not None and isinstance(count, Literal) and count.value.isdecimal():
                degrees[number] += int(count.value)
    return [log2(1 + degree) for degree in degrees]


def _rows(store: Store, query: str) -> Iterator[QuerySolution]:
    found = store.query(query)
    if not isinstance(found, QuerySolutions):
        raise TypeError("not a SELECT query")
    yield from found


class Index:
    """The index of a mirror, open for reading from any thread."""

    def __init__(self, path: Path) -> None:
        """Open the index in the mirror's folder. Raises DataError where it is damaged."""
        self._lock = threading.Lock()
        file = path / NAMES
        try:
            self._sqlite = sqlite3.connect(
                f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise DataError(f"{file}: not a readable index: {error}") from error
        try:
            self._sqlite.execute("SELECT number FROM entity LIMIT 1").fetchone()
        except sqlite3.Error as error:
            self._sqlite.close()
            raise DataError(f"{file}: not a readable index: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._sqlite.close()

    def by_name(
        self,
        text: str,
        kind: str,
        languages: Sequence[str],
        *,
        strict: bool = False,
        limit: int = 7,
        offset: int = 0,
    ) -> list[Match]:
        """Entities of one kind with a name that begins with the text, best first.

        ``languages`` are those asked for, fallbacks included; names in others are found too, unless ``strict``.
        """
        query = fold(text)
        if not query:
            return []
        slots = {f"language{number}": language for number, language in enumerate(languages)}
        listed = ", ".join(f":{slot}" for slot in slots)
        sql = _PREFIX.format(languages=listed, strict=f"AND n.language IN ({listed})" if strict else "")
        values = {"query": query, "end": query + "\U0010ffff", "kind": kind, "limit": limit, "offset": offset}
        with self._lock:
            rows = self._sqlite.execute(sql, values | slots).fetchall()
        return [Match(row[0], "label" if row[2] else "alias", row[1], row[3]) for row in rows]

    def alike(self, text: str, kinds: Sequence[str]) -> str:
        """The name most like a text that is none, of those with its first letters; empty where none is like it."""
        query = fold(text)
        begin = query[:BEGINNING]
        if len(query) < SHORTEST:
            return ""
        from rapidfuzz import fuzz

        slots = {f"kind{number}": kind for number, kind in enumerate(kinds)}
        sql = _ALIKE.format(kinds=", ".join(f":{slot}" for slot in slots))
        values = {"begin": begin, "end": begin + "\U0010ffff", "length": len(query), "off": LONGER}
        with self._lock:
            rows = self._sqlite.execute(sql, values | slots).fetchall()
        scored = [(fuzz.ratio(query, folded), weight, name) for folded, name, weight in rows]
        best = max(scored, default=(0.0, 0.0, ""))
        return str(best[2]) if best[0] >= ALIKE else ""

    def by_value(self, phrase: str) -> list[str]:
        """Ids of all entities with a statement or qualifier whose text has these words one behind the other."""
        query = as_phrase(phrase)
        if not query:
            return []
        with self._lock:
            return [row[0] for row in self._sqlite.execute(_VALUES, {"query": query})]

    def ranked(self, ids: Collection[str], kinds: Sequence[str]) -> list[str]:
        """Those of the ids that are entities of these kinds, the most prominent first."""
        slots = {f"kind{number}": kind for number, kind in enumerate(kinds)}
        sql = _RANKED.format(kinds=", ".join(f":{slot}" for slot in slots))
        with self._lock:
            return [row[0] for row in self._sqlite.execute(sql, {"ids": json.dumps(list(ids))} | slots)]

    def by_words(self, text: str, kinds: Sequence[str], *, limit: int = 10, offset: int = 0) -> tuple[list[str], int]:
        """Ids of entities whose names and descriptions hold all words of the text, best first; and how many there are.

        With ``OR`` between words, as the full-text search of Wikidata has it, those of one side are enough.

        Without a word in the text, none.
        """
        query = any_of(text)
        if not query:
            return [], 0
        slots = {f"kind{number}": kind for number, kind in enumerate(kinds)}
        listed = ", ".join(f":{slot}" for slot in slots)
        values = {"query": query, "limit": limit, "offset": offset} | slots
        with self._lock:
            rows = self._sqlite.execute(_WORDS.format(kinds=listed), values).fetchall()
            total = self._sqlite.execute(_COUNT.format(kinds=listed), values).fetchone()[0]
        return [row[0] for row in rows], total


_INSOURCE = re.compile(r'(?<!\S)insource:\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.IGNORECASE)


class BadKeyword(ValueError):
    """A keyword that cannot be searched for here."""


def by_keywords(index: Index, search: str, kinds: Sequence[str]) -> list[str] | None:
    """All entities whose texts fit each ``insource:`` of a search, and the words beside it, best first.

    As https://www.mediawiki.org/wiki/Help:CirrusSearch has it; here it looks into the texts that statements and
    qualifiers have as values. None where a search has no such keyword. Raises BadKeyword.
    """
    phrases_ = [match[2] or re.sub(r"\\(.)", r"\1", match[1]) for match in _INSOURCE.finditer(search)]
    if not phrases_:
        return None
    if any(re.match(r"/.*/", phrase) for phrase in phrases_):
        raise BadKeyword("insource: regular expressions are not searched for here, only words")
    words = " ".join(_INSOURCE.sub(" ", search).split())
    found = [set(index.by_value(phrase)) for phrase in phrases_]
    if words:
        found.append(set(index.by_words(words, kinds, limit=-1)[0]))
    return index.ranked(set.intersection(*found), kinds)
