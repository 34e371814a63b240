"""Whether a knowledge base answers: one that fails again and again is left alone, a damaged one is out of service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kbnav.errors import DataError, NotAnswering, ServiceError

FAILURES = 3
"""Failures in a row after which a knowledge base is left alone."""
PAUSE = 30.0
"""Seconds for which it is, until one request tries it again."""
SOUND_FOR = 600.0
"""Seconds for which files that were found whole are not read through again."""


class Guard:
    """A circuit breaker of one knowledge base; threads share it. ``clock`` counts seconds."""

    def __init__(
        self, name: str, check: Callable[[], list[str]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``check`` reads a knowledge base through and gives its faults."""
        self._name, self._check, self._clock = name, check, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0
        self._sound_until = 0.0
        self._damage = ""

    @property
    def problem(self) -> str:
        """Why nothing is asked of it now; empty where it is in service."""
        if self._damage:
            return self._damage
        return "it does not answer" if self._clock() < self._closed_until else ""

    def check(self) -> None:
        """Raise NotAnswering where the knowledge base is out of service, or does not answer."""
        if self._damage:
            raise NotAnswering(f"the knowledge base {self._name} is out of service: {self._damage}")
        with self._lock:
            now = self._clock()
            if now < self._closed_until:
                wait = self._closed_until - now
                raise NotAnswering(
                    f"the knowledge base {self._name} does not answer; it is tried again in {wait:.0f} s"
                )
            if self._failures >= FAILURES:  # one goes ahead and tries it, the others wait for what comes of that
                self._closed_until = now + PAUSE

    def refuse(self) -> None:
        """Raise NotAnswering where nothing may be asked now; for who is about to wait, and does not try it yet."""
        if self.problem:
            raise NotAnswering(f"the knowledge base {self._name} is out of service: {self.problem}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count how what is done within ends. Raises as ``check``, and as that does."""
        self.check()
        try:
            yield
        except DataError as error:
            self.damaged(error)
            raise
        except ServiceError:
            self.failed()
            raise
        self.answered()

    def failed(self) -> None:
        """It did not answer."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._closed_until = self._clock() + PAUSE

    def answered(self) -> None:
        """It did."""
        with self._lock:
            self._failures, self._closed_until = 0, 0.0

    def damaged(self, error: DataError) -> None:
        """Its files cannot be read: out of service, unless reading them through finds them whole."""
        with self._lock:
            if self._damage or self._clock() < self._sound_until:
                return
            self._damage = str(error)
        if self._check is not None:
            threading.Thread(target=self._look, args=(self._check,), daemon=True, name="kbnav-check").start()

    def _look(self, check: Callable[[], list[str]]) -> None:
        try:
            faults = check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the files were not found whole
            faults = [str(error)]
        with self._lock:
            self._damage = "; ".join(faults[:3])
            if not faults:
                self._sound_until = self._clock() + SOUND_FOR
