"""The store of an SKB on LanceDB: documents and vectors in tables, the other files fetched, once for each copy.

Ids and order are those of the local store. Vectors are found by LanceDB, and compared once more with the query's as the
local index does: LanceDB adds up in another order, which moves a cosine by a few millionths, so that an exact search
fetches some more than are wanted, and more again until those that are left are clearly worse. An approximate index
proposes nodes for searches without a filter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors
from kbnav.errors import DamagedKB
from kbnav.knowledge.skb import names, text
from kbnav.knowledge.skb.files import reading
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.lance.tables import (
    DOCUMENT,
    FILES,
    KEY,
    NODES,
    Build,
    Table,
    column,
    connect,
    fetch,
    open_table,
    reaching,
    read_build,
)
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.schema import NAMES, TRIPLES, Fields, Hit, Range
from kbnav.knowledge.skb.vectors import VectorSearch, best

_DOCUMENTS_KEPT = 4_096
_DOCUMENTS_AT_ONCE = 1_000
_MORE = 16  # candidates beyond what is wanted, at first
_CLOSE = 1e-5  # how far two ways to add up a cosine may be apart
_ROWS_AT_ONCE = 10_000  # read by their numbers
_EF = 1_600  # candidates that a search of HNSW goes on from: of Hetionet, 400 found 0.89 of the best 20, this many all


def matrix(values: Any) -> Vectors:
    """The vectors [n, d] in a column of Arrow's."""
    whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    flat = np.asarray(whole.flatten().to_numpy(zero_copy_only=False), np.float32)
    found: Vectors = flat.reshape(-1, values.type.list_size)
    return found


