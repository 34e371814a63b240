"""The store of an SKB on LanceDB: documents, texts and vectors in tables, with the ids and the order of the local one.

**Texts.** The words are those of the local index, made by its analyzer. Both engines count them by the same formula,
but for one thing: tantivy keeps the length of a text in a byte, so that one of more than 40 words counts as a little
shorter than it is. LanceDB takes it as it is. So LanceDB finds the candidates, with its filters, and their scores are
worked out again here by the rounded lengths. A text's score grows by that at most as its length shrinks
(``TextStats.stretch``): once the last candidate's score, grown so, is below that of the last hit, none can be missing.

**Vectors** are found by LanceDB, and compared once more with the query's as the local index does. LanceDB adds up in
another order, which moves a cosine by a few millionths: an exact search fetches some more than are wanted, and more
again until those that are left are clearly worse. An approximate index proposes nodes for searches without a filter.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
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
    FIELDS,
    FILES,
    KEY,
    NODES,
    WORDS,
    Build,
    Table,
    column,
    conditions,
    connect,
    fetch,
    inside,
    open_table,
    reaching,
    read_build,
    where_words,
)
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.schema import NAMES, TRIPLES, Fields, Hit, Range
from kbnav.knowledge.skb.vectors import VectorSearch, best

K1, B = 1.2, 0.75
_DOCUMENTS_KEPT = 4_096
_DOCUMENTS_AT_ONCE = 1_000
_AMONG = 2_000  # nodes that one text search is limited to
_MORE = 16  # candidates beyond what is wanted, at first
_WORDS_KEPT = 1 << 16  # of whose holders are kept in memory
_CLOSE = 1e-5  # how far two ways to add up a cosine may be apart
_ROWS_AT_ONCE = 10_000  # read by their numbers
_EF = 1_600  # candidates that a search of HNSW goes on from: of Hetionet, 400 found 0.89 of the best 20, this many all


def _lengths() -> list[int]:
    """The lengths a text may count as: all up to 40, then eight to a doubling."""
    found, step = list(range(41)), 2
    while found[-1] < 1 << 31:
        found += [found[-1] + step * place for place in range(1, 9)]
        step *= 2
    return found


LENGTHS = _lengths()


def counted_length(words: int) -> int:
    """The length that a text of so many words counts as."""
    return LENGTHS[bisect_right(LENGTHS, words) - 1]


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


class LanceText(text.TextSearch):
    """BM25 on LanceDB, with the scores of the local index."""

    def __init__(self, store: LanceStore, part: str, language: str) -> None:
        super().__init__(store.meta.nodes, language, text.spelled)
        self._table, self._words_table, self._part = store.table, store.words, part
        self._type_start, stats = store.meta.type_start, store.build.text[part]
        self._stretch = stats.stretch * (1 + 1e-5)  # LanceDB adds up in single precision
        counted = (stats.name_words, stats.body_words)
        self._average = {field: whole / max(self.nodes, 1) for field, whole in zip(FIELDS, counted, strict=True)}
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def _held(self, words: Sequence[str]) -> Mapping[str, int]:
        return {word: bodies for word, (_, bodies) in self._counts(words).items()}

    def _search(
        self,
        words: Sequence[tuple[str, int]],
        limit: int,
        ranges: Sequence[Range] | None,
        among: Collection[int] | None,
        name_weight: float,
    ) -> list[Hit]:
        weights = self._weights(words, name_weight)
        if not weights:
            return []
        hits: list[Hit] = []
        for where in conditions(self._type_start, ranges, among, _AMONG):
            hits += self._top(weights, where, limit)
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _weights(
        self, counts: Sequence[tuple[str, int]], name_weight: float
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """By field and word what a match is multiplied by, without its rarity and with it."""
        held = self._counts([word for word, _ in counts])
        boosts = dict(zip(FIELDS, (name_weight, 1.0), strict=True))
        return {
            (field, word): (boosts[field] * count, boosts[field] * count * self.rarity(held[word][place]))
            for word, count in counts
            for place, field in enumerate(FIELDS)
            if boosts[field] and held[word][place]
        }

    def _top(self, weights: Mapping[tuple[str, str], tuple[float, float]], where: str, limit: int) -> list[Hit]:
        """The best hits under a condition; more candidates are fetched until none can be missing."""
        query, depth = self._query(weights), limit + _MORE
        columns = [KEY, "_score", *(column(self._part, field) for field in FIELDS)]
        while True:
            search = self._table.search(query, query_type="fts").limit(depth).select(columns)
            with reaching(self._table.uri):
                found = (search.where(where, prefilter=True) if where else search).to_arrow()
            texts = zip(*(found[name].to_pylist() for name in columns[2:]), strict=True)
            scores = [self._score(weights, of) for of in texts]
            hits = sorted(zip(found[KEY].to_pylist(), scores, strict=True), key=lambda hit: (-hit[1], hit[0]))[:limit]
            if found.num_rows < depth or hits[-1][1] > min(found["_score"].to_pylist()) * self._stretch:
                return hits
            depth *= 4

    def _query(self, weights: Mapping[tuple[str, str], tuple[float, float]]) -> Any:
        from lancedb.query import BooleanQuery, MatchQuery, Occur

        alike: dict[tuple[str, float], list[str]] = {}
        for (field, word), (boost, _) in weights.items():
            alike.setdefault((field, boost), []).append(word)
        return BooleanQuery(
            [
                (Occur.SHOULD, MatchQuery(" ".join(words), column(self._part, field), boost=boost))  # type: ignore[call-arg, unused-ignore]
                for (field, boost), words in alike.items()
            ]
        )

    def _score(self, weights: Mapping[tuple[str, str], tuple[float, float]], texts: Sequence[str]) -> float:
        counts = {field: Counter(text.split()) for field, text in zip(FIELDS, texts, strict=True)}
        norms = {
            field: K1 * (1 - B + B * counted_length(found.total()) / (self._average[field] or 1.0))
            for field, found in counts.items()
        }
        total = sum(
            weight * (K1 + 1) * (often := counts[field][word]) / (often + norms[field])
            for (field, word), (_, weight) in weights.items()
            if counts[field][word]
        )
        return float(np.float32(total))

    @reading("the table of words")
    def _counts(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """How many nodes have each word in their names and in their bodies."""
        with self._lock:
            new = [word for word in dict.fromkeys(words) if word not in self._known]
            if len(self._known) > _WORDS_KEPT:
                self._known, new = {}, list(dict.fromkeys(words))
            if new:
                with reaching(self._table.uri):
                    search = self._words_table.search().where(where_words(self._part, new))
                    rows = search.limit(len(new)).to_arrow().to_pylist()
                self._known.update(dict.fromkeys(new, (0, 0)))
                self._known.update({row["word"]: (row["names"], row["bodies"]) for row in rows})
            return {word: self._known[word] for word in words}


class LanceVectors(VectorSearch):
    """Vectors in a column of the table of nodes."""

    def __init__(self, store: LanceStore, part: str, folder: Path, encoder: Encoder | None) -> None:
        super().__init__(store.meta.nodes, store.build.vectors[part], store.meta.encoder, folder, encoder)
        self._table, self._column = store.table, column(part)
        self._type_start, self._approximate = store.meta.type_start, store.approximate

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
        exact: bool,
    ) -> list[Hit]:
        if among is not None:
            nodes = inside(among, ranges)
            return best(nodes, np.vecdot(self.rows(nodes), query), limit)
        if ranges is None and self._approximate and not exact:
            return self._best_of(self._found(query, 2 * limit + _MORE, approximate=True), query, limit)
        hits: list[Hit] = []
        for where in conditions(self._type_start, ranges, None, 0):
            hits += self._top(query, where, limit)
        return hits

    def scorer(self, vector: Vectors) -> Callable[[npt.NDArray[np.integer]], Vectors]:
        """See ``VectorSearch``; a vector is read when its node is first scored."""
        query = self._query(vector)
        known = np.full(self.count, np.nan, np.float32)

        def score(nodes: npt.NDArray[np.integer]) -> Vectors:
            new = np.unique(nodes[np.isnan(known[nodes])])
            for first in range(0, len(new), _ROWS_AT_ONCE):
                part = new[first : first + _ROWS_AT_ONCE]
                known[part] = np.vecdot(self.rows(part), query)
            found: Vectors = known[nodes]
            return found

        return score

    def _top(self, query: Vectors, where: str, limit: int) -> list[Hit]:
        depth = limit + _MORE
        while True:
            found = self._found(query, depth, where)
            hits = self._best_of(found, query, limit)
            if found.num_rows < depth or hits[-1][1] > 1 - max(found["_distance"].to_pylist()) + _CLOSE:
                return hits
            depth *= 4

    def _found(self, query: Vectors, depth: int, where: str = "", *, approximate: bool = False) -> Table:
        search = self._table.search(query, vector_column_name=self._column).distance_type("dot").limit(depth)
        search = search.ef(max(_EF, 2 * depth)) if approximate else search.bypass_vector_index()
        search = search.select([KEY, "_distance", self._column])
        with reaching(self._table.uri):
            return (search.where(where, prefilter=True) if where else search).to_arrow()

    def _best_of(self, found: Table, query: Vectors, limit: int) -> list[Hit]:
        vectors = matrix(found[self._column])
        return best(found[KEY].to_numpy(), np.vecdot(vectors, query), limit)


class LanceStore:
    """An SKB in tables; the methods are those of ``LocalStore``."""

    def __init__(self, place: str, build: Build, cache: Path) -> None:
        """``open`` is what to call."""
        self.build, self._tables = build, connect(place)
        self.place, self.meta, self.approximate = place, build.meta, build.approximate
        self._here = cache / build.meta.data
        self._files = open_table(self._tables, build, FILES)
        self.table = open_table(self._tables, build, NODES)
        meta = build.meta
        documents = LanceDocuments(self.table, meta.nodes)
        self.nodes = Nodes(self._fetched("nodes").parent, documents, meta.type_start, meta.alias_fields)
        self.graph = Graph(self._fetched("graph"), len(meta.relations))
        self.graph.check_counts(place, meta.nodes, meta.edges)

    @classmethod
    def open(cls, place: str, cache: Path, version: int | None = None) -> Self:
        """Open the build in use, or that of a number; what is to be mapped is fetched into ``cache``, once a build.

        Raises UsageError where there is none, DataError where it is damaged, ServiceError where the object store does
        not answer.
        """
        return cls._opened(place, read_build(place, version), cache)

    @classmethod
    @reading("its tables")
    def _opened(cls, place: str, build: Build, cache: Path) -> Self:
        with reaching(place):
            return cls(place, build, cache)

    @reading("the text index")
    def text(self, part: str) -> LanceText | None:
        """A BM25 index."""
        if part not in self.build.text:
            return None
        language = json.loads((self._fetched(part) / text.META).read_bytes())["language"]
        return LanceText(self, part, language)

    def names(self) -> names.NameIndex | None:
        """The index of names."""
        there = any(name.startswith(f"{NAMES}/") for name in self.meta.files)
        return names.open(self._fetched(NAMES)) if there else None

    @reading("the index of vectors")
    def vectors(self, part: str, encoder: Encoder | None) -> LanceVectors | None:
        """A vector index."""
        return LanceVectors(self, part, self._fetched(part), encoder) if part in self.build.vectors else None

    def triples(self) -> Path:
        """The folder of the RDF view on this machine."""
        return self._fetched(TRIPLES)

    def sizes(self) -> dict[str, int]:
        """Bytes by table."""
        with reaching(self.place):
            return {table.name: int(table.stats()["total_bytes"]) for table in (self.table, self.words, self._files)}

    def close(self) -> None:
        """Do nothing: nothing is held."""

    @cached_property
    @reading("the table of words")
    def words(self) -> Table:
        """The table of words."""
        with reaching(self.place):
            return open_table(self._tables, self.build, WORDS)

    def fetched(self, name: str) -> Path:
        """A file of the build, on this machine."""
        return self._fetched(name.partition("/")[0]) / name.partition("/")[2]

    @reading("the table of files")
    def _fetched(self, part: str) -> Path:
        with reaching(self.place):
            return fetch(self._files, self.meta, self._here, f"{part}/")
