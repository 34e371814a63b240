"""Chat sessions in a SQLite file, which may become full, read-only or damaged while they are used; or in PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import get_checkpoint_id
from langgraph.checkpoint.sqlite import SqliteSaver

from kbnav.errors import UsageError
from kbnav.runs.database import damaged

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg_pool import ConnectionPool


T = TypeVar("T")
_TABLES = ("checkpoints", "writes")
_LAST = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY rowid DESC LIMIT 1"
_ORDER = "ALTER TABLE checkpoints ADD COLUMN IF NOT EXISTS written BIGSERIAL"
_LAST_SHARED = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY written DESC LIMIT 1"
)


class Sessions(SqliteSaver):
    """LangGraph's saver, whose failures are one line that names the file.

    With ``on_loss`` it is one session's: where the file can no longer be written, the session is copied into memory
    and goes on there, and ``on_loss`` is given the line.
    """

    def __init__(self, path: Path, serde: SerializerProtocol, on_loss: Callable[[str], None] | None = None) -> None:
        """Raises UsageError where there is no opening the file, or it is no database."""
        self._path, self._on_loss = path, on_loss
        try:
            connection = sqlite3.connect(path, check_same_thread=False)
            # The log is written after each node, and reaches the disk later: a killed process loses nothing, and no
            # session waits for another's disk.
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            raise self._told(error) from error
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError:  # a disk that is full or may not be written is told of where it matters
            pass
        except sqlite3.Error as error:
            connection.close()
            raise self._told(error) from error
        super().__init__(connection, serde=serde)

    def close(self) -> None:
        """Close the file."""
        self.conn.close()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """As LangGraph's. Raises UsageError."""
        try:
            with super().cursor(transaction) as cursor:
                yield cursor
        except sqlite3.Error as error:
            raise self._told(error) from error

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's, but the last is what was written last. Raises UsageError.

        LangGraph takes the greatest id, which tells the time: where the clock was put back, that is an old one, and
        all that was said since would be lost.
        """
        return self._going_on(config, lambda: super(Sessions, self).get_tuple(self._last(config)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, str | int | float],
    ) -> RunnableConfig:
        """As LangGraph's. Raises UsageError."""
        return self._going_on(config, lambda: super(Sessions, self).put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As LangGraph's. Raises UsageError."""
        self._going_on(config, lambda: super(Sessions, self).put_writes(config, writes, task_id, task_path))

    def _going_on(self, config: RunnableConfig, work: Callable[[], T]) -> T:
        try:
            return work()
        except UsageError as error:
            if self._on_loss is None or damaged(error.__cause__):
                raise
            told, self._on_loss = self._on_loss, None
            told(f"{error}; the session goes on, and cannot be gone on with later")
            self._move_to_memory(str(config["configurable"]["thread_id"]))
            return work()

    def _last(self, config: RunnableConfig) -> RunnableConfig:
        """The same, with the checkpoint named that was written last, if any."""
        given = config["configurable"]
        if get_checkpoint_id(config):
            return config
        of = str(given["thread_id"]), given.get("checkpoint_ns", "")
        with self.cursor(transaction=False) as cursor:
            found = cursor.execute(_LAST, of).fetchone()
        return {"configurable": {**given, "checkpoint_ns": of[1], "checkpoint_id": found[0]}} if found else config

    def _move_to_memory(self, session: str) -> None:
        with self.lock, suppress(sqlite3.Error):
            self.conn.rollback()
            self.conn.close()
        self.conn = sqlite3.connect(":memory:", check_same_thread=False)
        self.is_setup = False
        self.setup()
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as file:
            for table in _TABLES:
                rows = file.execute(f"SELECT * FROM {table} WHERE thread_id = ? ORDER BY rowid", (session,)).fetchall()
                if rows:
                    self.conn.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
        self.conn.commit()

    def _told(self, error: sqlite3.Error) -> UsageError:
        return UsageError(f"{self._path}: cannot keep chat sessions here ({error})")


def shared_sessions(pool: ConnectionPool[Any], serde: SerializerProtocol) -> BaseCheckpointSaver[Any]:
    """Sessions in PostgreSQL, which go on with what was written last, as ``Sessions`` do: servers' clocks differ.

    Needs the extra ``postgres``.
    """
    from langgraph.checkpoint.postgres import PostgresSaver

    class SharedSessions(PostgresSaver):
        def setup(self) -> None:
            super().setup()
            with self._cursor() as cursor:
                cursor.execute(_ORDER)  # checkpoints get a number as they are written

        def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
            given = config["configurable"]
            if get_checkpoint_id(config):
                return super().get_tuple(config)
            of = str(given["thread_id"]), given.get("checkpoint_ns", "")
            with self._cursor() as cursor:
                found = cursor.execute(_LAST_SHARED, of).fetchone()
            if found is None:
                return None
            last = {**given, "checkpoint_ns": of[1], "checkpoint_id": found["checkpoint_id"]}
            return super().get_tuple({"configurable": last})

    saver = SharedSessions(pool, serde=serde)
    saver.setup()
    return saver
