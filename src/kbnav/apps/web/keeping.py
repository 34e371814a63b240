"""Results in the database: their rows in parts, as many as their owner may have, and read a few at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kbnav.apps.web.database import Database, kept_json
from kbnav.apps.web.results import PART, Kept, Result, kept, order
from kbnav.runs.database import Run

KEPT = 200_000_000
"""Bytes of one owner's results, where nothing else is said."""
AT_HAND = 16
"""Results of which the order of the rows is not worked out again."""
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS web_results (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, kb TEXT NOT NULL, language TEXT NOT NULL, session TEXT NOT NULL,
        made DOUBLE PRECISION NOT NULL, document TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS web_parts (
        result TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (result, number))""",
    # How much each owner's results take; rows go, oldest first, where it is more than they may.
    """CREATE TABLE IF NOT EXISTS web_kept (
        result TEXT PRIMARY KEY, owner TEXT NOT NULL, parts INTEGER NOT NULL, last INTEGER NOT NULL,
        bytes BIGINT NOT NULL, made DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS web_kept_owner ON web_kept (owner, made)",
)


@dataclass(frozen=True)
class StoredResult:
    """A table or ranking that pages are served from; ``document`` is that of ``results.to_document``."""

    id: str
    owner: str
    kb: str
    language: str
    session: str
    document: Mapping[str, Any]


class Results:
    """Keeps tables and rankings, and reads them; threads may share it."""

    def __init__(self, database: Database) -> None:
        self._run, self._together = database.run, database.together
        self._order = lru_cache(AT_HAND)(self._sort)

    def keep(self, head: StoredResult, result: Result, most: int) -> int:
        """Keep a result; how many of its rows were, where an owner's results may take ``most`` bytes."""
        rows = len(result.table.rows) if result.ranking is None else 0
        return self.add(head, result.parts(), rows=rows, most=most)

    def add(self, head: StoredResult, parts: Iterable[str] = (), *, rows: int = 0, most: int = KEPT) -> int:
        """Keep a table or ranking, whose ``rows`` rows come in ``parts``; one of the same id is replaced.

        An owner's results take ``most`` bytes at most: rows of the oldest are forgotten, and of one that is larger by
        itself only its first are kept. Returns how many rows were.
        """
        document = json.dumps(head.document)
        forget_rows(self._run, head.id)
        number, size = 0, len(document)
        for part in parts:
            if size + len(part) > most:
                break
            self._run("INSERT INTO web_parts (result, number, data) VALUES (?, ?, ?)", (head.id, number, part))
            number, size = number + 1, size + len(part)
        count = min(rows, number * PART)
        last = count - (number - 1) * PART if number else 0
        with self._together(f"results of {head.owner}") as run:
            run(
                "INSERT INTO web_results (id, owner, kb, language, session, made, document) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document",
                (head.id, head.owner, head.kb, head.language, head.session, time.time(), document),
            )
            run(
                "INSERT INTO web_kept (result, owner, parts, last, bytes, made) VALUES (?, ?, ?, ?, ?, ?)",
                (head.id, head.owner, number, last, size, time.time()),
            )
            _forget_oldest(run, head.owner, most, but=head.id)
        return count

    def owner(self, result_id: str) -> str | None:
        """Whose a table or ranking is."""
        rows = self._run("SELECT owner FROM web_results WHERE id = ?", (result_id,))
        return str(rows[0][0]) if rows else None

    def find(self, result_id: str) -> tuple[StoredResult, Kept] | None:
        """A result whose rows are read when they are asked for; None where there is none."""
        head = self._head(result_id)
        if head is None:
            return None
        parts, last = self.parts(result_id)
        return head, kept(head.document, parts, partial(self.part, result_id), last)

    def _head(self, result_id: str) -> StoredResult | None:
        rows = self._run(
            "SELECT id, owner, kb, language, session, document FROM web_results WHERE id = ?", (result_id,)
        )
        if not rows:
            return None
        found, owner, kb, language, session, document = rows[0]
        return StoredResult(found, owner, kb, language, session, kept_json(document))

    def parts(self, result_id: str) -> tuple[int, int]:
        """How many parts of a result are kept, and how many rows are in the last of them."""
        rows = self._run("SELECT parts, last FROM web_kept WHERE result = ?", (result_id,))
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)

    def part(self, result_id: str, number: int) -> str | None:
        """Some rows of a result, by the number of their part from 0 on; None where they are not kept."""
        rows = self._run("SELECT data FROM web_parts WHERE result = ? AND number = ?", (result_id, number))
        return str(rows[0][0]) if rows else None

    def order(self, result_id: str, column: str, descending: bool) -> Sequence[int]:
        """The numbers of a result's rows, sorted by a column. Raises KeyError where the result is gone."""
        return self._order(result_id, column, descending)

    def _sort(self, result_id: str, column: str, descending: bool) -> Sequence[int]:
        found = self.find(result_id)
        if found is None:
            raise KeyError(result_id)
        return order(found[1], column, descending)


def forget_rows(run: Run, result_id: str) -> None:
    """Forget a result's rows; that there was one is still known."""
    run("DELETE FROM web_parts WHERE result = ?", (result_id,))
    run("DELETE FROM web_kept WHERE result = ?", (result_id,))


def _forget_oldest(run: Run, owner: str, most: int, but: str) -> None:
    """Forget rows of an owner's results until these take ``most`` bytes or less: first of those without a session."""
    kept = run(
        "SELECT k.result, k.bytes FROM web_kept k JOIN web_results r ON r.id = k.result "
        "WHERE k.owner = ? ORDER BY r.session <> '', k.made",
        (owner,),
    )
    size = sum(size for _, size in kept)
    for result_id, taken in kept:
        if size <= most:
            return
        if result_id != but:
            forget_rows(run, result_id)
            size -= taken
