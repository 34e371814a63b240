"""How sure an answer is: attempts that agree, a calibration, and answers that are withheld."""

from __future__ import annotations

import io
import math
import random
from pathlib import Path

import pytest
from benchmarks.answer_checks import judged, seen
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.agents.common.confidence import (
    Seen,
    calibration_error,
    fit,
    held_out,
    read_calibration,
    reliability,
    write_calibration,
)
from kbnav.agents.spinach import spinach_with
from kbnav.apps.console import print_answer
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import Chat, ask, serializer
from kbnav.settings.model import Checks, Settings

BOTH = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 }"
SAME = "SELECT DISTINCT ?element ?n WHERE { ?element wdt:P61 wd:Q7186 ; wdt:P1086 ?n } ORDER BY DESC(?n)"
OTHER = "SELECT ?x WHERE { wd:Q7186 wdt:P569 ?x }"
DONE = says(("finish", {"answer": "These."}))
ASKED = "Which elements did Marie Curie discover?"


def sampled(kb: KnowledgeBase, home: Path, *queries: str, **checks: object) -> Agent:
    """SPINACH asked as often as there are queries, each attempt with one of them."""
    replies: list[AIMessage] = []
    for query in queries:
        replies += [says(("execute_query", {"query": query})), DONE]
    settings = Settings(
        home=home, model="scripted", language="en", options={"samples": len(queries)}, checks=Checks(**checks)
    )
    return spinach_with(ScriptedModel(replies=replies), None, kb, settings)


def test_the_answer_that_most_attempts_give_is_taken_and_how_many_is_told(mini_kb, tmp_path):
    run = ask(sampled(mini_kb, tmp_path, OTHER, BOTH, SAME), ASKED)
    assert run.outcome.query == BOTH
    assert run.outcome.confidence is not None
    assert (run.outcome.confidence.agreeing, run.outcome.confidence.samples) == (2, 3)
    assert run.usage.calls == 6  # of all attempts
    out = io.StringIO()
    print_answer(Console(file=out, width=200), run, "")
    assert "(2 of 3 attempts agree, calibrated on 378 answers of" in out.getvalue()


def test_a_chat_goes_on_from_the_answer_that_was_taken(mini_kb, tmp_path):
    chat = Chat(sampled(mini_kb, tmp_path, OTHER, BOTH, SAME), "s", InMemorySaver(serde=serializer()))
    assert chat.ask(ASKED).outcome.query == BOTH
    assert [turn.outcome.query for turn in chat.history] == [BOTH]


def test_an_answer_that_is_not_sure_enough_is_withheld_with_what_failed(mini_kb, tmp_path):
    run = ask(sampled(mini_kb, tmp_path, OTHER, BOTH, SAME, min_confidence=0.7), ASKED)
    assert (run.outcome.status, run.outcome.table, run.outcome.text) == ("no answer", None, "")
    assert "and 0.7 is required" in run.outcome.note
    assert run.outcome.confidence is not None
    assert (run.outcome.confidence.agreeing, run.outcome.confidence.samples) == (2, 3)
    sure = ask(sampled(mini_kb, tmp_path, BOTH, SAME, min_confidence=0.7), ASKED)
    assert sure.outcome.status == "answered"


def test_one_attempt_is_judged_by_what_speaks_against_it(mini_kb, tmp_path):
    settings = Settings(home=tmp_path, checks=Checks(min_confidence=0.5))
    agent = build_agent(mini_kb, settings)
    assert ask(agent, "Who discovered polonium?").outcome.status == "answered"
    run = ask(agent, "What year was Marie Curie born?")
    assert (run.outcome.status, run.outcome.withheld) == ("no answer", True)
    assert "whole dates" in run.outcome.note
    out = io.StringIO()
    print_answer(Console(file=out, width=200), run, "")
    assert "An answer was found and is withheld" in out.getvalue()
    assert "No answer was found" not in out.getvalue()


def test_the_error_and_the_bins_are_those_worked_out_by_hand():
    confidences, right = [0.95, 0.95, 0.95, 0.95, 0.25, 0.25], [True, True, True, False, False, True]
    assert [tuple(one) for one in reliability(confidences, right)] == [
        (0.2, 0.3, 2, 0.25, 0.5),
        (0.9, 1.0, 4, pytest.approx(0.95), 0.75),
    ]
    assert calibration_error(confidences, right) == pytest.approx((2 * 0.25 + 4 * 0.2) / 6)


def test_a_calibration_finds_the_curve_that_made_the_answers():
    draw = random.Random(1)
    answers = [
        Seen(draw.randint(0, 2), True, draw.randint(2, 15), draw.choice([1 / 3, 2 / 3, 1.0])) for _ in range(900)
    ]

    def truly(one: Seen) -> float:
        return 1 / (1 + math.exp(-(-1.5 - 1.0 * one.doubts + 4.0 * one.agreement)))

    right = [draw.random() < truly(one) for one in answers]
    found = fit(answers, right, "made", "2026-01-01", samples=3)
    assert max(abs(found.confidence(one) - truly(one)) for one in answers) < 0.12
    assert calibration_error(held_out(answers, right, 3), right) < 0.06
    assert calibration_error([one.agreement for one in answers], right) > 0.1


def test_what_was_learnt_from_single_attempts_is_multiplied_by_the_share_that_agrees():
    known = read_calibration()
    assert known.samples == 1
    whole = known.confidence(Seen(0, True, 4, 1.0))
    assert known.confidence(Seen(0, True, 4, 1 / 3)) == pytest.approx(whole / 3)


def test_the_calibration_that_comes_along_is_that_of_the_published_runs(shared_data):
    answers = [one for one in judged(shared_data) if one.own != "no rows"]
    known = read_calibration()
    again = fit([seen(one) for one in answers], [one.right for one in answers], known.source, known.made)
    assert again == known
    confidences = held_out([seen(one) for one in answers], [one.right for one in answers])
    assert calibration_error(confidences, [one.right for one in answers]) < 0.07


def test_a_calibration_is_kept_in_a_file_and_what_is_none_is_refused(tmp_path):
    known = read_calibration()
    write_calibration(known, tmp_path / "one.json")
    assert read_calibration(tmp_path / "one.json") == known
    (tmp_path / "odd.json").write_text("[]")
    with pytest.raises(DataError):
        read_calibration(tmp_path / "odd.json")
    with pytest.raises(UsageError):
        read_calibration(tmp_path / "none.json")
    with pytest.raises(UsageError, match="right and wrong"):
        fit([Seen(0, True, 3, 1.0)], [True], "", "")
