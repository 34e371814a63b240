"""Why nodes of an SKB answer a question: the edges that lead to what the run began at, and a sentence of the document.

The edges are those of a shortest way; where there are several of the same length, of the first that is found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from kbnav.answers.tables import Term, node_term
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.knowledge.skb.graph import WAYS, Graph
from kbnav.knowledge.skb.kb import SkbKB

_LONGEST = 3
"""Edges of a way."""
_ROW = 512
"""Neighbours of a node that are looked at, in one direction: a hub's are no reason."""
_VISITED = 20_000


def node_evidence(kb: SkbKB, nodes: Sequence[str], starts: Collection[str], about: str) -> Provenance:
    """What links nodes with those that a question is about, and what their documents say of it.

    Args:
        kb: where the nodes are.
        nodes: ids of the nodes of an answer; what is no node has no evidence.
        starts: ids of the nodes that the search began at.
        about: the question, by which the sentence is chosen.
    """
    skb = kb.skb
    begun = {number for one in starts if (number := skb.nodes.ids.find(one)) >= 0}
    sentences = kb.excerpts(nodes, about)
    rows: list[tuple[Evidence, ...]] = []
    named: dict[str, str] = {}
    for node in nodes:
        number = skb.nodes.ids.find(node)
        way = _way(skb.graph, number, begun - {number}) if number >= 0 else []
        told = [edge for one, other in pairwise(way) for edge in _edges(kb, one, other, named)]
        if sentence := sentences.get(node):
            told.append(Evidence(node_term(node), "", Term("literal", sentence), source="document"))
        rows.append(tuple(told))
        named |= kb.labels([node])
    return Provenance(tuple(rows), labels=named)


def _way(graph: Graph, node: int, goals: Collection[int]) -> list[int]:
    """The nodes of a shortest way from one of the goals to a node; none where it is long."""
    came: dict[int, int] = {node: node}
    front = [node]
    for _ in range(_LONGEST if goals else 0):
        found: list[int] = []
        for here in front:
            for there in (other for way in WAYS for other in graph.row(here, way).nodes[:_ROW].tolist()):
                if there in came:
                    continue
                came[there] = here
                if there in goals:
                    return _back(came, there)
                found.append(there)
            if len(came) > _VISITED:
                return []
        front = found
    return []


def _back(came: Mapping[int, int], at: int) -> list[int]:
    nodes = [at]
    while came[at] != at:
        at = came[at]
        nodes.append(at)
    return nodes


def _edges(kb: SkbKB, one: int, other: int, named: dict[str, str]) -> list[Evidence]:
    """All edges between two nodes, in the direction that each has."""
    ends = [kb.skb.id(node) for node in (one, other)]
    named |= kb.labels(ends)
    found: list[Evidence] = []
    for way in WAYS:
        row = kb.skb.graph.row(one, way)
        source, target = ends if way == "out" else reversed(ends)
        for relation in row.relations[row.nodes == other].tolist():
            name = kb.skb.relation_names[relation]
            named[name] = name.replace("_", " ")
            found.append(Evidence(node_term(source), name, node_term(target)))
    return found
