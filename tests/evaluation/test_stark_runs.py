"""Runs over STaRK's sets: a random part of one, and what differs for the questions that people wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kbnav.answers import Ranked, Ranking
from kbnav.errors import UsageError
from kbnav.evaluation.evaluate import Plan, evaluate, find_dataset, score_folder
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.systems import System
from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings import Settings
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
    assert evaluate(Plan(system, find_dataset(name, data), settings, **plan), out, build=build) == "done"
    return script.asked, options


def test_a_sample_is_drawn_by_its_seed_and_kept_with_the_run(data: Path, tmp_path: Path):
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


def test_human_questions_have_no_recall_at_20_and_ten_nodes_are_scored(data: Path, tmp_path: Path):
    _, options = asked(data, tmp_path / "h", "stark-prime-human", "rerank")
    assert options["top_v"] == 10
    scores = score_folder(tmp_path / "h")
    assert scores.metrics == ("hit@1", "hit@5", "mrr")
    assert scores.all.values == {"hit@1": 1.0, "hit@5": 1.0, "mrr": 1.0}
    assert asked(data, tmp_path / "i", "stark-prime-human", "rerank", options={"top_v": 7})[1]["top_v"] == 7
    assert asked(data, tmp_path / "t", "stark-prime-test", "rerank")[1]["top_v"] == 20
    assert "recall@20" in score_folder(tmp_path / "t").metrics
    assert read_saved_run(tmp_path / "t").info.sample == {}
