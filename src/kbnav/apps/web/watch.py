"""Looking after runs: this process's are kept alive and within their time, and dead ones' are gone on with."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbnav.apps.secrets import Secrets
from kbnav.apps.web.changes import Changes
from kbnav.apps.web.drafts import Writing
from kbnav.apps.web.line import Place
from kbnav.apps.web.store import DAY, Store, StoredEvent, StoredRun
from kbnav.apps.web.telling import failed_answer
from kbnav.models.cancellation import Brake
from kbnav.runs.trajectory import Run, Turn
from kbnav.settings.model import Settings

LEASE = 15.0
"""Seconds without a sign of life after which a worker on another machine counts as dead."""
TICK = 0.5
"""Seconds between looks at limits, and at what other workers ask for."""
_BEAT = 4
"""Ticks between signs of life."""
_SWEEP = 1200
"""Ticks between looks for what is too old."""
SILENT = 10.0
"""Seconds without a word of the database after which a server does not count as ready."""
ROOM = 64 << 20
"""Bytes that must be free where runs are saved."""
BROKEN = "An error in kbnav itself; the server's log says more."
_LOG = logging.getLogger("kbnav.web")


@dataclass
class Live:
    """A run of this process; ``deadline`` and ``told``, its events, are set when it begins, the rest when it ends.

    ``ended`` is its last event. Whoever follows it here is told of these, and need not ask the database.
    """

    run: StoredRun
    brake: Brake
    place: Place
    writing: Writing
    history: Sequence[Turn] = ()
    deadline: float = field(default=float("inf"))
    told: list[StoredEvent] | None = None
    ended: StoredEvent | None = None
    record: Run | None = None


class Watch:
    """Looks, on a thread of its own, every ``TICK`` seconds."""

    def __init__(
        self,
        worker: str,
        live: MutableMapping[str, Live],
        store: Store,
        settings: Settings,
        hide: Secrets,
        changes: Changes,
        resume: Callable[[StoredRun], None],
    ) -> None:
        """Of the runs in ``live``, which come and go; ``resume`` puts one in line that a dead worker has left."""
        self._worker, self._live, self._store, self._settings, self._hide = worker, live, store, settings, hide
        self._changes, self._resume = changes, resume
        self._well = time.monotonic()
        self._trouble = ""
        """Why nothing can be kept at the moment; empty where all is well."""
        self._broken: set[str] = set()
        """Runs that broke off because the database failed, and are to end as soon as it can be told."""

    @property
    def problem(self) -> str:
        """Why questions cannot be answered and kept now; empty where they can."""
        silent = time.monotonic() - self._well
        return self._trouble or (f"the database has not answered for {silent:.0f} s" if silent > SILENT else "")

    def broke_off(self, run_id: str) -> None:
        """A run ended and the database could not be told; from any thread."""
        self._broken.add(run_id)

    def until(self, ended: threading.Event) -> None:
        """Look again and again, until the server ends."""
        ticks = 0
        while not ended.is_set():
            self._stop_overdue()
            try:
                self._look(often=ticks % _BEAT == 0, sweep=ticks % _SWEEP == 0)
                self._well = time.monotonic()
            except Exception as error:  # noqa: BLE001 - a database that is away for a moment must not end the watch
                self._trouble = f"the database fails: {type(error).__name__}"
                _LOG.error("watch: %s", self._hide.hidden(repr(error)))
            ticks += 1
            ended.wait(TICK)

    def _stop_overdue(self) -> None:
        now = time.monotonic()
        for live in list(self._live.values()):
            if now > live.deadline:
                seconds = self._settings.web.question_seconds
                live.brake.stop(f"The limit of {seconds:g} s for a question was reached.")

    def _look(self, *, often: bool, sweep: bool) -> None:
        if often:
            self._bury()
        if sweep:
            self._store.delete_old(DAY)
        self._beat()
        self._end_broken()
        if often:
            self._store.alive(self._worker)
            self._trouble = _no_room(self._settings.home)

    def _beat(self) -> None:
        begun = dict(self._live)
        mine = self._store.beat(self._worker)
        for run_id, live in begun.items():
            if run_id not in mine:  # taken over while the database was away, or deleted; where it has ended, no matter
                live.brake.abandon()
            elif mine[run_id]:
                live.brake.stop()

    def _end_broken(self) -> None:
        for run_id in list(self._broken):
            self._store.end(run_id, self._worker, "failed", failed_answer(BROKEN))
            self._broken.discard(run_id)
            self._changes.tell(run_id, over=True)

    def _bury(self) -> None:
        """Go on with the questions of workers that are dead."""
        for worker, seen in self._store.workers().items():
            if worker != self._worker and _is_dead(worker, seen):
                for run in self._store.take_over(worker, seen, self._worker):
                    if run.session:
                        self._resume(run)
                    else:  # whoever asked it is no longer connected
                        answer = failed_answer("The server was restarted.")
                        self._store.end(run.id, self._worker, "failed", answer)


def _no_room(home: Path) -> str:
    """What is wrong where the disk that runs are saved on is full."""
    free = shutil.disk_usage(home).free
    return f"the disk of {home.name} is full: {free >> 20} MiB are free" if free < ROOM else ""


def _is_dead(worker: str, seen: float) -> bool:
    """Whether a worker's process is gone from this machine, or was not seen for too long, by any clock."""
    host, process, _ = worker.rsplit(":", 2)
    if abs(time.time() - seen) > LEASE:
        return True
    if host != socket.gethostname() or os.name == "nt":  # where a signal of 0 is none
        return False
    if int(process) == os.getpid():  # an earlier process of the same number, as in a container
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
