"""A cache of good answers, with an age: one SQLite file, or a database that several machines share."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

from kbnav.knowledge.service.exchange import MAX_BODY
from kbnav.runs.database import Run, keep, spared
from kbnav.runs.journal import unpacked

MAX_BYTES = 512 * 1024 * 1024
TRIM_EVERY = 64
"""Stores of one process between two looks at the size; it looks after its first, too."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, stored DOUBLE PRECISION NOT NULL, "
    "size BIGINT NOT NULL, type TEXT NOT NULL, body BYTEA NOT NULL)",
    "CREATE INDEX IF NOT EXISTS answer_by_age ON answer (stored, size)",
)


class HttpCache:
    """Bodies of good answers by request key, each used for ``age`` seconds; at most ``max_bytes`` (compressed).

    ``place`` is a file, or the URL of a PostgreSQL database. Raises UsageError where nothing can be kept there.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        age: float,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._age = age
        self._max_bytes = max_bytes
        self._unkept: list[str] = []
        self._puts = count(1)
        self._kept = keep(place, "the HTTP cache", _TABLES)
        self._clock = clock or self._kept.now

    def get(self, key: str) -> tuple[str, bytes] | None:
        """Content type and body, or None where there is none young enough; what is dated ahead has no known age.

        What somebody else has changed such that it cannot be unpacked is as if it were not there.
        """
        rows = []
        with spared(self._unkept):
            now = self._clock()
            with self._kept.transaction() as run:
                rows = run(
                    "SELECT type, body FROM answer WHERE key = ? AND stored > ? AND stored <= ? AND length(body) <= ?",
                    (key, now - self._age, now, MAX_BODY),
                )
        if not rows or (body := unpacked(rows[0][1], MAX_BODY)) is None:
            return None
        return str(rows[0][0]), body

    def put(self, key: str, content_type: str, body: bytes) -> None:
        """Store a body; now and then the expired ones go, and the oldest until the size is kept.

        Where it cannot be stored, the answer is there all the same: the first time it is told in the log.
        """
        packed = zlib.compress(body, 3)
        with spared(self._unkept):
            now = self._clock()
            with self._kept.transaction() as run:
                run(
                    "INSERT INTO answer VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                    "stored = excluded.stored, size = excluded.size, type = excluded.type, body = excluded.body",
                    (key, now, len(packed), content_type, packed),
                )
                if (number := next(self._puts)) == 1 or number % TRIM_EVERY == 0:
                    self._trim(run, now)

    def _trim(self, run: Run, now: float) -> None:
        run("DELETE FROM answer WHERE stored <= ? OR stored > ?", (now - self._age, now))
        run(
            "DELETE FROM answer WHERE key IN (SELECT key FROM"
            " (SELECT key, sum(size) OVER (ORDER BY stored DESC, key DESC) AS kept FROM answer) AS sized"
            " WHERE kept > ?)",
            (self._max_bytes,),
        )
