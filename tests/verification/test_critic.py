"""An answer that the model objects to: the run goes on, for a few turns, and what is given in the end says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import build_agent
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Budget, Checks, Settings

ALL = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 }"
"""What Marie Curie discovered: polonium and radium."""
ONE = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 ; wdt:P1086 ?n } ORDER BY DESC(?n) LIMIT 1"
DONE = says(("finish", {"answer": "These."}))


def runs(query: str) -> AIMessage:
    return says(("execute_query", {"query": query}))


class Asked:
    """A run whose model and critic are scripted."""

    def __init__(self, kb: KnowledgeBase, home: Path, replies: list[AIMessage], said: list[str], **more: object):
        checks = more.pop("checks", Checks(by="model"))
        settings = Settings(home=home, model="scripted", language="en", checks=checks, **more)  # type: ignore[arg-type]
        self.policy = ScriptedModel(replies=replies)
        self.critic = ScriptedModel(replies=[AIMessage(text) for text in said])
        agent = spinach_with(self.policy, self.critic, kb, settings)
        self.run: Run = ask(agent, "Which is the heaviest element that Marie Curie discovered?")

    @property
    def prompt(self) -> str:
        return self.critic.seen[0][0].text


def test_an_answer_that_passes_is_given_as_it_is(mini_kb, tmp_path):
    asked = Asked(mini_kb, tmp_path, [runs(ONE), DONE], ["OK"])
    assert (asked.run.outcome.status, asked.run.outcome.doubts) == ("answered", ())
    assert "heaviest element" in asked.prompt
    assert "radium" in asked.prompt


def test_an_objection_is_told_to_the_model_which_mends_its_query(mini_kb, tmp_path):
    asked = Asked(mini_kb, tmp_path, [runs(ALL), DONE, runs(ONE), DONE], ["Sort by atomic number."])
    assert "Doubt" not in asked.prompt
    assert "neither sorts nor takes a largest or smallest value" in asked.prompt  # the rules' doubts
    assert "Sort by atomic number." in asked.policy.seen[2][-1].text
    assert (asked.run.outcome.status, asked.run.outcome.query) == ("answered", ONE)
    assert asked.run.outcome.doubts == ()
    assert len(asked.critic.seen) == 1


def test_a_model_may_stand_by_its_answer_and_the_objection_is_told_beside_it(mini_kb, tmp_path):
    asked = Asked(mini_kb, tmp_path, [runs(ALL), DONE, DONE], ["Sort by atomic number."])
    assert (asked.run.outcome.status, asked.run.outcome.query) == ("answered", ALL)
    assert ("critic", "Sort by atomic number.") in [(one.kind, one.about) for one in asked.run.outcome.doubts]
    assert asked.run.discarded == ()


def test_after_so_many_turns_the_run_ends_with_what_it_has(mini_kb, tmp_path):
    more = [runs(f"SELECT ?x WHERE {{ ?x wdt:P{number} ?y }}") for number in range(900, 910)]
    asked = Asked(mini_kb, tmp_path, [runs(ALL), DONE, *more], ["No."], checks=Checks(by="model", turns=2))
    assert len(asked.run.steps) == 4
    assert (asked.run.outcome.status, asked.run.outcome.query) == ("best effort", ALL)


def test_nothing_is_objected_where_no_action_is_left_to_mend_it(mini_kb, tmp_path):
    asked = Asked(mini_kb, tmp_path, [runs(ALL), DONE], ["No."], budget=Budget(actions=2))
    assert (asked.run.outcome.status, asked.critic.seen) == ("answered", [])


def test_what_cannot_check_says_so(mini_kb, tmp_path):
    with pytest.raises(UsageError, match="no check by the model"):
        build_agent(mini_kb, Settings(home=tmp_path, checks=Checks(by="model")))
