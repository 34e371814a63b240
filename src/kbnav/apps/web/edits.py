"""Queries of answers that a reader has changed and run: the last one of each run, with what it gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kbnav.apps.web.database import Database, kept_json

SCHEMA = ("CREATE TABLE IF NOT EXISTS web_edits (run TEXT PRIMARY KEY, document TEXT NOT NULL)",)


class Edits:
    """At most one on each run."""

    def __init__(self, database: Database) -> None:
        self._run = database.run

    def keep(self, run_id: str, document: Mapping[str, Any]) -> None:
        """Keep a query and its result's head, as ``POST /api/queries`` gives them, instead of the one before."""
        self._run(
            "INSERT INTO web_edits (run, document) VALUES (?, ?) "
            "ON CONFLICT (run) DO UPDATE SET document = excluded.document",
            (run_id, json.dumps(document)),
        )

    def of(self, run_id: str) -> dict[str, Any] | None:
        """The query that is kept with a run; None where the answer's own is unchanged."""
        rows = self._run("SELECT document FROM web_edits WHERE run = ?", (run_id,))
        document: dict[str, Any] | None = kept_json(rows[0][0]) if rows else None
        return document
