"""``kbnav planner``: train on questions with gold nodes, then judge."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from kbnav.apps import cli_planner
from kbnav.knowledge.skb import matching
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.planning import open as planners
from kbnav.planning import training
from tests.apps.test_cli_skb import Cli
from tests.planning.conftest import EDGES, NODES

ENDS = ("now", "today", "mostly", "please", "then", "again")
QUESTIONS = [
    *((f"Which drug helps with gout {end}?", "dA", "treats", "in") for end in ENDS),
    *((f"What gene is behind scurvy {end}?", "g2", "associated", "out") for end in ENDS),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planner-cli")
    (out / "n.csv").write_text(NODES)
    (out / "e.csv").write_text(EDGES)
    build(TableSource([out / "n.csv"], [out / "e.csv"]), out / "clinic.skb", Options(sparql=False))
    rows = [{"id": str(n), "question": text, "nodes": [node]} for n, (text, node, _, _) in enumerate(QUESTIONS)]
    (out / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = [{**row, "meta": {"paths": [{"hops": [["ppi", "out"]], "types": ["gene", "gene"]}]}} for row in rows]
    (out / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in known))
    (out / "no-nodes.jsonl").write_text('{"id": "1", "question": "What?"}\n')
    return out


@pytest.fixture
def kbnav(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(folder)
    return Cli(monkeypatch, capsys)


def test_train_then_judge(kbnav: Cli) -> None:
    kb = ("--kb", "clinic.skb", "--questions")
    code, out, _ = kbnav("planner", "train", *kb, "train.jsonl", "--out", "ranker")
    assert (code, out) == (0, "ranker: ranker trained on 12 questions, 2 paths; 0 had text alone\n")
    code, out, _ = kbnav("planner", "eval", *kb, "train.jsonl", "--trained", "ranker", "--json")
    scores = json.loads(out)
    assert (code, scores["planner"]) == (0, {"questions": 12, "first": 1.0, "first_three": 1.0, "planned": 1.0})
    # gout and scurvy are diseases both: the likelier path is right for half of the questions
    assert scores["most_frequent"]["first"] == 0.5
    code, out, _ = kbnav("planner", "eval", *kb, "known.jsonl", "--trained", "ranker")
    assert (code, out.splitlines()[0]) == (0, "12 questions, 100.0% with a plan")
    assert "ranker: first path right 0.000" in out  # the paths in the records are what counts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kb", "mini", "--questions", "train.jsonl"], "needs an SKB"),
        (["--kb", "clinic.skb", "--questions", "no-nodes.jsonl"], "no question of no-nodes.jsonl has gold nodes"),
        (["--kb", "clinic.skb", "--questions", "train.jsonl", "--planner", "seq2seq"], "must be trained first"),
        (["--kb", "clinic.skb", "--questions", "train.jsonl", "--trained", "clinic.skb"], "no trained planner"),
    ],
)
def test_wrong_use_is_one_line(kbnav: Cli, arguments: list[str], message: str) -> None:
    code, _, error = kbnav("planner", "eval", *arguments)
    assert code == 2
    assert message in " ".join(error.split())


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (cli_planner.Weighing, get_args(training.Weighing)),
        (cli_planner.Matching, get_args(matching.Variant)),
        (cli_planner.Named, [name for name in planners.NAMES if name != "none"]),
    ],
)
def test_the_command_offers_all_that_there_is(offered: type[StrEnum], known: list[str]):
    assert {one.value for one in offered} == set(known)
