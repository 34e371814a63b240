"""Bytes by key: replies of models, vectors of texts, whatever is dear to make and never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kbnav.runs.database import keep, spared

_TABLES = ("CREATE TABLE IF NOT EXISTS blob (key TEXT PRIMARY KEY, body BYTEA NOT NULL)",)
_AT_ONCE = 500  # keys of one query, below what SQLite allows


class Blobs:
    """A SQLite file or PostgreSQL database, safe for threads and processes. What is stored first under a key stays."""

    def __init__(self, place: Path | str, holds: str) -> None:
        """In a file, or the database of a URL; ``holds`` says what is kept, in the message of a failure.

        Raises UsageError where it cannot be kept there.
        """
        self._unkept: list[str] = []
        self._kept = keep(place, holds, _TABLES)

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those keys that are there."""
        found: dict[str, bytes] = {}
        with self._kept.transaction() as run:
            for first in range(0, len(keys), _AT_ONCE):
                some = keys[first : first + _AT_ONCE]
                marks = ",".join("?" * len(some))
                found.update(run(f"SELECT key, body FROM blob WHERE key IN ({marks})", some))
        return found

    def put(self, bodies: Mapping[str, bytes], *, replace: bool = False) -> None:
        """Store bytes under keys that have none yet, or ``replace`` what they have.

        That they cannot be stored is told in the log, the first time.
        """
        then = "UPDATE SET body = excluded.body" if replace else "NOTHING"
        with spared(self._unkept), self._kept.transaction() as run:
            for key, body in bodies.items():
                run(f"INSERT INTO blob VALUES (?, ?) ON CONFLICT (key) DO {then}", (key, body))
