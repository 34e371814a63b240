"""An on-disk cache of good answers, with an age: one SQLite file, safe for threads and processes."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.knowledge.service.database import spared, transaction
from kbnav.private import private_file

MAX_BYTES = 512 * 1024 * 1024
TRIM_EVERY = 64
"""Stores between two looks at the size."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answer (
    key TEXT PRIMARY KEY, stored REAL NOT NULL, size INTEGER NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS answer_by_age ON answer (stored, size)"


class HttpCache:
    """Bodies of good answers by request key, each used for ``age`` seconds; at most ``max_bytes`` (compressed)."""

    def __init__(
        self, path: Path, *, age: float, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._age = age
        self._max_bytes = max_bytes
        self._clock = clock
        self._unkept: list[str] = []
        try:
            private_file(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot keep the HTTP cache here ({error}); set KBNAV_HOME") from error
        with transaction(self._path, "the HTTP cache") as database:
            database.execute(_SCHEMA)
            database.execute(_INDEX)

    def get(self, key: str) -> tuple[str, bytes] | None:
        """Content type and body, or None where there is none young enough; what is dated ahead has no known age."""
        now = self._clock()
        row = None
        with spared(self._unkept), transaction(self._path, "the HTTP cache") as database:
            row = database.execute(
                "SELECT type, body FROM answer WHERE key = ? AND stored > ? AND stored <= ?",
                (key, now - self._age, now),
            ).fetchone()
        return None if row is None else (row[0], zlib.decompress(row[1]))

    def put(self, key: str, content_type: str, body: bytes) -> None:
        """Store a body; now and then the expired ones go, and the oldest until the size is kept.

        Where it cannot be stored, the answer is there all the same: the first time it is told in the log.
        """
        packed = zlib.compress(body, 3)
        now = self._clock()
        with spared(self._unkept), transaction(self._path, "the HTTP cache") as database:
            row = database.execute(
                "INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?, ?)", (key, now, len(packed), content_type, packed)
            ).lastrowid
            if (row or 0) % TRIM_EVERY == 0:
                self._trim(database, now)

    def _trim(self, database: sqlite3.Connection, now: float) -> None:
        database.execute("DELETE FROM answer WHERE stored <= ? OR stored > ?", (now - self._age, now))
        database.execute(
            "DELETE FROM answer WHERE rowid IN (SELECT rowid FROM"
            " (SELECT rowid, sum(size) OVER (ORDER BY stored DESC, rowid DESC) AS kept FROM answer) WHERE kept > ?)",
            (self._max_bytes,),
        )
