"""A path with the nodes that it leads through, which tells a reader why a node is an answer."""

from __future__ import annotations

from collections.abc import Sequence

from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.question_paths import Path, Step

_BACK: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
_LOOKED_AT = 50
"""Neighbours that are looked at in each step."""


def way_to(kb: SkbKB, node: str, path: Path) -> list[str]:
    """From a node at the path's end back to its start: names of nodes with those of relations between them.

    Empty where there is no such way, or it was not found among the first neighbours.
    """
    start = kb.skb.id(path.node)
    kinds = [kb.skb.type_name(path.node), *(step.target for step in path.steps[:-1])]
    return _back(kb, node, list(zip(path.steps, kinds, strict=True)), start)


def _back(kb: SkbKB, node: str, steps: Sequence[tuple[Step, str]], start: str) -> list[str]:
    label = kb.skb.nodes.label(kb.skb.number(node))
    if not steps:
        return [label] if node == start else []
    step, kind = steps[-1]
    found = kb.search_neighbors(node, relation=step.relation or None, direction=_BACK[step.direction], limit=_LOOKED_AT)
    for edge in found.edges:
        if kind in ("", edge.neighbor.datatype) and (rest := _back(kb, edge.neighbor.id, steps[:-1], start)):
            return [label, edge.relation.label.replace("_", " "), *rest]
    return []
