"""News of runs for the coroutines that stream them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Tells coroutines of the server's loop that a run of this process has news."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._listeners: dict[str, set[asyncio.Event]] = {}

    def tell(self, run_id: str) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, run_id)

    def _wake(self, run_id: str) -> None:
        for event in self._listeners.get(run_id, ()):
            event.set()

    def wake_all(self) -> None:
        """In the loop: everybody who waits looks again."""
        for run_id in list(self._listeners):
            self._wake(run_id)

    @contextmanager
    def listening(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news."""
        event = asyncio.Event()
        self._listeners.setdefault(run_id, set()).add(event)
        try:
            yield event
        finally:
            self._listeners[run_id].discard(event)
            if not self._listeners[run_id]:
                del self._listeners[run_id]
