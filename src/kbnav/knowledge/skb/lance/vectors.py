"""Vectors in a table of LanceDB: found there, and compared once more with the query's as the local index does.

LanceDB adds up in another order, which moves a cosine by a few millionths: an exact search asks for some more than are
wanted, and for more again until those that are left are clearly worse. Where there is an approximate index it proposes
nodes for searches without a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors
from kbnav.errors import DamagedKB, UsageError
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.lance.places import Places, inside
from kbnav.knowledge.skb.lance.rows import matrix
from kbnav.knowledge.skb.lance.storage import reaching
from kbnav.knowledge.skb.lance.tables import KEY, Table, column
from kbnav.knowledge.skb.parts import Hit, Range
from kbnav.knowledge.skb.vectors import Queries

_MORE = 16  # candidates beyond what is wanted, at first
_CLOSE = 1e-5  # how far two ways to add up a cosine may be apart
_AT_ONCE = 10_000  # rows read at once by their numbers
# Of HNSW: candidates that a search goes on from. Of Hetionet, 400 found 0.89 of the best 20, and this many all.
_EF = 1_600


class LanceVectors:
    """See ``VectorSearch``."""

    def __init__(
        self, nodes: Table, part: str, shape: tuple[int, int], places: Places, queries: Queries, *, approximate: bool
    ) -> None:
        self._table, self._column, self._queries = nodes, column(part), queries
        self._places, self._approximate = places, approximate
        self.count, self.dimensions = shape
        self.encoder_name = queries.name

    @property
    def encoder(self) -> Encoder:
        """See ``VectorSearch``."""
        return self._queries.encoder

    def open_all(self) -> None:
        """See ``VectorSearch``; there is nothing more to open."""

    def embed(self, text: str) -> Vectors:
        """See ``VectorSearch``."""
        return self._queries.embed(text)

    @reading("the index of vectors")
    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """See ``VectorSearch``."""
        different, places = np.unique(np.asarray(nodes, np.int64), return_inverse=True)
        found = np.zeros((len(different), self.dimensions), np.float32)
        for first in range(0, len(different), _AT_ONCE):
            part = different[first : first + _AT_ONCE]
            with reaching(self._table.uri):
                rows = self._table.take_offsets(self._places.rows(part).tolist()).select([KEY, self._column]).to_arrow()
            numbers = self._places.numbers(rows[KEY].to_numpy())
            order = np.argsort(numbers)
            if not np.array_equal(numbers[order], part):
                raise DamagedKB("the rows of the table of nodes are not where they were written")
            found[first : first + len(part)] = matrix(rows[self._column])[order]
        return found[places]

    def search(
        self,
        text: str,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See ``VectorSearch``."""
        return self.nearest(self.embed(text), limit=limit, ranges=ranges, among=among, exact=exact)

    @reading("the index of vectors")
    def nearest(
        self,
        vector: Vectors,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See ``VectorSearch``."""
        if vector.shape != (self.dimensions,):
            raise UsageError(f"vectors have {self.dimensions} numbers, the query's has {vector.shape[-1]}")
        query = np.asarray(vector, dtype=np.float32)
        if limit < 1:
            return []
        if among is not None:
            nodes = inside(among, ranges)
            return _best(nodes, np.vecdot(self.rows(nodes), query), limit)
        if ranges is None and self._approximate and not exact:
            return self._proposed(query, limit)
        hits: list[Hit] = []
        for where in self._places.conditions(ranges, None, 0):
            hits += self._top(query, where, limit)
        return hits

    def scorer(self, vector: Vectors) -> Callable[[npt.NDArray[np.integer]], Vectors]:
        """See ``VectorSearch``; vectors are read when a node is first asked for."""
        query = np.asarray(vector, dtype=np.float32)
        known = np.full(self.count, np.nan, np.float32)

        def score(nodes: npt.NDArray[np.integer]) -> Vectors:
            new = np.unique(nodes[np.isnan(known[nodes])])
            for first in range(0, len(new), _AT_ONCE):
                part = new[first : first + _AT_ONCE]
                known[part] = np.vecdot(self.rows(part), query)
            found: Vectors = known[nodes]
            return found

        return score

    def _top(self, query: Vectors, where: str, limit: int) -> list[Hit]:
        depth = limit + _MORE
        while True:
            found = self._asked(query, depth, where)
            hits = self._best_of(found, query, limit)
            if found.num_rows < depth or hits[-1][1] > 1 - max(found["_distance"].to_pylist()) + _CLOSE:
                return hits
            depth *= 4

    def _proposed(self, query: Vectors, limit: int) -> list[Hit]:
        """The best of those that the approximate index finds, by their own vectors."""
        return self._best_of(self._asked(query, 2 * limit + _MORE, approximate=True), query, limit)

    def _asked(self, query: Vectors, depth: int, where: str = "", *, approximate: bool = False) -> Table:
        asked = self._table.search(query, vector_column_name=self._column).distance_type("dot").limit(depth)
        asked = asked.ef(max(_EF, 2 * depth)) if approximate else asked.bypass_vector_index()
        asked = asked.select([KEY, "_distance", self._column])
        with reaching(self._table.uri):
            return (asked.where(where, prefilter=True) if where else asked).to_arrow()

    def _best_of(self, found: Table, query: Vectors, limit: int) -> list[Hit]:
        vectors = matrix(found[self._column])
        return _best(self._places.numbers(found[KEY].to_numpy()), np.vecdot(vectors, query), limit)


def _best(numbers: npt.NDArray[np.integer], scores: Vectors, limit: int) -> list[Hit]:
    order = np.lexsort((numbers, -scores))[:limit]
    return list(zip(numbers[order].tolist(), scores[order].tolist(), strict=True))
