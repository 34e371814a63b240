"""KAR and the reranker over recorded HTTP: see tests/agents/test_recorded_runs.py for how recordings are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import as_skb
from kbnav.retrieval.attempt import attempt
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trajectory import Run
from kbnav.settings.model import Settings

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def run(request: pytest.FixtureRequest, demo_kb: KnowledgeBase, tmp_path: Path) -> Run:
    """The run whose script the test names; the system is the first part of its name."""
    name = request.node.get_closest_marker("script").args[0]
    query = json.loads((SCRIPTS / f"{name}.json").read_text(encoding="utf-8"))["question"]
    settings = Settings(
        home=tmp_path, base_url="http://127.0.0.1:7879/v1", api_key="none", model=name, model_jobs=1, model_retries=0
    )
    skb = as_skb(demo_kb, "the test")
    options = {"top_v": 6} if name.startswith("rerank") else {}
    run, failure = attempt(build_retriever(name.partition("-")[0], skb, settings, options), skb, settings, query)
    assert failure is None
    return run


@pytest.mark.vcr
@pytest.mark.script("kar-keeper")
def test_kar_follows_the_link_from_whom_the_query_names_and_finds_the_ship_it_is_written_of(run):
    said = {step.call.tool: step.observation for step in run.steps}
    assert said["entities"] == "Marit Skarrow (person)"
    assert "Marit Skarrow → Marit Skarrow (person:marit-skarrow) by name" in said["linked_nodes"]
    assert "←built by— Keeper (ship:keeper)" in said["document_triples"]
    assert said["expanded_query"].startswith("Which ship built by Marit Skarrow was painted yellow?\nname: Keeper\n")
    assert run.outcome.ranking.ids[0] == "ship:keeper"
    assert run.usage.calls == 4


@pytest.mark.vcr
@pytest.mark.script("rerank-keeper")
def test_the_reranker_puts_the_only_ship_that_meets_both_conditions_first(run):
    # The builder herself is first by vectors; the other ship is yellow above, but of an unknown yard.
    assert run.outcome.ranking.ids[:2] == ["ship:keeper", "ship:gannet"]
    assert run.steps[0].nodes[0] == "person:marit-skarrow"
    assert run.usage.calls == 6
