"""``kbnav eval calibrate``: what a run with gold answers says of how sure answers are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.cli.root import app
from kbnav.evaluation.records import GOLD, INFO, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo
from kbnav.runs.journal import open_journal, write_whole
from kbnav.runs.trajectory import Call, Confidence, Doubt, Outcome, Run, Step, to_json

GOOD, BAD = AnswerTable(("x",), ((Term("literal", "1"),),)), AnswerTable(("x",), ((Term("literal", "2"),),))


def answer(number: int, right: bool, doubted: bool) -> QuestionRecord:
    outcome = Outcome("answered", "finish", query="SELECT ?x {}", table=GOOD if right else BAD)
    confidence = Confidence(0.5, 3 if right else 1, 3)
    outcome = replace(outcome, doubts=(Doubt("count"),) if doubted else (), confidence=confidence)
    steps = (Step(1, Call("execute_query"), rows=1), Step(2, Call("finish")))
    return QuestionRecord(f"q{number}", Run("r", "?", "spinach", "m", "en", steps, (), outcome))


def saved(folder: Path) -> Path:
    """Forty answers, of which those of all attempts are right, and one more."""
    records = [answer(number, number % 2 == 0 or number < 3, doubted=number % 2 == 1) for number in range(40)]
    folder.mkdir()
    ids = tuple(one.id for one in records)
    write_whole(folder / INFO, to_json(RunInfo("spinach", "m", "made", "0", ids, "en")) + "\n")
    gold = [GoldAnswer(one, "?", "stored", table=GOOD) for one in ids]
    for name, lines in ((GOLD, [GoldInfo("made", "0"), *gold]), (QUESTIONS, records)):
        with open_journal(folder / name) as journal:
            for line in lines:
                journal.append(line)
    return folder


def test_a_run_says_how_sure_answers_are_and_the_file_is_written(tmp_path):
    folder = saved(tmp_path / "run")
    out = tmp_path / "found.json"
    told = CliRunner().invoke(app, ["eval", "calibrate", str(folder), "--out", str(out)])
    assert told.exit_code == 0, told.output
    assert "40 answers, 21 right (52.5%)" in told.output
    assert json.loads(out.read_text())["samples"] == 3
    found = json.loads(CliRunner().invoke(app, ["eval", "calibrate", str(folder), "--json"]).stdout)
    assert found["raw_error"] == pytest.approx(19 / 40 * 1 / 3)  # a third of the attempts agree, and none is right
    assert sum(one["size"] for one in found["bins"]) == 40
