"""Chat sessions in a SQLite file or in PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.sqlite import SqliteSaver

from kbnav.errors import UsageError

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg_pool import ConnectionPool


_LAST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY rowid DESC LIMIT 1"
_ORDER = "ALTER TABLE checkpoints ADD COLUMN IF NOT EXISTS written BIGSERIAL"
_LAST_SHARED = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY written DESC LIMIT 1"
)


class Sessions(SqliteSaver):
    """LangGraph's saver, whose failures are one line that names the file."""

    def __init__(self, path: Path, serde: SerializerProtocol) -> None:
        """Raises UsageError where there is no opening the file, or it is no database."""
        self._path = path
        try:
            connection = sqlite3.connect(path, check_same_thread=False)
            # The log is written after each node, and reaches the disk later: a killed process loses nothing, and no
            # session waits for another's disk.
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            raise self._failure(error) from error
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError:  # a disk that is full or may not be written is told of where it matters
            pass
        except sqlite3.Error as error:
            connection.close()
            raise self._failure(error) from error
        super().__init__(connection, serde=serde)

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self.conn.close()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """As LangGraph's. Raises UsageError."""
        try:
            with super().cursor(transaction) as cursor:
                yield cursor
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's, but the last is what was written last. Raises UsageError."""
        with self.cursor(transaction=False) as cursor:
            config = _with_last(config, lambda of: cursor.execute(_LAST, of).fetchone())
        return super().get_tuple(config)

    def _failure(self, error: sqlite3.Error) -> UsageError:
        return UsageError(f"{self._path}: cannot keep chat sessions here ({error})")


def _with_last(config: RunnableConfig, last: Callable[[tuple[str, str]], Any]) -> RunnableConfig:
    """The same, with the checkpoint named that was written last, if any; ``last`` looks for it.

    LangGraph takes the greatest id, which tells the time: where the clock was put back, that is an old one, and all
    that was said since would be lost.
    """
    given = config["configurable"]
    of = str(given["thread_id"]), given.get("checkpoint_ns", "")
    found = None if get_checkpoint_id(config) else last(of)
    return {"configurable": {**given, "checkpoint_ns": of[1], "checkpoint_id": found[0]}} if found else config


def shared_sessions(pool: ConnectionPool[Any], serde: SerializerProtocol) -> BaseCheckpointSaver[Any]:
    """Sessions in PostgreSQL that go on with what was written last: clocks differ. Needs the extra ``postgres``."""
    from langgraph.checkpoint.postgres import PostgresSaver

    class SharedSessions(PostgresSaver):
        def setup(self) -> None:
            super().setup()
            with self._cursor() as cursor:
                cursor.execute(_ORDER)  # checkpoints get a number as they are written

        def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
            with self._cursor() as cursor:
                config = _with_last(config, lambda of: [*(cursor.execute(_LAST_SHARED, of).fetchone() or {}).values()])
            return super().get_tuple(config)

    saver = SharedSessions(pool, serde=serde)
    saver.setup()
    return saver
