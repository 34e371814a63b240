"""What is kept between calls, to be quick, cheap or polite: in small SQLite files under the home folder, or shared."""

from __future__ import annotations

import atexit
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbnav.errors import UsageError
from kbnav.postgres import Run, alone, execute, open_postgres
from kbnav.private import private_file

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_LOG = logging.getLogger("kbnav.home")
_SCHEMA = "kbnav_shared"
_PATIENCE = 5.0
"""Seconds for which a database that is away is waited for."""


class Kept(Protocol):
    """A place for small tables, safe for threads and processes. Statements are such as both databases read."""

    def transaction(self, *, lock: bool = False) -> AbstractContextManager[Run]:
        """Statements of which all count or none; with ``lock`` one transaction after another. Raises UsageError."""
        ...

    def now(self) -> float:
        """Seconds since 1970 by the clock that all who share the place go by."""
        ...


class KeptHere:
    """A file, with a connection of its own for each transaction: safe for processes that fork, too."""

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
    def transaction(self, *, lock: bool = False) -> Iterator[Run]:
        """As the protocol says."""
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
        """As the protocol says."""
        return time.time()


class KeptTogether:
    """A PostgreSQL database, in a schema of its own."""

    def __init__(self, url: str, holds: str, tables: Sequence[str]) -> None:
        """``holds`` as of ``KeptHere``. Raises UsageError where the database cannot be reached or used."""
        self._holds = holds
        self._pool = _pool(url)
        with self._failures(), alone(self._pool):
            for statement in (f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *tables):
                self._pool_run(statement)

    @contextmanager
    def transaction(self, *, lock: bool = False) -> Iterator[Run]:
        """As the protocol says."""
        with self._failures(), self._pool.connection(_PATIENCE) as connection, connection.transaction():
            connection.execute(f"SET LOCAL search_path TO {_SCHEMA}")
            if lock:
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._holds,))
            yield partial(execute, connection)

    def now(self) -> float:
        """As the protocol says: the clock of the database."""
        with self.transaction() as run:
            return float(run("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def _pool_run(self, statement: str) -> None:
        with self.transaction() as run:
            run(statement)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        from psycopg import Error
        from psycopg_pool import PoolTimeout

        try:
            yield
        except (Error, PoolTimeout) as error:  # its text may hold the address, and that the password
            raise UsageError(f"cannot keep {self._holds} in the database of shared: {type(error).__name__}") from error


@cache
def _pool(url: str) -> ConnectionPool[Any]:
    """One for a process and a database, which is closed with the process."""
    pools = ExitStack()
    atexit.register(pools.close)
    return pools.enter_context(open_postgres(url, "shared"))


def keep(place: Path | str, holds: str, tables: Sequence[str]) -> Kept:
    """The tables in a file, or in the database of a URL. Raises UsageError."""
    return KeptHere(place, holds, tables) if isinstance(place, Path) else KeptTogether(place, holds, tables)


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
