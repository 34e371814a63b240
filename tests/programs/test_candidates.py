"""The first stage of programs."""

from __future__ import annotations

import pytest

from kbnav.programs.first_stage import FirstStage, FirstStageOptions, Recall, oracle_recall
from kbnav.settings.model import Settings


def test_candidates_are_the_union_of_paths_words_and_vectors(demo_kb, demo_home):
    query = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    settings = Settings(kb="demo", home=demo_home)
    whole = FirstStage(demo_kb, settings)
    assert whole.of == ("plan-rank", "bm25", "vss")
    found = set(whole.retrieve(query).ids)
    for name in whole.of:
        alone = FirstStage(demo_kb, settings, FirstStageOptions(of=(name,)))
        assert set(alone.retrieve(query, 10).ids) <= found


def test_there_are_200_of_them_unless_said_otherwise(demo_kb, demo_home):
    settings = Settings(kb="demo", home=demo_home)
    assert FirstStageOptions().size == 200
    nodes = demo_kb.skb.meta.nodes
    assert len(FirstStage(demo_kb, settings).retrieve("a fiddle").ids) == min(200, nodes) > 50
    assert len(FirstStage(demo_kb, settings, FirstStageOptions(size=7)).retrieve("a fiddle").ids) == 7


def test_oracle_recall_is_what_no_program_can_pass():
    found = oracle_recall([(["a", "b"], ["a", "c"]), (["a"], ["d"]), (["x"], ["x"])])
    assert found == Recall(3, pytest.approx(0.5), pytest.approx(2 / 3))
    assert oracle_recall([]) == Recall()
