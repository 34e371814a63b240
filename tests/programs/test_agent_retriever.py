"""The whole way on the demo SKB: a training by a scripted model in a real sandbox, frozen programs that answer."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.apps.cli.train import path_questions
from kbnav.errors import Stopped, UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.records import read_saved_run
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.retriever import AgentRetriever, AgentRetrieverOptions
from kbnav.programs.train import ProgramsOptions, train_programs
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.dripping import silent
from tests.ending import started
from tests.programs.parts import FAILS, LAST, SEEN, frozen_programs

ASKED = {"made by": "What came out of the workshop of {}?", "composed by": "What was dreamt up by {}?"}
"""In words that are not the schema's, so that the first stage leaves something to gain."""


def made_questions(kb: SkbKB) -> list[dict[str, Any]]:
    """Who made and who composed what, of every person who did."""
    found: list[dict[str, Any]] = []
    for relation, text in ASKED.items():
        number = kb.skb.relation_number(relation)
        answers: dict[int, list[str]] = {}
        kind = "instrument" if relation == "made by" else "tune"
        for node in range(*kb.skb.type_range(kind)):
            for other in kb.skb.graph.neighbors(node, number, "out").tolist():
                answers.setdefault(other, []).append(kb.skb.id(node))
        found += [
            {
                "id": f"{relation}-{place}",
                "question": text.format(kb.skb.name(person)),
                "nodes": nodes,
                "meta": {"template": relation},
            }
            for place, (person, nodes) in enumerate(sorted(answers.items()))
        ]
    return found


