"""Small SKBs, and what follows a path through an edge list without the package."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbnav.encoders import Encoder
from kbnav.knowledge.skb.schema import Meta, NodeType, Relation, TypeTuple
from kbnav.knowledge.skb.store import SKB
from tests.knowledge.skb.sources import small_skb

Edge = tuple[str, str, str]
FILLER = ["amber", "barley", "cobalt", "dahlia", "ebony", "fennel", "garnet", "hazel", "indigo", "juniper"]


def schema(*tuples: tuple[str, str, str]) -> Meta:
    kinds = dict.fromkeys(kind for source, _, target in tuples for kind in (source, target))
    return Meta(
        name="small",
        source="by hand",
        data="data-000000000000",
        types=tuple(NodeType(name=kind, count=1) for kind in kinds),
        relations=tuple(Relation(name=name, count=1) for name in dict.fromkeys(name for _, name, _ in tuples)),
        tuples=tuple(TypeTuple(source=a, relation=r, target=b, count=1) for a, r, b in tuples),
        files={},
    )


def workshop(folder: Path, notes: Sequence[str], by_ann: Iterable[int], encoder: Encoder | None = None) -> SKB:
    """Jugs j0, j1, … with notes; Ann made some of them, Bob the others."""
    ann = set(by_ann)
    nodes = [{"id": "ann", "type": "potter", "name": "Ann Reed"}, {"id": "bob", "type": "potter", "name": "Bob Lisk"}]
    nodes += [{"id": f"j{n}", "type": "jug", "name": f"Jug {FILLER[n]}", "note": note} for n, note in enumerate(notes)]
    edges = [("ann" if n in ann else "bob", "made", f"j{n}") for n in range(len(notes))]
    return small_skb(folder, nodes, edges, encoder)


class EdgeList:
    """Edges by relation, followed in plain Python."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._out: dict[tuple[str, str], set[str]] = {}
        self._in: dict[tuple[str, str], set[str]] = {}
        for source, relation, target in edges:
            self._out.setdefault((source, relation), set()).add(target)
            self._in.setdefault((target, relation), set()).add(source)

    def reached(self, start: str, hops: Sequence[Sequence[str]]) -> set[str]:
        """The nodes at the end of a path."""
        nodes = {start}
        for relation, way in hops:
            sides = {"out": [self._out], "in": [self._in], "both": [self._out, self._in]}[way]
            nodes = {end for node in nodes for side in sides for end in side.get((node, relation), ())}
        return nodes

    def candidates(self, paths: Sequence[Mapping[str, Any]], of_type: Collection[str]) -> set[str]:
        """Where all paths of a question's record meet, start nodes left out; ``of_type`` are the nodes of its type."""
        met = set.intersection(*(self.reached(path["start"], path["hops"]) for path in paths))
        return (met & set(of_type)) - {path["start"] for path in paths}
