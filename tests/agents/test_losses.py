"""Look-ups that were not answered in time are never told as absence."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout, ServiceError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.scripted import says
from kbnav.sessions.session import ask, attempt
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, agent_of, finishes, runs

SLOW = "the query took longer than 20 s"


@dataclass
class SlowKB(NumbersKB):
    """``SELECT n`` is not answered the first ``slow`` times, unless n is 0."""

    slow: int = 0
    ran: list[str] = field(default_factory=list)

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        if query != "SELECT 0" and self.ran.count(query) < self.slow:
            self.ran.append(query)
            raise QueryTimeout(SLOW)
        return super().execute_query(query)


def gives_up():
    return says(("finish", {"no_answer": True}))


def test_a_run_that_found_nothing_because_queries_were_not_answered_is_an_error_that_says_so(tmp_path):
    agent = agent_of([runs(2), runs(0), gives_up(), gives_up()], tmp_path, kb=SlowKB(slow=9))
    run, failure = attempt(agent, "How many?")
    assert run.outcome.status == "failed"
    assert f"A look-up was not answered ({SLOW})" in run.outcome.note
    assert isinstance(failure, ServiceError)
    assert SLOW in str(failure)


def test_an_answer_beside_which_a_query_was_not_answered_says_so(tmp_path):
    class OneSlow(SlowKB):
        def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
            if query == "SELECT 3":
                raise QueryTimeout(SLOW)
            return NumbersKB.execute_query(self, query)

    run = ask(agent_of([runs(3), runs(2), finishes()], tmp_path, kb=OneSlow()), "How many?")
    assert run.outcome.status == "answered"
    assert run.outcome.note == f"A look-up was not answered, so that something may be missing ({SLOW})."


def test_a_model_may_try_what_was_not_answered_once_more_itself(tmp_path):
    run = ask(agent_of([runs(2), runs(2), finishes()], tmp_path, kb=SlowKB(slow=1)), "How many?")
    assert (run.outcome.status, run.discarded) == ("answered", ())
    again = ask(agent_of([runs(2), runs(2), runs(2), runs(3), finishes()], tmp_path, kb=SlowKB(slow=2)), "How many?")
    assert [step.dropped for step in again.discarded if step.call.key == again.path[0].call.key][-1:] == ["repeat"]


class Late:
    """A knowledge base whose first queries are not answered in time."""

    def __init__(self, kb: KnowledgeBase, late: int) -> None:
        self._kb, self.late = kb, late

    def __getattr__(self, name: str):
        if name == "metered":  # its requests are not counted; a counting copy would not be late
            raise AttributeError(name)
        return getattr(self._kb, name)

    def metered(self, _: object) -> Late:
        return self  # a run asks what counts for it, which would be the knowledge base behind this one

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        self.late -= 1
        if self.late >= 0:
            raise QueryTimeout(SLOW)
        return self._kb.execute_query(query, language=language)


def test_the_offline_policy_does_not_go_on_to_another_property_when_a_query_was_late(tmp_path, mini_kb):
    agent = build_agent(Late(mini_kb, 1), Settings(home=tmp_path, language="en"), "spinach")
    run = ask(agent, "Who discovered polonium?")
    assert (run.outcome.status, run.outcome.text) == ("answered", "Marie Curie, Pierre Curie")
