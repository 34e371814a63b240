"""The RDF view of an SKB: its names, its triples in an Oxigraph store or as Turtle, and queries.

What the names stand for says docs/skb-format.md. In local names a space is written ``_``, and what SPARQL allows in no
prefixed name is percent-encoded, so that every name can be written with its prefix; so are dots after the first, which
Oxigraph's parser does not read. Texts of more than ``LONGEST`` characters are left to the text search.
"""

from __future__ import annotations

import gzip
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote

import numpy as np
from rapidfuzz import process

from kbnav.answers.tables import LABELLED_HERE, AnswerTable
from kbnav.errors import DataError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError, UnknownId, UsageError
from kbnav.knowledge.skb.files import link
from kbnav.knowledge.skb.graph import Graph, Row
from kbnav.knowledge.skb.schema import TRIPLES, Fields, NodeText, Progress, no_progress
from kbnav.knowledge.skb.store import SKB, Nodes
from kbnav.knowledge.sparql.check import guard
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.tokens import edited, refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, declared_prefixes, expand
from kbnav.knowledge.wikidata.mirror.pool import MOST_BYTES, QueryError, QueryLimits, QueryPool

LONGEST = 500
Edges = Sequence[tuple[int, int, int]]
"""Numbers of source, relation and target."""
_DIALECT = replace(DIALECTS["oxigraph"], federation=False, closed=True)
ENDINGS = (".ttl", ".ttl.gz")
_LISTED, _NEAREST = 50, 5
_REPORT_EVERY = 100_000
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


@lru_cache(1 << 12)
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


