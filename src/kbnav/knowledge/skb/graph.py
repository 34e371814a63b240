"""The graph of an SKB: compressed sparse rows in both directions, opened by memory map.

Every edge is kept as it came, with its relation and its direction; parallel edges of different relations stay apart.
(STaRK's loader averages the type numbers of parallel edges instead, and so files them under a third relation.)

Nodes and relations are numbers here; numbers of one node type form a range. A row, the edges of one node in one
direction, is sorted by relation and then by neighbour, so that a relation is a slice of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.files import Array, check_numbers, check_starts, consecutive, open_array

NodeNumbers = npt.NDArray[np.int32]
"""Node numbers, shape [n]."""
MAX_RELATIONS = 65_534
_CHUNK = 1 << 22
WAYS: tuple[Literal["out"], Literal["in"]] = ("out", "in")


class Row(NamedTuple):
    """Edges of one node in one direction, shape [edges] both: neighbours and relations. Views; not to be written to."""

    nodes: NodeNumbers
    relations: Array


@dataclass(frozen=True)
class Hop:
    """A relation (None: any) followed in a direction to nodes ``within`` first and behind the last (None: any)."""

    relation: int | None = None
    direction: Direction = "both"
    within: tuple[int, int] | None = None


class Graph:
    """Read access to the graph; safe to share between threads. ``within`` is everywhere a range of node numbers."""

    def __init__(self, folder: Path, relations: int) -> None:
        """Open the files of a build. Raises DataError where they do not fit together."""
        dtype = relation_dtype(relations)
        self._start = [open_array(folder / f"{way}-start.npy", np.int64) for way in WAYS]
        self._nodes = [open_array(folder / f"{way}-nodes.npy", np.int32) for way in WAYS]
        self._relations = [open_array(folder / f"{way}-relations.npy", dtype) for way in WAYS]
        # Of the rows' own dtype, or searching a row would first convert all of it.
        self._keys = np.arange(relations + 1, dtype=dtype)
        if not all(len(start) for start in self._start):
            raise DataError(f"{folder}: the graph has no rows at all")
        sizes = {len(array) for array in (*self._nodes, *self._relations)} | {int(start[-1]) for start in self._start}
        if len(sizes) != 1 or len(self._start[0]) != len(self._start[1]):
            raise DataError(f"{folder}: the graph's files do not fit together")
        for way, start, nodes, kinds in zip(WAYS, self._start, self._nodes, self._relations, strict=True):
            check_starts(folder / f"{way}-start.npy", start, len(nodes))
            check_numbers(folder / f"{way}-nodes.npy", nodes, self.nodes)
            check_numbers(folder / f"{way}-relations.npy", kinds, relations)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self._start[0]) - 1

    @property
    def edges(self) -> int:
        """Number of edges."""
        return len(self._nodes[0])

    def row(self, node: int, direction: Literal["out", "in"] = "out", relation: int | None = None) -> Row:
        """The edges of a node in one direction, of one relation or of all."""
        way = direction == "in"
        start = self._start[way]
        first, last = start[node], start[node + 1]
        relations = self._relations[way][first:last]
        nodes = self._nodes[way][first:last]
        if relation is None:
            return Row(nodes, relations)
        begin, end = relations.searchsorted(self._keys[relation : relation + 2])
        return Row(nodes[begin:end], relations[begin:end])

    def neighbors(self, node: int, relation: int | None = None, direction: Direction = "both") -> NodeNumbers:
        """The nodes next to one, each once, ascending."""
        if direction != "both" and relation is not None:
            return self.row(node, direction, relation).nodes  # one relation, one way: sorted and without repeats
        return _distinct([self.row(node, way, relation).nodes for way in ways(direction)])

    def degree(self, node: Any) -> Any:
        """How many edges a node, or each of several, has in both directions; one from a node to itself counts twice."""
        return sum(start[node + 1] - start[node] for start in self._start)

    def degrees(self, direction: Literal["out", "in"]) -> npt.NDArray[np.int64]:
        """The number of edges of every node in one direction, shape [nodes]."""
        return np.diff(self._start[direction == "in"])

    def arrays(self, direction: Literal["out", "in"]) -> tuple[npt.NDArray[np.int64], NodeNumbers, Array]:
        """The rows of one direction as they are stored: starts [nodes + 1], neighbours and relations [edges]."""
        way = direction == "in"
        return self._start[way], self._nodes[way], self._relations[way]

    def columns(self) -> tuple[npt.NDArray[np.int64], Array, NodeNumbers]:
        """All edges: source, relation and target, shape [edges] each, ascending."""
        return np.repeat(np.arange(self.nodes), self.degrees("out")), self._relations[0], self._nodes[0]

    def has_edge(self, source: int, relation: int, target: int) -> bool:
        """Whether there is this very edge."""
        nodes = self.row(source, "out", relation).nodes
        place = nodes.searchsorted(np.int32(target))
        return bool(place < len(nodes) and nodes[place] == target)

    def expand(self, nodes: NodeNumbers, hop: Hop, limit: int | None = None) -> NodeNumbers:
        """Nodes one hop from any of ``nodes``, each once, ascending; ends, in their order, at ``limit``."""
        both = ways(hop.direction)
        if limit is None:
            return _distinct([self._gather(nodes, hop, way) for way in both])
        # Marks stay cheap where the same nodes are met again and again, as behind hubs.
        seen = np.zeros(self.nodes, bool)
        for part in self._batches(nodes, 2 * limit):
            for way in both:
                seen[self._gather(part, hop, way)] = True
            if np.count_nonzero(seen) >= limit:
                break
        return np.flatnonzero(seen)[:limit].astype(np.int32)

    def ends(self, node: int, path: Sequence[Hop], limit: int | None = None) -> NodeNumbers:
        """The nodes that a metapath leads to from a node, each once, ascending; a walk may come back to a node."""
        nodes = np.array([node], np.int32)
        for hop in path:
            nodes = self.expand(nodes, hop, limit)
        return nodes

    def paths(self, node: int, path: Sequence[Hop]) -> Iterator[tuple[int, ...]]:
        """Each way to follow a metapath from a node, as its ``len(path) + 1`` nodes, depth first, ascending.

        No path meets a node twice. Parallel edges give one path.
        """
        stack: list[tuple[int, ...]] = [(node,)]
        while stack:
            walked = stack.pop()
            if len(walked) > len(path):
                yield walked
                continue
            nodes = self.expand(np.array(walked[-1:], np.int32), path[len(walked) - 1])
            stack.extend((*walked, step) for step in nodes[::-1].tolist() if step not in walked)

    def sample(
        self, relation: int, sources: tuple[int, int], targets: tuple[int, int], limit: int
    ) -> list[tuple[int, int]]:
        """Up to ``limit`` edges of a relation from one range of nodes to another, spread over those first found."""
        start = self._start[0]
        first, end = int(start[sources[0]]), int(start[sources[1]])
        for begin in range(first, end, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, end))
            nodes = self._nodes[0][part]
            fits = (self._relations[0][part] == self._keys[relation]) & (nodes >= targets[0]) & (nodes < targets[1])
            places = np.flatnonzero(fits)
            if len(places):
                chosen = places[np.unique(np.linspace(0, len(places) - 1, limit).astype(int))]
                owners = np.searchsorted(start, chosen + begin, "right") - 1
                return list(zip(owners.tolist(), nodes[chosen].tolist(), strict=True))
        return []

    def tuple_counts(self, type_start: Sequence[int]) -> dict[tuple[int, int, int], int]:
        """How many edges lead from each type by each relation to each type: numbers of type, relation, type."""
        kinds, relations = len(type_start) - 1, len(self._keys)
        totals: Counter[int] = Counter()
        for first in range(0, self.edges, _CHUNK):
            places = np.arange(first, min(first + _CHUNK, self.edges))
            source = np.searchsorted(self._start[0], places, "right") - 1
            kind = np.searchsorted(type_start, source, "right") - 1
            target = np.searchsorted(type_start, self._nodes[0][places], "right") - 1
            keys, counts = np.unique(
                (kind * relations + self._relations[0][places]) * kinds + target, return_counts=True
            )
            totals.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        return {
            (key // kinds // relations, key // kinds % relations, key % kinds): totals[key] for key in sorted(totals)
        }

    def _batches(self, nodes: NodeNumbers, edges: int) -> Iterator[NodeNumbers]:
        """Consecutive parts of ``nodes``, each with about so many edges, so that a limit is met with little waste."""
        ends = np.cumsum(self.degree(nodes))
        first = 0
        while first < len(nodes):
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + edges, "right")))
            yield nodes[first:last]
            first = last

    def _gather(self, nodes: NodeNumbers, hop: Hop, way: Literal["out", "in"]) -> NodeNumbers:
        """Neighbours of many nodes in one direction, repeats and all, without a loop over nodes in Python."""
        if len(nodes) == 1:
            found = self.row(int(nodes[0]), way, hop.relation).nodes
        else:
            start = self._start[way == "in"]
            first = start[nodes]
            places = consecutive(first, start[nodes + 1] - first)
            if hop.relation is not None:
                places = places[self._relations[way == "in"][places] == self._keys[hop.relation]]
            found = self._nodes[way == "in"][places]
        if hop.within is not None:
            low, high = hop.within
            found = found[(found >= low) & (found < high)]
        return found


def relation_dtype(relations: int) -> npt.DTypeLike:
    """The dtype of relation numbers in the files."""
    return np.uint8 if relations < np.iinfo(np.uint8).max else np.uint16


def _distinct(parts: Sequence[NodeNumbers]) -> NodeNumbers:
    """Each value once, ascending. NumPy's own ``unique`` goes by hashes, which is twenty times slower here."""
    values = np.concatenate(parts)
    values.sort()
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) else values


