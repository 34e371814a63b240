"""Runs that are ended from outside: at once, in the middle of what they do, and with a record of what was done."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.spinach import build_spinach
from kbnav.errors import Stopped
from kbnav.models.cancellation import Cancellation
from kbnav.models.chat import ask
from kbnav.models.scripted import ScriptedModel
from kbnav.sessions.session import Chat, attempt, sqlite_sessions
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, agent_of, finishes, looks, runs
from tests.models.stub import silent_endpoint


class SlowKB(NumbersKB):
    """Its queries end when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def execute_query(self, query, *, language="en"):
        self.asked.set()
        self.go_on.wait(30)
        return super().execute_query(query, language=language)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_stopping_hangs_up_on_the_model_at_once(tmp_path, loop):
    cancellation = Cancellation(loop)
    with silent_endpoint() as (url, asked, hung_up):
        settings = Settings(home=tmp_path, language="en", model="any", base_url=url, model_retries=0)
        agent = build_spinach(NumbersKB(), settings)
        threading.Thread(target=lambda: asked.wait(30) and cancellation.stop()).start()
        run, failure = attempt(agent, "How many?", cancellation=cancellation)
        assert hung_up.wait(10)
    assert isinstance(failure, Stopped)
    assert (run.outcome.status, run.outcome.note, run.path) == ("failed", "Stopped on request.", ())
    assert run.outcome.absence is None


def test_stopping_does_not_wait_for_a_tool_and_records_the_call_that_was_cut_off(tmp_path):
    kb, cancellation = SlowKB(), Cancellation()
    agent = agent_of([looks("a"), runs(5), finishes()], tmp_path, kb=kb)
    threading.Thread(target=lambda: kb.asked.wait(30) and cancellation.stop("Out of time.")).start()
    run, failure = attempt(agent, "How many?", cancellation=cancellation)
    assert not kb.go_on.is_set()
    kb.go_on.set()
    assert str(failure) == "Out of time."
    assert [(step.call.tool, step.ok, step.observation) for step in run.path] == [
        ("look", True, "seen: a"),
        ("execute_query", False, "Out of time."),
    ]


def test_a_limit_on_what_is_used_ends_the_run_before_the_next_call(tmp_path):
    cancellation = Cancellation(limit=lambda usage: "Too dear." if usage.calls >= 2 else "")
    run, failure = attempt(
        agent_of([looks("a"), runs(5), finishes()], tmp_path), "How many?", cancellation=cancellation
    )
    assert str(failure) == "Too dear."
    assert [step.call.tool for step in run.path] == ["look", "execute_query"]
    assert run.outcome.table is not None  # what was found by then is kept
    assert len(run.outcome.table) == 5


def test_an_abandoned_session_goes_on_where_it_was(tmp_path):
    kb, cancellation = SlowKB(), Cancellation()
    threading.Thread(target=lambda: kb.asked.wait(30) and cancellation.abandon()).start()
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent_of([looks("a"), runs(5)], tmp_path, kb=kb), "s1", saver)
        with pytest.raises(CancelledError):
            chat.ask("How many?", cancellation=cancellation)
        kb.go_on.set()
        again = Chat(agent_of([finishes()], tmp_path), "s1", saver)
        assert again.unfinished == "How many?"
        run = again.resume()
    assert [step.call.tool for step in run.path] == ["look", "execute_query", "finish"]
    assert run.outcome.status == "answered"


def test_a_brake_that_was_pulled_before_lets_nothing_begin():
    cancellation = Cancellation()
    cancellation.stop()
    cancellation.stop("a second reason changes nothing")
    with pytest.raises(Stopped, match="on request"):
        cancellation.check()
    with pytest.raises(Stopped, match="on request"):
        cancellation.run(lambda: time.sleep(60))


@pytest.mark.parametrize("end", [Cancellation.stop, Cancellation.abandon, lambda cancellation: None])
def test_a_model_that_is_asked_after_its_run_and_loop_are_over_is_not_even_begun(end):
    loop = asyncio.new_event_loop()
    loop.close()
    cancellation = Cancellation(loop)
    end(cancellation)
    with pytest.raises((Stopped, CancelledError)):
        cancellation.run_here(lambda: ask(ScriptedModel(replies=[AIMessage("Yes?")]), "Hello?"))
    gc.collect()  # a coroutine that nobody awaited would warn here
