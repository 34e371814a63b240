"""Which relation paths an SKB's schema allows, between which types of nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kbnav.knowledge.skb import graph
from kbnav.knowledge.skb.schema import schema_sha256
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import TEXT, Hop, PlannedPath

MOST_PATHS = 4_000
"""Paths of one schema that are told apart; of more, those with the most edges are kept."""
_SAMPLE = 50
"""Edges looked at to see whether a relation is stored both ways."""


class Edge(NamedTuple):
    """A relation from one node type to another, and how many edges it has."""

    source: str
    relation: str
    target: str
    edges: int = 1


class RelationPath(NamedTuple):
    """Hops, and the node types met: one more than hops, or none for the path ``text``."""

    hops: tuple[Hop, ...]
    types: tuple[str, ...]

    @property
    def start(self) -> str:
        """The type it begins at; empty for ``text``."""
        return self.types[0] if self.types else ""

    def __str__(self) -> str:
        if not self.hops:
            return "text"
        steps = zip(self.hops, self.types[1:], strict=True)
        return self.types[0] + "".join(f" --{hop}--> {kind}" for hop, kind in steps)


TEXT_PATH = RelationPath(TEXT, ())


class PathSchema:
    """The edges there are between types. A relation stored both ways is followed ``out`` only: ``in`` is the same."""

    def __init__(self, edges: Iterable[Edge], both_ways: Iterable[tuple[str, str, str]] = ()) -> None:
        """``both_ways`` are the edges (source, relation, target) whose every edge is also stored the other way."""
        self.edges = tuple(sorted(edges))
        self._both_ways = frozenset(both_ways)

    @classmethod
    def of(cls, skb: SKB) -> PathSchema:
        """The schema of an SKB; whether a relation is stored both ways is seen on a sample of its edges."""
        edges = [Edge(one.source, one.relation, one.target, one.count) for one in skb.meta.tuples]
        return cls(edges, [edge[:3] for edge in edges if _is_stored_both_ways(edge, edges, skb)])

    @cached_property
    def sha256(self) -> str:
        """Of the types and relations, whatever the counts: what a trained planner is bound to."""
        return schema_sha256(edge[:3] for edge in self.edges)

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Every relation, in alphabetical order."""
        return tuple(sorted({edge.relation for edge in self.edges}))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Every type that has edges, in alphabetical order."""
        return tuple(sorted({kind for edge in self.edges for kind in (edge.source, edge.target)}))

    @cached_property
    def _steps(self) -> Mapping[str, Sequence[tuple[Hop, str, int]]]:
        """From each type: the hop, the type it leads to, and how many edges do so."""
        found: defaultdict[str, list[tuple[Hop, str, int]]] = defaultdict(list)
        for source, relation, target, count in self.edges:
            found[source].append((Hop(relation), target, count))
            if (source, relation, target) not in self._both_ways:
                found[target].append((Hop(relation, "in"), source, count))
        return found

    def step(self, kind: str, hop: Hop) -> list[str]:
        """The types that a hop leads to from a type; none where the schema has no such edge."""
        return [target for one, target, _ in self._steps.get(kind, ()) if one == self.canonical(kind, hop)]

    def canonical(self, kind: str, hop: Hop) -> Hop:
        """The hop itself, or ``out`` for the ``in`` of a relation that is stored both ways."""
        turned = Hop(hop.relation)
        both = hop.way == "in" and any(
            (kind, hop.relation, target) in self._both_ways
            for one, target, _ in self._steps.get(kind, ())
            if one == turned
        )
        return turned if both else hop

    def follow(self, hops: Sequence[Hop], starts: Iterable[str] = ()) -> list[RelationPath]:
        """Every way through the types that some hops have, from any of ``starts``, or from any type at all."""
        if not hops:
            return [TEXT_PATH]
        walks = [RelationPath((), (kind,)) for kind in (tuple(starts) or self.types)]
        for hop in hops:
            walks = [
                RelationPath((*walk.hops, self.canonical(walk.types[-1], hop)), (*walk.types, kind))
                for walk in walks
                for kind in self.step(walk.types[-1], hop)
            ]
        return walks

    def paths(self, longest: int = 2, most: int = MOST_PATHS) -> list[RelationPath]:
        """All paths of 1 to ``longest`` hops, and ``text`` first; of each length those with the most edges first.

        A path of several hops counts the edges of its rarest. ``most`` bounds them all.
        """
        found = [TEXT_PATH]
        level = [(RelationPath((), (kind,)), sum(edge.edges for edge in self.edges)) for kind in self.types]
        for _ in range(longest):
            level = [
                (RelationPath((*path.hops, hop), (*path.types, target)), min(edges, count))
                for path, edges in level
                for hop, target, count in self._steps.get(path.types[-1], ())
            ]
            level.sort(key=lambda pair: (-pair[1], pair[0]))
            found += [path for path, _ in level[: max(0, most - len(found))]]
        return found


def _is_stored_both_ways(edge: Edge, edges: Sequence[Edge], skb: SKB) -> bool:
    turned = Edge(edge.target, edge.relation, edge.source, edge.edges)
    if turned not in edges:
        return False
    relation = skb.relation_number(edge.relation)
    sample = skb.graph.sample(relation, skb.type_range(edge.source), skb.type_range(edge.target), _SAMPLE)
    return all(skb.graph.has_edge(target, relation, source) for source, target in sample)


def graph_hops(path: RelationPath | PlannedPath, skb: SKB) -> Iterator[graph.Hop]:
    """A path as the graph follows it: relation numbers, and the node numbers of the types met."""
    types = path.types[1:] or ("",) * len(path.hops)
    for hop, kind in zip(path.hops, types, strict=True):
        within = skb.type_range(kind) if kind else None
        yield graph.Hop(skb.relation_number(hop.relation), hop.way, within)
