"""``kbnav train ranker``: train on questions with gold nodes, then judge."""

import json
from pathlib import Path

import pytest
from benchmarks.plans import Judged, PlanScores, judge

from kbnav.apps.cli.train import path_questions
from kbnav.evaluation.datasets import find_dataset
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.planners import PlanOptions, open_planner
from kbnav.planning.training import examples
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
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


def judged(kb: str, questions: str, trained: str) -> dict[bool, Judged]:
    """Scores of a trained planner on a file's questions: those that are right by text alone, and the others."""
    with SKB.open(kb) as skb:
        planner = open_planner(PlanOptions(trained=trained), skb, Settings())
        asked = path_questions(find_dataset(questions))
        found = list(examples(asked, skb, NodeMatcher(skb, "hybrid", nearest=10), known=True))
        return {by: judge(planner, [one for one in found if one.text_only is by]) for by in (True, False)}


def test_train_then_judge(kbnav):
    kb = ("--kb", "clinic.skb")
    code, out, _ = kbnav("train", "ranker", *kb, "--dataset", "train.jsonl", "--out", "ranker")
    assert (code, out) == (0, "ranker: ranker trained on 12 questions, 2 paths; 0 had text alone\n")
    scores = judged("clinic.skb", "train.jsonl", "ranker")[False]
    assert scores.planner == PlanScores(questions=12, first=1.0, first_three=1.0, planned=1.0)
    # gout and scurvy are diseases both: the likelier path is right for half of the questions
    assert scores.most_frequent.first == 0.5
    # the paths in the records are what counts
    assert judged("clinic.skb", "known.jsonl", "ranker")[False].planner.first == 0.0


TOPICS = ("bees and honey", "old clocks", "deep sea fish", "paper kites", "wild mushrooms", "stone bridges")
WRITERS = ("Ada Quill", "Bo Ferris", "Cy Lumen")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Books with a text each and their writers; questions by text alone, and by a writer's name."""
    out = tmp_path_factory.mktemp("planner-shelf")
    books = [
        {"id": f"b{n}", "type": "book", "name": f"Volume {n:03}", "about": f"{topic} for {n} readers"}
        for n, topic in enumerate(TOPICS)
    ]
    people = [{"id": f"w{n}", "type": "writer", "name": name} for n, name in enumerate(WRITERS)]
    nodes = [*books, *people, {"id": "alone", "type": "club", "name": "Owl Circle"}]
    edges = [{"source": f"w{n % 3}", "relation": "wrote", "target": f"b{n}"} for n in range(len(TOPICS))]
    (out / "n.jsonl").write_text("".join(json.dumps(one) + "\n" for one in nodes))
    (out / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in edges))
    build(TableSource([out / "n.jsonl"], [out / "e.jsonl"]), out / "shelf.skb", Options(sparql=False))
    for name, words in (("train", ("Something on", "Reading about")), ("test", ("What deals with",))):
        by_text = [(f"{word} {topic}?", [f"b{n}"]) for word in words for n, topic in enumerate(TOPICS)]
        by_name = [(f"{word} what {who} put on paper?", [f"b{n}"]) for word in words for n, who in enumerate(WRITERS)]
        far = [("Which volume has the Owl Circle?", ["b1"])]  # linked to nothing
        rows = [{"id": str(n), "question": q, "nodes": a} for n, (q, a) in enumerate([*by_text, *by_name, *far])]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return out


def test_trained_by_default_a_planner_says_text_where_the_question_names_no_node(shelf, kbnav, monkeypatch):
    monkeypatch.chdir(shelf)
    kb = ("--kb", "shelf.skb")
    code, out, _ = kbnav("train", "ranker", *kb, "--dataset", "train.jsonl", "--out", "hybrid")
    assert (code, "trained on 18 questions" in out, "12 had text alone" in out) == (0, True, True)
    assert "1 question left out" in out  # what is linked to nothing teaches neither text nor a path
    found = judged("shelf.skb", "test.jsonl", "hybrid")
    assert (found[True].planner.questions, found[True].planner.first) == (6, 1.0)
    assert (found[False].planner.questions, found[False].planner.first) == (3, 1.0)
    with SKB.open("shelf.skb") as skb:
        own = PlanOptions(trained="hybrid", matching="exact")
        plan = open_planner(own, skb, Settings()).plan("What?", [])
    assert "trained with matching=hybrid, and these nodes are matched by exact" in plan.notes[0]
