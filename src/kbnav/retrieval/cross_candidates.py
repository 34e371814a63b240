"""What ``cross`` ranks again: the first nodes of several systems, with a row of features each.

The features of a node are, for each system, the reciprocal of its rank there, and its score between that of the last
node listed and that of the first; both 0 where the system does not list it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.build import build_retriever
from kbnav.retrieval.common import numbers
from kbnav.retrieval.cross_model import Features
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

SYSTEMS = ("graph-rank", "bm25", "vss")
"""A plan's paths, words and meaning. Where a planner was trained, ``plan-rank`` may stand in the first's place."""
PER_SYSTEM = 2
"""Features of each system."""


class Found(NamedTuple):
    """Node numbers, the best first by the fusion of the systems' ranks, and their features [nodes, 2 x systems]."""

    nodes: list[int]
    features: Features


class Candidates:
    """The systems; use ``open``."""

    def __init__(self, kb: SkbKB, systems: Sequence[Retriever], depth: int) -> None:
        self._skb, self.systems, self.depth = kb.skb, systems, depth

    @classmethod
    def open(
        cls, kb: SkbKB, settings: Settings, systems: Sequence[str], depth: int, options: Mapping[str, Mapping[str, Any]]
    ) -> Candidates:
        """Systems by name, each with its options. Raises as ``build_retriever``."""
        return cls(kb, [build_retriever(name, kb, settings, options.get(name, {})) for name in systems], depth)

    def find(self, query: str, trace: Trace | None = None) -> Found:
        """The first ``depth`` nodes of all systems together. Raises as their ``retrieve``."""
        trace = trace or Trace()
        lists, scores = [], []
        for system in self.systems:
            ranking = system.retrieve(query, self.depth, trace)
            lists.append(numbers(self._skb, ranking))
            scores.append([one.score for one in ranking.nodes])
        nodes = [node for node, _ in reciprocal_rank_fusion(lists, limit=self.depth)]
        return Found(nodes, _features(nodes, lists, scores))


def _features(nodes: Sequence[int], lists: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> Features:
    rows = {node: row for row, node in enumerate(nodes)}
    found = np.zeros((len(nodes), PER_SYSTEM * len(lists)), np.float32)
    for number, (listed, given) in enumerate(zip(lists, scores, strict=True)):
        reach = (given[0] - given[-1]) or 1.0 if given else 1.0
        for place, (node, score) in enumerate(zip(listed, given, strict=True)):
            if node in rows:
                found[rows[node], PER_SYSTEM * number] = 1 / (1 + place)
                found[rows[node], PER_SYSTEM * number + 1] = (score - given[-1]) / reach
    return found
