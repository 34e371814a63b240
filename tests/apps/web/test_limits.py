"""How much one may ask at a time: questions, queries in line, and who follows a run."""

import asyncio
import http.client
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web import limiter
from kbnav.apps.web.limiter import HALF_LIFE, CircuitBreaker, FairQueue, Limiter, Ticket
from kbnav.apps.web.queue import RunQueue
from kbnav.apps.web.server import DATABASE
from kbnav.apps.web.service import Service
from kbnav.apps.web.store import Event, SqliteDatabase, Store, StoredEvent, open_sqlite
from kbnav.errors import DamagedKB, LimitReached, NotAnswering, ServiceError, Stopped
from kbnav.runs.database import Rows
from kbnav.settings.model import Price
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, stored_run, web_settings
from tests.clock import Clock
from tests.ending import until


@pytest.fixture
def held_model() -> Iterator[Explorer]:
    """A model whose first reply waits until it is told to go on."""
    with Explorer(held=0) as model:
        yield model
        model.go_on.set()


def test_a_question_that_waits_is_stopped_at_once_and_one_that_is_deleted_leaves_nothing(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options(), web_runs=1, web_questions_per_day=2)) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)["id"]
        assert held_model.waiting.wait(60)
        assert visit("POST", f"/api/sessions/{session}/questions", {"question": MARIE}).status_code == 409
        second = visit.ask(visit.session(), MARIE)["id"]
        assert visit("GET", f"/api/runs/{second}").json()["status"] == "queued"
        visit("POST", f"/api/runs/{second}/stop")
        assert visit.ended(second)["status"] == "stopped"
        assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
        asked = visit("POST", f"/api/sessions/{visit.session()}/questions", {"question": MARIE})
        assert asked.status_code == 429  # what is deleted was asked all the same
    with open_sqlite(fresh_home / DATABASE) as database:
        assert Store(database).events(first) == []


@pytest.mark.slow
def test_of_twenty_questions_at_the_same_moment_no_more_are_taken_than_the_limits_allow(fresh_home, held_model):
    settings = web_settings(fresh_home, **held_model.options(), web_runs_per_user=3, web_questions_per_day=5)
    with Server(settings) as server:
        visit = Visit(server.url)

        def post(session: str) -> tuple[int, str]:
            other = requests.post(
                f"{server.url}/api/sessions/{session}/questions",
                json={"question": MARIE},
                cookies=visit.http.cookies.get_dict(),
                timeout=60,
            )
            return other.status_code, other.json().get("id", "")

        for allowed in (3, 2):  # three at once, and then what is left of five a day
            with ThreadPoolExecutor(20) as pool:
                found = list(pool.map(post, [visit.session() for _ in range(20)]))
            assert sorted(status for status, _ in found) == [202] * allowed + [429] * (20 - allowed)
            held_model.go_on.set()
            for _, run in found:
                assert not run or visit.ended(run)["status"] == "done"


def test_the_next_question_can_be_asked_at_the_very_end_of_the_one_before(visit):
    session = visit.session(kb="mini")
    run = visit.ask(session, "Who discovered polonium?")
    for _ in range(8):
        for event in visit.events(run["id"]):
            if event["kind"] == "end":
                run = visit.ask(session, "When was it discovered?")  # asserts that it is taken
    assert visit.ended(run["id"])["status"] == "done"


def test_a_run_whose_database_fails_goes_on_once_that_is_back(fresh_home, held_model, caplog):
    settings = web_settings(fresh_home, **held_model.options(), web_runs=1, web_runs_per_user=1)
    with Server(settings) as server, closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database:
        visit = Visit(server.url)
        session = visit.session()
        run = visit.ask(session, MARIE)
        assert held_model.waiting.wait(60)
        database.execute("ALTER TABLE web_events RENAME TO away")
        held_model.go_on.set()
        until(lambda: caplog.text.count(" run: ") > 1)  # it has broken off, was tried again, and has broken off
        assert server.app.state.parts.store.run(run["id"]).status == "running"  # it cannot be said yet
        database.execute("ALTER TABLE away RENAME TO web_events")
        ended = visit.ended(run["id"])
        assert (ended["status"], ended["answer"]["text"]) == ("done", "Polonium and radium.")
        kinds = [event["kind"] for event in ended["events"]]
        assert (kinds[:2], kinds[-1]) == (["started", "resumed"], "end")
        assert visit.answered(session, MARIE)["status"] == "done"


