"""The queue without a server: whoever follows a run of another worker."""

import asyncio
import time

from langgraph.checkpoint.memory import InMemorySaver

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.queue import RunQueue
from kbnav.apps.web.service import Service
from kbnav.apps.web.store import Store, StoredEvent, open_sqlite
from tests.apps.web.parts import stored_run, web_settings

READERS, OTHER = 20, "another machine:1:w"


class Watched(Store):
    """Counts how often it was asked for events."""

    asked = 0

    def events(self, run_id: str, after: int = 0) -> list[StoredEvent]:
        self.asked += 1
        return super().events(run_id, after)


def test_many_who_follow_a_run_of_another_worker_leave_the_database_alone_until_it_has_news(tmp_path):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store = Watched(database)
        store.set_up()
        store.add_run(stored_run("run", "", "running", time.time(), OTHER), at_once=1, a_day=1)
        settings = web_settings(tmp_path)
        queue = RunQueue(Service(settings, ()), store, InMemorySaver(), secrets_of(settings))

        async def follow() -> list[str]:
            return [event.data["kind"] async for events in queue.follow("run") for event in events]

        async def main() -> list[list[str]]:
            async with queue.running():
                readers = [asyncio.create_task(follow()) for _ in range(READERS)]
                await asyncio.sleep(1.5)
                before = store.asked
                await asyncio.sleep(1.5)
                assert store.asked == before
                store.add_event("run", OTHER, {"kind": "started"})
                await asyncio.sleep(1)
                store.end("run", OTHER, "done", {})
                return await asyncio.wait_for(asyncio.gather(*readers), 10)

        assert asyncio.run(main()) == [["started", "end"]] * READERS
