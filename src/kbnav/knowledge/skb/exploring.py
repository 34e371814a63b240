"""Looking around in an SKB: relations and neighbours of a node, nodes of a type, paths of two hops, evidence."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from kbnav.answers.tables import Term, node_term
from kbnav.knowledge.base import Value
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.knowledge.skb.graph import WAYS, Graph, Hop, NodeNumbers
from kbnav.knowledge.skb.kb import SkbKB

_ANY = Hop()
_LONGEST = 3
"""Edges of a path that is evidence."""
_LOOKED_AT = 100_000
"""Edges that are looked at for such a path."""


@dataclass(frozen=True)
class RelatedNodes:
    """The neighbours of a node by one relation, ``^`` before it where it comes in: how many, and the first of them."""

    relation: str
    count: int
    first: tuple[Value, ...]


@dataclass(frozen=True)
class NodePage:
    """Some of ``total`` nodes."""

    nodes: tuple[Value, ...]
    total: int


@dataclass(frozen=True)
class PathHop:
    """One hop of a path: the relations that it follows, ``^`` before those followed backwards, and the node there."""

    relations: tuple[str, ...]
    node: Value


class Explorer:
    """What can be seen from each place of an SKB; threads may share it."""

    def __init__(self, kb: SkbKB) -> None:
        self.kb, self.skb, self.value = kb, kb.skb, kb.value

    def around(self, node_id: str, first: int) -> list[RelatedNodes]:
        """The relations of a node, those with most neighbours first. Raises UnknownId."""
        found = [
            RelatedNodes(
                self.kb.relations.directed(relation, way), len(nodes), tuple(map(self.value, nodes[:first].tolist()))
            )
            for way, relation, nodes in self.kb.relations.around(self.skb.number(node_id))
        ]
        return sorted(found, key=lambda one: -one.count)

    def neighbors(self, node_id: str, relation: str, start: int, count: int) -> NodePage:
        """Neighbours by one relation, ``^`` before it followed backwards. Raises UnknownId."""
        node = self.skb.number(node_id)
        number, back = self.kb.relations.resolve(relation)
        nodes = self.skb.graph.row(node, "in" if back else "out", number).nodes
        return NodePage(tuple(map(self.value, nodes[start : start + count].tolist())), len(nodes))

    def of_type(self, kind: str, start: int, count: int) -> NodePage:
        """Nodes of a type, in the order of the SKB. Raises UnknownId."""
        numbers = range(*self.skb.type_range(kind))
        return NodePage(tuple(map(self.value, numbers[start : start + count])), len(numbers))

    def two_hops(self, node_id: str, count: int, seed: str = "") -> list[tuple[PathHop, ...]]:
        """Paths of two hops from a node, each by another pair of relations, drawn with ``seed``. Raises UnknownId."""
        node, chance = self.skb.number(node_id), random.Random(seed)
        found: dict[tuple[tuple[str, ...], ...], tuple[PathHop, ...]] = {}
        for _ in range(4 * count):
            near = self._step(node, chance, {node})
            far = self._step(near, chance, {node, near}) if near is not None else None
            if near is not None and far is not None:
                path = self._path((node, near, far))
                found.setdefault(tuple(hop.relations for hop in path), path)
        return list(found.values())[:count]

    def _step(self, node: int, chance: random.Random, but: set[int]) -> int | None:
        """A neighbour by a relation drawn first, so that those of few edges are met as well."""
        kinds = [nodes for _, _, nodes in self.kb.relations.around(node)]
        if not kinds:
            return None
        nodes = chance.choice(kinds)
        step = int(nodes[chance.randrange(len(nodes))])
        return None if step in but else step

    def _path(self, walk: Sequence[int]) -> tuple[PathHop, ...]:
        names = self.kb.relations
        return tuple(
            PathHop(
                tuple(names.directed(relation, way) for way, relation in _links(self.skb.graph, one, other)),
                self.value(other),
            )
            for one, other in pairwise(walk)
        )


def _layers(graph: Graph, starts: Sequence[int], ends: Sequence[int]) -> list[NodeNumbers]:
    """The nodes that lie on a shortest path, by their distance from its start; none where none was found."""
    sides = [[np.array(side, np.int32)] for side in (starts, ends)]
    looked = 0
    while not len(meeting := np.intersect1d(sides[0][-1], sides[1][-1])):
        costs = [int(graph.degree(side[-1]).sum()) for side in sides]
        side = sides[int(np.argmin(costs))]
        looked += min(costs)
        if not min(costs) or looked > _LOOKED_AT or len(sides[0]) + len(sides[1]) - 2 >= _LONGEST:
            return []
        side.append(np.setdiff1d(graph.expand(side[-1], _ANY), np.concatenate(side)))
    layers = [meeting]
    for layer in reversed(sides[0][:-1]):
        layers.insert(0, np.intersect1d(layer, graph.expand(layers[0], _ANY)))
    for layer in reversed(sides[1][:-1]):
        layers.append(np.intersect1d(layer, graph.expand(layers[-1], _ANY)))
    return layers


def _walks(graph: Graph, layers: Sequence[NodeNumbers], walk: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if not layers:
        if walk:
            yield walk
        return
    steps = np.intersect1d(graph.neighbors(walk[-1]), layers[0]) if walk else layers[0]
    for step in steps[np.argsort(graph.degree(steps), kind="stable")].tolist():
        yield from _walks(graph, layers[1:], (*walk, step))


def _links(graph: Graph, one: int, other: int) -> Iterator[tuple[Literal["out", "in"], int]]:
    for way in WAYS:
        row = graph.row(one, way)
        for relation in row.relations[row.nodes == other].tolist():
            yield way, relation


def node_evidence(kb: SkbKB, nodes: Sequence[str], starts: Collection[str], about: str) -> Provenance:
    """What links nodes with those that a question is about, and what their documents say of it.

    The edges are those of a shortest path, of several one over nodes with few edges.

    Args:
        kb: where the nodes are.
        nodes: ids of the nodes of an answer; what is no node has no evidence.
        starts: ids of the nodes that the search began at.
        about: the question, by which the sentence is chosen.
    """
    skb = kb.skb
    begun = {number for start in starts if (number := skb.nodes.ids.find(start)) >= 0}
    sentences = kb.excerpts(nodes, about)
    rows: list[tuple[Evidence, ...]] = []
    named: dict[str, str] = {}
    for node in nodes:
        number = skb.nodes.ids.find(node)
        layers = _layers(skb.graph, sorted(begun - {number}), [number] if number >= 0 else [])
        path = next(_walks(skb.graph, layers), ())
        found: list[Evidence] = []
        for one, other in pairwise(path):
            both = [skb.id(end) for end in (one, other)]
            named |= kb.labels(both)
            for way, relation in _links(skb.graph, one, other):
                name = skb.relation_names[relation]
                named[name] = name.replace("_", " ")
                source, target = both if way == "out" else reversed(both)
                found.append(Evidence(node_term(source), name, node_term(target)))
        if sentence := sentences.get(node):
            found.append(Evidence(node_term(node), "", Term("literal", sentence), source="document"))
        rows.append(tuple(found))
        named |= kb.labels([node])
    return Provenance(tuple(rows), labels=named)
