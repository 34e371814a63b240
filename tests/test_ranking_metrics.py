"""Ranking metrics against values worked out by hand, against a plain sort, and on STaRK's questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.evaluation.metrics.ranking import AnswerRanks, ranking_scores, ranks_in_lists

ALL = ("hit@1", "hit@3", "recall@3", "mrr")


def score(ranks: AnswerRanks, metrics: tuple[str, ...] = ALL) -> dict[str, float]:
    return ranking_scores(ranks, metrics).means()


def test_a_hand_made_ranking():
    found = score(ranks_in_lists([["x", "a", "b", "y", "c"]], [{"a", "b", "c", "missing"}]))
    assert found == {"hit@1": 0, "hit@3": 1, "recall@3": 2 / 4, "mrr": 1 / 2}


def test_candidates_that_are_not_listed_have_no_rank_but_come_last_in_compat_mode():
    lists, candidates = [["n3", "n1"]], ["n0", "n1", "n2", "n3"]
    assert ranks_in_lists(lists, [["n1", "n2"]], candidates).ranks == [[2]]
    assert ranks_in_lists(lists, [["n1", "n2"]], candidates, mode="stark-compat").ranks == [[2, 4]]


@pytest.mark.parametrize(("mode", "recall"), [("standard", 0.5), ("stark-compat", 1.0)])
def test_answers_outside_the_candidates_are_counted_and_missed(mode, recall):
    ranks = ranks_in_lists([["n0"]], [["n0", "n7"]], ["n0", "n1", "n2"], mode=mode)
    scored = ranking_scores(ranks, ("recall@3",))
    assert (scored.means()["recall@3"], scored.outside) == (recall, 1)


@given(st.permutations(range(12)), st.integers(0, 12), st.sets(st.integers(0, 11), min_size=1))
def test_ranks_are_those_of_a_plain_sort(order, listed, answers):
    lists, wanted = [[str(one) for one in order[:listed]]], [[str(one) for one in answers]]
    names = [str(one) for one in range(12)]
    plain = [rank for rank, one in enumerate(order[:listed], 1) if one in answers]
    assert ranks_in_lists(lists, wanted).ranks == [plain]
    completed = [*order[:listed], *sorted(order[listed:])]
    compat = [rank for rank, one in enumerate(completed, 1) if one in answers]
    assert ranks_in_lists(lists, wanted, names, mode="stark-compat").ranks == [compat]


def test_ndcg_and_map_of_a_hand_made_ranking():
    ranks = ranks_in_lists([["x", "a", "b", "y", "c"]], [{"a", "b", "c", "missing"}])
    found = score(ranks, ("ndcg@5", "ndcg@2", "map"))
    assert found["ndcg@5"] == pytest.approx((0.63093 + 0.5 + 0.38685) / (1 + 0.63093 + 0.5 + 0.43068), abs=1e-5)
    assert found["ndcg@2"] == pytest.approx(0.63093 / 1.63093, abs=1e-5)
    assert found["map"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 4)
