"""What is ranked again, and what is known of where it came from: without torch."""

import numpy as np

from kbnav.answers.tables import Ranking
from kbnav.retrieval.qagnn import Candidates
from kbnav.settings.model import Settings
from kbnav.training.data import Example, means, read_lists


class Fixed:
    """A system that always lists the same."""

    name, prompts = "fixed", {}

    def __init__(self, *scored: tuple[str, float]) -> None:
        self._ranking = Ranking.from_scores(scored)

    def retrieve(self, query: str, k: int, trace: object = None) -> Ranking:
        return Ranking(self._ranking.nodes[:k])


def test_candidates_are_fused_by_rank_and_say_where_they_came_from(shop):
    first = Fixed(("g0-0", 9.0), ("g1-0", 5.0), ("g2-0", 1.0))
    second = Fixed(("g1-0", 0.5), ("g3-0", 0.5))
    found = Candidates(shop, [first, second, Fixed()], 3).find("a query")
    assert [shop.skb.id(node) for node in found.nodes] == ["g1-0", "g0-0", "g3-0"]
    assert found.features.tolist() == [
        [0.5, 0.5, 1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0, 0.0],
    ]
    assert Candidates(shop, [Fixed()], 3).find("a query").nodes == []


def test_systems_by_name_are_candidates_too(shop):
    found = Candidates.open(shop, Settings(), ("bm25", "vss"), 7, {"bm25": {"name_weight": "2"}}).find("item 3")
    assert len(found.nodes) == 7
    assert found.features.shape == (7, 4)
    assert 0 <= found.features.min() <= found.features.max() == 1


def test_answers_that_are_no_candidates_count_as_missed():
    plain = [{"nodes": [1, 2, 3], "features": [[0.0]] * 3}, {"nodes": [], "features": []}]
    lists = read_lists(plain, [Example("a", "?", (2, 9)), Example("b", "?", (4,))])
    assert lists[1].features.shape == (0, 1)
    found = means(lists, [np.array([1.0, 2.0, 0.0], np.float32), np.zeros(0, np.float32)])
    assert found == {"hit@1": 0.5, "hit@5": 0.5, "recall@20": 0.25, "mrr": 0.5}
    # equal scores gain nothing: the answer comes last of its equals
    assert means(lists, [np.zeros(3, np.float32), np.zeros(0, np.float32)])["hit@1"] == 0.0
