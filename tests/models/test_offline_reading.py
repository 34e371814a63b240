"""What the offline policy says of its reading, when it refuses, and what it offers instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
from kbnav.knowledge.open import open_kb
from kbnav.runs.trajectory import Outcome, Understood
from kbnav.sessions.session import ask
from kbnav.settings.model import load_settings


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    settings = load_settings(kb="mini", model="offline", home=tmp_path_factory.mktemp("home"))
    with open_kb(settings) as kb:
        yield build_spinach(kb, settings)


def told(agent: Agent, question: str) -> tuple[Outcome, Understood]:
    outcome = ask(agent, question).outcome
    assert outcome.understood
    return outcome, outcome.understood


def test_an_answer_names_the_words_that_are_no_part_of_its_query(agent: Agent):
    for question, unused in (("Wer entdeckte Polonium?", ()), ("Which gas did Marie Curie discover?", ("gas",))):
        outcome, understood = told(agent, question)
        assert (outcome.status, understood.unused) == ("answered", unused)


@pytest.mark.parametrize(
    "question",
    [
        "Who is the husband of Marie Curie's favourite former colleague?",
        "Which elements glow blue underwater in Warsaw and were discovered by Marie Curie?",
    ],
)
def test_too_many_words_left_over_are_refused(agent: Agent, question: str):
    outcome, understood = told(agent, question)
    assert (outcome.status, outcome.table) == ("no answer", None)
    assert understood.unused


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wer hat eigentlich heute wirklich genau Polonium entdeckt?", "Marie Curie, Pierre Curie"),
        ("Quel est actuellement vraiment exactement le lieu de naissance connu de Marie Curie ?", "Varsovie"),
        ("¿Cuál es realmente actualmente exactamente el lugar de nacimiento conocido de Marie Curie?", "Varsovia"),
        ("目前究竟著名的玛丽·居里的出生地到底是什么？", "华沙"),
    ],
)
def test_words_that_say_little_are_no_reason_to_refuse_in_five_languages(agent: Agent, question: str, answer: str):
    assert ask(agent, question).outcome.text == answer


def test_a_misspelled_name_is_offered_as_it_is_written(agent: Agent):
    outcome, understood = told(agent, "Who discovered polonum?")
    assert outcome.status == "no answer"
    assert understood.unused == ("polonum",)
    assert understood.instead == ("Who discovered polonium?",)


def test_what_a_name_stands_for_can_be_said(agent: Agent):
    assert ask(agent, "Who discovered polonium? (polonium: Q1128)").outcome.query == (
        "SELECT DISTINCT ?answer WHERE { wd:Q1128 wdt:P61 ?answer . }"
    )


def test_a_question_about_what_is_not_stated_is_not_answered_with_false(agent: Agent):
    outcome, _ = told(agent, "Did Marie Curie discover oxygen?")
    assert outcome.text == "✗ (no such statement here)"
    assert outcome.table is not None
    assert outcome.table.boolean is False
