"""An index of an endpoint's names on this machine: paged once, then searched by words, their beginnings and spelling.

One SQLite file. Paging goes by the subjects' IRIs in order; a page and how far it came are one transaction, so that
paging that was killed goes on there. Names are found whole, whatever their case, hyphens and plural; by words of them;
and, near, by words that begin so, that have the asked word in them, whose initials it is, or that are spelled alike.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from pathlib import Path

from kbnav.answers.language import fold
from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import DataError, QueryRefused, QueryTimeout, UsageError
from kbnav.knowledge.endpoint.data import ALIASES, SIDE_BY_SIDE, Select, iris_list, side_by_side
from kbnav.knowledge.endpoint.search import Match, best_of, initials, likeness, phrase_words, split_words, stems
from kbnav.knowledge.sparql.vocabulary import text_literal

PAGE = 50_000
"""Names that one query brings; fewer where the endpoint cuts its results or takes too long."""
_SMALLEST = 100
_MOST = 200
"""Names that are compared with a phrase, and words that one word of it may stand for."""
_LIKE, _BEGINS, _HAS, _INITIALS = 80, 0.9, 0.85, 0.8
"""Likeness of spelling from which a word may stand for another, of 100; what other ways count, where the word is 1."""
_APPLICATION, _FORMAT = 0x6B626E76, 1
# Among the words of a name are its initials behind `=`, and itself, without space and marks, behind `#`.
_SCHEMA = """
CREATE TABLE name (number INTEGER PRIMARY KEY, iri TEXT NOT NULL, text TEXT NOT NULL, key TEXT NOT NULL,
    UNIQUE (iri, text));
CREATE TABLE word (word TEXT NOT NULL, name INTEGER NOT NULL, PRIMARY KEY (word, name)) WITHOUT ROWID;
CREATE TABLE paging (input TEXT NOT NULL, last TEXT NOT NULL, behind TEXT NOT NULL);
"""
_SEARCH = """
SELECT n.iri, n.text, n.key IN (SELECT value FROM json_each(:keys)), json_group_object(place, score)
FROM (SELECT name, a.value ->> 0 AS place, MAX(a.value ->> 2) AS score
      FROM json_each(:asked) a JOIN word w ON w.word = a.value ->> 1 GROUP BY name, place)
JOIN name n ON n.number = name
GROUP BY name ORDER BY 3 DESC, SUM(score) DESC, LENGTH(n.text), n.text LIMIT :most
"""


def collect(
    select: Select,
    out: Path,
    url: str,
    graph: str | Sequence[str],
    predicates: Sequence[str],
    *,
    page: int = PAGE,
    tell: Callable[[int, str], None],
) -> int:
    """Page the names of all things that have one into the file ``out``, and give how many names there are.

    A call that was stopped earlier is continued; a finished file is replaced when the new one is whole. Raises
    UsageError where the file is something else or cannot be written, or nothing has a label, QueryTimeout where even a
    small page takes too long.
    """
    if not predicates:
        raise UsageError(
            f"{url}: nothing has a label by rdfs:label, skos:prefLabel or the like: name the predicates of its labels "
            "in kbnav.toml, labels of [sparql.NAME]"
        )
    if out.exists():
        open_names(out).close()
    part = out.with_name(f"{out.name}.part")
    asked = json.dumps([url, graph, *predicates])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with closing(_begun(part, asked)) as file:

            def count() -> int:
                return int(file.execute("SELECT COUNT(*) FROM name").fetchone()[0])

            names = count()
            for page_rows, last, behind in _pages(select, file, [*predicates, *ALIASES], page):
                rows = {(row[0].value, row[1].value) for row in page_rows if row[0] and row[1] and row[1].value.strip()}
                with file:
                    for iri, text in sorted(rows):
                        words = split_words(text)
                        key = "".join(map(fold, words))
                        added = file.execute("INSERT OR IGNORE INTO name VALUES (NULL, ?, ?, ?)", (iri, text, key))
                        if added.rowcount:
                            own = {*map(fold, words), f"#{key}", f"={fold(initials(words))}"}
                            file.executemany("INSERT INTO word VALUES (?, ?)", [(one, added.lastrowid) for one in own])
                    file.execute("UPDATE paging SET last = ?, behind = ?", (last, behind))
                if count() != names:
                    tell(names := count(), last)
        part.replace(out)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{out}: the names cannot be kept there: {error}") from error
    return names


def _begun(part: Path, asked: str) -> sqlite3.Connection:
    with suppress(sqlite3.Error), closing(sqlite3.connect(part)) as file:
        if file.execute("SELECT input FROM paging").fetchall() == [(asked,)]:
            return sqlite3.connect(part)
    part.unlink(missing_ok=True)
    file = sqlite3.connect(part)
    file.executescript(f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT};{_SCHEMA}")
    with file:
        file.execute("INSERT INTO paging VALUES (?, '', '>')", (asked,))
    return file


def _pages(
    select: Select, file: sqlite3.Connection, predicates: Sequence[str], page: int
) -> Iterator[tuple[Sequence[tuple[Cell, ...]], str, str]]:
    """Pages of names from where the file ends, each with its last thing, and whether what follows is behind that.

    The last thing of a page may have more names, so the next begins with it; one that fills a page is left behind.
    """
    beside = 1  # pages that are asked for at once

    def ask(last: str, behind: str, place: int) -> AnswerTable | None:
        offset = f" OFFSET {place * page}" if place else ""
        try:
            return select(
                f"SELECT ?s ?l WHERE {{ VALUES ?p {{ {iris_list(predicates)} }} ?s ?p ?l . "
                f"FILTER(isIRI(?s) && STR(?s) {behind} {text_literal(last)}) }} "
                f"ORDER BY STR(?s) STR(?l) LANG(?l) LIMIT {page}{offset}"
            )
        except (QueryTimeout, QueryRefused):
            if page <= _SMALLEST and not place:
                raise
            return None

    while True:
        [(last, behind)] = file.execute("SELECT last, behind FROM paging")
        tables = side_by_side([partial(ask, last, behind, place) for place in range(beside)])
        first = tables[0]
        rows: list[tuple[Cell, ...]] = []
        if first is None or (first.cut and page > _SMALLEST):
            given = len(first.rows) if first else 0
            page, beside = max(_SMALLEST, given if _SMALLEST < given < page else page // 5), 1
            continue
        for table in tables:
            if table is None or (table.cut and table is not first):
                beside = 1
                break
            rows += table.rows
            if len(table.rows) < page:
                break
        if not rows:
            return
        newest = rows[-1][0].value if rows[-1][0] else last
        page, beside = max(1, min(page, len(first.rows))), 1 if newest == last else min(2 * beside, SIDE_BY_SIDE)
        yield rows, newest, ">" if newest == last else ">="


def open_names(path: Path) -> Names:
    """The index of an endpoint's names. Raises DataError where it is something else."""
    try:
        file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        [(application,)], [(version,)] = file.execute("PRAGMA application_id"), file.execute("PRAGMA user_version")
        if (application, version) != (_APPLICATION, _FORMAT):
            file.close()
            raise DataError(f"{path} is no name index of this version: make it anew in another place")
        return Names(file)
    except sqlite3.Error as error:
        raise DataError(f"{path} is no name index: {error}") from error


