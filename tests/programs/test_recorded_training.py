"""A training over recorded HTTP, its programs written by hand (recorded as in tests/agents/test_recorded_runs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.steps import History, Step
from kbnav.programs.train import Plan, TrainingRequest, train_programs
from kbnav.settings.model import Settings
from tests.programs.test_agent_retriever import made_questions


def by_hand(kb: KnowledgeBase, home: Path, script: str, plan: Plan) -> Sequence[Step]:
    """The steps of a training of one group, whose writer is the script."""
    assert isinstance(kb, SkbKB)
    asked = [TrainingQuery(row["id"], row["question"], tuple(row["nodes"])) for row in made_questions(kb)]
    settings = Settings(
        home=home, base_url="http://127.0.0.1:7879/v1", api_key="none", model=script, model_retries=0, model_cache=False
    )
    wanted = TrainingRequest(asked[0::3], asked[1::3], plan, most=1, weigh=False)
    return train_programs(kb, settings, wanted, home / "made").steps["g1"]


@pytest.mark.vcr
def test_a_program_that_asks_for_too_much_is_told_so_and_the_mended_one_is_frozen(
    demo_kb: KnowledgeBase, tmp_path: Path
):
    first, second = by_hand(demo_kb, tmp_path, "programs-makers", Plan(steps=2, batch=8))
    assert first.failed == 8
    assert "related: limit: Input should be less than or equal to 10000" in first.error
    assert second.action == "repair"
    assert second.accepted
    assert second.validation["mrr"] > 0.9
    assert (tmp_path / "made" / "programs" / "g1.py").read_text() == second.source


@pytest.mark.slow
@pytest.mark.vcr
def test_six_steps_by_hand_one_given_back_a_tie_a_crash_its_repair_a_worse_one_and_the_best(
    demo_kb: KnowledgeBase, tmp_path: Path
):
    steps = by_hand(demo_kb, tmp_path, "programs-six-steps", Plan(steps=6, batch=16))
    assert [step.action for step in steps] == ["write", "improve", "improve", "repair", "improve", "improve"]
    assert [step.verdict for step in steps] == ["better", "tie", "failed", "better", "worse", "better"]
    assert [step.rejected for step in steps] == [1, 0, 0, 0, 0, 0]
    assert steps[2].failed == 16
    assert steps[-1].validation["mrr"] == 1.0
    lessons = History(tuple(steps)).lessons()
    assert list(lessons.values()) == ["tie", "better", "worse", "better"]  # the second over a crash and its repair
    assert (tmp_path / "made" / "programs" / "g1.py").read_text() == steps[-1].source
