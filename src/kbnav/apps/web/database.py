"""What the two databases share: statements with ``?`` for their values, run alone or several as one, and their rows."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbnav.errors import DataError, UsageError
from kbnav.runs.database import Rows, Run, execute
from kbnav.runs.journal import private_file

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_LOCKS = 0x6B626E
"""A number that stands for the locks of ``together``, which PostgreSQL keeps apart from that of the tables."""


class Database(Protocol):
    """Runs statements, each of them whole or not at all; called from several threads."""

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """The rows of a statement, or those of its RETURNING."""
        ...

    def in_turn(self, lock: str, statement: str, values: Sequence[object] = ()) -> Rows:
        """As ``run``, but one after another with all others of the same ``lock``, as of ``together``."""
        ...

    def together(self, lock: str) -> AbstractContextManager[Run]:
        """Several statements as one: all of them or none, and one after another with all others of the same ``lock``.

        What is yielded runs a statement; another server's that wait for the lock see what was done under it.
        """
        ...


def kept_json(text: str, *kinds: type) -> Any:
    """JSON of a column, of one of some types; by default an object.

    Raises DataError where it is nothing such, since somebody else has changed it.
    """
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError("what the server's database has kept of this was damaged: it is no JSON") from error
    if not isinstance(value, kinds or dict):
        raise DataError("what the server's database has kept of this was damaged: it is JSON of another type")
    return value


class SqliteDatabase:
    """A file of one server."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """As the protocol says."""
        with self._lock:
            return self._execute(statement, values)

    def in_turn(self, lock: str, statement: str, values: Sequence[object] = ()) -> Rows:  # noqa: ARG002 - there is one
        """As the protocol says."""
        return self.run(statement, values)

    @contextmanager
    def together(self, lock: str) -> Iterator[Run]:  # noqa: ARG002 - a file has one writer, so there is one lock
        """As the protocol says."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # commits, or rolls back where something is raised
                yield self._execute

    def _execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        return self._connection.execute(statement, values).fetchall()


class PostgresDatabase:
    """A database that several servers share."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """As the protocol says."""
        with self._pool.connection() as connection:
            return execute(connection, statement, values)

    def in_turn(self, lock: str, statement: str, values: Sequence[object] = ()) -> Rows:
        """As the protocol says."""
        with self.together(lock) as run:
            return run(statement, values)

    @contextmanager
    def together(self, lock: str) -> Iterator[Run]:
        """As the protocol says; a statement sees what was committed before it, so the lock is a statement before."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCKS, lock))
            yield partial(execute, connection)


@contextmanager
def open_sqlite(path: Path) -> Iterator[SqliteDatabase]:
    """A database file, made where there is none. Raises UsageError."""
    try:
        private_file(path).chmod(0o600)  # an older one may be open to others
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"cannot open {path}: {error}") from error
    try:
        yield SqliteDatabase(connection)
    finally:
        connection.close()
