"""Runs that a kill interrupted while a model was asked, kept on disk so that they go on where they were.

A file has a line of JSON and the interpreter's state behind it. An interpreter trusts the state that it is given: the
folder must be its owner's alone, and a file whose digest does not fit is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kbnav.runs.journal import private_folder


class Paused(NamedTuple):
    """Where a run stood."""

    counted: Mapping[str, Any]
    """``Calls.state``."""
    state: bytes
    """The interpreter's."""


class PausedRuns:
    """Paused runs by their key. Raises OSError where they cannot be written."""

    def __init__(self, folder: Path) -> None:
        """They are kept in ``folder``, which is made where it is not there."""
        self._folder = private_folder(folder)

    def keep(self, key: str, paused: Paused) -> None:
        """Keep where a run stands, in place of where it stood before."""
        head = json.dumps({"key": key, "sha256": _digest(paused), "counted": paused.counted})
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
            file.write(head.encode() + b"\n" + paused.state)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._path(key))

    def find(self, key: str) -> Paused | None:
        """Where a run stood; None where it is not there, or not whole."""
        try:
            line, _, state = self._path(key).read_bytes().partition(b"\n")
            head = json.loads(line)
            paused = Paused(head["counted"], state)
            return paused if (head["key"], head["sha256"]) == (key, _digest(paused)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def end(self, key: str) -> None:
        """Forget a run that is over."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.paused"


def _digest(paused: Paused) -> str:
    return hashlib.sha256(json.dumps(paused.counted, sort_keys=True).encode() + b"\n" + paused.state).hexdigest()
