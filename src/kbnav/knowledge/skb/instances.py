"""The instances of a relation path in an SKB: the ways to follow it from a node, those with the best ends first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from kbnav.knowledge.skb.fusion import reciprocal_rank_fusion
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.store import SKB

WALKED = 20_000
"""Ways that are followed; behind hubs there are more."""
_EACH = 2
"""Ways to one end that are given: a first to every end, then a second."""


@dataclass(frozen=True)
class Instances:
    """``walks`` are node numbers, one more than hops each, the best ends first; ``ends`` all ends in that order.

    ``cut`` says that there are more ways than were followed.
    """

    walks: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    cut: bool


def instances(skb: SKB, node: int, hops: Sequence[Hop], *, query: str = "", limit: int = 50) -> Instances:
    """Follow a relation path of at least one hop from a node number.

    Ends come first that many ways lead to and whose documents fit the ``query``, by words and in meaning: the three
    rankings' reciprocal ranks are summed. ``limit`` is how many walks are given.
    """
    walks = list(islice(skb.graph.paths(node, hops), WALKED + 1))
    cut = len(walks) > WALKED
    ways = Counter(walk[-1] for walk in walks[:WALKED])
    rankings: list[list[int]] = []
    if max(ways.values(), default=0) > 1:
        rankings.append([end for end, _ in ways.most_common()])
    for index in (skb.text, skb.vectors):
        if index is not None and query.strip() and len(ways) > 1:
            hits = index.search(query, limit=len(ways), among=list(ways))
            rankings.append([end for end, score in hits if score > 0])
    fused = [end for end, _ in reciprocal_rank_fusion(rankings)]
    ends = list(dict.fromkeys([*fused, *ways]))
    by_end: dict[int, list[tuple[int, ...]]] = {}
    for walk in walks[:WALKED]:
        own = by_end.setdefault(walk[-1], [])
        if len(own) < _EACH:
            own.append(walk)
    best = [by_end[end][turn] for turn in range(_EACH) for end in ends if turn < len(by_end[end])]
    return Instances(tuple(best[:limit]), tuple(ends), cut)
