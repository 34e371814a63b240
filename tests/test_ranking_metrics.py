"""Ranking metrics against values worked out by hand and against a plain sort written here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import load_dataset
from kbnav.evaluation.metrics import AnswerRanks, ranking_scores, ranks_in_lists, ranks_in_scores

ALL = ("hit@1", "hit@3", "recall@3", "mrr", "map", "ndcg@3")


def score(ranks: AnswerRanks, metrics: tuple[str, ...] = ALL) -> dict[str, float]:
    return ranking_scores(ranks, metrics).means()


def test_a_hand_made_ranking():
    found = score(ranks_in_lists([["x", "a", "b", "y", "c"]], [{"a", "b", "c", "missing"}]))
    assert found == pytest.approx(
        {
            "hit@1": 0,
            "hit@3": 1,
            "recall@3": 2 / 4,
            "mrr": 1 / 2,
            "map": (1 / 2 + 2 / 3 + 3 / 5) / 4,
            "ndcg@3": (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2),
        }
    )


def test_a_perfect_and_an_empty_ranking():
    assert set(score(ranks_in_lists([["a", "b", "x"]], [["b", "a"]])).values()) == {1.0}
    assert set(score(ranks_in_lists([[]], [["a"]])).values()) == {0.0}


def test_scores_of_each_question_are_kept_in_order():
    scores = ranking_scores(ranks_in_lists([["a"], [], ["x", "c"]], [["a"], ["b"], ["c"]]), ("mrr",))
    assert scores.values["mrr"].tolist() == [1, 0, 0.5]
    assert scores.means() == {"mrr": 0.5}


def test_a_node_listed_twice_keeps_its_first_place():
    assert score(ranks_in_lists([["x", "x", "x", "a", "a"]], [["a"]]), ("mrr", "recall@3")) == {
        "mrr": 0.5,
        "recall@3": 1,
    }


def test_only_the_order_of_scores_counts_and_not_their_sign():
    scores = np.array([[0.1, 0.9, 0.5, 0.3]])
    for shifted in (scores, scores - 5, scores * 1000, -1 / (scores + 1)):
        assert ranks_in_scores(shifted, [[0, 2]]).rank.tolist() == [2, 4]


def test_scoring_everything_alike_gains_nothing():
    ranks = ranks_in_scores(np.zeros((1, 10)), [[0, 1]])
    assert ranks.rank.tolist() == [9, 10]
    assert ranks_in_scores(np.zeros((1, 10)), [[0, 1]], mode="stark-compat").rank.tolist() == [1, 2]


def test_candidates_that_are_not_listed_have_no_rank_but_come_last_in_compat_mode():
    scores = np.array([[np.nan, -2.0, -np.inf, -1.0]])
    assert ranks_in_scores(scores, [[1, 2]]).rank.tolist() == [2]
    assert ranks_in_scores(scores, [[1, 2]], mode="stark-compat").rank.tolist() == [2, 4]
    lists, candidates = [["n3", "n1"]], ["n0", "n1", "n2", "n3"]
    assert ranks_in_lists(lists, [["n1", "n2"]], candidates).rank.tolist() == [2]
    assert ranks_in_lists(lists, [["n1", "n2"]], candidates, mode="stark-compat").rank.tolist() == [2, 4]


def test_answers_outside_the_candidates_are_counted_and_missed():
    scores = np.array([[3.0, 2.0, 1.0]])
    for mode, recall in (("standard", 0.5), ("stark-compat", 1.0)):
        by_scores = ranks_in_scores(scores, [[0, 7]], mode=mode)
        by_lists = ranks_in_lists([["n0"]], [["n0", "n7"]], ["n0", "n1", "n2"], mode=mode)
        for ranks in (by_scores, by_lists):
            scored = ranking_scores(ranks, ("recall@3",))
            assert (scored.means()["recall@3"], scored.outside) == (recall, 1)


def test_a_question_whose_answers_are_all_outside_scores_zero():
    ranks = ranks_in_scores(np.array([[3.0, 2.0]]), [[5]], mode="stark-compat")
    assert set(score(ranks).values()) == {0.0}


def test_wrong_use_is_refused():
    with pytest.raises(UsageError, match="2 rankings for the answers of 1 questions"):
        ranks_in_lists([[], []], [["a"]])
    with pytest.raises(UsageError, match="question 2 has no answers"):
        ranks_in_lists([["a"], ["a"]], [["a"], []])
    with pytest.raises(UsageError, match="give the candidates"):
        ranks_in_lists([["a"]], [["a"]], mode="stark-compat")
    ranks = ranks_in_lists([["a"]], [["a"]])
    for name in ("hit@0", "hit", "hit@x", "auc", "mrr@5"):
        with pytest.raises(UsageError, match="no metric"):
            ranking_scores(ranks, (name,))


values = st.integers(-3, 3).map(float) | st.just(float("nan"))


@st.composite
def scored_questions(draw: st.DrawFn) -> tuple[list[float], set[int]]:
    row = draw(st.lists(values, min_size=1, max_size=12))
    return row, draw(st.sets(st.integers(0, len(row) - 1), min_size=1))


@given(scored_questions())
def test_ranks_are_those_of_a_plain_sort(question: tuple[list[float], set[int]]):
    row, answers = question
    listed = [column for column in range(len(row)) if not math.isnan(row[column])]
    standard = sorted(listed, key=lambda column: (-row[column], column in answers))
    compat = sorted(range(len(row)), key=lambda column: (column not in listed, -row[column] if column in listed else 0))
    scores = np.array([row])
    assert ranks_in_scores(scores, [answers]).rank.tolist() == [
        place for place, column in enumerate(standard, 1) if column in answers
    ]
    assert ranks_in_scores(scores, [answers], mode="stark-compat").rank.tolist() == [
        place for place, column in enumerate(compat, 1) if column in answers
    ]


@given(st.permutations(range(8)), st.sets(st.integers(0, 9), min_size=1))
def test_lists_and_scores_agree(order: list[int], answers: set[int]):
    names = [f"n{column}" for column in range(8)]
    listed = [names[column] for column in order[:5]]
    row = np.full((1, 8), -np.inf)
    for place, column in enumerate(order[:5]):
        row[0, column] = -place
    for mode in ("standard", "stark-compat"):
        by_list = ranks_in_lists([listed], [{f"n{column}" for column in answers}], names, mode=mode)
        by_score = ranks_in_scores(row, [answers], mode=mode)
        assert score(by_list) == score(by_score)
        assert by_list.outside.tolist() == by_score.outside.tolist()


def test_real_stark_questions_with_the_answers_put_first_score_one(shared_data: Path):
    questions = load_dataset("stark-prime-test", shared_data / "benchmarks").questions
    perfect = ranks_in_lists([q.nodes for q in questions], [q.nodes for q in questions])
    means = score(perfect, ("hit@1", "hit@5", "recall@20", "mrr", "map", "ndcg@20"))
    assert means == pytest.approx(dict.fromkeys(means, 1.0))
    behind = ranks_in_lists([["-1", *q.nodes] for q in questions], [q.nodes for q in questions])
    assert score(behind, ("hit@1", "hit@5", "mrr")) == {"hit@1": 0, "hit@5": 1, "mrr": 0.5}
