"""Small SKBs, and what follows a path through an edge list without the package."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Edge = tuple[str, str, str]


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
