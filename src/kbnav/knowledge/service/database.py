"""The small SQLite files under the home folder."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kbnav.errors import UsageError

_LOG = logging.getLogger("kbnav.home")


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
        what = "move the file away" if damaged(error) else "set KBNAV_HOME"
        raise UsageError(f"{path}: cannot keep {holds} here ({error}); {what}") from error


@contextmanager
def spared(told: list[str]) -> Iterator[None]:
    """What is kept to be quick or cheap the next time, and cannot be kept, ends nothing that is under way now.

    The first failure is told in the log, and put into ``told``. Raises UsageError where the file is damaged.
    """
    try:
        yield
    except UsageError as error:
        if damaged(error.__cause__):
            raise
        if not told:
            told.append(str(error))
            _LOG.warning("%s", error)


def damaged(error: BaseException | None) -> bool:
    """Whether SQLite found that a file is none of its own, or is torn; a full disk is no damage."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
