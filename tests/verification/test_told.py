"""What speaks against an answer reaches whoever reads it: in the terminal, as data, in a bot's reply and saved runs."""

import io
import json
from pathlib import Path

import pytest
from benchmarks.answer_checks import judged
from rich.console import Console

from kbnav.agents.common.agent import build_agent
from kbnav.apps.bot.wikitext import Style, reply_text
from kbnav.apps.console import answer_json, print_answer
from kbnav.knowledge.base import KnowledgeBase
from kbnav.library.asking import Answer
from kbnav.runs.trajectory import DOUBTS, Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings

ASKED = "What year was Marie Curie born?"


@pytest.fixture
def run(mini_kb: KnowledgeBase, tmp_path: Path) -> Run:
    """A whole date is the answer to a question for a year."""
    return ask(build_agent(mini_kb, Settings(home=tmp_path)), ASKED)


def test_doubts_are_told_in_the_terminal_in_a_bots_reply_and_to_programs(run):
    out = io.StringIO()
    print_answer(Console(file=out, width=120), run, "")
    assert f"Doubt: {DOUBTS['year']}" in out.getvalue()
    assert DOUBTS["year"] in reply_text(run, Style(), marker="m")
    assert json.loads(answer_json(run, ""))["doubts"] == [{"kind": "year", "about": "", "text": DOUBTS["year"]}]
    assert [doubt.kind for doubt in Answer(run).doubts] == ["year"]


def test_checks_can_be_left_out(mini_kb, tmp_path):
    settings = Settings(home=tmp_path, checks=False)
    assert ask(build_agent(mini_kb, settings), ASKED).outcome.doubts == ()


def test_of_the_published_runs_half_of_the_wrong_and_a_twentieth_of_the_right_answers_are_flagged(shared_data):
    every = judged(shared_data)
    right = [one.flagged for one in every if one.right]
    wrong = [one.flagged for one in every if not one.right]
    assert (len(right), len(wrong)) == (244, 143)
    assert sum(wrong) / len(wrong) >= 0.5
    assert sum(right) / len(right) < 0.05
