"""The RDF view of an SKB: its names, its triples in an Oxigraph store, queries, and the graph behind an endpoint.

=====================  ================================================================================
``node:Gene::1``       a node by its id; ``rdf:type type:Gene``, ``rdfs:label`` its name, ``skos:altLabel``
``type:Gene``          a node type
``rel:CtD``            a relation, from source to target
``field:chromosome``   a field of the document that is a number, a truth value or a short text, or a list of
                       these; the parts of a nested one are joined by colons, as in ``field:details:size``
=====================  ================================================================================

In local names a space is written ``_``, and what SPARQL allows in no prefixed name is percent-encoded, so that every
name can be written with its prefix; so are dots after the first, which Oxigraph's parser does not read. Texts of more
than ``LONGEST`` characters are left to the text search.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast
from urllib.parse import unquote

import numpy as np

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import DataError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError, UnknownId, UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import Graph, Hop, NodeNumbers, Row, relation_dtype, ways
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.schema import Fields, Progress, no_progress
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.guard import guard
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.tokens import refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, declared_prefixes, expand
from kbnav.knowledge.wikidata.mirror.pool import MOST_BYTES, QueryError, QueryPool

if TYPE_CHECKING:
    from kbnav.knowledge.skb.store import SKB

LONGEST = 500
_DIALECT = replace(DIALECTS["oxigraph"], federation=False, closed=True)
ENDINGS = (".ttl", ".ttl.gz")
LABELLED = 100
"""Rows whose nodes are labelled: half from the beginning, half from the end."""
BATCH = 500
"""Nodes that one query of a walk goes on from."""
SAMPLED = 10_000
"""Edges that a sample is drawn from."""
_ROWS_KEPT = 10_000  # of a graph behind an endpoint, as a walk comes by a node again and again
_LISTED = 50
_CHUNK, _EXPORTED = 1 << 22, 1 << 20
"""Characters of Turtle written at once, and bytes written to a file at once."""
_NODE_IRI, _TYPE_IRI, _RELATION_IRI = (SKB_PREFIXES[name] for name in ("node", "type", "rel"))
# What may stand inside a local name of SPARQL 1.1 and inside an IRI, of the first plane of Unicode.
_NOT_LOCAL = re.compile(
    "[^A-Za-z0-9_.:\\-\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\uffef]"
)
_DOTS = re.compile(r"([^.]*)(\.*)(.*)", re.DOTALL)
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_ALIAS = "<http://www.w3.org/2004/02/skos/core#altLabel>"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def local_name(text: str) -> str:
    """A text as the local part of a prefixed name."""
    local = _NOT_LOCAL.sub(lambda match: _percent(match[0]), text)
    before, dots, after = _DOTS.match(local).groups()  # type: ignore[union-attr]  # matches anything
    local = before + dots + after.replace(".", _percent("."))
    if local[:1] in (".", "-"):
        local = _percent(local[0]) + local[1:]
    return local[:-1] + _percent(".") if local.endswith(".") else local


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="replace"))


def local_names(names: Sequence[str]) -> list[str]:
    """Different local names for types or relations; a space becomes ``_`` where no other name is that already."""
    taken: set[str] = set(names)
    found = []
    for name in names:
        tidy = name.replace(" ", "_")
        free = tidy == name or tidy not in taken
        taken.add(tidy)
        found.append(local_name(tidy if free else name))
    return found


def build(source: Triples, folder: Path) -> None:
    """Write the store that queries run on."""
    from pyoxigraph import RdfFormat, Store

    store = Store(str(folder))
    # All of it in one call, because only parts of one call are sorted side by side; names need no check, being ours.
    # Not optimised: that adds a third to the build, for queries that read much in half to four fifths of the time
    # (benchmarks/skb_rdf.py).
    store.bulk_load(cast(BinaryIO, source), format=RdfFormat.TURTLE, lenient=True)
    store.flush()


class Triples:
    """Turtle that is written while it is read."""

    def __init__(
        self, parts: Iterator[tuple[int, str]], say: Callable[[int], None], stopped: Callable[[], bool]
    ) -> None:
        """``parts`` are texts behind the number of nodes or edges in each, of which ``say`` is told the sum.

        Once ``stopped`` says so, reading raises InterruptedError.
        """
        self._parts, self._say, self._stopped = parts, say, stopped
        self._rest = memoryview(b"")
        self._done = 0

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, at least one; none at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        given, self._rest = self._rest[:size], self._rest[size:]
        return bytes(given)

    def _next(self) -> bytes:
        if self._stopped():
            raise InterruptedError("the build was stopped")
        waiting: list[str] = []
        length = 0
        for count, lines in self._parts:
            self._done += count
            waiting.append(lines)
            length += len(lines)
            if length >= _CHUNK:
                break
        if waiting:
            self._say(self._done)
        return "".join(waiting).encode()


def triples(
    nodes: Nodes,
    graph: Graph,
    types: Sequence[str],
    relations: Sequence[str],
    progress: Progress = no_progress,
    stopped: Callable[[], bool] = lambda: False,
) -> Triples:
    """The triples of an SKB; ``types`` and ``relations`` are names by number."""
    total = len(nodes) + graph.edges
    return Triples(_lines(nodes, graph, types, relations), lambda done: progress("rdf", done, total), stopped)


def _lines(nodes: Nodes, graph: Graph, types: Sequence[str], relations: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The triples of one node, or of its edges, at a time, behind how many nodes or edges they are."""
    kinds = [f"<{_TYPE_IRI}{name}>" for name in local_names(types)]
    predicates = [f"<{_RELATION_IRI}{name}>" for name in local_names(relations)]
    iris = [f"<{_NODE_IRI}{local_name(node_id)}>" for node_id in nodes.ids]
    for node, fields in nodes.named():
        pairs = [f"{_TYPE} {kinds[node.type]}"]
        pairs += [f"{_LABEL} {_literal(node.name)}"] if node.name else []
        pairs += [f"{_ALIAS} {_literal(alias)}" for alias in node.aliases]
        pairs += [f"<{SKB_PREFIXES['field']}{path}> {_literal(value)}" for path, value in _values(fields, "")]
        yield 1, "".join(f"{iris[node.number]} {pair} .\n" for pair in pairs)
    for source, iri in enumerate(iris):
        row = graph.row(source)
        if len(row.nodes):
            yield len(row.nodes), f"{iri} {_edges(row, predicates, iris)} .\n"


