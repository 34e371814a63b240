"""The index of names and texts beside the store: one SQLite file, built once, opened in a millisecond.

Names (labels, aliases) are found by their beginning, without case and accents, as wbsearchentities does; texts
(names and descriptions) by all of their words, as the full-text search does, or, where a script has no spaces between
words, by parts of them: Chinese characters and kana are indexed in pairs. Equal matches are ordered by prominence:
how many truthy statements an entity has and is the value of, and how many sitelinks. Names lie in tiers by that (its
logarithm), so that of the many names with a short beginning only those of the first tiers are read.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyoxigraph import Literal, NamedNode, QuerySolution, QuerySolutions, Store

from kbnav.errors import DataError
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.links import SCHEMA, Picked, add_links

if TYPE_CHECKING:
    import numpy as np

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
    if text is None or text.isascii():
        return text
    return _RUN.sub(lambda run: f" {' '.join(run[0][place : place + 2] for place in range(len(run[0])))} ", text)


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


_TEXTS = [NamedNode(f"{v.WIKIBASE}{v.DATATYPES[name]}") for name in ("string", "monolingualtext")]
"""Types of properties whose values are words; identifiers, formulas and names of files are none."""

_FAST = "PRAGMA threads = 2;" + "".join(
    f"PRAGMA {one}.journal_mode = OFF; PRAGMA {one}.synchronous = OFF; PRAGMA {one}.cache_size = -131072;"
    for one in ("main", "read")
)
_SCHEMA = """
CREATE TABLE entity (number INTEGER PRIMARY KEY, id TEXT NOT NULL, kind TEXT NOT NULL, weight REAL NOT NULL);
CREATE TABLE name (tier INTEGER NOT NULL, folded TEXT NOT NULL, entity INTEGER NOT NULL, language TEXT NOT NULL,
    label INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (tier, folded, entity, language, label, text)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    names, descriptions, texts, content='', tokenize='unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('hashsize', 67108864), ('automerge', 0);
CREATE TABLE read.spelled (folded TEXT NOT NULL, entity INTEGER NOT NULL, language TEXT NOT NULL,
    label INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE read.description (entity TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE read.value (entity INTEGER NOT NULL, text TEXT NOT NULL);
"""
_FINISH = """
CREATE INDEX read.spelled_entity ON spelled (entity);
CREATE INDEX read.description_entity ON description (entity);
CREATE INDEX read.value_entity ON value (entity);
INSERT INTO words (rowid, names, descriptions, texts)
    SELECT number,
        split((SELECT group_concat(text, ' ') FROM (SELECT DISTINCT text FROM spelled WHERE entity = number))),
        split((SELECT group_concat(text, ' ') FROM (SELECT DISTINCT text FROM description WHERE entity = id))),
        split((SELECT group_concat(text, ' ') FROM (SELECT DISTINCT text FROM value WHERE entity = number)))
    FROM entity;
INSERT INTO words (words) VALUES ('optimize');
INSERT OR IGNORE INTO name SELECT CAST(e.weight AS INTEGER), s.* FROM spelled s JOIN entity e ON e.number = s.entity
    ORDER BY 1, 2, 3, 4, 5, 6;
"""
# An exact match goes before every longer name; a label is worth four times the prominence of an alias, and a name in a
# language that was not asked for an eighth.
_PREFIX = """
SELECT
    MAX((n.folded = :query) * 1000 + e.weight + n.label * 2
        - (n.language NOT IN (SELECT value FROM json_each(:languages))) * 3) AS score, -e.number, e.id, n.text
FROM name n JOIN entity e ON e.number = n.entity
WHERE n.tier IN (SELECT value FROM json_each(:tiers)) AND n.folded >= :query AND n.folded < :end AND e.kind = :kind
GROUP BY e.number ORDER BY score DESC, e.number LIMIT :limit
"""
_FEW = """
SELECT COUNT(*) < 100 FROM (SELECT 1 FROM name
    WHERE tier IN (SELECT value FROM json_each(:tiers)) AND folded >= :query AND folded < :end LIMIT 100)
"""
_LABEL = 2
"""What a label is worth more than an alias."""
_WORDS = """
SELECT e.id FROM words JOIN entity e ON e.number = words.rowid
WHERE words MATCH :query AND e.kind IN (SELECT value FROM json_each(:kinds))
ORDER BY bm25(words, 4.0, 1.0, 0.0) - e.weight, e.number LIMIT :limit
"""
_ALIKE = """
SELECT n.folded, n.text, e.weight FROM name n JOIN entity e ON e.number = n.entity
WHERE n.tier = :tier AND n.folded >= :begin AND n.folded < :end
    AND LENGTH(n.folded) BETWEEN :length - :off AND :length + :off
    AND e.kind IN (SELECT value FROM json_each(:kinds))
"""
BEGINNING = 2
"""Letters that a name shares with its misspelling."""
SHORTEST = 4
"""Letters that a text must have to be taken for a misspelling."""
LONGER = 2
"""Letters by which the two may differ in length."""
MOST_COMPARED = 20_000
"""Names that a text is compared with, the most prominent first."""
JOINTS = 7
"""Letters of the words between those of a name."""
_JOINTS = frozenset({"a", "an", "and", "de", "der", "for", "in", "of", "on", "the", "to"})
ALIKE = 80
"""How like two names must be, of 100 (twice what they share, by the length of both)."""
_INSOURCE = re.compile(r'(?<!\S)insource:\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.IGNORECASE)


class BadKeyword(ValueError):
    """A keyword that cannot be searched for here."""


def build_index(
    store: Store,
    picked: Picked,
    path: Path,
    here: v.Namespaces,
    say: Callable[[str], None],
    complete: Callable[[], None],
) -> tuple[int, int]:
    """Write the index of a store; returns the number of entities and of names in it. Raises sqlite3.Error.

    ``picked`` is of the store's lines; ``say`` is told what it does; ``complete`` returns when the store has all facts.
    """
    read = path.with_suffix(".read")
    with closing(sqlite3.connect(path)) as index:
        index.create_function("split", 1, split, deterministic=True)
        index.execute("ATTACH ? AS read", (str(read),))
        index.executescript(_FAST + SCHEMA + _SCHEMA)
        numbers: dict[str, int] = {}
        insert = index.cursor().execute
        for entity, text, predicate in picked.texts():
            if predicate == v.DESCRIPTION:
                insert("INSERT INTO description VALUES (?, ?)", (entity, text.value))
            else:
                number = numbers.setdefault(entity, len(numbers))
                row = (fold(text.value), number, text.language or "und", predicate == v.RDFS_LABEL, text.value)
                insert("INSERT INTO spelled VALUES (?, ?, ?, ?, ?)", row)
        complete()
        truthy = picked.truthy()
        add_links(index, truthy)
        weights = _weights(store, truthy, numbers, here)
        del truthy
        index.executemany(
            "INSERT INTO entity VALUES (?, ?, ?, ?)",
            ((number, entity, v.entity_kind(entity), weights[number]) for entity, number in numbers.items()),
        )
        say("indexing values")
        typed = (one.subject for kind in _TEXTS for one in store.quads_for_pattern(None, v.PROPERTY_TYPE, kind, None))
        texts = picked.values({here.local_id(one.value) for one in typed if isinstance(one, NamedNode)})
        rows = ((numbers[entity], text) for entity, text in texts if entity in numbers)
        index.executemany("INSERT INTO value VALUES (?, ?)", rows)
        index.executescript(_FINISH)
        index.commit()
        (names,) = index.execute("SELECT COUNT(*) FROM name").fetchone()
    read.unlink()
    return len(numbers), names


def _weights(store: Store, truthy: np.ndarray, numbers: dict[str, int], here: v.Namespaces) -> list[float]:
    """Logarithms of degrees: truthy statements that an entity is subject, property or value of, and its sitelinks."""
    import numpy as np  # only a build needs it

    ends = np.sort(np.concatenate([truthy[:, 0], truthy[:, 1] << 3 | 1, truthy[:, 2]]))
    named = np.fromiter((int(one[1:]) << 3 | (one[0] == "P") for one in numbers), np.int64)  # as ``Picked`` has them
    degrees = np.searchsorted(ends, named, "right") - np.searchsorted(ends, named)
    degrees = np.append(degrees, 0)  # of what has no name
    for row in _rows(store, f"SELECT ?s ?n {{ ?s {v.SITELINKS} ?n }}"):
        if isinstance(row[0], NamedNode) and isinstance(row[1], Literal) and row[1].value.isdecimal():
            degrees[numbers.get(here.local_id(row[0].value), -1)] += int(row[1].value)
    return [log2(1 + degree) for degree in degrees[:-1].tolist()]


def _rows(store: Store, query: str) -> Iterator[QuerySolution]:
    found = store.query(query)
    if not isinstance(found, QuerySolutions):
        raise TypeError("not a SELECT query")
    yield from found


class Index:
    """The index of a mirror, open for reading from any thread."""

    def __init__(self, file: Path) -> None:
        """Open the index. Raises DataError where it is damaged."""
        self._lock = threading.Lock()
        try:
            self._sqlite = sqlite3.connect(
                f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise DataError(f"{file}: not a readable index: {error}") from error
        try:
            (most,) = self._sqlite.execute("SELECT MAX(tier) FROM name").fetchone()
            self._tiers = [*range(most or 0, -1, -1)]
        except sqlite3.Error as error:
            self._sqlite.close()
            raise DataError(f"{file}: not a readable index: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._sqlite.close()

    def _rows(self, sql: str, **values: object) -> list[Any]:
        with self._lock:
            return self._sqlite.execute(sql, values).fetchall()

    def by_name(self, text: str, kind: str, languages: Sequence[str], *, limit: int = 7) -> list[tuple[str, str]]:
        """Id and matching name of entities of one kind with a name that begins with the text, best first.

        ``languages`` are those asked for, fallbacks included; names in others are found too.
        """
        query, asked = fold(text), json.dumps(list(languages))
        if not query:
            return []
        best: dict[int, Any] = {}
        found: list[Any] = []
        beginning = query + "\U0010ffff"
        ((few,),) = self._rows(_FEW, tiers=json.dumps(self._tiers), query=query, end=beginning)
        parts = [(end, [tier]) for end in (query + "\0", beginning) for tier in self._tiers]
        for end, tiers in [(beginning, self._tiers)] if few else parts:
            if end == beginning and len(found) == limit and found[-1][0] >= tiers[0] + 1 + _LABEL:
                break  # nothing from here on is better
            place: dict[str, object] = {"query": query, "end": end, "tiers": json.dumps(tiers)}
            for row in self._rows(_PREFIX, kind=kind, limit=limit, languages=asked, **place):
                best[row[1]] = max(row, best.get(row[1], row))
            found = sorted(best.values(), reverse=True)[:limit]
        return [(entity, name) for _, _, entity, name in found]

    def by_words(self, text: str, kinds: Sequence[str], *, limit: int = 10) -> list[str]:
        """Ids of entities whose names and descriptions hold all words of the text, best first; none without a word.

        With ``OR`` between words those of one side are enough; ``insource:`` looks into the texts that statements and
        qualifiers have as values (https://www.mediawiki.org/wiki/Help:CirrusSearch). Raises BadKeyword.
        """
        wanted = []
        for quoted, word in _INSOURCE.findall(text):
            phrase = word or re.sub(r"\\(.)", r"\1", quoted)
            if re.match(r"/.*/", phrase):
                raise BadKeyword("insource: regular expressions are not searched for here, only words")
            if words := " ".join(one.strip('"* ') for one in phrases(phrase)):
                wanted.append(f'texts : "{words}"')
        if query := any_of(_INSOURCE.sub(" ", text)):
            wanted.append(f"{{names descriptions}} : ({query})")
        if not wanted:
            return []
        rows = self._rows(_WORDS, query=" AND ".join(wanted), kinds=json.dumps(list(kinds)), limit=limit)
        return [row[0] for row in rows]

    def alike(self, text: str, kinds: Sequence[str]) -> str:
        """The name most like a text that is none, of those with its first letters; empty where none is like it.

        Searches leave out words such as "of", so that those of names do not count.
        """
        query = _without_joints(fold(text))
        if len(query) < SHORTEST:
            return ""
        from rapidfuzz import fuzz

        begin, asked = query[:BEGINNING], json.dumps(list(kinds))
        end = begin + "\U0010ffff"
        off = LONGER + (JOINTS if " " in query else 0)
        rows: list[Any] = []
        for tier in self._tiers:
            if len(rows) < MOST_COMPARED:
                rows += self._rows(_ALIKE, tier=tier, begin=begin, end=end, length=len(query), off=off, kinds=asked)
        scored = [(fuzz.ratio(query, _without_joints(folded)), weight, name) for folded, name, weight in rows]
        best = max(scored, default=(0.0, 0.0, ""))
        return str(best[2]) if best[0] >= ALIKE else ""


def _without_joints(name: str) -> str:
    return " ".join(word for word in name.split() if word not in _JOINTS) or name
