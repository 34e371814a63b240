"""What a build has done so far, kept beside its data, so that one that was killed goes on where it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Lock
from typing import Any

STATE = "progress.json"


class BuildState:
    """Which stages of a build are done, and what they found; kept in ``build/progress.json``."""

    def __init__(self, work: Path, fingerprint: str, done: dict[str, dict[str, Any]]) -> None:
        self._work = work
        self._fingerprint = fingerprint
        self._lock = Lock()
        self.done = done

    @classmethod
    def resume(cls, work: Path, fingerprint: str) -> BuildState:
        """Take up a build of the same input, or begin a new one."""
        saved = _saved(work)
        if saved.get("fingerprint") != fingerprint:
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            saved = {"done": {}}
        state = cls(work, fingerprint, saved["done"])
        state._save()
        return state

    @staticmethod
    def begun(work: Path, fingerprint: str) -> bool:
        """Whether a build of the same input has finished a stage."""
        saved = _saved(work)
        return saved.get("fingerprint") == fingerprint and bool(saved["done"])

    def finish(self, stage: str, found: dict[str, Any]) -> None:
        """Remember a finished stage."""
        with self._lock:
            self.done[stage] = found
            self._save()

    def _save(self) -> None:
        new = self._work / f"{STATE}.new"
        new.write_text(json.dumps({"fingerprint": self._fingerprint, "done": self.done}))
        new.replace(self._work / STATE)


def _saved(work: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((work / STATE).read_text()))
    except (OSError, ValueError, TypeError):
        return {}
