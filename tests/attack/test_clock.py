"""A clock that jumps: by a year ahead and back again, nothing waits for ever and nothing old is taken for new."""

import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.apps.web.queue import is_dead
from kbnav.apps.web.store import Store, StoredRun, open_sqlite
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle
from kbnav.sessions.session import Chat, sqlite_sessions
from kbnav.settings.model import Settings

YEAR = 365 * 24 * 3600.0


class Clock:
    """A clock that moves when it is told to, and when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 1_800_000_000.0, 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        assert self.slept < 600, "it waits for ever"


@pytest.mark.slow
@pytest.mark.parametrize("rules", [Rules(requests=3), Rules(errors=2), Rules(seconds=30.0)])
@pytest.mark.parametrize("jumps", [(YEAR, -YEAR), (-YEAR, YEAR), (YEAR, -2 * YEAR), (-3600.0, 0.0)])
@pytest.mark.parametrize("within", [False, True], ids=["between requests", "within a request"])
def test_limits_hold_and_no_request_waits_for_a_year(tmp_path, rules, jumps, within):
    clock = Clock()
    throttle = Throttle(tmp_path / "limits.sqlite", clock=clock, sleep=clock.sleep)

    def ask(jump: float = 0.0) -> None:
        with throttle.slot("a", rules) as slot:
            slot.failed = True
            clock.now += 15.0 + (jump if within else 0.0)
        clock.now += 0.0 if within else jump

    for jump in jumps:
        for _ in range(2):
            ask()
        ask(jump)
    before = clock.slept
    for _ in range(6):
        ask()
    assert clock.slept - before < 360
    if rules.requests is None or rules.requests * 15 < 60:
        assert clock.slept > before  # the limits are still there


def test_what_a_bot_put_off_and_counted_before_its_clock_jumped_back_holds_nothing_up_for_a_year(tmp_path):
    ledger, now = Ledger(tmp_path / "bot.sqlite"), 1_800_000_000.0
    question = Question("q1", "Talk:A", "A", "Ann", "now", "Who?", 0)
    ledger.add(question, now + YEAR)
    ledger.update("q1", now + YEAR, tries=1, due=now + YEAR + 60)
    assert [entry.question.id for entry in ledger.due(now, 900)] == ["q1"]
    assert ledger.asked_since(now - 86_400, "Ann", now=now) == 0
    ledger.update("q1", now, tries=2, due=now + 120)
    assert ledger.due(now, 900) == []  # put off by the clock as it is
    assert [entry.question.id for entry in ledger.due(now + 120, 900)] == ["q1"]
    ledger.close()


def test_an_answer_from_the_future_is_not_young_for_ever(tmp_path):
    clock = Clock()
    cache = HttpCache(tmp_path / "cache.sqlite", age=60, clock=clock)
    clock.now += YEAR
    cache.put("a", "text/plain", b"old")
    assert cache.get("a") == ("text/plain", b"old")
    clock.now -= YEAR
    assert cache.get("a") is None
    cache.put("a", "text/plain", b"new")
    assert cache.get("a") == ("text/plain", b"new")


def put_ahead(home: Path, seconds: float) -> None:
    """Have a clock that was ahead have written all checkpoints: their ids tell the time, in tenths of microseconds."""

    def later(checkpoint: str | None) -> str | None:
        if checkpoint is None:
            return None
        number = uuid.UUID(checkpoint).int
        ticks = ((number >> 80) << 12 | (number >> 64) & 0xFFF) + int(seconds * 1e7)
        return str(uuid.UUID(int=(ticks >> 12) << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | number & (1 << 64) - 1))

    with closing(sqlite3.connect(home / "sessions.sqlite")) as file, file:
        file.create_function("later", 1, later)
        file.execute(
            "UPDATE checkpoints SET checkpoint_id = later(checkpoint_id), "
            "parent_checkpoint_id = later(parent_checkpoint_id)"
        )
        file.execute("UPDATE writes SET checkpoint_id = later(checkpoint_id)")


def test_a_session_goes_on_from_what_was_said_last_whatever_the_clock_was(mini_kb, tmp_path):
    settings = Settings(home=tmp_path, kb="mini", language="en")
    asked = ["Who discovered polonium?", "Who discovered radium?", "Who discovered helium?"]
    for number, question in enumerate(asked):
        with sqlite_sessions(tmp_path) as saver:
            chat = Chat(build_agent(mini_kb, settings), "s", saver)
            assert [turn.question for turn in chat.history] == asked[:number]
            chat.ask(question)
        if number == 0:
            put_ahead(tmp_path, YEAR)
    with sqlite_sessions(tmp_path) as saver:
        assert [turn.question for turn in Chat(build_agent(mini_kb, settings), "s", saver).history] == asked


def test_a_page_keeps_the_order_of_a_session_and_the_days_count_when_its_clock_was_put_back(tmp_path):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store, now = Store(database), time.time()
        store.set_up()
        session = store.add_session("alice", "mini", "spinach", "m").id
        for name, made in (("first", now + YEAR), ("second", now), ("third", now + 1)):
            run = StoredRun(name, session, "alice", "mini", "s", "m", "?", "queued", "w", 0.0, False, None, made, None)
            store.add_run(run, at_once=9, a_day=3)
            store.end(name, "w", "done", {"text": ""})
        assert [run.id for run in store.runs(session)] == ["first", "second", "third"]
        store.may_ask("alice", 1)  # a year from now they count


@pytest.mark.parametrize("seen", [-YEAR, YEAR])
def test_a_worker_of_another_machine_that_is_silent_is_dead_by_any_clock(seen):
    assert is_dead("elsewhere.invalid:1:a", time.time() + seen)
    assert not is_dead("elsewhere.invalid:1:a", time.time() - 1)
