"""What whoever follows a run waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container
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


async def left(live: Container[str], run_id: str, news: asyncio.Event) -> None:
    """Wait until a run is not among those at work here, a tick at most; ``news`` is set whenever it may have left."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TICK):
            while True:
                await news.wait()
                news.clear()
                if run_id not in live:
                    return
