"""The vector index of an SKB: one vector a node, in order of node numbers, mapped into memory and searched exactly.

Node numbers are sorted by type, so the vectors of a type lie together and a search within it reads nothing else. A
search of many nodes reads their vectors quantized to int8 first (``quantized``), and then the few full ones that can be
among the best; with an approximate index (``ann``) that index proposes them. ``embedding`` makes the index.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbnav import encoders
from kbnav.encoders import Encoder, Vectors, encode_queries
from kbnav.encoders.lsa import LSA
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import ann, quantized
from kbnav.knowledge.skb.arrays import Mode, load
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.schema import FileInfo

META, VECTORS, HASHES = "vectors.json", "vectors.npy", "hashes.npy"
FORMAT = 1
_EMBEDDED = 64  # texts of queries whose vectors are kept: the stages of a system ask for the same ones again
_ROWS_AT_ONCE = 1 << 14  # of a search: what one of its threads takes at a time; fewer are compared in full at once

SURE = 128
"""Of the scores that ``VectorIndex.scorer`` gives at once, so many are exact."""

Hashes = npt.NDArray[np.bytes_]
_Rows = slice | npt.NDArray[np.int64]

_log = logging.getLogger(__name__)


class Queries:
    """The encoder that the queries of an index need, and the vectors of the last ones; safe for threads."""

    def __init__(self, name: str, folder: Path, encoder: Encoder | None) -> None:
        """``name`` is of the encoder that made the vectors; ``folder`` has what it fitted. Raises UsageError."""
        if encoder is not None and not encoders.same(encoder.name, name):
            raise UsageError(f"{folder}: made by the encoder {name}; {encoder.name} cannot search it")
        self.name = name
        self._folder, self._encoder = folder, encoder
        self._embedded = lru_cache(_EMBEDDED)(self._embed)

    @property
    def encoder(self) -> Encoder:
        """The encoder queries need; lsa, trained ones and those with weights of their own are loaded when first needed.

        Raises UsageError for others.
        """
        if self._encoder is None:
            kind = self.name.partition(":")[0]
            if kind not in ("lsa", "trained", *encoders.WITH_WEIGHTS):
                raise UsageError(f"{self._folder}: made by the encoder {self.name}, which must be given to search")
            self._encoder = LSA.load(self._folder) if kind == "lsa" else encoders.load(self.name)
        return self._encoder

    def embed(self, text: str) -> Vectors:
        """The vector [d] of a query, read-only. Raises as ``encoder`` and as its ``encode``."""
        return self._embedded(text)

    def _embed(self, text: str) -> Vectors:
        vector: Vectors = encode_queries(self.encoder, [text])[0]
        vector.flags.writeable = False
        return vector


class VectorIndex:
    """An open index; safe to share between threads. Use ``open`` of this module."""

    def __init__(
        self,
        vectors: Vectors,
        encoder_name: str,
        folder: Path,
        encoder: Encoder | None,
        *,
        content: str = "",
        approximate: Path | None = None,
        graph: FileInfo | None = None,
        int8: quantized.Quantized | None = None,
    ) -> None:
        self.vectors = vectors
        """Shape [nodes, d], row n for node n; read-only."""
        self.encoder_name = encoder_name
        self.content = content
        """Names encoder and texts, and so the vectors; empty where a build before approximate indexes left it out."""
        self._approximate_folder, self._graph = approximate, graph
        self._int8 = int8
        self._folder = folder
        self._queries = Queries(encoder_name, folder, encoder)

    @property
    def count(self) -> int:
        """Number of vectors, one a node."""
        return len(self.vectors)

    @property
    def dimensions(self) -> int:
        """Numbers of a vector."""
        return int(self.vectors.shape[1])

    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """The vectors [n, d] of nodes [n], copied."""
        found: Vectors = np.asarray(self.vectors)[nodes]
        return found

    @reading("the approximate index")
    def open_all(self) -> None:
        """Open what is else opened when it is first needed. Raises DataError where it is damaged."""
        _ = self._approximate

    @property
    def encoder(self) -> Encoder:
        """See ``Queries``."""
        return self._queries.encoder

    def embed(self, text: str) -> Vectors:
        """The vector [d] of a query, read-only. Raises as ``encoder`` and as its ``encode``."""
        return self._queries.embed(text)

    def search(
        self,
        text: str,
        *,
        limit: int = 20,
        ranges: Sequence[tuple[int, int]] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """The nodes most similar in meaning to a text, as ``nearest`` gives them."""
        if not len(self.vectors):
            return []
        return self.nearest(self.embed(text), limit=limit, ranges=ranges, among=among, exact=exact)

    @reading("the index of vectors")
    def nearest(
        self,
        vector: Vectors,
        *,
        limit: int = 20,
        ranges: Sequence[tuple[int, int]] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """The best ``limit`` node numbers and their cosines with a vector [d] of length 1; equal ones by number.

        ``ranges`` keeps the nodes in any of the ranges (a node type is one; they do not overlap), ``among`` the nodes
        given. Without either, an approximate index is asked where there is one; with ``exact`` it is not. Raises
        UsageError for a vector of another length.
        """
        if vector.shape != self.vectors.shape[1:]:
            raise UsageError(
                f"{self._folder}: vectors have {self.vectors.shape[1]} numbers, the query's has {vector.shape[-1]}"
            )
        query = np.asarray(vector, dtype=np.float32)
        best = _Best(limit)
        for rows, scores in self._scored(query, self._rows(query, limit, ranges, among, exact)):
            best.add(scores, rows)
        return best.ranking()

    def scorer(self, vector: Vectors) -> Callable[[npt.NDArray[np.integer]], Vectors]:
        """A function that gives nodes [n] their cosines [n] with a vector [d] of length 1, for many nodes many times.

        Of more than ``SURE`` nodes, the best so many are exact; the others may be off by the error of quantization, and
        are lower.
        """
        query, vectors = np.asarray(vector, dtype=np.float32), np.asarray(self.vectors)
        if self._int8 is None:
            parts = [scores for _, scores in self._scored(query, self._rows(query, 0, None, None, exact=True))]
            scores = np.concatenate([np.zeros(0, np.float32), *parts])
            return lambda nodes: scores[nodes]
        estimates, span = self._int8.estimates(query)

        def score(nodes: npt.NDArray[np.integer]) -> Vectors:
            found: Vectors = estimates[nodes]  # a copy
            cut = len(found) - SURE
            near = np.flatnonzero(found >= np.partition(found, cut)[cut] - span) if cut > 0 else np.arange(len(found))
            found[near] = np.vecdot(vectors[nodes[near]], query)
            return found

        return score

    def _rows(
        self,
        query: Vectors,
        limit: int,
        ranges: Sequence[tuple[int, int]] | None,
        among: Collection[int] | None,
        exact: bool,
    ) -> list[_Rows]:
        """The rows to compare with a query, ascending, in parts of at most ``_ROWS_AT_ONCE``."""
        spans = [(0, len(self.vectors))] if ranges is None else sorted(ranges)
        wanted: npt.NDArray[np.int64] | None = None
        if among is not None:
            wanted = np.unique(np.fromiter(among, dtype=np.int64, count=len(among)))
        elif ranges is None and not exact and limit <= ann.MOST and self._approximate is not None:
            wanted = self._approximate.candidates(query, limit)
        elif self._int8 and limit > 0 and sum(end - first for first, end in spans) > _ROWS_AT_ONCE:
            wanted = self._int8.candidates(query, limit, spans, _threads())
        parts: list[_Rows] = []
        for first, end in spans:
            if wanted is None:
                parts += [slice(start, min(start + _ROWS_AT_ONCE, end)) for start in range(first, end, _ROWS_AT_ONCE)]
            else:
                inside = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, end)]
                parts += [inside[n : n + _ROWS_AT_ONCE] for n in range(0, len(inside), _ROWS_AT_ONCE)]
        return parts

    def _scored(self, query: Vectors, parts: Sequence[_Rows]) -> Iterator[tuple[_Rows, Vectors]]:
        """Each part with its scores.

        A product of matrix and vector would go to the threads of a BLAS library, which make a search of a few thousand
        rows wait for one another longer than it takes. One product a row needs no more time, and gives equal rows equal
        scores wherever they stand.
        """
        vectors = np.asarray(self.vectors)

        def score(rows: _Rows) -> Vectors:
            return np.asarray(np.vecdot(vectors[rows], query))

        if len(parts) < 2:
            yield from ((rows, score(rows)) for rows in parts)
            return
        with ThreadPoolExecutor(min(_threads(), len(parts))) as threads:
            yield from zip(parts, threads.map(score, parts), strict=True)

    @cached_property
    def _approximate(self) -> ann.Approximate | None:
        if self._approximate_folder is None or not len(self.vectors):
            return None
        if not ann.installed():
            _log.warning("%s: all vectors are read: %s", self._approximate_folder, ann.absent())
            return None
        return ann.open(self._approximate_folder, self.content, self._graph)


def open(
    folder: Path, encoder: Encoder | None = None, approximate: Path | None = None, graph: FileInfo | None = None
) -> VectorIndex:
    """Open a finished index. ``encoder`` is for queries; without one, minilm and lsa find their own.

    ``approximate`` is the folder of its approximate index, which is opened when it is first needed; a search raises
    DataError where it is damaged, its graph another than was written, or of other vectors.

    Raises UsageError where it is another encoder than the index was made with, DataError where the index is missing,
    unfinished, damaged or too new.
    """
    try:
        meta = json.loads((folder / META).read_bytes())
        version, name, shape = int(meta["format"]), str(meta["encoder"]), (int(meta["nodes"]), int(meta["dimensions"]))
        if version > FORMAT:
            raise DataError(f"{folder}: vector index of format {version}; this version reads {FORMAT}")
        if not meta["finished"]:
            raise DataError(f"{folder}: its build was not finished; run it again")
        vectors = mapped(folder / VECTORS, shape)
        content = str(meta.get("content", ""))
        int8 = _open_quantized(folder, shape, meta.get("quantized"))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a vector index: {error!r}") from error
    return VectorIndex(vectors, name, folder, encoder, content=content, approximate=approximate, graph=graph, int8=int8)


def _open_quantized(folder: Path, shape: tuple[int, int], error: Sequence[float] | None) -> quantized.Quantized | None:
    """The quantized vectors, where a build wrote them and the package that reads them quickly is there."""
    if error is None or not quantized.installed():
        return None
    return quantized.Quantized(folder, shape, quantized.Error(*map(float, error)))


def _threads() -> int:
    return os.cpu_count() or 1


class _Best:
    """The best few of scores that come in parts, the lower numbers first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scores = np.zeros(0, dtype=np.float32)
        self._numbers = np.zeros(0, dtype=np.int64)

    def add(self, scores: Vectors, rows: _Rows) -> None:
        """``rows`` are those of the scores, ascending."""
        if self._limit < 1:
            return
        if len(self._scores) == self._limit:  # later numbers must be better, not equal
            places = np.flatnonzero(scores > self._scores[-1])
        else:
            places = np.arange(len(scores))
        if len(places) > self._limit:
            kept = scores[places]
            cut = np.partition(kept, len(kept) - self._limit)[len(kept) - self._limit]
            places = places[kept >= cut]
        found = places + rows.start if isinstance(rows, slice) else rows[places]
        self._scores = np.concatenate([self._scores, scores[places]])
        self._numbers = np.concatenate([self._numbers, found])
        order = np.lexsort((self._numbers, -self._scores))[: self._limit]
        self._scores, self._numbers = self._scores[order], self._numbers[order]

    def ranking(self) -> list[tuple[int, float]]:
        return list(zip(self._numbers.tolist(), self._scores.tolist(), strict=True))


def mapped(path: Path, shape: tuple[int, int], mode: Mode = "r") -> Vectors:
    """Map an array of a known shape; an empty one cannot be mapped and is read. Raises ValueError for another."""
    array: Vectors = load(path, mode if all(shape) else None)
    if array.shape != shape or array.dtype != np.float32:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not float32 {shape}")
    return array


def mapped_hashes(path: Path, count: int, mode: Mode = "r") -> Hashes:
    """Map the hashes of the texts that the vectors were made from. Raises ValueError for another number of them."""
    array: Hashes = load(path, mode if count else None)
    if array.shape != (count,) or array.dtype != np.dtype("S16"):
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not the hashes of {count} texts")
    return array