def test_a_question_that_waits_for_the_database_holds_up_nobody(fresh_home):
    with (
        Server(web_settings(fresh_home)) as server,
        closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database,
        ThreadPoolExecutor(1) as threads,
    ):
        visit = Visit(server.url)
        database.execute("BEGIN IMMEDIATE")
        asked = threads.submit(visit, "POST", "/api/ask", {"question": "Who discovered polonium?"})
        for _ in range(20):  # a server that waited would answer these when the question had been given up
            assert requests.get(f"{server.url}/health", timeout=60).status_code == 200
        assert not asked.done()
        database.execute("COMMIT")
        assert asked.result(60).json()["text"] == "Marie Curie, Pierre Curie"


def test_time_and_money_for_a_question_are_limited(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options(), web_question_seconds=0.3)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert (run["status"], run["answer"]["note"]) == (
            "stopped", "The limit of 0.3 s for a question was reached.",
        )  # fmt: skip
    held_model.go_on.set()
    # A reply of the stub is 100 + 20 tokens; at these prices, two of them cost 0.24 dollars.
    prices = {"stub": Price(prompt=1000, completion=1000)}
    options = {**held_model.options(), "prices": prices, "web_question_dollars": 0.2}
    with Server(web_settings(fresh_home, **options)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert run["answer"]["note"] == "The limit of $0.20 for a question was reached."
        assert run["answer"]["actions"] == 2


def test_a_client_that_hangs_up_stops_its_question(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options())) as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port))
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/ask", json.dumps({"question": MARIE}), headers)
        assert held_model.waiting.wait(60)
        connection.close()
        until(lambda: not server.app.state.parts.store.workers())


def test_one_user_has_no_more_than_a_share_and_one_knowledge_base_neither():
    line = FairQueue(4, of_owner=2, of_kb=3)
    assert [line.join("a", "x") and line.begin() is not None for _ in range(3)] == [True, True, False]
    assert [line.join("b", "x") and line.begin() is not None for _ in range(2)] == [True, False]
    assert line.join("b", "y")
    begun = line.begin()
    assert (begun.owner, begun.kb) == ("b", "y")


def simulated(kbs: int, seconds: float) -> list[float]:
    """Three slots, a greedy reader whose queries take a minute each, and another who asks now and then: his waits."""
    now, ends, waits, asked = 0.0, dict[Ticket, float](), list[float](), dict[Ticket, float]()
    line = FairQueue(3, of_owner=1, of_kb=2 if kbs > 1 else 3, clock=lambda: now)
    for number in range(200):
        line.join("greedy", f"kb{number % kbs}")
        line.join("second", f"kb{number % kbs}")
    while now < seconds:
        if now % 30 == 0:
            asked[line.join("light", "kb0")] = now
        for ticket in [ticket for ticket, end in ends.items() if end <= now]:
            line.leave(ticket)
            del ends[ticket]
        while (ticket := line.begin()) is not None:
            ends[ticket] = now + (1 if ticket.owner == "light" else 60)
            if ticket in asked:
                waits.append(now - asked.pop(ticket))
        now += 1
    assert not [since for since in asked.values() if now - since > 61]
    return waits


@pytest.mark.parametrize("kbs", [1, 2, 5])
def test_nobody_waits_longer_than_another_runs_whoever_asks_much(kbs):
    waits = simulated(kbs, 3600)
    assert len(waits) >= 118
    assert max(waits) <= 60


def test_a_line_has_an_end():
    line = FairQueue(1, of_owner=1, of_kb=1, most_of_owner=2)
    line.join("a")
    line.join("a")
    with pytest.raises(LimitReached):
        line.join("a")
    line.join("b")


def test_who_would_wait_too_long_is_told_when_to_try_again(fresh_home):
    with Server(web_settings(fresh_home)) as server:
        line = FairQueue(1, of_owner=1, of_kb=1)
        assert line.join("another") is line.begin()
        server.app.state.parts.service.pages = Limiter(line, wait=0.1)
        told = Visit(server.url)("GET", "/entry/mini/Q979")
        assert (told.status_code, "Retry-After" in told.headers) == (503, True)


async def never() -> bool:
    return False


def running(pool: Limiter, owner: str, call, *, name: str = "", gone=never, seconds: float = 30):
    return asyncio.create_task(pool.run(owner, "kb", call, gone=gone, seconds=seconds, name=name))


def test_what_runs_and_what_waits_can_be_stopped_and_what_is_raised_is_raised():
    async def all_of_it() -> None:
        pool, go_on = Limiter(FairQueue(1, of_owner=1, of_kb=1)), threading.Event()
        runs = running(pool, "a", partial(go_on.wait, 60), name="runs")
        waits = running(pool, "a", partial(go_on.wait, 60), name="waits")
        left = running(pool, "b", partial(go_on.wait, 60), gone=lambda: asyncio.sleep(0, True))
        await asyncio.sleep(0.05)
        for name, task in (("waits", waits), ("runs", runs)):
            pool.stop("a", name)
            with pytest.raises(Stopped):
                await task
        with pytest.raises(Stopped):
            await left
        go_on.set()

        class Panic(BaseException):
            pass

        def panics():
            raise Panic("inside")

        with pytest.raises(RuntimeError, match="inside"):
            await running(pool, "a", panics)
        assert await running(pool, "a", lambda: 1) == 1

    asyncio.run(all_of_it())


