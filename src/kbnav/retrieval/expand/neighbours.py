"""The documents around a node that fit a query best, and how they are linked to it (KAR, section 4, equations 4-6).

By the paper's equation a neighbour's score is the similarity of its document alone. Where hubs join everything (the
language "English" every actor with every other) most of what is two hops away is beside the point, and outnumbers
what is near. So a
neighbour may be weighed by the way to it too: its similarity, brought between 0 and 1, is divided by 1 + log10(d) for
each node of degree d that the way passes through, and multiplied by 1 + r, with r from 0 to 1 for how well the
relation that leads to it fits the query. A direct neighbour is divided by nothing, and comes first where much else is
equal. Of several ways that over the smallest hubs counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kbnav.knowledge.skb.graph import WAYS, Graph, Hop, NodeNumbers

Scores = npt.NDArray[np.float32]
Scorer = Callable[[NodeNumbers], Scores]
"""How well nodes [n] fit the query, shape [n]."""

_NAMED = 300
"""Neighbours, beside the direct ones, whose relations are compared with the query: those best without that."""

EDGES = 200_000
"""Edges that one hop follows. Behind a hub there may be millions, to most of the graph."""


@dataclass(frozen=True)
class Link:
    """One hop of a chain: to ``node``, by edges from the node before it (``out``) and edges to that node (``into``)."""

    node: int
    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()


@dataclass(frozen=True)
class Triple:
    """Head document, relation, tail document: ``links`` lead from the head to the tail, over one node or more."""

    head: int
    links: tuple[Link, ...]
    score: float

    @property
    def tail(self) -> int:
        """The node at the end."""
        return self.links[-1].node


@dataclass(frozen=True)
class Chosen:
    """The best triples of a node, the number of neighbours they were chosen from, and whether some were left out."""

    triples: tuple[Triple, ...]
    neighbours: int
    cut: bool


class Surroundings:
    """The nodes up to ``hops`` away from others, and the best of them.

    A hop whose nodes have more than ``edges`` edges in all is followed from those nodes that fit the query best, as far
    as the edges go: what hubs lead to is left out only where it is reached by way of what fits less.
    """

    def __init__(self, graph: Graph, *, hops: int = 2, edges: int = EDGES) -> None:
        self._graph = graph
        self._hops = hops
        self._edges = edges
        self._degrees = graph.degrees("out") + graph.degrees("in")

    def best(self, node: int, scorer: Scorer, k: int, likely: Scores | None = None) -> Chosen:
        """Triples to the ``k`` neighbours that fit best, best first; equal ones by distance and number.

        ``likely`` has for each relation how well it fits the query, from 0 to 1, shape [relations]; with it neighbours
        are weighed by the way to them, without it they are not.
        """
        distance, cut = self._distances(node, scorer)
        found = np.concatenate([np.flatnonzero(distance == hop).astype(np.int32) for hop in range(1, self._hops + 1)])
        scores = scorer(found)
        if likely is not None and len(found):
            return Chosen(tuple(self._weighed(node, found, scores, distance, likely, k)), len(found), cut)
        triples = [
            Triple(node, self._links(int(found[at]), distance, scorer), float(scores[at])) for at in _top(scores, k)
        ]
        return Chosen(tuple(triples), len(found), cut)

    def _weighed(
        self, node: int, found: NodeNumbers, scores: Scores, distance: npt.NDArray[np.int8], likely: Scores, k: int
    ) -> list[Triple]:
        """See the module: similarity, hubs on the way, and the relation that leads to a neighbour."""
        cost = self._costs(node, distance)
        base = scores - min(0.0, float(scores.min()))
        whole = base / (float(base.max()) or 1.0) * np.exp(-cost[found])
        near = np.flatnonzero(distance[found] == 1)
        places = np.unique(np.concatenate([_top(whole.astype(np.float32), max(k, _NAMED)), near[:_NAMED]]))
        triples = []
        for place in places.tolist():
            links = self._links(int(found[place]), distance, lambda nodes: -cost[nodes] - self._toll(nodes))
            by = [float(likely[relation]) for relation in (*links[-1].out, *links[-1].into)]
            triples.append(Triple(node, links, float(whole[place]) * (1 + max(by, default=0.0))))
        return sorted(triples, key=lambda triple: (-triple.score, len(triple.links), triple.tail))[:k]

    def _costs(self, node: int, distance: npt.NDArray[np.int8]) -> Scores:
        """What the cheapest shortest way to each node passes through, as the sum of ``_toll``; shape [nodes]."""
        cost = np.full(self._graph.nodes, np.inf, np.float32)
        cost[node] = 0
        for hop in range(1, self._hops + 1):
            level = np.flatnonzero(distance == hop - 1).astype(np.int32)
            through = cost[level] + (self._toll(level) if hop > 1 else np.float32(0))
            for place in np.argsort(-through, kind="stable").tolist():  # the cheapest last, to stand
                for way in WAYS:
                    near = self._graph.row(int(level[place]), way).nodes
                    cost[near[distance[near] == hop]] = through[place]
        return cost

    def _toll(self, nodes: NodeNumbers) -> Scores:
        """Logarithm of what a way through these nodes is divided by."""
        toll: Scores = np.log1p(np.log10(np.maximum(self._degrees[nodes], 1))).astype(np.float32)
        return toll

    def _distances(self, node: int, scorer: Scorer) -> tuple[npt.NDArray[np.int8], bool]:
        """How far each node is from one, -1 where it is not reached; and whether edges were left out."""
        distance = np.full(self._graph.nodes, -1, np.int8)
        distance[node] = 0
        level, cut = np.array([node], np.int32), False
        for hop in range(1, self._hops + 1):
            followed = self._affordable(level, scorer)
            cut |= len(followed) < len(level)
            # A limit that is never met has it mark what it meets, which is quicker than to sort.
            reached = self._graph.expand(followed, Hop(), limit=self._graph.nodes)
            level = reached[distance[reached] < 0]
            distance[level] = hop
        return distance, cut

    def _affordable(self, level: NodeNumbers, scorer: Scorer) -> NodeNumbers:
        """The nodes whose edges are followed: all, or those that fit best, at least one."""
        if int(self._degrees[level].sum()) <= self._edges:
            return level
        ordered = level[_top(scorer(level), self._edges)]
        count = int(np.searchsorted(np.cumsum(self._degrees[ordered]), self._edges, "right"))
        return ordered[: max(count, 1)]

    def _links(self, tail: int, distance: npt.NDArray[np.int8], scorer: Scorer) -> tuple[Link, ...]:
        """A shortest way to a node; of several, at each step back over the node that fits best."""
        links: list[Link] = []
        while distance[tail] > 0:
            rows = {way: self._graph.row(tail, way) for way in WAYS}
            near = np.concatenate([row.nodes for row in rows.values()])
            before = near[distance[near] == distance[tail] - 1]
            origin = int(before[0])
            if distance[tail] > 1:  # the only node at distance 0 needs no comparison
                scores = scorer(before)
                origin = int(before[scores == scores.max()].min())
            # The origin's outgoing edges to this node are incoming ones here, in a row that is read already.
            out, into = (tuple(rows[way].relations[rows[way].nodes == origin].tolist()) for way in ("in", "out"))
            links.insert(0, Link(tail, out, into))
            tail = origin
        return tuple(links)


def _top(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """The places of the ``k`` highest scores, highest first, equal ones in order."""
    places = np.arange(len(scores))
    if k < len(scores):
        cut = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= cut)
    return places[np.argsort(-scores[places], kind="stable")][:k]
