"""What a run is at now, beside its records: the questions under way with the last step of each, for who watches it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbnav.evaluation.systems import Tell
    from kbnav.runs.trajectory import Call, Step

LIVE = "live.json"
"""In a run's folder, as long as it goes on; a kill leaves one behind, which is old then."""
EVERY = 0.5
"""Seconds between two writings, and so the longest that what happens is not to be seen."""
ALIVE = 5.0
"""A run whose file was written at least so many seconds ago goes on no more."""
_BEAT = 2.0
_WIDTH = 400


class Live:
    """The questions under way; told by threads, written by one of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: dict[str, dict[str, Any]] = {}

    @contextmanager
    def question(self, name: str, text: str) -> Iterator[Tell]:
        """A question is asked; gives what is told of its steps."""
        began = {"id": name, "question": text, "began": time.time(), "steps": 0, "step": None}
        with self._lock:
            self._open[name] = began
        try:
            yield lambda call, step: self._tell(name, call, step)
        finally:
            with self._lock:
                self._open.pop(name, None)

    def _tell(self, name: str, call: Call, step: Step | None) -> None:
        arguments = {key: str(value)[:_WIDTH] for key, value in call.arguments.items() if value}
        shown = {"tool": call.tool, "thought": call.thought[:_WIDTH], "arguments": arguments}
        seen = {"observation": step.observation[:_WIDTH], "ok": step.ok} if step else {}
        with self._lock:
            if one := self._open.get(name):
                self._open[name] = {**one, "steps": one["steps"] + (step is not None), "step": {**shown, **seen}}

    def keep(self, over: threading.Event) -> None:
        """Write what changes until it is over; what cannot be written is not to be seen, and nothing else."""
        before, written = "", 0.0
        while not over.is_set():
            with self._lock:
                text = json.dumps(list(self._open.values()), ensure_ascii=False)
            if text != before or time.monotonic() - written > _BEAT:
                before, written = text, time.monotonic()
                part = self._path.with_suffix(".part")  # one process writes a run, and what a kill left is written over
                with suppress(OSError):
                    part.write_text(text, encoding="utf-8", errors="replace")
                    part.replace(self._path)
            over.wait(EVERY)


@contextmanager
def live_in(folder: Path) -> Iterator[Live]:
    """Where the questions of a run are told while they are under way."""
    live, over = Live(folder / LIVE), threading.Event()
    thread = threading.Thread(target=live.keep, args=(over,), daemon=True, name="kbnav-live")
    thread.start()
    try:
        yield live
    finally:
        over.set()
        thread.join()
        with suppress(OSError):
            (folder / LIVE).unlink(missing_ok=True)


def under_way(folder: Path) -> list[dict[str, Any]] | None:
    """The questions under way in a run's folder; None where the run does not go on."""
    path = folder / LIVE
    try:
        if time.time() - path.stat().st_mtime > ALIVE:
            return None
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found
