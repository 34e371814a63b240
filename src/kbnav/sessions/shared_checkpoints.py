"""Chat sessions in PostgreSQL, where several servers share them; needs the extra ``postgres``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.base import get_checkpoint_id
from langgraph.checkpoint.postgres import PostgresSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

_ORDER = "ALTER TABLE checkpoints ADD COLUMN IF NOT EXISTS written BIGSERIAL"
_LAST = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY written DESC LIMIT 1"
)


class SharedSessions(PostgresSaver):
    """LangGraph's saver, which goes on with what was written last, as ``Sessions`` does.

    LangGraph takes the greatest id, which tells the time: servers' clocks differ and are put back, and what was said
    since would be lost.
    """

    def setup(self) -> None:
        """As LangGraph's, and checkpoints get a number as they are written."""
        super().setup()
        with self._cursor() as cursor:
            cursor.execute(_ORDER)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's, but the last is what was written last."""
        given = config["configurable"]
        if get_checkpoint_id(config):
            return super().get_tuple(config)
        of = str(given["thread_id"]), given.get("checkpoint_ns", "")
        with self._cursor() as cursor:
            found = cursor.execute(_LAST, of).fetchone()
        if found is None:
            return None
        last = {**given, "checkpoint_ns": of[1], "checkpoint_id": found["checkpoint_id"]}
        return super().get_tuple({"configurable": last})
