"""Runs saved whole, for the evidence behind rows and for downloads: in the database that servers share, or in files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Protocol

from kbnav.apps.web.database import Database
from kbnav.errors import DataError, UsageError
from kbnav.runs.database import Run as Statement
from kbnav.runs.journal import LARGEST, unpacked
from kbnav.runs.trajectory import Run, load_run, parse_run, save_run, to_json

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS web_saved (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, document BYTEA NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS web_saved_run ON web_saved (run)",
)


class Saved(Protocol):
    """Keeps records of runs under ids of their own; ``run_id`` is that of the question as the server knows it."""

    def keep(self, run_id: str, record: Run) -> None:
        """Save what a question has ended with. Raises UsageError where files cannot be written."""
        ...

    def find(self, saved_id: str) -> Run | None:
        """The record; None where there is none. Raises DataError where it cannot be read."""
        ...

    def forget(self, run: Statement, run_id: str, saved_id: str) -> None:
        """Leave nothing of a question; ``run`` runs statements, ``saved_id`` is empty where no answer names one."""
        ...


class SavedFiles:
    """One file each, in a folder of the server's own, which ``kbnav show`` reads too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, run_id: str, record: Run) -> None:  # noqa: ARG002 - files are found by the answer
        """As the protocol says."""
        save_run(record, self._folder)

    def find(self, saved_id: str) -> Run | None:
        """As the protocol says."""
        try:
            return load_run(self._path(saved_id))
        except UsageError:
            return None

    def forget(self, run: Statement, run_id: str, saved_id: str) -> None:  # noqa: ARG002
        """As the protocol says."""
        if saved_id:
            self._path(saved_id).unlink(missing_ok=True)

    def _path(self, saved_id: str) -> Path:
        return self._folder / f"{saved_id}.json"


class SavedRows:
    """One compressed document each, which every server of the database reads and deletes."""

    def __init__(self, database: Database, before: Saved | None = None) -> None:
        """``before`` has those that were saved before they were kept here."""
        self._run, self._before = database.run, before

    def keep(self, run_id: str, record: Run) -> None:
        """As the protocol says."""
        document = zlib.compress(to_json(record).encode())
        self._run(
            "INSERT INTO web_saved (id, run, document) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET document = excluded.document",
            (record.id, run_id, document),
        )

    def find(self, saved_id: str) -> Run | None:
        """As the protocol says."""
        rows = self._run("SELECT document FROM web_saved WHERE id = ? AND length(document) <= ?", (saved_id, LARGEST))
        if rows:
            document = unpacked(rows[0][0])
            if document is None:
                raise DataError(f"the run {saved_id} in the database cannot be read")
            return parse_run(document, saved_id)
        return self._before.find(saved_id) if self._before else None

    def forget(self, run: Statement, run_id: str, saved_id: str) -> None:
        """As the protocol says: also of a server that died before it could tell the answer."""
        run("DELETE FROM web_saved WHERE run = ?", (run_id,))
        if self._before:
            self._before.forget(run, run_id, saved_id)
