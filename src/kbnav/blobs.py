"""Bytes by key on disk: replies of models, vectors of texts, whatever is dear to make and never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.knowledge.service.database import spared, transaction
from kbnav.private import private_file

_SCHEMA = "CREATE TABLE IF NOT EXISTS blob (key TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID"
_AT_ONCE = 500  # keys of one query, below what SQLite allows


class Blobs:
    """One SQLite file, safe for threads and processes. What is stored first under a key stays."""

    def __init__(self, path: Path, holds: str) -> None:
        """``holds`` says what is kept here, in the message of a failure. Raises UsageError where it cannot be."""
        self._path, self._holds = path, holds
        self._unkept: list[str] = []
        try:
            private_file(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot keep {holds} here ({error}); set KBNAV_HOME") from error
        with transaction(path, holds) as database:
            database.execute(_SCHEMA)

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those keys that are there."""
        found: dict[str, bytes] = {}
        with transaction(self._path, self._holds) as database:
            for first in range(0, len(keys), _AT_ONCE):
                some = keys[first : first + _AT_ONCE]
                marks = ",".join("?" * len(some))
                found.update(database.execute(f"SELECT key, body FROM blob WHERE key IN ({marks})", some))
        return found

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Store bytes under keys that have none yet; that they cannot be stored is told in the log, the first time."""
        with spared(self._unkept), transaction(self._path, self._holds) as database:
            database.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?)", bodies.items())
