"""Small tables between calls, to be quick, cheap or polite: in SQLite files under the home folder, or in PostgreSQL."""

from __future__ import annotations

import atexit
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import UsageError
from kbnav.runs.journal import private_file
from kbnav.settings.plugins import needs

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool


Rows = list[tuple[Any, ...]]
Execute = Callable[..., Rows]
"""Runs a statement with ``?`` for its values."""
_PATIENCE = 5.0
"""Seconds for which a database that is away is waited for."""
_TABLES = 0x6B626E6176
"""A number that stands for kbnav's tables."""


def execute(connection: Connection[Any], statement: str, values: Sequence[object] = ()) -> Rows:
    """The rows of a statement, or those of its RETURNING."""
    cursor = connection.execute(statement.replace("?", "%s"), values)
    return cursor.fetchall() if cursor.description else []


@contextmanager
def open_postgres(url: str) -> Iterator[ConnectionPool[Any]]:
    """Connections to a PostgreSQL database, each in autocommit mode. Raises UsageError."""
    with needs("postgres", "the setting database"):
        from psycopg import Error
        from psycopg_pool import ConnectionPool, PoolTimeout

    try:
        pool: ConnectionPool[Any] = ConnectionPool(
            url, min_size=1, max_size=10, open=False, kwargs={"autocommit": True, "prepare_threshold": 0},
            timeout=_PATIENCE, check=ConnectionPool.check_connection,
        )  # fmt: skip
        pool.open(wait=True, timeout=15)
    except (Error, PoolTimeout) as error:  # its text may hold the URL, and that the password
        raise UsageError(f"cannot reach the database: {type(error).__name__}") from error
    with pool:
        yield pool


@contextmanager
def alone(pool: ConnectionPool[Any]) -> Iterator[None]:
    """Make tables one server after another; the lock is tried, as PostgreSQL builds no index while one waits."""
    with pool.connection() as connection:
        while not connection.execute("SELECT pg_try_advisory_lock(%s)", (_TABLES,)).fetchone()[0]:
            time.sleep(0.1)
        try:
            yield
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_TABLES,))


_LOG = logging.getLogger("kbnav.home")
_SCHEMA = "kbnav_shared"


class SQLiteTables:
    """A file, with a connection of its own for each transaction: safe for threads, and for processes that fork."""

    def __init__(self, path: Path, holds: str, tables: Sequence[str]) -> None:
        """``holds`` names what is kept here for a person. Raises UsageError where it cannot be."""
        self._path, self._holds = path, holds
        try:
            private_file(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot keep {holds} here ({error}); set KBNAV_HOME") from error
        with self.transaction() as run:
            for statement in tables:
                run(statement)

    @contextmanager
    def transaction(self, *, lock: bool = False) -> Iterator[Execute]:
        """Statements of which all count or none; with ``lock`` one transaction after another. Raises UsageError."""
        try:
            with closing(sqlite3.connect(self._path, timeout=30.0)) as database:
                database.execute("PRAGMA synchronous = OFF")
                if lock:
                    database.execute("BEGIN IMMEDIATE")
                with database:
                    yield lambda statement, values=(): database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            what = "move the file away" if damaged(error) else "set KBNAV_HOME"
            raise UsageError(f"{self._path}: cannot keep {self._holds} here ({error}); {what}") from error

    def now(self) -> float:
        """Seconds since 1970 by the clock that all who share the place go by."""
        return time.time()


class PostgresTables:
    """A PostgreSQL database, in a schema of its own."""

    def __init__(self, url: str, holds: str, tables: Sequence[str]) -> None:
        """``holds`` as of ``SQLiteTables``. Raises UsageError where the database cannot be reached or used."""
        self._holds = holds
        self._pool = _pool(url)
        with self._failures(), alone(self._pool):
            for statement in (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *tables):
                with self.transaction() as run:
                    run(statement)

    @contextmanager
    def transaction(self, *, lock: bool = False) -> Iterator[Execute]:
        """As of ``SQLiteTables``."""
        with self._failures(), self._pool.connection(_PATIENCE) as connection, connection.transaction():
            connection.execute(f"SET LOCAL search_path TO {_SCHEMA}")
            if lock:
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._holds,))
            yield partial(execute, connection)

    def now(self) -> float:
        """As of ``SQLiteTables``: the clock of the database."""
        with self.transaction() as run:
            return float(run("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    @contextmanager
    def _failures(self) -> Iterator[None]:
        from psycopg import Error
        from psycopg_pool import PoolTimeout

        try:
            yield
        except (Error, PoolTimeout) as error:  # its text may hold the address, and that the password
            raise UsageError(f"cannot keep {self._holds} in the database: {type(error).__name__}") from error


@cache
def _pool(url: str) -> ConnectionPool[Any]:
    pools = ExitStack()
    atexit.register(pools.close)
    return pools.enter_context(open_postgres(url))


def open_tables(place: Path | str, holds: str, tables: Sequence[str]) -> SQLiteTables | PostgresTables:
    """Small tables in a file, or in the database of a URL; statements are such as both read. Raises UsageError."""
    return SQLiteTables(place, holds, tables) if isinstance(place, Path) else PostgresTables(place, holds, tables)


@contextmanager
def best_effort(warned: list[str]) -> Iterator[None]:
    """End nothing where something cannot be stored; logged, and in ``warned``. Raises UsageError for damage."""
    try:
        yield
    except UsageError as error:
        if damaged(error.__cause__):
            raise
        if not warned:
            warned.append(str(error))
            _LOG.warning("%s", error)


def damaged(error: BaseException | None) -> bool:
    """Whether SQLite found that a file is none of its own, or is torn; a full disk is no damage."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
