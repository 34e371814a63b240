"""Servers that share their sessions in a real PostgreSQL."""

import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from threading import Barrier, Event

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from kbnav.apps.web.store import PostgresDatabase, Store, unguessable
from kbnav.errors import LimitReached
from kbnav.runs.database import Execute, Rows, open_postgres
from kbnav.sessions.checkpoints import shared_sessions
from kbnav.sessions.session import serializer
from tests.apps.web.parts import MARIE, Explorer, Visit, served_process, stored_run
from tests.apps.web.test_store import reachable
from tests.ending import until
from tests.services import postgresql, stopped_postgresql

YEAR = 365 * 24 * 3600.0


@pytest.mark.slow
def test_two_servers_share_sessions_stop_each_others_runs_and_take_over_from_a_dead_one(fresh_home, database):
    environment = {"KBNAV_DATABASE": database, "KBNAV_WEB__TOKENS": '{"alice": "a-token-of-alice-nevertobeleft"}'}
    headers = {"Authorization": "Bearer a-token-of-alice-nevertobeleft"}
    with Explorer(held=1) as model:
        options = ("--model", "stub", "--base-url", model.base_url)
        with (
            served_process(fresh_home, *options, environment=environment) as (one, process),
            served_process(fresh_home, *options, environment=environment) as (two, _),
        ):
            first, second = Visit(one, headers), Visit(two, headers)
            session = first.session()
            stopped = first.ask(session, MARIE)
            assert model.waiting.wait(200)
            assert second("POST", f"/api/sessions/{session}/questions", {"question": MARIE}).status_code == 409
            assert second("POST", f"/api/runs/{stopped['id']}/stop").status_code == 204
            assert second.ended(stopped["id"])["status"] == "stopped"

            run = first.ask(session, MARIE)
            begun = [event["kind"] for event in islice(second.events(run["id"]), 3)]
            assert begun == ["started", "call", "step"]
            assert all(model.holding.acquire(timeout=60) for _ in range(2))  # what was done before is saved by now
            process.kill()
            process.wait()
            model.go_on.set()
            ended = second.ended(run["id"])
            assert ended["status"] == "done", ended
            assert ended["answer"]["text"] == "Polonium and radium."
            assert "resumed" in [event["kind"] for event in ended["events"]]
            assert len(second("GET", f"/api/sessions/{session}").json()["runs"]) == 2
            rows = second("GET", f"/api/results/{run['id']}/rows").json()["rows"]
            assert [cell["id"] for (cell,) in rows] == ["Q979", "Q1128"]


@pytest.mark.slow
def test_of_twenty_questions_that_several_servers_are_asked_at_once_three_are_taken(database):
    with open_postgres(database) as one, open_postgres(database) as two:
        stores = [Store(PostgresDatabase(pool)) for pool in (one, two)]
        stores[0].set_up()
        start = Barrier(20, timeout=60)
        sessions = [stores[0].add_session("alice", "mini", "spinach", "m").id for _ in range(20)]

        def ask(number: int) -> tuple[str | None, str]:
            run = stored_run(unguessable("run"), sessions[number], made=time.time())
            start.wait()
            try:
                stores[number % 2].add_run(run, at_once=3, a_day=5)
            except LimitReached as error:
                return "at once" if "under way" in str(error) else "a day", run.id
            return None, run.id

        with ThreadPoolExecutor(20) as pool:
            first = list(pool.map(ask, range(20)))
            assert Counter(refused for refused, _ in first) == {None: 3, "at once": 17}
            for refused, run_id in first:
                assert bool(stores[1].end(run_id, "w", "done", {"text": ""})) is (refused is None)
            assert Counter(refused for refused, _ in pool.map(ask, range(20))) == {None: 2, "a day": 18}
        (taken,) = [run_id for refused, run_id in first if refused is None][:1]
        assert [event.data["kind"] for event in stores[0].events(taken)] == ["end"]
        assert not stores[0].add_events(taken, "another", [{"kind": "call"}])
        assert stores[0].add_events(taken, "w", [{"kind": "call"}])
        assert [event.number for event in stores[1].events(taken)] == [1, 2]


