"""The client-side twin of a service's limits, shared by all threads and processes that use one state folder.

Wikimedia counts per User-Agent and address: query seconds, errors and requests within a minute. Waiting here is
cheaper than a 429, and a client that goes on after many of those is banned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.knowledge.service.database import spared, transaction
from kbnav.private import private_file

WINDOW = 60.0
POLL = 0.25
LONGEST = 120.0
"""Seconds that a request is taken to run where its caller does not say."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY, service TEXT NOT NULL, started REAL NOT NULL, ended REAL, failed INTEGER NOT NULL DEFAULT 0
)"""

_USED = """
SELECT coalesce(sum(max(min(ended, :now) - max(started, :since), 0.0)), 0.0),
       coalesce(sum(failed), 0),
       coalesce(sum(started > :since), 0)
FROM request WHERE service = :service AND ended > :since
"""

_FAR = 3600.0
"""Seconds that no request is taken to last still."""
_SET_RIGHT = (
    "UPDATE request SET ended = min(ended, :now + max(ended - started, 0.0)), started = :now WHERE started > :now",
    "UPDATE request SET ended = :now WHERE ended > :far",
)
"""What a clock that was ahead has left counts as of now: else it would hold up every request until that time comes."""


@dataclass(frozen=True)
class Rules:
    """What a service allows within any 60 seconds; None is no limit."""

    seconds: float | None = None
    errors: int | None = None
    requests: int | None = None

    def allow(self, seconds: float, errors: int, requests: int) -> bool:
        """Whether one more request may start."""
        return (
            (self.seconds is None or seconds < self.seconds)
            and (self.errors is None or errors < self.errors)
            and (self.requests is None or requests < self.requests)
        )


class Slot:
    """A request that is under way; set ``failed`` when the service counts it as an error."""

    failed = False


class Throttle:
    """Makes requests wait until the rules of their service allow one more. One SQLite file holds the last minute."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._path = path
        self._clock = clock
        self._sleep = sleep
        self._unkept: list[str] = []
        try:
            private_file(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot keep the request limits here ({error}); set KBNAV_HOME") from error
        with transaction(self._path, "the request limits") as database:
            database.execute(_SCHEMA)

    @contextmanager
    def slot(self, service: str, rules: Rules, *, longest: float = LONGEST) -> Iterator[Slot]:
        """Wait until ``rules`` allow a request to ``service``, then count what happens inside as that request.

        After ``longest`` seconds it counts as ended, so that one whose process was killed does not hold up all others.
        """
        while (row := self._start(service, rules, longest)) is None:
            self._sleep(POLL)
        slot = Slot()
        try:
            yield slot
        finally:
            # What is not written counts as under way for ``longest``, which is more than it took.
            with spared(self._unkept), transaction(self._path, "the request limits") as database:
                database.execute(
                    "UPDATE request SET ended = ?, failed = ? WHERE id = ?", (self._clock(), slot.failed, row)
                )

    def _start(self, service: str, rules: Rules, longest: float) -> int | None:
        now = self._clock()
        with transaction(self._path, "the request limits") as database:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SET_RIGHT:
                database.execute(statement, {"now": now, "far": now + _FAR})
            database.execute("DELETE FROM request WHERE coalesce(ended, started) < ?", (now - WINDOW,))
            used = database.execute(_USED, {"service": service, "now": now, "since": now - WINDOW}).fetchone()
            if not rules.allow(*used):
                return None
            row = (service, now, now + longest)
            inserted = database.execute("INSERT INTO request (service, started, ended) VALUES (?, ?, ?)", row)
            return inserted.lastrowid