def build(
    nodes: Nodes,
    graph: Graph,
    types: Sequence[str],
    relations: Sequence[str],
    folder: Path,
    progress: Progress = no_progress,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Write the store that queries run on, by way of a file beside it; see ``write_turtle``."""
    from pyoxigraph import RdfFormat, Store

    turtle = folder.with_suffix(".ttl")
    with turtle.open("wb") as file:
        write_turtle(file, nodes, graph, types, relations, progress, stopped)
    store = Store(str(folder))
    # Names need no check, being ours. Not optimised: that adds a third to the build, for queries that read much in half
    # to four fifths of the time (benchmarks/skb_rdf.py).
    store.bulk_load(path=str(turtle), format=RdfFormat.TURTLE, lenient=True)
    store.flush()
    turtle.unlink()


def write_turtle(
    file: IO[bytes],
    nodes: Nodes,
    graph: Graph,
    types: Sequence[str],
    relations: Sequence[str],
    progress: Progress = no_progress,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Write an SKB's triples; ``types`` and ``relations`` by number. Raises InterruptedError once ``stopped``."""
    total, done, said = len(nodes) + graph.edges, 0, 0
    kinds = [f"<{_TYPE_IRI}{name}>" for name in local_names(types)]
    predicates = [f"<{_RELATION_IRI}{name}>" for name in local_names(relations)]
    iris = [_iri(node_id) for node_id in nodes.ids]
    about = ((1, _about(node, fields, iris[node.number], kinds)) for node, fields in nodes.named())
    rows = ((iri, graph.row(source)) for source, iri in enumerate(iris))
    edges = ((len(row.nodes), f"{iri} {_edges(row, predicates, iris)} .\n") for iri, row in rows if len(row.nodes))
    for count, lines in chain(about, edges):
        file.write(lines.encode())
        done += count
        if done - said >= _REPORT_EVERY or done == total:
            progress("rdf", done, total)
            said = done
            if stopped():
                raise InterruptedError("the build was stopped")


def _iri(node_id: str) -> str:
    return f"<{_NODE_IRI}{local_name(node_id)}>"


def _about(node: NodeText, fields: Fields, iri: str, kinds: Sequence[str]) -> str:
    pairs = [f"{_TYPE} {kinds[node.type]}"]
    pairs += [f"{_LABEL} {_literal(node.name)}"] if node.name else []
    pairs += [f"{_ALIAS} {_literal(alias)}" for alias in node.aliases]
    pairs += [f"<{SKB_PREFIXES['field']}{path}> {_literal(value)}" for path, value in _values(fields, "")]
    return "".join(f"{iri} {pair} .\n" for pair in pairs)


def change(
    old: Path, folder: Path, skb: SKB, about: Iterable[tuple[NodeText, Fields]], come: Edges, gone: Edges
) -> None:
    """Write into ``folder`` the store in ``old`` with other documents for some nodes, and edges that come and go.

    ``skb`` is the old one. What is large of the store is linked: Oxigraph's tables are never written to again.
    """
    from pyoxigraph import Store

    for file in old.iterdir():
        (link if file.suffix == ".sst" else shutil.copy2)(file, folder / file.name)
    kinds = [f"<{_TYPE_IRI}{name}>" for name in local_names(skb.type_names)]
    predicates = [f"<{_RELATION_IRI}{name}>" for name in local_names(skb.relation_names)]
    deleted, inserted = (
        {f"{_iri(skb.id(one))} {predicates[kind]} {_iri(skb.id(other))} ." for one, kind, other in edges}
        for edges in (gone, come)
    )
    for node, fields in about:
        iri, old_one = _iri(skb.id(node.number)), skb.nodes.named(range(node.number, node.number + 1))
        before, now = (set(_about(*pair, iri, kinds).splitlines()) for pair in (*old_one, (node, fields)))
        deleted |= before - now
        inserted |= now - before
    store = Store(str(folder))
    store.update(f"DELETE DATA {{ {' '.join(deleted)} }}; INSERT DATA {{ {' '.join(inserted)} }}")
    store.flush()


def _edges(row: Row, predicates: Sequence[str], iris: Sequence[str]) -> str:
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
        """Seconds for a query, bytes for each of ``size`` children and for a result; nothing is started yet."""
        self._skb, self._most_bytes = skb, most_bytes
        self._names = {"type": local_names(skb.type_names), "rel": local_names(skb.relation_names)}
        self._pool = QueryPool(skb.folder(TRIPLES), QueryLimits(timeout, memory_limit, size))
        self._has = lru_cache(1 << 10)(
            lambda predicate: self._pool.query(f"ASK {{ ?node <{predicate}> ?value }}").table().boolean
        )

    def query(self, text: str) -> AnswerTable:
        """Run a query, ``SKB_PREFIXES`` known, no SERVICE. Raises as ``KnowledgeBase.execute_query``, UnknownId."""
        refuse_oversized(text)
        guard(text, ())
        try:
            text = self._with_known_terms(text)  # before the parser, because it says how a name must be written
            prepared = prepare(text, _DIALECT, prefixes=SKB_PREFIXES)
            return self._pool.query(prepared.text, most_bytes=self._most_bytes).table()
        except QueryError as error:
            raise self._error(error) from error

    def _error(self, error: QueryError) -> Exception:
        name, reason = self._skb.meta.name, error.reason
        if reason in ("timeout", "memory"):
            return QueryTimeout(f"{error}; make it simpler: name a node, fewer patterns, or a LIMIT in a subquery")
        if reason == "broken":
            return DataError(f"{name}: its triples cannot be read: {error}")
        if reason == "busy":
            return ServiceError(f"{name} does not answer now: {error}; ask again later")
        return QuerySyntaxError(f"syntax error: {error}") if reason == "syntax" else QueryRefused(str(error))

    def _with_known_terms(self, query: str) -> str:
        """The query with names as the store writes them. Raises UnknownId, and QuerySyntaxError for a prefix."""
        tokens = tokenize(query)
        declared = {**SKB_PREFIXES, **declared_prefixes(tokens)}
        for before, token in zip([None, *tokens], tokens, strict=False):  # the parser knows Wikidata's prefixes too
            prefix = token.text.split(":", 1)[0] if token.kind == "name" else ""
            if prefix not in (*declared, "", "_") and not (before and before.is_word("PREFIX")):
                there = ", ".join(f"{one}:" for one in declared)
                raise syntax_error(query, token.start, f"the prefix `{prefix}:` means nothing here; there are {there}")
        edits = {}
        for token in tokens:
            iri = expand(token, declared)
            for prefix in ("type", "rel", "field", "node"):
                local = iri.removeprefix(SKB_PREFIXES[prefix]).replace("\\", "")
                if local not in ("", iri) and (own := self._written(prefix, local)) != local:
                    edits[token.start, token.end] = f"<{SKB_PREFIXES[prefix]}{own}>"
        return edited(query, edits)

    def _written(self, prefix: str, local: str) -> str:
        """A name as the store has it, which percent-encodes some characters. Raises UnknownId."""
        plain, name = unquote(local), self._skb.meta.name
        if prefix == "node":
            if self._skb.nodes.ids.find(plain) < 0:
                raise UnknownId(f"there is no node:{local} in {name}; use ids as results show them")
            return local_name(plain)
        if prefix == "field":
            own = local_name(plain)
            if not self._has(f"{SKB_PREFIXES['field']}{own}"):
                near = process.extract(local, self._fields, processor=str.casefold, limit=_NEAREST)
                told = ", ".join(f"field:{one}" for one, *_ in near)
                raise UnknownId(f"no node of {name} has field:{local}; the nearest by name: {told or 'none'}")
            return own
        names = self._names[prefix]
        if local not in names and local_name(plain) not in names:
            some = ", ".join(f"{prefix}:{one}" for one in names[:_LISTED])
            raise UnknownId(f"there is no {prefix}:{local} in {name}; there are: {some}")
        return local if local in names else local_name(plain)

    @cached_property
    def _fields(self) -> list[str]:
        """The fields of the first nodes of each type."""
        ranges = map(self._skb.type_range, self._skb.type_names)
        nodes = (node for first, last in ranges for node in range(first, min(last, first + _LISTED)))
        return list(dict.fromkeys(local for node in nodes for local, _ in _values(self._skb.documents[node], "")))

    def close(self) -> None:
        """End the child processes."""
        self._pool.close()


def node_ids(table: AnswerTable) -> Iterator[str]:
    """Ids of the nodes in the first and last rows of a result."""
    for row in table.labelled_rows(LABELLED_HERE):
        yield from (cell.entity_id for cell in row if cell is not None and cell.entity_id)


def export_rdf(skb: SKB, out: Path, *, progress: Progress = no_progress) -> int:
    """Write nodes with types, names, other names and short fields, and all edges, as Turtle; returns the bytes written.

    The file is there once it is whole. Raises UsageError where its name ends in neither of ``ENDINGS``, or it cannot be
    written.
    """
    if not out.name.endswith(ENDINGS):
        raise UsageError(f"{out}: the file is Turtle: its name ends in {' or '.join(ENDINGS)}")
    part = out.with_name(f"{out.name}.part")
    try:
        with gzip.open(part, "wb", compresslevel=6) if out.suffix == ".gz" else part.open("wb") as file:
            write_turtle(cast("IO[bytes]", file), skb.nodes, skb.graph, skb.type_names, skb.relation_names, progress)
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{out} cannot be written: {error}") from error
    return out.stat().st_size
