"""A training over recorded HTTP, its programs written by hand (recorded as in tests/agents/test_recorded_runs.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.build import Wanted, train_programs
from kbnav.programs.loop import Plan
from kbnav.programs.trials import TrainingQuery
from kbnav.settings import Settings
from tests.programs.test_agent_retriever import made_questions


@pytest.mark.vcr
def test_a_program_that_asks_for_too_much_is_told_so_and_the_mended_one_is_frozen(
    demo_kb: KnowledgeBase, tmp_path: Path
):
    assert isinstance(demo_kb, SkbKB)
    asked = [TrainingQuery(row["id"], row["question"], tuple(row["nodes"])) for row in made_questions(demo_kb)]
    settings = Settings(
        home=tmp_path, base_url="http://127.0.0.1:7879/v1", api_key="none", model="programs-makers", model_retries=0
    )
    wanted = Wanted(asked[0::3], asked[1::3], Plan(steps=2, batch=8), most=1, weigh=False)
    trained = train_programs(demo_kb, settings, wanted, tmp_path / "made")
    first, second = trained.steps["g1"]
    assert first.failed == 8
    assert "related: limit: Input should be less than or equal to 10000" in first.error
    assert second.action == "repair"
    assert second.accepted
    assert second.validation["mrr"] > 0.9
    assert (tmp_path / "made" / "programs" / "g1.py").read_text() == second.source
