"""A cache of good answers, with an age: one SQLite file, or a database that several machines share."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from kbnav.models.cancellation import sleep
from kbnav.runs.database import Execute, best_effort, open_tables
from kbnav.runs.journal import unpacked

MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer, unpacked."""
MAX_BYTES = 512 * 1024 * 1024
TRIM_EVERY = 64
"""Stores of one process between two looks at the size; it looks after its first, too."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, stored DOUBLE PRECISION NOT NULL, "
    "size BIGINT NOT NULL, type TEXT NOT NULL, body BYTEA NOT NULL)",
    "CREATE INDEX IF NOT EXISTS answer_by_age ON answer (stored, size)",
)


class HttpCache:
    """Good bodies by key, for ``age`` seconds, in ``max_bytes``, in a file or PostgreSQL. Raises UsageError."""

    def __init__(
        self,
        place: Path | str,
        *,
        age: float,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._age = age
        self._max_bytes = max_bytes
        self._warned: list[str] = []
        self._puts = count(1)
        self._tables = open_tables(place, "the HTTP cache", _TABLES)
        self._clock = clock or self._tables.now

    def get(self, key: str) -> tuple[str, bytes] | None:
        """Content type and body; None for none, for one too old or dated ahead, or that cannot be unpacked."""
        rows = []
        with best_effort(self._warned):
            now = self._clock()
            with self._tables.transaction() as run:
                rows = run(
                    "SELECT type, body FROM answer WHERE key = ? AND stored > ? AND stored <= ? AND length(body) <= ?",
                    (key, now - self._age, now, MAX_BODY),
                )
        if not rows or (body := unpacked(rows[0][1], MAX_BODY)) is None:
            return None
        return str(rows[0][0]), body

    def put(self, key: str, content_type: str, body: bytes) -> None:
        """Store a body, dropping expired and then oldest ones; a failure is logged once, and ends nothing."""
        packed = zlib.compress(body, 3)
        with best_effort(self._warned):
            now = self._clock()
            with self._tables.transaction() as run:
                run(
                    "INSERT INTO answer VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                    "stored = excluded.stored, size = excluded.size, type = excluded.type, body = excluded.body",
                    (key, now, len(packed), content_type, packed),
                )
                if (number := next(self._puts)) == 1 or number % TRIM_EVERY == 0:
                    self._trim(run, now)

    def _trim(self, run: Execute, now: float) -> None:
        run("DELETE FROM answer WHERE stored <= ? OR stored > ?", (now - self._age, now))
        run(
            "DELETE FROM answer WHERE key IN (SELECT key FROM"
            " (SELECT key, sum(size) OVER (ORDER BY stored DESC, key DESC) AS kept FROM answer) AS sized"
            " WHERE kept > ?)",
            (self._max_bytes,),
        )


WINDOW = 60.0
POLL = 0.25
LONGEST = 120.0
"""Seconds that a request is taken to run where its caller does not say."""

_LIMIT_TABLES = (
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
        sleep: Callable[[float], None] = sleep,
    ) -> None:
        self._sleep = sleep
        self._warned: list[str] = []
        self._tables = open_tables(place, "the request limits", _LIMIT_TABLES)
        self._clock = clock or self._tables.now

    @contextmanager
    def slot(self, service: str, rules: Rules, *, longest: float = LONGEST) -> Iterator[Slot]:
        """Wait until ``rules`` allow a request, and count what is inside as it, for ``longest`` seconds at most."""
        while (number := self._start(service, rules, longest)) is None:
            self._sleep(POLL)
        slot = Slot()
        try:
            yield slot
        finally:
            # What is not written counts as under way for ``longest``, which is more than it took.
            with best_effort(self._warned):
                now = self._clock()
                with self._tables.transaction() as run:
                    run("UPDATE request SET ended = ?, failed = ? WHERE id = ?", (now, int(slot.failed), number))

    def _start(self, service: str, rules: Rules, longest: float) -> int | None:
        now = self._clock()
        with self._tables.transaction(lock=True) as run:
            run(_LATE, (now, now, now, now, now))
            run(_ENDLESS, (now, now + _FAR))
            run("DELETE FROM request WHERE coalesce(ended, started) < ?", (now - WINDOW,))
            since = now - WINDOW
            rows = run("SELECT started, ended, failed FROM request WHERE service = ? AND ended > ?", (service, since))
            used = (
                (rules.seconds, sum(max(min(ended, now) - max(started, since), 0.0) for started, ended, _ in rows)),
                (rules.errors, sum(failed for _, _, failed in rows)),
                (rules.requests, sum(started > since for started, _, _ in rows)),
            )
            if any(most is not None and most <= amount for most, amount in used):
                return None
            number = secrets.randbits(62)
            run("INSERT INTO request VALUES (?, ?, ?, ?, 0)", (number, service, now, now + longest))
            return number