def fails(one: CircuitBreaker, error: Exception) -> None:
    with pytest.raises(type(error)), one.watching():
        raise error


def test_a_knowledge_base_that_fails_again_and_again_is_left_alone_and_then_tried_once():
    clock = Clock()
    one = CircuitBreaker("kb", clock=clock)
    for _ in range(limiter.FAILURES):
        assert one.problem == ""
        fails(one, ServiceError("away"))
    with pytest.raises(NotAnswering, match="it does not answer; it is tried again in 30 s"):
        one.check()
    assert "does not answer" in one.problem
    clock.now += limiter.PAUSE
    one.check()  # this one tries it
    with pytest.raises(NotAnswering):
        one.check()
    one.answered()
    one.check()
    fails(one, LimitReached("no fault of its own"))
    assert one.problem == ""


def test_a_damaged_knowledge_base_is_out_of_service_unless_its_files_turn_out_to_be_whole():
    faults, clock, looked = ["text/a: its content is not what was written"], Clock(), threading.Semaphore(0)

    def check() -> list[str]:
        looked.release()
        return list(faults)

    one = CircuitBreaker("kb", check, clock)
    fails(one, DamagedKB("its text index cannot be read"))
    assert looked.acquire(timeout=60)
    until(lambda: one.problem == faults[0])
    fails(one, NotAnswering("out of service"))
    faults.clear()
    other = CircuitBreaker("kb", check, clock)
    fails(other, DamagedKB("by a mistake"))
    until(lambda: other.problem == "")
    fails(other, DamagedKB("by a mistake"))
    assert other.problem == ""  # it was read through just now


def test_the_places_of_a_long_queue_are_those_of_a_moment_ago():
    clock = Clock()
    queue = FairQueue(1, of_owner=1, of_kb=1, clock=clock)
    tickets = [queue.join(f"user {number}") for number in range(100)]
    assert queue.begin() is tickets[0]
    assert [queue.before(ticket) for ticket in tickets] == [0, *range(99)]
    queue.leave(tickets[0])
    assert queue.begin() is tickets[1]
    last = queue.join("another")
    clock.now += 2
    assert [queue.before(one) for one in (tickets[0], tickets[1], tickets[2], tickets[99], last)] == [0, 0, 0, 97, 98]


@given(st.randoms(use_true_random=False))
def test_of_those_who_may_begin_it_is_who_has_least_at_work_then_had_least_then_came_first(chance):
    clock, waiting, at_work, had = Clock(), list[Ticket](), dict[Ticket, float](), list[tuple[str, float, float]]()
    line = FairQueue(4, of_owner=2, of_kb=3, clock=clock)

    def rank(one: Ticket) -> tuple[int, float, int]:
        faded = (seconds * 0.5 ** ((clock.now - end) / HALF_LIFE) for owner, seconds, end in had if owner == one.owner)
        return sum(other.owner == one.owner for other in at_work), sum(faded), one.number

    for _ in range(60):
        clock.now += chance.random() * 20
        if chance.random() < 0.5:
            waiting.append(line.join(chance.choice("abcd"), chance.choice("xy")))
        elif chance.random() < 0.2 and waiting:
            line.leave(waiting.pop(chance.randrange(len(waiting))))
        elif at_work:
            one = chance.choice(list(at_work))
            line.leave(one)
            had.append((one.owner, clock.now - at_work.pop(one), clock.now))
        kbs = Counter(one.kb for one in at_work)
        free = [one for one in waiting if rank(one)[0] < 2 and kbs[one.kb] < 3 and len(at_work) < 4]
        expected = min(free, key=rank, default=None)
        assert line.begin() is expected
        if expected:
            waiting.remove(expected)
            at_work[expected] = clock.now


MANY = 3_000


class Counted(SqliteDatabase):
    """Counts statements and their values."""

    statements = values = 0

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        self.statements, self.values = self.statements + 1, self.values + len(values)
        return super().run(statement, values)


