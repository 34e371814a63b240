"""What readers think of answers."""

from __future__ import annotations

import time
from types import NoneType
from typing import Any

from kbnav.apps.web.database import Database, kept_json

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS web_opinions (
        run TEXT PRIMARY KEY, thumb TEXT NOT NULL, note TEXT NOT NULL, made DOUBLE PRECISION NOT NULL)""",
)


class Opinions:
    """At most one on each run."""

    def __init__(self, database: Database) -> None:
        self._run = database.run

    def keep(self, run_id: str, thumb: str, note: str) -> None:
        """Keep what a reader thinks of an answer, instead of what they thought before; nothing where both are empty."""
        if not thumb and not note:
            self._run("DELETE FROM web_opinions WHERE run = ?", (run_id,))
            return
        self._run(
            "INSERT INTO web_opinions (run, thumb, note, made) VALUES (?, ?, ?, ?) ON CONFLICT (run) "
            "DO UPDATE SET thumb = excluded.thumb, note = excluded.note, made = excluded.made",
            (run_id, thumb, note, time.time()),
        )

    def of(self, run_id: str) -> tuple[str, str]:
        """Thumb and note on a run; empty ones where nobody has given any."""
        rows = self._run("SELECT thumb, note FROM web_opinions WHERE run = ?", (run_id,))
        return (rows[0][0], rows[0][1]) if rows else ("", "")

    def every(self) -> list[dict[str, Any]]:
        """Every opinion with the question and the answer it is on, oldest first."""
        rows = self._run(
            "SELECT r.id, r.kb, r.system, r.model, r.question, r.answer, o.thumb, o.note, o.made "
            "FROM web_opinions o JOIN web_runs r ON r.id = o.run ORDER BY o.made"
        )
        names = ("run", "kb", "system", "model", "question", "answer", "thumb", "note", "at")
        records = [dict(zip(names, row, strict=True)) for row in rows]
        return [{**record, "answer": kept_json(record["answer"], dict, NoneType)} for record in records]
