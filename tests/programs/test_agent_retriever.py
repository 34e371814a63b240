"""The whole way on the demo SKB: groups, a training by the stand-in in a real sandbox, frozen programs that answer."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import Stopped, UsageError
from kbnav.evaluation.records import read_saved_run
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.first_stage import FirstStage, TrainingQuery, open_parts
from kbnav.programs.retriever import AgentRetriever, AgentRetrieverOptions, build_agent_retriever
from kbnav.programs.train import Plan, TrainingRequest, train_programs
from kbnav.programs.writer import describe_setting
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.models.stub import silent_endpoint
from tests.programs.parts import FAILS, LAST, SEEN, frozen_programs

ASKED = {"made by": "Which instrument was made by {}?", "composed by": "Name a tune that {} composed."}


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
                "question": text.format(kb.skb.nodes.label(person)),
                "nodes": nodes,
                "meta": {"template": relation},
            }
            for place, (person, nodes) in enumerate(sorted(answers.items()))
        ]
    return found


@pytest.fixture(scope="module")
def sets(demo_kb: KnowledgeBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert isinstance(demo_kb, SkbKB)
    out = tmp_path_factory.mktemp("programs")
    made = made_questions(demo_kb)
    for name, start, most in (("train", 0, 16), ("val", 1, 16), ("test", 2, 6)):
        rows = made[start::3]
        rows = rows[:: max(1, len(rows) // most)]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return out


@pytest.fixture
def kbnav(
    sets: Path, demo_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cli]:
    monkeypatch.chdir(sets)
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    return Cli(monkeypatch, capsys)


@pytest.mark.slow
def test_train_show_eval_and_answer_by_what_was_trained(kbnav: Cli, sets: Path):
    train = (
        "train",
        "programs",
        "--kb",
        "demo",
        "--dataset",
        "train.jsonl",
        "--validation",
        "val.jsonl",
        "--out",
        "made",
    )
    code, _, err = kbnav(*train, "--model", "our-own", "--set", "cost=1")
    assert code == 2
    assert "--max-cost needs the price of our-own" in err
    assert "without.0: " in kbnav(*train, "--set", "without=sense")[2]
    assert "grouping" in kbnav(*train, "--set", "grouping=luck")[2]
    code, out, err = kbnav(*train, "--set", "most=1", "--set", "steps=2", "--set", "batch=4")
    assert code == 0, err
    assert "g1 step 2 improve" in err
    assert "accepted" in err
    assert "g1: MRR" in out
    assert "plan-rank " in out
    code, out, _ = kbnav("programs", "show", "made", "--steps", "--curve", "curve.csv")
    assert code == 0
    assert "def retrieve(" in out
    assert "0 calls paid" in out
    assert re.search(r"step 1 write: validation MRR (–|0\.\d{3}), (accepted|not accepted, worse)", out)
    rows = list(csv.DictReader((sets / "curve.csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert float(rows[-1]["best"]) > float(rows[0]["best"])
    code, out, _ = kbnav("programs", "eval", "made", "--kb", "demo", "test.jsonl", "--json")
    (scores,) = json.loads(out)
    assert code == 0
    assert scores["programs"]["mrr"] > scores["first"]["mrr"]
    case = json.loads((sets / "test.jsonl").read_text().splitlines()[0])["id"]
    code, out, _ = kbnav("programs", "eval", "made", "--kb", "demo", "test.jsonl", "--case", case)
    assert code == 0
    beside = [
        out.index(one) for one in (f"{case}: Which", "vss ranks first:", "agent-retriever ranks first:", "called:")
    ]
    assert beside == sorted(beside)
    assert "\n* 1. " in out.partition("agent-retriever ranks first:")[2]
    code, _, err = kbnav("programs", "eval", "made", "--kb", "demo", "val.jsonl")
    assert code == 2
    assert "were used to train or choose its programs" in err

    chosen = ("--system", "agent-retriever", "--set", "trained=made", "--kb", "demo")
    code, out, _ = kbnav("retrieve", *chosen, "Which instrument was made by Wenna Pellow?", "--k", "3")
    assert code == 0, out
    code, _, err = kbnav("eval", "run", "train.jsonl", *chosen, "--out", "refused")
    assert code == 2
    assert "evaluate on others" in err
    within = ("--system", "rrf", "--set", "of=bm25,agent-retriever", "--set", "agent-retriever.trained=made")
    code, _, err = kbnav("eval", "run", "train.jsonl", *within, "--kb", "demo", "--out", "refused")
    assert code == 2
    assert "evaluate on others" in err
    code, _, err = kbnav("eval", "run", "test.jsonl", *chosen, "--out", "run", "--limit", "3")
    assert code == 0, err
    run = next(iter(read_saved_run(sets / "run").records.values())).run
    assert run.model == "none"
    assert [step.call.tool for step in run.path if step.call.tool in ("route", "program")] == ["route", "program"]


def test_ablations_leave_out_functions_that_ask_a_model_or_see_relations_and_groups(
    demo_kb: KnowledgeBase, demo_home: Path, tmp_path: Path
):
    assert isinstance(demo_kb, SkbKB)
    settings = Settings(kb="demo", home=demo_home, base_url="http://127.0.0.1:1/v1", api_key="none")
    offered = {
        part: set(open_parts(demo_kb, settings, api_model="stub", without=(part,)).api.functions)
        for part in ("contrast", "model-functions", "relations")
    }
    assert offered["contrast"] - offered["model-functions"] == {
        *("parse_query", "score_texts", "check_texts", "extract", "summarise", "classify")
    }
    assert offered["contrast"] - offered["relations"] == {
        *("relations_text", "documents_of", "related", "relations_of", "follow_path")
    }
    asked = [TrainingQuery(row["id"], row["question"], tuple(row["nodes"])) for row in made_questions(demo_kb)]
    plan = Plan(steps=1, batch=1, without=frozenset({"groups"}))
    for without, groups in ((plan.without, 1), (frozenset(), 2)):
        wanted = TrainingRequest(
            asked[::3], asked[1::3], replace(plan, without=without), most=2, smallest=3, weigh=False
        )
        trained = train_programs(demo_kb, Settings(kb="demo", home=demo_home), wanted, tmp_path / str(groups))
        assert len(trained.groups) == groups


@pytest.mark.slow
def test_one_ctrl_c_ends_a_training_whose_model_is_silent(sets: Path, demo_home: Path):
    train = [
        "train",
        "programs",
        "--kb",
        "demo",
        "--dataset",
        "train.jsonl",
        "--validation",
        "val.jsonl",
        "--out",
        "stopped",
    ]
    with silent_endpoint() as (url, asked, hung_up):
        asking = ["--set", "most=1", "--set", "weigh=false", "--model", "stub", "--base-url", url]
        process = subprocess.Popen(
            [sys.executable, "-m", "kbnav", *train, *asking],
            cwd=sets,
            env={**os.environ, "KBNAV_HOME": str(demo_home), "KBNAV_API_KEY": "none"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
            assert hung_up.wait(10)
        finally:
            process.kill()
            process.wait()
    assert "ending this step; once more to leave at once" in said
    assert said.rstrip().endswith("the training was stopped; the same command goes on")
    assert process.returncode == Stopped.exit_code


def _retriever(kb: KnowledgeBase, folder: Path, *sources: str, settings: Settings, **options: object) -> AgentRetriever:
    """Frozen programs, one a group, whose queries are about as many kinds of words."""
    assert isinstance(kb, SkbKB)
    frozen_programs(kb, settings, folder, *sources)
    return build_agent_retriever(kb, settings, AgentRetrieverOptions(trained=str(folder), **options))  # type: ignore[arg-type]


def test_a_program_that_fails_leaves_the_first_stages_ranking_and_its_step_says_so(
    demo_kb: KnowledgeBase, demo_home: Path, tmp_path: Path
):
    assert isinstance(demo_kb, SkbKB)
    settings = Settings(kb="demo", home=demo_home)
    retriever, trace = _retriever(demo_kb, tmp_path, FAILS, settings=settings), Trace()
    first = FirstStage(demo_kb, settings).retrieve("harp strings", 20).ids
    assert retriever.retrieve("harp strings", 20, trace).ids == first
    step = next(one for one in trace.steps if one.call.tool == "program")
    assert not step.ok
    assert "division by zero" in step.observation
    assert "first stage's ranking stands" in step.observation


def test_a_group_without_a_program_is_answered_by_the_first_stage_and_others_by_their_own(
    demo_kb: KnowledgeBase, demo_home: Path, tmp_path: Path
):
    settings = Settings(kb="demo", home=demo_home)
    retriever = _retriever(demo_kb, tmp_path, "", LAST, settings=settings)
    first = [str(node) for node in retriever.first("apples")]
    assert list(retriever.retrieve("apples", 200).ids) == first
    assert list(retriever.retrieve("birds", 200).ids) == list(reversed(retriever.first("birds")))
    assert retriever.prompts == {}


def test_a_model_routes_by_one_call_and_where_it_says_none_the_nearest_group_answers(
    demo_kb: KnowledgeBase, demo_home: Path, tmp_path: Path
):
    model = ScriptedModel(replies=[AIMessage("1: 2"), AIMessage("1: 0")])
    settings = Settings(kb="demo", home=demo_home, model_cache=False).asking(model)
    retriever = _retriever(demo_kb, tmp_path, "", LAST, settings=settings)
    assert retriever.route("apples", Trace()).record.id == "g2"
    assert retriever.route("apples", Trace()).record.id == "g1"
    assert len(model.seen) == 2
    assert "agent_retriever/assign.md" in retriever.prompts
    with pytest.raises(UsageError, match="were used to train"):
        retriever.refuse_seen([("1", f"{SEEN.upper()}!")])


def test_the_writer_is_told_of_every_type_relation_field_and_function(demo_kb: KnowledgeBase, demo_home: Path):
    assert isinstance(demo_kb, SkbKB)
    parts = open_parts(demo_kb, Settings(kb="demo", home=demo_home))
    told = describe_setting(demo_kb, parts)
    assert "instrument (52)" in told.knowledge_base
    assert "instrument --made by--> person (" in told.schema.replace("_", " ")
    assert "- instrument: name, " in told.structures
    assert "def relations_of(" in told.api
    without = open_parts(demo_kb, Settings(kb="demo", home=demo_home), without=("relations",))
    assert "relations_of" not in without.api.prompt
    assert "texts_of" in without.api.prompt
