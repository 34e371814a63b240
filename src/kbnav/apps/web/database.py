"""The one thing that the two databases share: a statement with ``?`` for its values, run alone, and its rows."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbnav.errors import UsageError

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

Rows = list[tuple[Any, ...]]
_TABLES = 0x6B626E6176
"""A number that stands for kbnav's tables."""


class Database(Protocol):
    """Runs one statement at a time, each of them whole or not at all; called from several threads."""

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """The rows of a statement, or those of its RETURNING."""
        ...


class SqliteDatabase:
    """A file of one server."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """As the protocol says."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()


class PostgresDatabase:
    """A database that several servers share."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """As the protocol says."""
        with self._pool.connection() as connection:
            cursor = connection.execute(statement.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def open_sqlite(path: Path) -> Iterator[SqliteDatabase]:
    """A database file, made where there is none. Raises UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        path.chmod(0o600)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"cannot open {path}: {error}") from error
    try:
        yield SqliteDatabase(connection)
    finally:
        connection.close()


@contextmanager
def open_postgres(url: str) -> Iterator[ConnectionPool[Any]]:
    """Connections to a PostgreSQL database, each in autocommit mode. Raises UsageError."""
    from psycopg import Error
    from psycopg_pool import ConnectionPool, PoolTimeout

    try:
        pool: ConnectionPool[Any] = ConnectionPool(
            url, min_size=1, max_size=10, open=False, kwargs={"autocommit": True, "prepare_threshold": 0}
        )
        pool.open(wait=True, timeout=15)
    except (Error, PoolTimeout) as error:  # its text may hold the URL, and that the password
        raise UsageError(f"cannot reach the database of web.database: {type(error).__name__}") from error
    with pool:
        yield pool


@contextmanager
def alone(pool: ConnectionPool[Any]) -> Iterator[None]:
    """Make tables one server after another: at the same time, PostgreSQL would refuse one of them.

    The lock is tried and not waited for, because an index that is built beside other work waits for whoever waits.
    """
    with pool.connection() as connection:
        while not connection.execute("SELECT pg_try_advisory_lock(%s)", (_TABLES,)).fetchone()[0]:
            time.sleep(0.1)
        try:
            yield
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_TABLES,))