class Paused:
    """A database that waits, in a transaction and after its first statement, until it is told to go on."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.run, self._database = database.run, database
        self.waiting, self.go_on = Event(), Event()

    @contextmanager
    def transaction(self, lock: str) -> Iterator[Execute]:
        with self._database.transaction(lock) as run:

            def first(statement: str, values: Sequence[object] = ()) -> Rows:
                rows = run(statement, values)
                self.waiting.set()
                self.go_on.wait(60)
                return rows

            yield first


@pytest.mark.parametrize("under_way", ["asked", "ended"])
def test_nothing_is_left_of_a_run_that_is_asked_or_ends_while_its_session_is_deleted(database, under_way):
    with open_postgres(database) as one, open_postgres(database) as two, ThreadPoolExecutor(2) as threads:
        paused = Paused(PostgresDatabase(one))
        slow, store = Store(paused), Store(PostgresDatabase(two))
        store.set_up()
        session = store.add_session("alice", "mini", "spinach", "m")
        run = stored_run("run-1", session.id)
        if under_way == "asked":
            other = threads.submit(slow.add_run, run, at_once=1, a_day=1)
        else:
            store.add_run(run, at_once=1, a_day=1)
            other = threads.submit(slow.end, "run-1", "w", "done", {"text": "", "run": "saved"})
        assert paused.waiting.wait(60)
        deleted = threads.submit(store.delete_session, session)
        waiting = "SELECT pid FROM pg_locks WHERE NOT granted"  # one transaction for another
        until(lambda: deleted.done() or PostgresDatabase(one).run(waiting))
        paused.go_on.set()
        assert other.result(60)  # it was taken as the first; it ended: its last event
        deleted.result(60)
        assert store.run("run-1") is None
        assert store.events("run-1") == []


@pytest.mark.slow
def test_while_the_database_is_away_requests_are_told_so_and_a_question_under_way_goes_on_behind_it(fresh_home):
    with postgresql() as database, Explorer(held=1) as model:
        options = ("--model", "stub", "--base-url", model.base_url)
        environment = {"KBNAV_DATABASE": database, "KBNAV_WEB__TOKENS": '{"alice": "a-token-of-alice-nevertobeleft"}'}
        with served_process(fresh_home, *options, environment=environment) as (url, _):
            visit, browser = Visit(url, {"Authorization": "Bearer a-token-of-alice-nevertobeleft"}), Visit(url)
            browser.http.post(f"{url}/login", data={"token": "a-token-of-alice-nevertobeleft"})
            assert browser("GET", "/api/sessions").status_code == 200
            session = visit.session()
            run = visit.ask(session, MARIE)
            assert model.waiting.wait(200)
            with stopped_postgresql(database):
                began = time.monotonic()
                until(lambda: visit("GET", "/ready").status_code == 503)
                assert time.monotonic() - began < 20
                model.go_on.set()
                assert browser("GET", "/api/sessions").status_code == 503
                for method, path in (("POST", "/api/sessions"), ("GET", f"/api/sessions/{session}")):
                    told = visit(method, path, {} if method == "POST" else None)
                    assert (told.status_code, "Retry-After" in told.headers) == (503, True)
                    assert "database of sessions is away" in told.text
            until(lambda: visit("GET", "/ready").status_code == 200)
            until(lambda: visit("GET", f"/api/runs/{run['id']}").json()["status"] == "done")
            assert visit("GET", f"/api/runs/{run['id']}").json()["answer"]["text"] == "Polonium and radium."


@pytest.mark.slow
@pytest.mark.parametrize("end", [subprocess.Popen.terminate, subprocess.Popen.kill])
def test_several_workers_serve_one_address_and_end_with_the_process_that_started_them(fresh_home, database, end):
    several = {"KBNAV_DATABASE": database, "KBNAV_WEB__WORKERS": "2"}
    with served_process(fresh_home, environment=several) as (url, process):
        visit = Visit(url)
        session = visit.session(kb="mini")
        run = visit.answered(session, "Who discovered polonium?")
        assert run["answer"]["text"] == "Marie Curie, Pierre Curie"
        end(process)
        process.wait(60)
        until(lambda: not reachable(url))


def test_a_session_goes_on_from_what_was_written_last_whatever_the_servers_clocks_say(database):
    with open_postgres(database) as pool:
        sessions = shared_sessions(pool, serializer())
        assert sessions.get_tuple({"configurable": {"thread_id": "s"}}) is None
        parent: RunnableConfig = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        for ahead, said in ((YEAR, "first"), (0.0, "second"), (1.0, "third")):
            checkpoint = empty_checkpoint() | {"id": checkpoint_id(time.time() + ahead), "ts": said}
            parent = sessions.put(parent, checkpoint, {}, {})  # type: ignore[arg-type]
        for again in (sessions, shared_sessions(pool, serializer())):
            last = again.get_tuple({"configurable": {"thread_id": "s"}})
            assert last.checkpoint["ts"] == "third"
        first = sessions.get_tuple({"configurable": {"thread_id": "s", "checkpoint_id": checkpoint["id"]}})
        assert first.checkpoint["ts"] == "third"


def checkpoint_id(seconds: float) -> str:
    """An id as LangGraph makes them at a time, whose order is that of the times."""
    ticks = int(seconds * 1e7) + 0x01B21DD213814000
    return str(uuid.UUID(int=(ticks >> 12) << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | 1 << 63))