def test_thousands_who_wait_cost_the_database_what_few_do_and_each_is_told_its_place(tmp_path):
    class Held(Store):
        def begin(self, run_id: str, worker: str, event: Event) -> list[StoredEvent]:
            go_on.wait(60)
            return []

    async def told(queue: RunQueue, runs: list[str]) -> list[int]:
        """What those who wait are told first: how many come before."""
        places = []
        for run in runs:
            async with aclosing(queue.follow(run)) as following:
                assert await asyncio.wait_for(anext(following), 5) == []
                places.append(queue.before(run))
        return places

    async def main() -> None:
        settings = web_settings(tmp_path, web_runs=1)
        queue = RunQueue(Service(settings, ()), store, InMemorySaver(), secrets_of(settings))
        spent, runs = [], []
        async with queue.running():
            for many in (10, MANY):
                while len(runs) < many:
                    runs.append(queue.ask(f"user {len(runs)}", MARIE, ("mini", "spinach", "offline")).id)
                database.statements = database.values = 0
                await asyncio.sleep(2.1)  # a round of everything that is looked at
                spent.append((database.statements, database.values))
            assert spent[1][0] <= spent[0][0] + 6
            assert spent[1][1] <= 6 * (200 + 10)
            assert await told(queue, runs[1::999]) == [place for place in range(MANY - 1) if place % 999 == 0]
            queue.stop(store.run(runs[1]))
            assert store.run(runs[1]).status == "stopped"
            go_on.set()

    go_on = threading.Event()
    with closing(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)) as opened:
        database = Counted(opened)
        store = Held(database, tmp_path)
        store.set_up()
        asyncio.run(main())


READERS, OTHER = 20, "another machine:1:w"


def test_of_the_runs_of_a_dead_worker_one_with_a_damaged_event_fails_alone(fresh_home):
    with open_sqlite(fresh_home / DATABASE) as database:
        store = Store(database)
        store.set_up()
        for name in ("damaged", "sound"):
            session = store.add_session("alice", "mini", "spinach", "offline").id
            run = replace(stored_run(name, session, "running", worker=OTHER), model="offline")
            store.add_run(run, at_once=9, a_day=9)
            store.add_events(name, OTHER, [{"kind": "started"}])
        database.run("UPDATE web_events SET data = '{' WHERE run = 'damaged'")
    with Server(web_settings(fresh_home)) as server:
        store = server.app.state.parts.store
        until(lambda: [store.run(name).status for name in ("damaged", "sound")] == ["failed", "done"])


def test_a_run_that_another_worker_took_and_left_keeps_no_second_place(tmp_path):
    class Lent(Store):
        def workers(self) -> dict[str, float]:
            asked.wait(60)
            if not lent.is_set():
                database.run("UPDATE web_runs SET worker = ?, beat = 1.0 WHERE session <> ''", (OTHER,))
                lent.set()
            return super().workers()

        def begin(self, run_id: str, worker: str, event: Event) -> list[StoredEvent]:
            begun.append(self.run(run_id).owner)
            go_on.wait(60)
            return []

    async def main() -> None:
        settings = web_settings(tmp_path, web_runs=1)
        queue = RunQueue(Service(settings, ()), store, InMemorySaver(), secrets_of(settings))
        async with queue.running():
            choice = ("mini", "spinach", "offline")
            queue.ask("first", MARIE, choice)
            until(lambda: begun == ["first"])
            queue.ask("second", MARIE, choice, session=store.add_session("second", *choice).id)
            asked.set()
            lent.wait(60)
            until(lambda: OTHER not in store.workers())
            queue.ask("third", MARIE, choice)
            go_on.set()
            until(lambda: begun == ["first", "second", "third"])

    asked, lent, go_on = threading.Event(), threading.Event(), threading.Event()
    begun: list[str] = []
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store = Lent(database, tmp_path)
        store.set_up()
        asyncio.run(main())


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
        for ago in (9, 5, 7):
            store.add_run(stored_run(f"{ago} s", "", "queued", time.time() - ago, OTHER), at_once=9, a_day=9)
        settings = web_settings(tmp_path)
        queue = RunQueue(Service(settings, ()), store, InMemorySaver(), secrets_of(settings))

        async def follow() -> list[str]:
            return [event.data["kind"] async for events in queue.follow("run") for event in events]

        async def main() -> list[list[str]]:
            async with queue.running():
                readers = [asyncio.create_task(follow()) for _ in range(READERS)]
                while store.asked < READERS:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(1.5)
                before = store.asked
                await asyncio.sleep(1.5)
                assert store.asked == before
                assert [queue.before(f"{ago} s") for ago in (9, 7, 5)] == [0, 1, 2]
                store.add_events("run", OTHER, [{"kind": "started"}])
                await asyncio.sleep(1)
                store.end("run", OTHER, "done", {})
                return await asyncio.wait_for(asyncio.gather(*readers), 60)

        assert asyncio.run(main()) == [["started", "end"]] * READERS
