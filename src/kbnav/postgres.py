"""PostgreSQL, where several machines share what one keeps in files: connections, statements, tables made once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kbnav.errors import UsageError
from kbnav.extras import needs

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

Rows = list[tuple[Any, ...]]
Run = Callable[..., Rows]
"""Runs a statement with ``?`` for its values."""
_TABLES = 0x6B626E6176
"""A number that stands for kbnav's tables."""


def execute(connection: Connection[Any], statement: str, values: Sequence[object] = ()) -> Rows:
    """The rows of a statement, or those of its RETURNING."""
    cursor = connection.execute(statement.replace("?", "%s"), values)
    return cursor.fetchall() if cursor.description else []


@contextmanager
def open_postgres(url: str, setting: str = "web.database") -> Iterator[ConnectionPool[Any]]:
    """Connections to a PostgreSQL database, each in autocommit mode; ``setting`` names it. Raises UsageError."""
    with needs("postgres", setting):
        from psycopg import Error
        from psycopg_pool import ConnectionPool, PoolTimeout

    try:
        pool: ConnectionPool[Any] = ConnectionPool(
            url, min_size=1, max_size=10, open=False, kwargs={"autocommit": True, "prepare_threshold": 0}
        )
        pool.open(wait=True, timeout=15)
    except (Error, PoolTimeout) as error:  # its text may hold the URL, and that the password
        raise UsageError(f"cannot reach the database of {setting}: {type(error).__name__}") from error
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
