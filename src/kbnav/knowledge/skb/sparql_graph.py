"""The graph of an SKB behind a SPARQL endpoint, which holds the triples that ``kbnav skb export`` wrote.

Every walk is a query; nodes and relations have the numbers of the SKB, so that what is found is what the SKB's own
graph finds, in the same order. What reads all edges at once needs the SKB's own graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import DataError, ServiceError, UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import WAYS, Graph, Hop, Nodes, Row, relation_dtype
from kbnav.knowledge.skb.nodes import Nodes as NodeTable
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES

BATCH = 500
"""Nodes that one query is told to go on from."""
SAMPLED = 10_000
"""Edges that a sample is drawn from."""
KEPT = 10_000
"""Rows that are kept, as a walk comes by a node again and again."""
_NODE, _TYPE, _RELATION = (SKB_PREFIXES[name] for name in ("node", "type", "rel"))
_EMPTY = np.empty(0, np.int32)

Select = Callable[[str], AnswerTable]
"""Asks the endpoint a query."""


class SparqlGraph(Graph):
    """The walks of ``Graph``, each as one query or a few."""

    def __init__(
        self, select: Select, nodes: NodeTable, types: Sequence[str], relations: Sequence[str], edges: int
    ) -> None:
        """``nodes``, the names of ``types`` and ``relations`` by number and the number of ``edges`` are the SKB's."""
        self._select, self._table, self._edges = select, nodes, edges
        names = local_names(relations)
        self._iris = [f"<{_RELATION}{name}>" for name in names]
        self._numbers = {f"{_RELATION}{name}": number for number, name in enumerate(names)}
        kinds = [f"<{_TYPE}{name}>" for name in local_names(types)]
        self._kinds = dict(zip(pairwise(nodes.type_start), kinds, strict=True))
        self._dtype = relation_dtype(len(relations))
        self._rows = lru_cache(KEPT)(self._row)

    def check(self) -> None:
        """Raise DataError where the endpoint does not have as many edges as the SKB, of any of its relations."""
        ((count,),) = self._asked(f"SELECT (COUNT(*) AS ?n) {{ VALUES ?r {{ {self._any()} }} ?s ?r ?o }}")
        found = int(count.value) if count else 0
        if found != self._edges:
            raise DataError(f"the endpoint has {found:,} edges of the SKB's relations, and the SKB {self._edges:,}")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self._table)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return self._edges

    def row(self, node: int, direction: Literal["out", "in"] = "out", relation: int | None = None) -> Row:
        """See ``Graph``."""
        return self._rows(node, direction, relation)

    def degree(self, node: int, direction: Direction = "both", relation: int | None = None) -> int:
        """See ``Graph``."""
        return sum(len(self.row(node, way, relation).nodes) for way in _ways(direction))

    def has_edge(self, source: int, relation: int, target: int) -> bool:
        """See ``Graph``."""
        query = f"ASK {{ {self._iri(source)} {self._iris[relation]} {self._iri(target)} }}"
        return bool(self._select(query).boolean)

    def expand(self, nodes: Nodes, hop: Hop, limit: int | None = None) -> Nodes:
        """See ``Graph``; of more than ``limit`` nodes the first by number."""
        if len(nodes) == 1:
            found = self.neighbors(int(nodes[0]), hop.relation, hop.direction)
        else:
            parts = [_EMPTY]
            for first in range(0, len(nodes), BATCH):
                some = " ".join(self._iri(int(node)) for node in nodes[first : first + BATCH])
                pattern = self._step("?a", "?n", hop)
                rows = self._asked(f"SELECT DISTINCT ?n {{ VALUES ?a {{ {some} }} {pattern} }}")
                parts.append(self._found(rows))
            found = np.unique(np.concatenate(parts)).astype(np.int32)
        return _within(found, hop)[:limit]

    def ends(self, node: int, path: Sequence[Hop], limit: int | None = None) -> Nodes:
        """See ``Graph``; the whole path is one query, unless a hop on the way may lead to some types only."""
        if limit is not None or not path or any(hop.within and hop.within not in self._kinds for hop in path[:-1]):
            return super().ends(node, path, limit)
        names = [self._iri(node), *(f"?n{place}" for place in range(1, len(path) + 1))]
        steps = (
            f"{{ {self._step(start, end, hop, place)} }} {self._typed(end, hop.within)}"
            for place, (hop, (start, end)) in enumerate(zip(path, pairwise(names), strict=True))
        )
        found = self._found(self._asked(f"SELECT DISTINCT {names[-1]} {{ {' '.join(steps)} }}"))
        return _within(np.unique(found).astype(np.int32), path[-1])

    def sample(
        self, relation: int, sources: tuple[int, int], targets: tuple[int, int], limit: int
    ) -> list[tuple[int, int]]:
        """See ``Graph``; spread over the ``SAMPLED`` that the engine gives first."""
        pattern = f"?s {self._iris[relation]} ?o . {self._typed('?s', sources)} {self._typed('?o', targets)}"
        rows = self._asked(f"SELECT ?s ?o {{ {pattern} }} LIMIT {SAMPLED}")
        pairs = zip(self._found(rows).tolist(), self._found([row[1:] for row in rows]).tolist(), strict=True)
        fit = sorted(
            (one, other) for one, other in pairs if sources[0] <= one < sources[1] and targets[0] <= other < targets[1]
        )
        return [fit[place] for place in np.unique(np.linspace(0, len(fit) - 1, limit).astype(int))] if fit else []

    def __getattr__(self, name: str) -> Any:
        """Raise UsageError for the arrays of all edges, which other methods of ``Graph`` read."""
        if name in ("_start", "_nodes", "_relations"):
            raise UsageError("this reads the whole graph, which no endpoint is asked for: leave out skb_graph")
        raise AttributeError(name)

    def _row(self, node: int, direction: Literal["out", "in"], relation: int | None) -> Row:
        # Any predicate, and what is none of the relations left out here: engines look up a list of them one by one.
        kind = "?r" if relation is None else self._iris[relation]
        triple = f"{self._iri(node)} {kind} ?n" if direction == "out" else f"?n {kind} {self._iri(node)}"
        rows = self._asked(f"SELECT ?n{' ?r' if relation is None else ''} {{ {triple} }}")
        if relation is None:
            rows = [row for row in rows if row[1] and row[1].value in self._numbers]
            relations = np.array([self._numbers[row[1].value] for row in rows if row[1]], self._dtype)
        else:
            relations = np.full(len(rows), relation, self._dtype)
        nodes = self._found(rows)
        order = np.lexsort((nodes, relations))
        return Row(nodes[order], relations[order])

    def _step(self, start: str, end: str, hop: Hop, place: int = 0) -> str:
        """The pattern of a hop from one variable or node to another."""
        relation = f"?r{place}" if hop.relation is None else self._iris[hop.relation]
        either = f"VALUES {relation} {{ {self._any()} }} " if hop.relation is None else ""
        ways = {"out": f"{either}{start} {relation} {end} .", "in": f"{either}{end} {relation} {start} ."}
        return " UNION ".join(f"{{ {ways[way]} }}" for way in _ways(hop.direction))

    def _typed(self, name: str, within: tuple[int, int] | None) -> str:
        """That a variable has the type whose nodes are ``within``; nothing where that is no type."""
        kind = self._kinds.get(within) if within else None
        return f"{name} a {kind} ." if kind else ""

    def _any(self) -> str:
        return " ".join(self._iris)

    def _iri(self, node: int) -> str:
        return f"<{_NODE}{local_name(str(self._table.ids[node]))}>"

    def _asked(self, query: str) -> Sequence[Sequence[Cell]]:
        table = self._select(query)
        if table.cut:
            raise ServiceError(f"a walk needs all its rows: {table.cut}; raise the endpoint's limit of rows")
        return table.rows

    def _found(self, rows: Sequence[Sequence[Cell]]) -> Nodes:
        """The numbers of the nodes in the first column. Raises DataError for one that the SKB does not have."""
        numbers = [self._table.ids.find(unquote(row[0].value.removeprefix(_NODE))) for row in rows if row[0]]
        if -1 in numbers:
            unknown = next(row[0].value for row, number in zip(rows, numbers, strict=True) if number < 0 and row[0])
            raise DataError(f"the endpoint has the node {unknown}, which the SKB does not have")
        return np.array(numbers, np.int32)


def _within(found: Nodes, hop: Hop) -> Nodes:
    if hop.within is None:
        return found
    return found[(found >= hop.within[0]) & (found < hop.within[1])]


def _ways(direction: Direction) -> Sequence[Literal["out", "in"]]:
    return WAYS if direction == "both" else (direction,)