def _edges(row: Row, predicates: Sequence[str], iris: Sequence[str]) -> str:
    """The edges of one node, relation by relation."""
    ends = [iris[target] for target in row.nodes.tolist()]
    starts = [0, *(np.flatnonzero(np.diff(row.relations)) + 1).tolist()]
    kinds = row.relations[starts].tolist()
    parts = zip(kinds, starts, [*starts[1:], len(ends)], strict=True)
    return " ;\n".join(f"{predicates[kind]} {','.join(ends[start:end])}" for kind, start, end in parts)


def _values(fields: Fields, head: str) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        path = head + name.replace(" ", "_")
        if isinstance(value, Mapping):
            yield from _values(value, f"{path}:")
            continue
        items = value if isinstance(value, list) else [value]
        yield from ((local_name(path), item) for item in items if _is_short(item))


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return f'"{str(value).lower()}"^^<{_XSD}boolean>'
    if isinstance(value, int):
        return f'"{value}"^^<{_XSD}integer>'
    if isinstance(value, float):
        return f'"{value!r}"^^<{_XSD}double>'
    return f'"{value.translate(_ESCAPES)}"'


class SparqlStore:
    """Runs read-only queries on an SKB in child processes with hard limits; threads may share it."""

    def __init__(self, skb: SKB, *, timeout: float, memory_limit: int, size: int, most_bytes: int = MOST_BYTES) -> None:
        """Nothing is started before the first query.

        ``timeout`` is in seconds, ``memory_limit`` in bytes for each of up to ``size`` child processes. A result
        has at most ``most_bytes``.
        """
        self._skb, self._most_bytes = skb, most_bytes
        self._names = {"type": local_names(skb.type_names), "rel": local_names(skb.relation_names)}
        self._pool = QueryPool(skb.store.triples(), size=size, timeout=timeout, memory_limit=memory_limit)

    def query(self, text: str) -> AnswerTable:
        """Run a query; the prefixes of ``SKB_PREFIXES`` need not be declared, and no SERVICE is allowed.

        Raises QuerySyntaxError, QueryRefused, QueryTimeout, and UnknownId for a node, type or relation that is none.
        """
        refuse_oversized(text)
        guard(text, ())
        _refuse_unknown_prefix(text)
        self._refuse_unknown_term(text)  # before the parser, because it says how a name must be written
        prepared = prepare(text, _DIALECT, prefixes=SKB_PREFIXES)
        try:
            result = self._pool.query(prepared.text, "json", "json", most_bytes=self._most_bytes)
        except QueryError as error:
            raise self._error(error) from error
        return AnswerTable.from_sparql_json(json.loads(result.body))

    def _error(self, error: QueryError) -> Exception:
        name = self._skb.meta.name
        if error.reason in ("timeout", "memory"):
            return QueryTimeout(f"{error}; make it simpler: name a node, fewer patterns, or a LIMIT in a subquery")
        if error.reason == "syntax":
            return QuerySyntaxError(f"syntax error: {error}")
        if error.reason == "size":
            return QueryRefused(str(error))
        if error.reason == "broken":
            return DataError(f"{name}: its triples cannot be read: {error}")
        if error.reason == "busy":
            return ServiceError(f"{name} does not answer now: {error}; ask again later")
        return QueryRefused(f"the query could not be run: {error}")

    def _refuse_unknown_term(self, query: str) -> None:
        tokens, name = tokenize(query), self._skb.meta.name
        declared = {**SKB_PREFIXES, **declared_prefixes(tokens)}
        for iri in dict.fromkeys(expand(token, declared) for token in tokens):
            for prefix, names in self._names.items():
                local = iri.removeprefix(SKB_PREFIXES[prefix])
                if local not in ("", iri) and local not in names:
                    some = ", ".join(f"{prefix}:{one}" for one in names[:_LISTED])
                    raise UnknownId(f"there is no {prefix}:{local} in {name}; there are: {some}")
            local = iri.removeprefix(SKB_PREFIXES["node"])
            if local not in ("", iri):
                node = unquote(local.replace("\\", ""))
                if self._skb.nodes.ids.find(node) < 0:
                    raise UnknownId(f"there is no node:{local} in {name}; use ids as results show them")
                if local_name(node) != local:
                    raise UnknownId(f"node:{local} must be written node:{local_name(node)}")

    def close(self) -> None:
        """End the child processes."""
        self._pool.close()


