"""Runs of agents that answer with rankings are replayed from their recordings to the same scores, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.evaluation.evaluate import Plan, evaluate, find_dataset, score_folder
from kbnav.evaluation.records import read_records
from kbnav.evaluation.replay import replay_run
from kbnav.evaluation.runner import agent_system, build_system
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings

QUESTION = "Which ship built by Marit Skarrow was painted yellow?"
LOOK = says(("search_neighbors", {"entity_id": "person:marit-skarrow", "relation": "^built by"}))
UNKNOWN = says(("finish", {"nodes": []}))
GENERATE = says(("generate", {"request": "Which was yellow?"}))


def finish(*nodes: str):
    return says(("finish", {"nodes": list(nodes)}))


def ask(prompt: str, purpose: str, *, temperature: float | None = None, sample: int = 0) -> tuple[str, Usage]:
    facts = "Keeper | painted | yellow\nMarit Skarrow | built | Yellow Kate"
    return facts if purpose == "generate facts" else "1, 2", Usage(calls=1)


SCRIPTED = {
    # An unknown that is taken back, facts that are generated, an answer that rests on them.
    "gog": ([LOOK, UNKNOWN, LOOK, GENERATE, finish("ship:keeper", "Yellow Kate")], gog_with, {}),
    # Out of its rounds, which are fewer than the budget's steps.
    "pasemiqa": ([LOOK, *[says(("vector_query", {"text": word})) for word in "abc"]], pasemiqa_with, {"rounds": 3}),
}


@pytest.mark.parametrize("system", ["gog", "pasemiqa", "offline", "skb", "bm25"])
def test_a_replay_gives_the_same_answers_and_scores(demo_kb, demo_home: Path, tmp_path: Path, system):
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "question": QUESTION, "nodes": ["ship:keeper"]}) + "\n")
    replies, make, options = SCRIPTED.get(system, ([], None, {}))
    model = "scripted" if make else "offline"
    settings = Settings(kb="demo", home=demo_home, model=model, language="en", options=options)
    name = "pasemiqa" if system == "offline" else system

    def build(name, kb, own):
        if make is None:
            return build_system(name, kb, own)
        return agent_system(make(ScriptedModel(replies=replies), ask, None, kb, own))

    evaluate(Plan(name, find_dataset(str(tmp_path / "q.jsonl"), tmp_path), settings), tmp_path / "run", build=build)
    score_folder(tmp_path / "run")
    assert replay_run(tmp_path / "run", tmp_path / "again") == 1
    score_folder(tmp_path / "again")
    before, after = (read_records(tmp_path / one)["1"].run for one in ("run", "again"))
    assert after.outcome == before.outcome
    assert [(step.call, step.facts) for step in after.steps] == [(step.call, step.facts) for step in before.steps]
    assert (tmp_path / "again" / "scores.json").read_bytes() == (tmp_path / "run" / "scores.json").read_bytes()
    if system == "gog":
        assert [(node.id, node.basis) for node in before.outcome.ranking.chosen] == [
            ("ship:keeper", ""),
            ("Yellow Kate", "generated"),
        ]
    if system == "pasemiqa":
        assert before.outcome.stop == "step budget"