class Names:
    """An open index; serves all threads."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def count(self) -> int:
        """How many names it has."""
        with self._lock:
            return int(self._file.execute("SELECT COUNT(*) FROM name").fetchone()[0])

    def search(self, phrase: str) -> list[Match]:
        """Things by their names, each once by its best name, the best first."""
        wanted = phrase_words(phrase)
        asked = [[place, other, score] for place, word in enumerate(wanted) for other, score in self._alike(fold(word))]
        keys = {"".join(map(fold, words)) for words in (split_words(phrase), stems(phrase))}
        asked += [[place, f"#{key}", 1.0] for place in range(len(wanted)) for key in keys]
        given = {"asked": json.dumps(asked), "keys": json.dumps(sorted(keys)), "most": _MOST}
        with self._lock:
            rows = self._file.execute(_SEARCH, given).fetchall()
        found = []
        for iri, text, exact, scores in rows:
            by_place = {int(place): score for place, score in json.loads(scores).items()}
            held = tuple(wanted[place] for place in sorted(by_place))
            score = sum(by_place.values()) / len(wanted) + likeness(phrase, text, exact=exact)
            near = not exact and min(by_place.values()) < 1
            found.append(Match(iri, text, held, bool(exact), score, near))
        return best_of(found)

    @cached_property
    def _words(self) -> Sequence[str]:
        with self._lock:
            return [
                word for (word,) in self._file.execute("SELECT DISTINCT word FROM word WHERE word NOT GLOB '[#=]*'")
            ]

    def _alike(self, word: str) -> list[tuple[str, float]]:
        """Words that may stand for one without its plural's ending, with how much each counts."""
        from rapidfuzz import fuzz, process

        same = {word, f"{word}s", f"{word}es", f"{word}y", f"{word}ies"}
        found = {one: score / 100 * _BEGINS for one, score, _ in process.extract(
            word, self._words, scorer=fuzz.ratio, score_cutoff=_LIKE, limit=_MOST)}  # fmt: skip
        for one in self._words:
            if one in same:
                found[one] = 1.0
            elif len(word) > 2 and one.startswith(word):
                found[one] = _BEGINS
            elif len(word) > 3 and word in one:
                found[one] = _HAS
        found[f"={word}"] = _INITIALS
        return sorted(found.items(), key=lambda pair: (-pair[1], len(pair[0]), pair[0]))[:_MOST]