def _refuse_unknown_prefix(query: str) -> None:
    """Say which prefixes there are here before the parser, which knows Wikidata's too, lets others pass."""
    tokens = tokenize(query)
    known = {**SKB_PREFIXES, **declared_prefixes(tokens)}
    before = None
    for token in tokens:
        prefix = token.text.split(":", 1)[0] if token.kind == "name" else ""
        if prefix not in (*known, "", "_") and not (before and before.is_word("PREFIX")):
            names = ", ".join(f"{name}:" for name in known)
            raise syntax_error(query, token.start, f"the prefix `{prefix}:` means nothing here; there are {names}")
        before = token


def node_ids(table: AnswerTable) -> Iterator[str]:
    """Ids of the nodes in the first and last rows of a result."""
    half = LABELLED // 2
    rows = table.rows if len(table.rows) <= LABELLED else (*table.rows[:half], *table.rows[-half:])
    for row in rows:
        yield from (cell.entity_id for cell in row if cell is not None and cell.entity_id)


def export_rdf(skb: SKB, out: Path, *, progress: Progress = no_progress) -> int:
    """Write nodes with types, names, other names and short fields, and all edges, as Turtle; returns the bytes written.

    The file is there once it is whole. Raises UsageError where its name ends in neither of ``ENDINGS``, or it cannot be
    written.
    """
    if not out.name.endswith(ENDINGS):
        raise UsageError(f"{out}: the file is Turtle: its name ends in {' or '.join(ENDINGS)}")
    part = out.with_name(f"{out.name}.part")
    source = triples(skb.nodes, skb.graph, skb.type_names, skb.relation_names, progress)
    try:
        with gzip.open(part, "wb", compresslevel=6) if out.suffix == ".gz" else part.open("wb") as file:
            file.writelines(iter(partial(source.read, _EXPORTED), b""))
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{out} cannot be written: {error}") from error
    return out.stat().st_size


