"""News of runs for the coroutines that stream them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Tells coroutines of the server's loop that a run of this process has news."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._listeners: dict[tuple[str, bool], set[asyncio.Event]] = {}

    def tell(self, run_id: str, *, over: bool = False) -> None:
        """From any thread; ``over`` where nothing more is to come.

        The loop is not disturbed where nobody listens: who begins to afterwards looks at what there is by themselves.
        """
        for key in ((run_id, False), (run_id, True)) if over else ((run_id, False),):
            if key in self._listeners and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._wake, key)

    def _wake(self, key: tuple[str, bool]) -> None:
        for event in self._listeners.get(key, ()):
            event.set()

    def wake_all(self) -> None:
        """In the loop: everybody who waits looks again."""
        for key in list(self._listeners):
            self._wake(key)

    @contextmanager
    def listening(self, run_id: str, *, to_its_end: bool = False) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news, or only ``to_its_end``."""
        event, key = asyncio.Event(), (run_id, to_its_end)
        self._listeners.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            self._listeners[key].discard(event)
            if not self._listeners[key]:
                del self._listeners[key]