class LanceDocuments:
    """See ``Documents``."""

    def __init__(self, nodes: Table, count: int) -> None:
        self._table, self._count = nodes, count
        self._one = lru_cache(_DOCUMENTS_KEPT)(lambda node: self._read([node])[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, node: int, /) -> Fields:
        return self._parse(self._one(int(node)))

    def __iter__(self) -> Iterator[Fields]:
        for first in range(0, self._count, _DOCUMENTS_AT_ONCE):
            nodes = list(range(first, min(first + _DOCUMENTS_AT_ONCE, self._count)))
            yield from map(self._parse, self._read(nodes))

    @reading("the documents")
    def _read(self, nodes: list[int]) -> list[str]:
        with reaching(self._table.uri):
            rows = self._table.take_offsets(nodes).select([KEY, DOCUMENT]).to_arrow()
        found = dict(zip(rows[KEY].to_pylist(), rows[DOCUMENT].to_pylist(), strict=True))
        return [found[node] for node in nodes]

    def _parse(self, line: str) -> Fields:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise DamagedKB("a document that is not an object")
        return fields


class LanceVectors(VectorSearch):
    """Vectors in a column of the table of nodes."""

    def __init__(self, nodes: Table, build: Build, part: str, folder: Path, encoder: Encoder | None) -> None:
        super().__init__(build.meta.nodes, build.vectors[part], build.meta.encoder, folder, encoder)
        self._table, self._column, self._approximate = nodes, column(part), build.approximate

    @reading("the index of vectors")
    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """See ``VectorSearch``."""
        different, places = np.unique(np.asarray(nodes, np.int64), return_inverse=True)
        found = np.zeros((len(different), self.dimensions), np.float32)
        for first in range(0, len(different), _ROWS_AT_ONCE):
            part = different[first : first + _ROWS_AT_ONCE]
            with reaching(self._table.uri):
                rows = self._table.take_offsets(part.tolist()).select([KEY, self._column]).to_arrow()
            numbers = rows[KEY].to_numpy()
            order = np.argsort(numbers)
            if not np.array_equal(numbers[order], part):
                raise DamagedKB("the rows of the table of nodes are not where they were written")
            found[first : first + len(part)] = matrix(rows[self._column])[order]
        return found[places]

    def _nearest(
        self,
        query: Vectors,
        limit: int,
        ranges: Sequence[Range] | None,
        among: Collection[int] | None,
    ) -> list[Hit]:
        if among is not None:
            nodes = np.unique(np.fromiter(among, np.int64, len(among)))
            if ranges is not None:
                nodes = nodes[[any(first <= node < end for first, end in ranges) for node in nodes.tolist()]]
            return best(nodes, np.vecdot(self.rows(nodes), query), limit)
        if ranges is None and self._approximate:
            return self._best_of(self._search(query, 2 * limit + _MORE, approximate=True), query, limit)
        within = [f"({KEY} >= {first} AND {KEY} < {end})" for first, end in ranges or () if first < end]
        if ranges is not None and not within:
            return []
        depth = limit + _MORE
        while True:
            found = self._search(query, depth, " OR ".join(within))
            hits = self._best_of(found, query, limit)
            if found.num_rows < depth or hits[-1][1] > 1 - max(found["_distance"].to_pylist()) + _CLOSE:
                return hits
            depth *= 4

    def _search(self, query: Vectors, depth: int, where: str = "", *, approximate: bool = False) -> Table:
        search = self._table.search(query, vector_column_name=self._column).distance_type("dot").limit(depth)
        search = search.ef(max(_EF, 2 * depth)) if approximate else search.bypass_vector_index()
        search = search.select([KEY, "_distance", self._column])
        with reaching(self._table.uri):
            return (search.where(where, prefilter=True) if where else search).to_arrow()

    def _best_of(self, found: Table, query: Vectors, limit: int) -> list[Hit]:
        return best(found[KEY].to_numpy(), np.vecdot(matrix(found[self._column]), query), limit)


class LanceStore:
    """An SKB in tables; the methods are those of ``LocalStore``."""

    def __init__(self, place: str, build: Build, cache: Path) -> None:
        """``open`` is what to call."""
        self._build, tables = build, connect(place)
        self.place, self.meta, self.approximate = place, build.meta, build.approximate
        self._here = cache / build.meta.data
        self._files, self._table = (open_table(tables, build, name) for name in (FILES, NODES))
        meta = build.meta
        documents = LanceDocuments(self._table, meta.nodes)
        self.nodes = Nodes(self._fetched("nodes").parent, documents, meta.type_start, meta.alias_fields)
        self.graph = Graph(self._fetched("graph"), len(meta.relations))
        self.graph.check_counts(place, meta.nodes, meta.edges)

    @classmethod
    def open(cls, place: str, cache: Path) -> Self:
        """Open the copy in use, fetching maps into ``cache``. Raises UsageError, DataError, ServiceError."""
        return cls._opened(place, read_build(place), cache)

    @classmethod
    @reading("its tables")
    def _opened(cls, place: str, build: Build, cache: Path) -> Self:
        with reaching(place):
            return cls(place, build, cache)

    def text(self, part: str) -> text.TextIndex | None:
        """A BM25 index."""
        return text.open(self._fetched(part)) if self._has(part) else None

    def names(self) -> names.NameIndex | None:
        """The index of names."""
        return names.open(self._fetched(NAMES)) if self._has(NAMES) else None

    @reading("the index of vectors")
    def vectors(self, part: str, encoder: Encoder | None) -> LanceVectors | None:
        """A vector index."""
        if part not in self._build.vectors:
            return None
        return LanceVectors(self._table, self._build, part, self._fetched(part), encoder)

    def triples(self) -> Path:
        """The folder of the RDF view on this machine."""
        return self._fetched(TRIPLES)

    def sizes(self) -> dict[str, int]:
        """Bytes by table."""
        with reaching(self.place):
            return {table.name: int(table.stats()["total_bytes"]) for table in (self._table, self._files)}

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def _has(self, part: str) -> bool:
        return any(name.startswith(f"{part}/") for name in self.meta.files)

    @reading("the table of files")
    def _fetched(self, part: str) -> Path:
        with reaching(self.place):
            return fetch(self._files, self.meta, self._here, f"{part}/")
