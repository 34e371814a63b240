"""Looking around in an SKB: relations and neighbours of a node, nodes of a type, ways between two nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kbnav.knowledge.base import INVERSE, Entity, Value
from kbnav.knowledge.skb.graph import WAYS, Hop, Nodes
from kbnav.knowledge.skb.kb import SkbKB

LOOKED_AT = 5_000_000
"""Edges that are looked at for a way; behind hubs there may be more."""
_ANY = Hop()


@dataclass(frozen=True)
class Kin:
    """The neighbours of a node by one relation, ``^`` before it where it comes in: how many, and the first of them."""

    relation: str
    count: int
    first: tuple[Value, ...]


@dataclass(frozen=True)
class Listed:
    """Some of ``total`` nodes."""

    nodes: tuple[Value, ...]
    total: int


@dataclass(frozen=True)
class Tie:
    """One hop of a way: the relations that it follows, ``^`` before those followed backwards, and the node there."""

    relations: tuple[str, ...]
    node: Value


@dataclass(frozen=True)
class Ways:
    """The shortest ways from one node to another, those over nodes with few edges first; none where there is none.

    ``hops`` are theirs; ``cut`` says that too many edges were in the way, so that there may be one all the same.
    """

    ways: tuple[tuple[Tie, ...], ...]
    hops: int
    cut: bool = False


class Explorer:
    """What can be seen from each place of an SKB; threads may share it."""

    def __init__(self, kb: SkbKB) -> None:
        self.kb, self.skb = kb, kb.skb

    def value(self, node: int) -> Value:
        """A node by its number, its type as the datatype."""
        return Value(self.skb.nodes.label(node), self.skb.id(node), self.skb.type_name(node))

    def around(self, node_id: str, first: int) -> list[Kin]:
        """The relations of a node, those with most neighbours first. Raises UnknownId."""
        node = self.skb.number(node_id)
        found = []
        for way in WAYS:
            row = self.skb.graph.row(node, way)
            for relation in np.unique(row.relations).tolist():
                nodes = row.nodes[row.relations == relation]
                shown = tuple(map(self.value, nodes[:first].tolist()))
                found.append(Kin(self._name(relation, way == "in"), len(nodes), shown))
        return sorted(found, key=lambda kin: -kin.count)

    def neighbors(self, node_id: str, relation: str, start: int, count: int) -> Listed:
        """Neighbours by one relation, ``^`` before it followed backwards. Raises UnknownId."""
        node = self.skb.number(node_id)
        number, back = self.kb.relations.asked(relation)
        nodes = self.skb.graph.row(node, "in" if back else "out", number).nodes
        return Listed(tuple(map(self.value, nodes[start : start + count].tolist())), len(nodes))

    def of_type(self, kind: str, start: int, count: int) -> Listed:
        """Nodes of a type, in the order of the SKB. Raises UnknownId."""
        first, end = self.skb.type_range(kind)
        numbers = range(min(first + start, end), min(first + start + count, end))
        return Listed(tuple(map(self.value, numbers)), end - first)

    def find(self, text: str) -> list[Entity]:
        """What is meant by an id or a name: one node, or those that it may be. Raises BadArguments for no text."""
        if self.skb.nodes.ids.find(text) >= 0:
            return list(self.kb.entities([text]).values())
        found = self.kb.search_entities(text, kind="item")
        named = [one for one in found.entities if one.label.casefold() == text.strip().casefold()]
        return named if len(named) == 1 else list(found.entities)

    def two_hops(self, node_id: str, count: int, seed: str = "") -> list[tuple[Tie, ...]]:
        """Ways of two hops from a node, each by another pair of relations, drawn with ``seed``. Raises UnknownId."""
        node, chance = self.skb.number(node_id), random.Random(seed)
        found: dict[tuple[tuple[str, ...], ...], tuple[Tie, ...]] = {}
        for _ in range(4 * count):
            near = self._step(node, chance, {node})
            far = self._step(near, chance, {node, near}) if near is not None else None
            if near is not None and far is not None:
                way = self._way((node, near, far))
                found.setdefault(tuple(tie.relations for tie in way), way)
        return list(found.values())[:count]

    def ways(self, start_id: str, end_id: str, limit: int) -> Ways:
        """The shortest ways between two nodes, whatever the direction of their edges. Raises UnknownId."""
        start, end = self.skb.number(start_id), self.skb.number(end_id)
        if start == end:
            return Ways(((),), 0)
        sides = [[np.array([one], np.int32)] for one in (start, end)]
        looked = 0
        while True:
            meeting = np.intersect1d(sides[0][-1], sides[1][-1])
            if len(meeting):
                break
            costs = [int(self._degrees(side[-1]).sum()) for side in sides]
            side = sides[int(np.argmin(costs))]
            looked += min(costs)
            if not min(costs) or looked > LOOKED_AT:
                return Ways((), 0, looked > LOOKED_AT)
            side.append(np.setdiff1d(self.skb.graph.expand(side[-1], _ANY), np.concatenate(side)))
        layers = self._between(sides, meeting)
        walks = self._walks((start,), layers[1:])
        return Ways(tuple(self._way(walk) for walk, _ in zip(walks, range(limit), strict=False)), len(layers) - 1)

    def _between(self, sides: Sequence[Sequence[Nodes]], meeting: Nodes) -> list[Nodes]:
        """The nodes that lie on a shortest way, by their distance from its start."""
        layers = [meeting]
        for layer in reversed(sides[0][:-1]):
            layers.insert(0, np.intersect1d(layer, self.skb.graph.expand(layers[0], _ANY)))
        for layer in reversed(sides[1][:-1]):
            layers.append(np.intersect1d(layer, self.skb.graph.expand(layers[-1], _ANY)))
        return layers

    def _walks(self, walk: tuple[int, ...], layers: Sequence[Nodes]) -> Iterator[tuple[int, ...]]:
        if not layers:
            yield walk
            return
        steps = np.intersect1d(self.skb.graph.neighbors(walk[-1]), layers[0])
        for step in steps[np.argsort(self._degrees(steps), kind="stable")].tolist():
            yield from self._walks((*walk, step), layers[1:])

    def _step(self, node: int, chance: random.Random, but: set[int]) -> int | None:
        """A neighbour by a relation drawn first, so that those of few edges are met as well."""
        rows = [self.skb.graph.row(node, way) for way in WAYS]
        kinds = [(way, one) for way, row in enumerate(rows) for one in np.unique(row.relations).tolist()]
        if not kinds:
            return None
        way, relation = chance.choice(kinds)
        nodes = rows[way].nodes[rows[way].relations == relation]
        step = int(nodes[chance.randrange(len(nodes))])
        return None if step in but else step

    def _way(self, walk: Sequence[int]) -> tuple[Tie, ...]:
        return tuple(Tie(tuple(self._between_two(one, other)), self.value(other)) for one, other in pairwise(walk))

    def _between_two(self, one: int, other: int) -> Iterator[str]:
        for way in WAYS:
            row = self.skb.graph.row(one, way)
            for relation in row.relations[row.nodes == other].tolist():
                yield self._name(relation, way == "in")

    def _degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """How many edges each has, shape [nodes]."""
        starts = [self.skb.graph.arrays(way)[0] for way in WAYS]
        counts: npt.NDArray[np.int64] = sum(start[nodes + 1] - start[nodes] for start in starts)  # type: ignore[assignment]
        return counts

    def _name(self, relation: int, back: bool) -> str:
        return f"{INVERSE if back else ''}{self.kb.relations.shown[relation]}"
