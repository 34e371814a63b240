"""The queue without a server: whoever follows a run of another worker."""

import asyncio
import time

from langgraph.checkpoint.memory import InMemorySaver

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.queue import RunQueue
from kbnav.apps.web.service import Service
from kbnav.apps.web.store import SqliteDatabase, Store, StoredEvent, StoredRun, open_sqlite
from tests.apps.web.parts import web_settings

READERS, OTHER = 20, "another machine:1:w"


class Watched(Store):
    """Remembers whose events it was asked for."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self.asked: list[str] = []

    def events(self, run_id: str, after: int = 0) -> list[StoredEvent]:
        self.asked.append(run_id)
        return super().events(run_id, after)


def test_many_who_follow_a_run_of_another_worker_leave_the_database_alone_until_it_has_news(tmp_path):
    settings = web_settings(tmp_path)
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store = Watched(database)
        store.set_up()
        run = StoredRun(
            "run", "", "alice", "mini", "s", "m", "Who?", "running", OTHER, time.time(), False, None, 0, None
        )
        store.add_run(run, at_once=1, a_day=1)
        queue = RunQueue(Service(settings, ()), store, InMemorySaver(), secrets_of(settings))

        async def follow() -> list[str]:
            return [event.data["kind"] async for events in queue.follow("run") for event in events]

        async def main() -> list[list[str]]:
            async with queue.running():
                readers = [asyncio.create_task(follow()) for _ in range(READERS)]
                await asyncio.sleep(1.5)
                store.asked.clear()
                await asyncio.sleep(1.5)
                assert not store.asked
                store.add_event("run", OTHER, {"kind": "started"})
                await asyncio.sleep(1)
                store.end("run", OTHER, "done", {})
                return await asyncio.wait_for(asyncio.gather(*readers), 10)

        assert asyncio.run(main()) == [["started", "end"]] * READERS
