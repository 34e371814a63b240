"""Fair turns, work that hangs, and the circuit breaker of a knowledge base."""

import asyncio
import threading
import time

import pytest

from kbnav.apps.web import limiter
from kbnav.apps.web.limiter import CircuitBreaker, FairQueue, Limiter, Ticket
from kbnav.errors import DamagedKB, LimitReached, NotAnswering, ServiceError, Stopped
from tests.clock import Clock


def test_one_user_has_no_more_than_a_share_and_one_knowledge_base_neither():
    line = FairQueue(4, of_owner=2, of_kb=3)
    assert [line.join("a", "x") and line.begin() is not None for _ in range(3)] == [True, True, False]
    assert [line.join("b", "x") and line.begin() is not None for _ in range(2)] == [True, False]
    assert line.join("b", "y")
    begun = line.begin()
    assert begun is not None
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


async def never() -> bool:
    return False


def running(pool: Limiter, owner: str, call, *, name: str = "", gone=never, seconds: float = 30):
    return asyncio.create_task(pool.run(owner, "kb", call, gone=gone, seconds=seconds, name=name))


def test_what_runs_and_what_waits_can_be_stopped_and_what_is_raised_is_raised():
    async def all_of_it() -> None:
        pool, go_on = Limiter(FairQueue(1, of_owner=1, of_kb=1)), threading.Event()
        runs = running(pool, "a", go_on.wait, name="runs")
        waits = running(pool, "a", go_on.wait, name="waits")
        left = running(pool, "b", go_on.wait, gone=lambda: asyncio.sleep(0, True))
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
    with pytest.raises(NotAnswering, match="the knowledge base kb does not answer; it is tried again in 30 s"):
        one.check()
    assert one.problem == "it does not answer"
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
    assert looked.acquire(timeout=10)
    settled(lambda: one.problem == faults[0])
    fails(one, NotAnswering("out of service"))
    faults.clear()
    other = CircuitBreaker("kb", check, clock)
    fails(other, DamagedKB("by a mistake"))
    settled(lambda: other.problem == "")
    fails(other, DamagedKB("by a mistake"))
    assert other.problem == ""  # it was read through just now


def settled(true) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


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
