"""The client-side twin of a service's limits, shared by all threads and processes of one state folder or database.

Wikimedia counts per User-Agent and address: query seconds, errors and requests within a minute. Waiting here is
cheaper than a 429, and a client that goes on after many of those is banned.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbnav.runs.database import keep, spared

WINDOW = 60.0
POLL = 0.25
LONGEST = 120.0
"""Seconds that a request is taken to run where its caller does not say."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS request (id BIGINT PRIMARY KEY, service TEXT NOT NULL, "
    "started DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, failed INTEGER NOT NULL DEFAULT 0)",
)
_FAR = 3600.0
"""Seconds that no request is taken to last still."""
_LATE = (
    "UPDATE request SET started = ?, ended = CASE WHEN ended >= started THEN ? + ended - started"
    " WHEN ended < ? THEN ended ELSE ? END WHERE started > ?"
)
_ENDLESS = "UPDATE request SET ended = ? WHERE ended > ?"
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
    """Makes requests wait until the rules of their service allow one more. The last minute is kept in ``place``.

    That is a file, or the URL of a PostgreSQL database, whose clock then counts. Raises UsageError where nothing can be
    kept there.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sleep = sleep
        self._unkept: list[str] = []
        self._kept = keep(place, "the request limits", _TABLES)
        self._clock = clock or self._kept.now

    @contextmanager
    def slot(self, service: str, rules: Rules, *, longest: float = LONGEST) -> Iterator[Slot]:
        """Wait until ``rules`` allow a request to ``service``, then count what happens inside as that request.

        After ``longest`` seconds it counts as ended, so that one whose process was killed does not hold up all others.
        """
        while (number := self._start(service, rules, longest)) is None:
            self._sleep(POLL)
        slot = Slot()
        try:
            yield slot
        finally:
            # What is not written counts as under way for ``longest``, which is more than it took.
            with spared(self._unkept):
                now = self._clock()
                with self._kept.transaction() as run:
                    run("UPDATE request SET ended = ?, failed = ? WHERE id = ?", (now, int(slot.failed), number))

    def _start(self, service: str, rules: Rules, longest: float) -> int | None:
        now = self._clock()
        with self._kept.transaction(lock=True) as run:
            run(_LATE, (now, now, now, now, now))
            run(_ENDLESS, (now, now + _FAR))
            run("DELETE FROM request WHERE coalesce(ended, started) < ?", (now - WINDOW,))
            since = now - WINDOW
            rows = run("SELECT started, ended, failed FROM request WHERE service = ? AND ended > ?", (service, since))
            seconds = sum(max(min(ended, now) - max(started, since), 0.0) for started, ended, _ in rows)
            requests = sum(started > since for started, _, _ in rows)
            if not rules.allow(seconds, sum(failed for _, _, failed in rows), requests):
                return None
            number = secrets.randbits(62)
            run("INSERT INTO request VALUES (?, ?, ?, ?, 0)", (number, service, now, now + longest))
            return number