@pytest.fixture(scope="module")
def sets(demo_kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("programs")
    made = made_questions(demo_kb)
    for name, start, most in (("train", 0, 16), ("val", 1, 16), ("test", 2, 6)):
        rows = made[start::3]
        rows = rows[:: max(1, len(rows) // most)]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return out


@pytest.fixture
def kbnav(sets: Path, demo_home: Path, monkeypatch: pytest.MonkeyPatch, kbnav: Cli) -> Iterator[Cli]:
    monkeypatch.chdir(sets)
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    return kbnav


BY_RELATION = """```python
import re

def retrieve(query):
    debug("names", len(query))
    relation = "made by" if "workshop" in query else "composed by"
    name = re.split("workshop of | by ", query)[1].rstrip("?")
    people = find_by_name([name])[name][:1]
    found = [node for nodes in related(people, relation, "in").values() for node in nodes]
    return {**search(query, limit=20), **{node: 100.0 + place for place, node in enumerate(found)}}
```"""


def trained(kb: KnowledgeBase, home: Path, sets: Path, out: Path, **more: Any) -> Path:
    """One step of a training, which writes a program that answers."""
    settings = Settings(kb="demo", home=home, cache_age=0)
    writer = ScriptedModel(replies=[AIMessage(BY_RELATION), AIMessage("Fine."), AIMessage("```python\nx = 1\n```")] * 2)
    options = ProgramsOptions(most=1, steps=1, batch=4, **more)
    asked = [path_questions(find_dataset(str(sets / f"{name}.jsonl"))) for name in ("train", "val")]
    train_programs(kb, settings.asking(writer), *asked, options, out)
    return out


@pytest.fixture(scope="module")
def made(sets: Path, demo_home: Path, demo_kb: KnowledgeBase) -> Path:
    return trained(demo_kb, demo_home, sets, sets / "made")


@pytest.mark.slow
def test_programs_that_run_on_a_cluster_are_the_same(demo_kb, demo_home, sets, made, tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    elsewhere = trained(demo_kb, demo_home, sets, tmp_path / "out", on="ray", workers=2)
    found = [
        [json.loads(line) | {"seconds": 0} for line in (out / "steps" / "g1.jsonl").read_text().splitlines()]
        for out in (elsewhere, made)
    ]
    assert found[0] == found[1]
    assert found[0][0]["accepted"]
    assert (elsewhere / "programs.json").read_bytes() == (made / "programs.json").read_bytes()


def test_options_of_a_training_are_held_to_their_bounds_and_a_model_must_be_named(kbnav):
    train = ("train", "programs", "--kb", "demo", "--dataset", "train.jsonl", "--validation", "val.jsonl", "--out", "x")
    assert "--max-cost needs the price of our-own" in kbnav.refused(*train, "--model", "our-own", "--set", "cost=1")
    assert "steps: Input should be greater than or equal to 1" in kbnav(*train, "--set", "steps=0")[2]
    assert "has no option 'grouping'" in kbnav(*train, "--set", "grouping=luck")[2]
    assert "kbnav train programs needs a model" in kbnav.refused(*train, "--model", "offline")


@pytest.mark.slow
def test_train_show_eval_and_answer_by_what_was_trained(kbnav, sets, made):
    out = kbnav.out("programs", "show", "made", "--steps", "--curve", "curve.csv")
    assert "g1: MRR" in out
    assert "def retrieve(" in out
    assert "1 calls, " in out
    assert re.search(r"step 1 write: validation MRR 0\.\d{3}, accepted", out)
    rows = list(csv.DictReader((sets / "curve.csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["0", "1"]
    assert float(rows[-1]["best"]) > float(rows[0]["best"])
    chosen = ("--system", "agent-retriever", "--set", "trained=made", "--kb", "demo")
    out = kbnav.out("retrieve", *chosen, "What came out of the workshop of Wenna Pellow?", "--k", "3")
    for seen in ("train.jsonl", "val.jsonl"):
        assert "evaluate on others" in kbnav.refused("eval", "run", seen, *chosen, "--out", f"refused-{seen}")
    within = ("--system", "prf", "--set", "base=agent-retriever", "--set", "agent-retriever.trained=made")
    err = kbnav.refused("eval", "run", "train.jsonl", *within, "--kb", "demo", "--out", "refused")
    assert "evaluate on others" in err
    kbnav.out("eval", "run", "test.jsonl", *chosen, "--out", "run", "--limit", "3")
    kbnav.out("eval", "run", "test.jsonl", "--system", "graph-rank", "--kb", "demo", "--out", "first", "--limit", "3")
    found = json.loads(kbnav("eval", "compare", "first", "run", "--json")[1])
    (mrr,) = (one for one in found["metrics"] if one["metric"] == "mrr")
    assert mrr["b"]["mean"] > mrr["a"]["mean"]
    run = next(iter(read_saved_run(sets / "run").records.values())).run
    assert run.model == "none"
    assert [step.call.tool for step in run.path if step.call.tool in ("route", "program")] == ["route", "program"]


@pytest.mark.slow
def test_one_ctrl_c_ends_a_training_whose_model_is_silent(sets, demo_home):
    train = ["train", "programs", "--kb", "demo", "--dataset", "train.jsonl", "--validation", "val.jsonl"]
    with silent() as (url, asked, hung_up):
        asking = ["--set", "most=1", "--model", "stub", "--base-url", url, "--out", "stopped"]
        command = [sys.executable, "-m", "kbnav", *train, *asking]
        environment = {**os.environ, "KBNAV_HOME": str(demo_home), "KBNAV_API_KEY": "none"}
        with started(command, cwd=sets, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
            assert hung_up.wait(60)
    assert "ending this step; once more to leave at once" in said
    assert said.rstrip().endswith("the training was stopped; the same command continues it")
    assert process.returncode == Stopped.exit_code


def _retriever(kb: KnowledgeBase, folder: Path, *sources: str, settings: Settings) -> AgentRetriever:
    """Frozen programs, one a group, whose queries are about as many kinds of words."""
    frozen_programs(kb, folder, *sources)
    return AgentRetriever(kb, settings, AgentRetrieverOptions(trained=str(folder)))


def test_a_program_that_fails_leaves_the_first_stages_ranking_and_its_step_says_so(demo_kb, demo_home, tmp_path):
    settings = Settings(kb="demo", home=demo_home)
    retriever, trace = _retriever(demo_kb, tmp_path, FAILS, settings=settings), Trace()
    first = build_retriever("graph-rank", demo_kb, settings, {}).retrieve("harp strings", 20).ids
    assert retriever.retrieve("harp strings", 20, trace).ids == first
    step = next(one for one in trace.steps if one.call.tool == "program")
    assert not step.ok
    assert "division by zero" in step.observation
    assert "first stage's ranking stands" in step.observation


def test_a_group_without_a_program_is_answered_by_the_first_stage_and_others_by_their_own(demo_kb, demo_home, tmp_path):
    settings = Settings(kb="demo", home=demo_home)
    retriever = _retriever(demo_kb, tmp_path, "", LAST, settings=settings)
    first = build_retriever("graph-rank", demo_kb, settings, {})
    assert retriever.retrieve("apples", 200).ids == first.retrieve("apples", 200).ids
    assert retriever.retrieve("birds", 200).ids == first.retrieve("birds", 200).ids[::-1]
    assert retriever.prompts == {}


def test_a_model_routes_by_one_call_and_where_it_says_none_the_nearest_group_answers(demo_kb, demo_home, tmp_path):
    model = ScriptedModel(replies=[AIMessage("1: 2"), AIMessage("1: 0")])
    settings = Settings(kb="demo", home=demo_home, cache_age=0).asking(model)
    retriever = _retriever(demo_kb, tmp_path, "", LAST, settings=settings)
    assert retriever.route("apples", Trace()).id == "g2"
    assert retriever.route("apples", Trace()).id == "g1"
    assert len(model.seen) == 2
    assert "agent_retriever/assign.md" in retriever.prompts
    with pytest.raises(UsageError, match="were used to train"):
        retriever.refuse_seen([("1", f"{SEEN.upper()}!")])
