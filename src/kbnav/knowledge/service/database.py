"""The small SQLite files under the home folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kbnav.errors import UsageError


@contextmanager
def transaction(path: Path, holds: str) -> Iterator[sqlite3.Connection]:
    """One transaction on a connection of its own: safe for threads, and for processes that fork.

    Raises UsageError where the file, which ``holds`` names for a person, cannot be used.
    """
    try:
        with closing(sqlite3.connect(path, timeout=30.0)) as database:
            database.execute("PRAGMA synchronous = OFF")
            with database:
                yield database
    except sqlite3.Error as error:
        raise UsageError(f"{path}: cannot keep {holds} here ({error}); set KBNAV_HOME") from error
