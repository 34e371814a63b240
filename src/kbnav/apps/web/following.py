"""What whoever follows a run waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container, Mapping
from contextlib import suppress

from kbnav.apps.web.drafts import EVERY
from kbnav.apps.web.store import StoredEvent
from kbnav.apps.web.watch import TICK, Live


async def drafts(live: Live | None, stored: int, news: asyncio.Event) -> AsyncGenerator[StoredEvent | None]:
    """What a model writes for a run until more than ``stored`` events may be kept; None where nothing happens."""
    seen = 0
    while True:
        try:
            await asyncio.wait_for(news.wait(), 2 * TICK if live else TICK)
        except TimeoutError:
            yield None
            return
        if live is None or live.writing.version == seen or live.writing.stored != stored:
            return
        news.clear()
        seen = live.writing.version
        if data := live.writing.data:
            yield StoredEvent(0, data)
            await asyncio.sleep(EVERY)


def here(live: Mapping[str, Live], run_id: str, before: Live | None) -> Live | None:
    """A run that is answered here, or was to its end; ``before`` is what this said before, if anything."""
    return live.get(run_id) or (before if before and before.ended else None)


def since(live: Live | None, after: int) -> tuple[list[StoredEvent], bool] | None:
    """The events of a run behind a number, and whether it is over; None where the database must be asked."""
    if live is None or live.told is None:
        return None
    ended = live.ended  # looked at first, so that no event is missed
    told = live.told if ended is None else [*live.told, ended]
    return [event for event in told if event.number > after], ended is not None


async def left(live: Container[str], run_id: str, news: asyncio.Event) -> None:
    """Wait until a run is not among those at work here, a tick at most; ``news`` is set whenever it may have left."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TICK):
            while True:
                await news.wait()
                news.clear()
                if run_id not in live:
                    return
