"""Runs over STaRK's sets: a random part of one, and what differs for the questions that people wrote."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.runner import System
from kbnav.evaluation.scoring import score_run, stark_compat
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.retrieval.base import RetrievalOptions, candidate_ranges
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.evaluation.parts import Script


@pytest.fixture
def data(tmp_path: Path, demo_home: Path) -> Path:
    (tmp_path / "home").symlink_to(demo_home)
    folder = tmp_path / "data" / "prime" / "stark_qa"
    folder.mkdir(parents=True)
    lines = "".join(f"{n},Question {n}?,[{n}]\n" for n in range(40))
    (folder / "stark_qa.csv").write_text("id,query,answer_ids\n" + lines)
    (folder / "stark_qa_human_generated_eval.csv").write_text("id,query,answer_ids\n0,By hand?,[3]\n")
    (folder.parent / "split").mkdir()
    (folder.parent / "split" / "test.index").write_text("".join(f"{n}\n" for n in range(40)))
    return tmp_path / "data"


def asked(data: Path, out: Path, name: str, system: str = "bm25", **plan: Any) -> tuple[list[str], Mapping[str, Any]]:
    """The questions that a run over a set asks, and the options of its system."""
    script = Script(lambda _: Ranking((Ranked("3", 1.0),)))
    options: dict[str, Any] = {}

    def build(_: str, __: KnowledgeBase, settings: Settings) -> System:
        options.update(settings.options)
        return script.system

    chosen = plan.pop("options", {})
    settings = Settings(kb="demo", home=data.parent / "home", options=chosen)
    assert evaluate(EvaluationPlan(system, find_dataset(name, data), settings, **plan), out, build=build) == "done"
    return script.asked, options


def test_a_sample_is_drawn_by_its_seed_and_kept_with_the_run(data, tmp_path):
    first, _ = asked(data, tmp_path / "a", "stark-prime-test", sample=0.1, seed=1)
    again, _ = asked(data, tmp_path / "b", "stark-prime-test", sample=0.1, seed=1)
    other, _ = asked(data, tmp_path / "c", "stark-prime-test", sample=0.1, seed=2)
    whole, _ = asked(data, tmp_path / "d", "stark-prime-test")
    assert first == again != other
    assert len(first) == len(set(first)) == 4
    assert first == [question for question in whole if question in first]
    assert len(whole) == 40
    kept = json.loads((tmp_path / "a" / "run.json").read_text())
    assert kept["sample"] == {"share": 0.1, "seed": 1}
    assert len(kept["questions"]) == 4
    with pytest.raises(UsageError, match="another questions, sample"):
        asked(data, tmp_path / "a", "stark-prime-test", sample=0.1, seed=2)
    with pytest.raises(UsageError, match="above 0 and up to 1, not 2"):
        asked(data, tmp_path / "e", "stark-prime-test", sample=2)


def test_human_questions_have_no_recall_at_20_and_ten_nodes_are_scored(data, tmp_path, caplog):
    _, options = asked(data, tmp_path / "h", "stark-prime-human", "rerank")
    assert options["top_v"] == 10
    scores = score_folder(tmp_path / "h")
    assert scores.metrics == ("hit@1", "hit@5", "mrr")
    assert scores.all.values == {"hit@1": 1.0, "hit@5": 1.0, "mrr": 1.0}
    assert score_folder(tmp_path / "h", metrics=["recall@20"]).all.values["recall@20"] == 1.0  # KAR, Table 3
    assert asked(data, tmp_path / "i", "stark-prime-human", "rerank", options={"top_v": 7})[1]["top_v"] == 7
    caplog.clear()
    assert asked(data, tmp_path / "t", "stark-prime-test", "rerank")[1]["top_v"] == 20
    assert "all scores will be 0" in caplog.text  # the demo has no nodes of Prime
    assert "recall@20" in score_folder(tmp_path / "t").metrics
    assert read_saved_run(tmp_path / "t").info.sample == {}


@pytest.fixture
def demo_run(demo_home: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """A run on the demo with two equal scores, and one of 100 nodes without the answer; and the SKB's ids in order."""
    settings = Settings(kb="demo", home=demo_home)
    with open_kb(settings) as kb:
        skb = kb.skb  # type: ignore[attr-defined]
        ids = [skb.id(node) for node in range(len(skb.nodes))]
    records = [
        {"id": "tie", "question": "tie?", "nodes": [ids[3]]},
        {"id": "deep", "question": "deep?", "nodes": [ids[9]]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    rankings = {
        "tie?": Ranking((Ranked(ids[7], 2.0), Ranked(ids[5], 1.0), Ranked(ids[3], 1.0))),
        "deep?": Ranking(tuple(Ranked(one, -float(place)) for place, one in enumerate(ids[100:200]))),
    }
    dataset = find_dataset(str(tmp_path / "q.jsonl"), tmp_path)
    build = lambda *_: Script(rankings.__getitem__).system  # noqa: E731
    assert evaluate(EvaluationPlan("bm25", dataset, settings), tmp_path / "run", build=build) == "done"
    return tmp_path / "run", ids


def test_a_run_is_scored_as_starks_code_does(demo_run, demo_home):
    folder, ids = demo_run
    run = read_saved_run(folder)
    standard = score_run(run)
    assert [one.values["mrr"] for one in standard.questions] == [pytest.approx(1 / 3), 0.0]
    assert (standard.mode, standard.cut) == ("standard", 1)
    assert (
        "1 question has no answer there, and of whole rankings it may be higher by 0.50 at most" in standard.notes()[0]
    )
    like_stark = stark_compat(run, Settings(home=demo_home))
    assert list(like_stark.candidates) == ids
    scores = score_run(like_stark)
    # ids[3] comes before its equal ids[5]; ids[9] is the tenth of those behind the 100 that were listed.
    assert [one.values["mrr"] for one in scores.questions] == [pytest.approx(1 / 2), pytest.approx(1 / 110)]
    assert (scores.mode, scores.cut, len(scores.notes())) == ("stark-compat", 0, 1)


def test_the_commands_say_how_rankings_were_scored(demo_run, demo_home, monkeypatch, capsys):
    folder, _ = demo_run
    kbnav = Cli(monkeypatch, capsys)
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    out = kbnav("eval", "score", str(folder), "--stark-compat")[1]
    assert "mrr        25.45" in out
    assert "stark-compat: all candidates are ranked" in out
    assert json.loads((folder / "scores.json").read_text())["mode"] == "stark-compat"
    assert "| 25.5 |" in kbnav("eval", "report", str(folder), "--stark-compat")[1]
    assert kbnav("eval", "score", str(folder), "--kb", "demo")[0] == 2


@pytest.mark.parametrize(
    ("style", "answers"), [("stark-amazon", ["product"]), ("stark-mag", ["paper"]), ("stark-prime", []), ("plain", [])]
)
def test_products_answer_on_amazon_papers_on_mag_and_any_node_elsewhere(style, answers):
    """STaRK, section 2.3; no range stands for all nodes."""
    ranges = {"product": (0, 4), "brand": (4, 6), "author": (6, 9), "paper": (9, 12)}
    skb = SimpleNamespace(meta=SimpleNamespace(style=style), type_names=[*ranges], type_range=ranges.__getitem__)
    assert candidate_ranges(skb, RetrievalOptions()) == ([ranges[one] for one in answers] or None)
    assert candidate_ranges(skb, RetrievalOptions(candidates=("author",))) == [(6, 9)]