def ways(direction: Direction) -> tuple[Literal["out", "in"], ...]:
    """The directions that are followed, outgoing edges first."""
    return WAYS if direction == "both" else (direction,)


def write_graph(folder: Path, nodes: int, relations: int, edges: tuple[Array, Array, Array]) -> int:
    """Write the files that ``Graph(folder, relations)`` opens; returns how many repeated edges were left out.

    ``edges`` are source, relation and target numbers, shape [edges] each, in any order. Needs about 24 bytes an edge.
    Raises DataError where there are too many nodes or relations for the format.
    """
    if relations > MAX_RELATIONS:
        raise DataError(f"{relations} relations; an SKB holds {MAX_RELATIONS} at most")
    if nodes * nodes * max(relations, 1) >= 2**63 or nodes >= 2**31:
        raise DataError(f"{nodes} nodes and {relations} relations are more than an SKB holds")
    source, relation, target = edges
    # One number an edge, sorted: by source, relation and target at once.
    keys = edge_key(source, relation, target, nodes, relations)
    given = len(keys)
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if given else keys
    _write_rows(folder, "out", keys, nodes, relations)
    source, relation, target = edges_of(keys, nodes, relations)
    reverse = edge_key(target, relation, source, nodes, relations)
    reverse.sort()
    _write_rows(folder, "in", reverse, nodes, relations)
    return given - len(keys)


def edge_key(first: npt.ArrayLike, relation: Any, last: Any, nodes: int, relations: int) -> Array:
    """A number for each edge, in the order of edges."""
    key: Array = (np.asarray(first, np.int64) * relations + relation) * nodes + last
    return key


def edges_of(keys: Array, nodes: int, relations: int) -> tuple[Array, Array, Array]:
    """The edges that have such numbers: the first nodes, the relations and the last nodes."""
    rest, last = np.divmod(keys, nodes or 1)
    return *np.divmod(rest, relations or 1), last


def _write_rows(folder: Path, way: str, keys: Array, nodes: int, relations: int) -> None:
    start = np.searchsorted(keys, np.arange(nodes + 1, dtype=np.int64) * (relations * nodes))
    np.save(folder / f"{way}-start.npy", start.astype(np.int64))
    np.save(folder / f"{way}-nodes.npy", (keys % (nodes or 1)).astype(np.int32))
    places = keys // (nodes or 1) % (relations or 1)
    np.save(folder / f"{way}-relations.npy", places.astype(relation_dtype(relations)))