class SparqlGraph(Graph):
    """The walks of ``Graph``, each as one query or a few."""

    def __init__(
        self,
        select: Callable[[str], AnswerTable],
        nodes: Nodes,
        types: Sequence[str],
        relations: Sequence[str],
        edges: int,
    ) -> None:
        """``select`` queries the endpoint; the rest is the SKB's, ``types`` and ``relations`` their names by number."""
        self._select, self._table, self._edges = select, nodes, edges
        names = local_names(relations)
        self._iris = [f"<{_RELATION_IRI}{name}>" for name in names]
        self._numbers = {f"{_RELATION_IRI}{name}": number for number, name in enumerate(names)}
        kinds = [f"<{_TYPE_IRI}{name}>" for name in local_names(types)]
        self._kinds = dict(zip(pairwise(nodes.type_start), kinds, strict=True))
        self._dtype = relation_dtype(len(relations))
        self._rows = lru_cache(_ROWS_KEPT)(self._row)

    def check(self) -> None:
        """Raise DataError where the endpoint does not have as many edges as the SKB, of any of its relations."""
        ((count,),) = self._rows_of(f"SELECT (COUNT(*) AS ?n) {{ VALUES ?r {{ {self._any()} }} ?s ?r ?o }}")
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
        return sum(len(self.row(node, way, relation).nodes) for way in ways(direction))

    def has_edge(self, source: int, relation: int, target: int) -> bool:
        """See ``Graph``."""
        query = f"ASK {{ {self._iri(source)} {self._iris[relation]} {self._iri(target)} }}"
        return bool(self._select(query).boolean)

    def expand(self, nodes: NodeNumbers, hop: Hop, limit: int | None = None) -> NodeNumbers:
        """See ``Graph``; of more than ``limit`` nodes the first by number."""
        if len(nodes) == 1:
            found = self.neighbors(int(nodes[0]), hop.relation, hop.direction)
        else:
            parts = [np.empty(0, np.int32)]
            for first in range(0, len(nodes), BATCH):
                some = " ".join(self._iri(int(node)) for node in nodes[first : first + BATCH])
                pattern = self._step("?a", "?n", hop)
                rows = self._rows_of(f"SELECT DISTINCT ?n {{ VALUES ?a {{ {some} }} {pattern} }}")
                parts.append(self._numbers_of(rows))
            found = np.unique(np.concatenate(parts)).astype(np.int32)
        return _within(found, hop)[:limit]

    def ends(self, node: int, path: Sequence[Hop], limit: int | None = None) -> NodeNumbers:
        """See ``Graph``; the whole path is one query, unless a hop on the way may lead to some types only."""
        if limit is not None or not path or any(hop.within and hop.within not in self._kinds for hop in path[:-1]):
            return super().ends(node, path, limit)
        names = [self._iri(node), *(f"?n{place}" for place in range(1, len(path) + 1))]
        steps = (
            f"{{ {self._step(start, end, hop, place)} }} {self._typed(end, hop.within)}"
            for place, (hop, (start, end)) in enumerate(zip(path, pairwise(names), strict=True))
        )
        found = self._numbers_of(self._rows_of(f"SELECT DISTINCT {names[-1]} {{ {' '.join(steps)} }}"))
        return _within(np.unique(found).astype(np.int32), path[-1])

    def sample(
        self, relation: int, sources: tuple[int, int], targets: tuple[int, int], limit: int
    ) -> list[tuple[int, int]]:
        """See ``Graph``; spread over the ``SAMPLED`` that the engine gives first."""
        pattern = f"?s {self._iris[relation]} ?o . {self._typed('?s', sources)} {self._typed('?o', targets)}"
        rows = self._rows_of(f"SELECT ?s ?o {{ {pattern} }} LIMIT {SAMPLED}")
        pairs = zip(self._numbers_of(rows).tolist(), self._numbers_of([row[1:] for row in rows]).tolist(), strict=True)
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
        rows = self._rows_of(f"SELECT ?n{' ?r' if relation is None else ''} {{ {triple} }}")
        if relation is None:
            rows = [row for row in rows if row[1] and row[1].value in self._numbers]
            relations = np.array([self._numbers[row[1].value] for row in rows if row[1]], self._dtype)
        else:
            relations = np.full(len(rows), relation, self._dtype)
        nodes = self._numbers_of(rows)
        order = np.lexsort((nodes, relations))
        return Row(nodes[order], relations[order])

    def _step(self, start: str, end: str, hop: Hop, place: int = 0) -> str:
        """The pattern of a hop from one variable or node to another."""
        relation = f"?r{place}" if hop.relation is None else self._iris[hop.relation]
        either = f"VALUES {relation} {{ {self._any()} }} " if hop.relation is None else ""
        triples = {"out": f"{either}{start} {relation} {end} .", "in": f"{either}{end} {relation} {start} ."}
        return " UNION ".join(f"{{ {triples[way]} }}" for way in ways(hop.direction))

    def _typed(self, name: str, within: tuple[int, int] | None) -> str:
        """That a variable has the type whose nodes are ``within``; nothing where that is no type."""
        kind = self._kinds.get(within) if within else None
        return f"{name} a {kind} ." if kind else ""

    def _any(self) -> str:
        return " ".join(self._iris)

    def _iri(self, node: int) -> str:
        return f"<{_NODE_IRI}{local_name(str(self._table.ids[node]))}>"

    def _rows_of(self, query: str) -> Sequence[Sequence[Cell]]:
        table = self._select(query)
        if table.cut:
            raise ServiceError(f"a walk needs all its rows: {table.cut}; raise the endpoint's limit of rows")
        return table.rows

    def _numbers_of(self, rows: Sequence[Sequence[Cell]]) -> NodeNumbers:
        """The numbers of the nodes in the first column. Raises DataError for one that the SKB does not have."""
        numbers = [self._table.ids.find(unquote(row[0].value.removeprefix(_NODE_IRI))) for row in rows if row[0]]
        if -1 in numbers:
            unknown = next(row[0].value for row, number in zip(rows, numbers, strict=True) if number < 0 and row[0])
            raise DataError(f"the endpoint has the node {unknown}, which the SKB does not have")
        return np.array(numbers, np.int32)


def _within(found: NodeNumbers, hop: Hop) -> NodeNumbers:
    if hop.within is None:
        return found
    return found[(found >= hop.within[0]) & (found < hop.within[1])]
