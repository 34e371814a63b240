"""Opening what is at other places, each in a thread of its own: what does not answer is tried again until it does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

from kbnav.errors import CredentialsError, ServiceError, StopRun

PATIENCE = 10.0
"""Seconds for which a server that starts waits; it goes on without what takes longer."""
PAUSE = 30.0
"""Seconds between two tries."""
_LOG = logging.getLogger("kbnav.web")
T = TypeVar("T")


class Opening(Generic[T]):
    """Opens something of a name, and holds it open until it is left."""

    def __init__(self, key: str, open_it: Callable[[], AbstractContextManager[T]], *, pause: float = PAUSE) -> None:
        self.key = key
        self.opened: T | None = None
        self.why = "it has not answered yet"
        """Why it is not open."""
        self._open, self._pause = open_it, pause
        self._tried, self._over = threading.Event(), threading.Event()
        self._error: Exception | None = None

    @contextmanager
    def under_way(self, patience: float) -> Iterator[None]:
        """Wait up to so many seconds for the end of the first try, and go on trying until this is left.

        Raises what that try met and waiting will not mend.
        """
        thread = threading.Thread(target=self._keep, daemon=True, name="kbnav-opening")
        thread.start()
        try:
            self._tried.wait(patience)
            if self._error is not None:
                raise self._error
            if self.opened is None:
                _LOG.error("%s is out of service, and tried again: %s", self.key, self.why)
            yield
        finally:
            self._over.set()
            if self.opened is not None:
                thread.join(5)

    def _keep(self) -> None:
        """Try until it is open, then hold it until it is left."""
        while not self._over.is_set():
            try:
                with self._open() as opened:
                    self.opened = opened
                    if self._tried.is_set():
                        _LOG.info("%s answers, and is in service", self.key)
                    self._tried.set()
                    self._over.wait()
                return
            except Exception as error:  # noqa: BLE001 - raised where it is waited for, or told
                self.why = str(error) if isinstance(error, StopRun) else repr(error)
                if isinstance(error, CredentialsError) or not isinstance(error, ServiceError):
                    if self._tried.is_set():
                        _LOG.error("%s stays out of service: %s", self.key, self.why)
                    self._error = error
                    return
            finally:
                self._tried.set()
            self._over.wait(self._pause)
