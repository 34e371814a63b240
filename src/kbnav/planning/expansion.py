"""Where a plan leads in the graph, and how probable that makes each node as the answer (PASemiQA, equation 1, 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import Plan, PlannedPath
from kbnav.planning.schema import graph_hops

MOST_REACHED = 10_000
"""Nodes that are followed of each hop of a path: hubs lead to a large part of the graph."""


def reached(skb: SKB, path: PlannedPath, nodes: Sequence[str], limit: int = MOST_REACHED) -> NodeNumbers:
    """The nodes that a path leads to from any of some nodes, by number, each once, ascending; none for ``text``.

    Nodes of another type than the path's first are passed over. Raises UnknownId.
    """
    if path.is_text:
        return np.zeros(0, np.int32)
    found = np.array(sorted(_starts(skb, path, nodes)), np.int32)
    for hop in graph_hops(path, skb):
        found = skb.graph.expand(found, hop, limit)
    return found


def answers(
    skb: SKB, plan: Plan, nodes: Sequence[str], limit: int = MOST_REACHED, *, texts: Sequence[int] = ()
) -> list[tuple[int, float]]:
    """The node numbers that a plan leads to with their probabilities, the best first, equal ones by number.

    A path's probability is shared equally by the nodes it leads to; that of ``text`` by ``texts``, where there are any.
    """
    shares: npt.NDArray[np.float64] = np.zeros(len(skb.nodes))
    for path in plan.paths:
        found = np.array(texts, np.int32) if path.is_text else reached(skb, path, nodes, limit)
        shares[found] += path.probability / max(1, len(found))
    places = np.flatnonzero(shares)
    order = places[np.argsort(-shares[places], kind="stable")]
    return list(zip(order.tolist(), shares[order].tolist(), strict=True))


def instances(skb: SKB, path: PlannedPath, nodes: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Each way to follow a path from any of some nodes, as node numbers, node by node in their order; lazily.

    None meets a node twice. Raises UnknownId.
    """
    if not path.is_text:
        hops = list(graph_hops(path, skb))
        for node in _starts(skb, path, nodes):
            yield from skb.graph.paths(node, hops)


def _starts(skb: SKB, path: PlannedPath, nodes: Sequence[str]) -> Iterator[int]:
    for node in dict.fromkeys(nodes):
        number = skb.number(node)
        if not path.start or skb.type_name(number) == path.start:
            yield number
