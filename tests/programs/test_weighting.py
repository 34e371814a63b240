"""Weights of the first stage, chosen on questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbnav.errors import DataError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.first_stage import (
    FILE,
    FirstStage,
    FirstStageOptions,
    Rankings,
    TrainingQuery,
    choose_weights,
    weigh,
)
from kbnav.settings.model import Settings

GOOD, POOR, ALIKE = ["a", "x", "y"], ["x", "y", "a"], ["y", "x", "z"]
"""The answer is a; the two poor ones agree on x and y."""


def test_two_poor_systems_do_not_outvote_a_good_one():
    questions = Rankings([[POOR, GOOD, ALIKE]] * 4, [["a"]] * 4, size=3)
    found = choose_weights(("poor", "good", "alike"), questions, questions)
    assert found.best_member == found.mrr == 1.0
    assert found.equal == pytest.approx(1 / 3)  # x and y come before a
    assert questions.fused(found.weights)[0][0] == "a"


def test_a_system_that_finds_what_the_best_one_misses_keeps_its_weight():
    training = Rankings([[["a"], ["b"]], [["c"], ["d"]]], [["a"], ["d"]], size=2)
    found = choose_weights(("one", "other"), training, training)
    assert found.weights == (1.0, 1.0)
    assert found.mrr == 0.75  # a first; d second, behind c, which is seen before it


def test_weights_between_are_taken_where_they_serve_best():
    far = ["a", *"bcdefghijk", "x"]
    questions = Rankings([[far, ["x"]], [["p", "q"], ["q"]]], [["a"], ["q"]], size=20)
    found = choose_weights(("one", "other"), questions, questions)
    assert found.weights == (1.0, 0.125)  # 1/72 + w/61 < 1/61 < 1/62 + w/61
    assert (found.mrr, found.best_member) == (1.0, 0.75)


def test_of_weights_that_validation_allows_training_decides():
    alike = Rankings([[["a"], ["a"], ["a"]]], [["a"]], size=3)
    training = Rankings([[POOR, GOOD, ALIKE]], [["a"]], size=3)
    found = choose_weights(("poor", "good", "alike"), training, alike)
    assert training.mrr(found.weights) == 1.0


def test_what_is_best_in_training_is_not_taken_where_it_is_worse_than_the_best_system_on_validation():
    training = Rankings([[["a", "b"], ["b", "a"]]] * 3, [["b"]] * 3, size=2)
    validation = Rankings([[["a", "b"], ["b", "a"]]] * 3, [["a"]] * 3, size=2)
    found = choose_weights(("one", "other"), training, validation)
    assert validation.mrr(found.weights) == found.best_member == 1.0


def test_weights_are_kept_and_used_by_the_first_stage(demo_kb: KnowledgeBase, demo_home: Path, tmp_path: Path):
    assert isinstance(demo_kb, SkbKB)
    settings = Settings(kb="demo", home=demo_home)
    stage = FirstStage(demo_kb, settings)
    queries = [TrainingQuery(str(place), demo_kb.skb.nodes.label(place), (demo_kb.skb.id(place),)) for place in (3, 9)]
    found = weigh(stage, queries, queries, tmp_path)
    assert found.of == stage.of
    assert found.mrr >= found.best_member
    assert weigh(stage, [], [], tmp_path) == found  # kept: nothing is asked again
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(DataError, match="not the weights"):
        weigh(stage, [], [], tmp_path)
    alone = FirstStage(demo_kb, settings, FirstStageOptions(weights=(0, 1, 0)))
    bm25 = stage.rankings(queries[0].text)[1].ids
    assert alone.retrieve(queries[0].text).ids[: len(bm25)] == bm25
