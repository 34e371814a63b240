"""Runs side by side, with numbers worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbnav.answers.tables import AnswerTable, Ranking, Term
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.records import GOLD, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo, read_saved_run
from kbnav.evaluation.report.text import breakdown, breakdown_markdown
from kbnav.evaluation.runner import begin_run
from kbnav.runs.journal import open_journal
from kbnav.runs.trajectory import Outcome, Run
from tests.apps.parts import Cli

MADE = [
    {"id": "1", "question": "a?", "nodes": ["n1"], "meta": {"shape": "1", "from": {"kind": "x"}}},
    {"id": "2", "question": "b?", "nodes": ["n2"], "meta": {"shape": "2&1", "from": {"kind": "y"}}},
    {"id": "3", "question": "c?", "nodes": ["n3"], "meta": {"shape": "1&2"}},
]


def saved(folder: Path, system: str, dataset: Path, found: dict[str, str], **spent: float) -> str:
    """A run over the questions of a file that ranks one node for each, right or wrong."""
    questions = load_file("jsonl", dataset)
    ids = tuple(one.id for one in questions.questions)
    begin_run(folder, RunInfo(system, "m", questions.name, questions.sha256, ids, "en"))
    with open_journal(folder / GOLD) as gold, open_journal(folder / QUESTIONS) as records:
        gold.append(GoldInfo(questions.name, questions.sha256))
        for one in questions.questions:
            gold.append(GoldAnswer(one.id, one.text(), "stored", "", one.answers, one.nodes))
            if one.nodes:
                outcome = Outcome("answered", "finish", ranking=Ranking.from_scores([(found[one.id], 1.0)]))
            else:
                outcome = Outcome("answered", "finish", table=AnswerTable(("x",), ((Term("literal", found[one.id]),),)))
            records.append(QuestionRecord(one.id, Run("", one.text(), system, "m", "en", (), (), outcome, **spent)))
    return str(folder)


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    (tmp_path / "made.jsonl").write_text("".join(json.dumps(one) + "\n" for one in MADE))
    (tmp_path / "own.jsonl").write_text('{"id": "1", "question": "Who?", "answers": ["Ann"]}\n')
    made, own = tmp_path / "made.jsonl", tmp_path / "own.jsonl"
    right = {"1": "n1", "2": "n2", "3": "n3"}
    return [
        saved(tmp_path / "a", "one", made, right | {"3": "n9"}, seconds=2.0, cost=0.5),
        saved(tmp_path / "b", "two", made, right | {"1": "n9"}),
        saved(tmp_path / "c", "one", own, {"1": "Ann"}, seconds=4.0),
    ]


def read(folders: list[str]) -> dict:
    return {Path(folder).name: read_saved_run(Path(folder)) for folder in folders}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("shape", [("1", 1, 1.0, 0.0), ("1&2", 1, 0.0, 1.0), ("2&1", 1, 1.0, 1.0)]),
        ("meta.shape", [("1", 1, 1.0, 0.0), ("1&2", 1, 0.0, 1.0), ("2&1", 1, 1.0, 1.0)]),
        ("meta.from.kind", [("x", 1, 1.0, 0.0), ("y", 1, 1.0, 1.0), ("–", 1, 0.0, 1.0)]),
    ],
)
def test_questions_by_what_they_are(runs, tmp_path, key, expected):
    found = read(runs[:2])
    made = breakdown(found, load_file("jsonl", tmp_path / "made.jsonl"), key)
    assert [(one["value"], one["questions"], *one["means"].values()) for one in made.groups] == expected
    assert breakdown_markdown(made).splitlines()[0] == f"| {key} | Questions | a MRR | b MRR |"


def test_the_command_prints_them_and_says_what_is_wrong(runs, tmp_path, monkeypatch, capsys):
    kbnav = Cli(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    code, out, _ = kbnav("eval", "report", "a", "b", "--by", "shape", "--dataset", "made.jsonl")
    assert (code, out.splitlines()[2]) == (0, "| 1 | 1 | 100.0 | 0.0 |")
    code, out, _ = kbnav("eval", "report", "a", "--by", "shape", "--dataset", "made.jsonl", "--json")
    assert json.loads(out)[0] == {"value": "1", "questions": 1, "means": {"a": 1.0}}
    for arguments, message in (
        (
            ["a", "--by", "shape", "--dataset", "own.jsonl"],
            "a is of another made than own: name its dataset by --dataset",
        ),
        (
            ["a", "--by", "colour", "--dataset", "made.jsonl"],
            "no question of made has colour; in meta there are: from, shape",
        ),
        (["a", "--dataset", "made.jsonl"], "--dataset goes with --by"),
    ):
        code, out, error = kbnav("eval", "report", *arguments)
        assert (code, out) == (2, "")
        assert message in error
