"""The vector index of an SKB: one vector a node, in order of node numbers, mapped into memory and searched exactly.

Node numbers are sorted by type, so the vectors of a type lie together and a search within it reads nothing else. Beside
each vector stands a hash of the text it was made from: a build that was cut off goes on where it was, and an update
encodes only the texts that changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav import encoders
from kbnav.encoders import Encoder, Vectors, encode_queries, same
from kbnav.encoders.lsa import FILE as LSA_FILE
from kbnav.encoders.lsa import LSA
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import Array, Mode, load, reading
from kbnav.knowledge.skb.schema import HASHES_FILE, VECTORS_FILE, Hit, NodeText, Progress, Range, no_progress
from kbnav.runs.journal import write_whole

WINDOW = 512
"""Nodes encoded before they are written: what a build that is killed loses."""
META = "vectors.json"
FORMAT = 1
_EMBEDDED = 64  # texts of queries whose vectors are kept: the stages of a system ask for the same ones again
_ROWS_AT_ONCE = 1 << 14  # of a search: what one of its threads takes at a time

Hashes = npt.NDArray[np.bytes_]
Numbers = npt.NDArray[np.int64]
_Rows = slice | Numbers


class VectorSearch(ABC):
    """Vectors of nodes, searched by cosine, with the encoder that queries need; safe to share between threads."""

    def __init__(self, count: int, dimensions: int, encoder_name: str, folder: Path, encoder: Encoder | None) -> None:
        """``folder`` has what the encoder fitted. Raises UsageError where ``encoder`` is not that of the vectors."""
        if encoder is not None and not same(encoder.name, encoder_name):
            raise UsageError(f"{folder}: made by the encoder {encoder_name}; {encoder.name} cannot search it")
        self.count = count
        """Number of vectors, one a node."""
        self.dimensions = dimensions
        """Numbers of a vector."""
        self.encoder_name = encoder_name
        self._folder, self._encoder = folder, encoder
        self.embed = lru_cache(_EMBEDDED)(self._embed)
        """The vector [d] of a query, read-only. Raises as ``encoder`` and as its ``encode``."""

    @property
    def encoder(self) -> Encoder:
        """The encoder that queries need, loaded when first needed. Raises UsageError where it cannot be."""
        if self._encoder is None:
            kind = self.encoder_name.partition(":")[0]
            if kind not in ("lsa", "trained", *encoders.WITH_WEIGHTS):
                raise UsageError(
                    f"{self._folder}: made by the encoder {self.encoder_name}, which must be given to search"
                )
            self._encoder = LSA.load(self._folder) if kind == "lsa" else encoders.load(self.encoder_name)
        return self._encoder

    def _embed(self, text: str) -> Vectors:
        vector: Vectors = encode_queries(self.encoder, [text])[0]
        vector.flags.writeable = False
        return vector

    @reading("the index of vectors")
    def search(
        self,
        what: str | Vectors,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
    ) -> list[Hit]:
        """The best ``limit`` node numbers and their cosines with a text, or a vector [d] of length 1.

        ``ranges`` keeps the nodes in any of the ranges (a node type is one; they do not overlap), ``among`` the nodes
        given. Zeros, as lsa has for words that it does not know, are near to nothing. Raises UsageError for a vector of
        another length.
        """
        if limit <= 0 or not self.count:
            return []
        query = self._query(self.embed(what) if isinstance(what, str) else what)
        return self._nearest(query, limit, ranges, among) if query.any() else []

    @abstractmethod
    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """The vectors [n, d] of nodes [n]."""

    @abstractmethod
    def _nearest(
        self,
        query: Vectors,
        limit: int,
        ranges: Sequence[Range] | None,
        among: Collection[int] | None,
    ) -> list[Hit]:
        """See ``search``."""

    def scorer(self, vector: Vectors) -> Callable[[npt.NDArray[np.integer]], Vectors]:
        """A function that gives nodes [n] their cosines [n] with a vector [d] of length 1; a vector is read once."""
        query = self._query(vector)
        known = np.full(self.count, np.nan, np.float32)

        def score(nodes: npt.NDArray[np.integer]) -> Vectors:
            new = np.unique(nodes[np.isnan(known[nodes])])
            known[new] = np.vecdot(self.rows(new), query)
            found: Vectors = known[nodes]
            return found

        return score

    def _query(self, vector: Vectors) -> Vectors:
        if vector.shape != (self.dimensions,):
            raise UsageError(
                f"{self._folder}: vectors have {self.dimensions} numbers, the query's has {vector.shape[-1]}"
            )
        return np.asarray(vector, dtype=np.float32)


class VectorIndex(VectorSearch):
    """An open index in a folder. Use ``open`` of this module."""

    def __init__(self, vectors: Vectors, encoder_name: str, folder: Path, encoder: Encoder | None) -> None:
        super().__init__(len(vectors), int(vectors.shape[1]), encoder_name, folder, encoder)
        self.vectors = vectors
        """Shape [nodes, d], row n for node n; read-only."""

    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """See ``VectorSearch``; copied."""
        found: Vectors = np.asarray(self.vectors)[nodes]
        return found

    def _nearest(
        self,
        query: Vectors,
        limit: int,
        ranges: Sequence[Range] | None,
        among: Collection[int] | None,
    ) -> list[Hit]:
        vectors = np.asarray(self.vectors)
        wanted: Numbers | None = None
        if among is not None:
            wanted = np.unique(np.fromiter(among, dtype=np.int64, count=len(among)))

        def score(rows: _Rows) -> list[Hit]:
            numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            return best(numbers, np.vecdot(vectors[rows], query), limit)

        parts = self._parts(ranges, wanted)
        # A product of matrix and vector would go to the threads of a BLAS library, which make a search of a few
        # thousand rows wait for one another longer than it takes. One product a row needs no more time, and gives
        # equal rows equal scores wherever they stand.
        with ThreadPoolExecutor(max(1, min(os.cpu_count() or 1, len(parts)))) as threads:
            found = map(score, parts) if len(parts) < 2 else threads.map(score, parts)
            return sorted(chain.from_iterable(found), key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _parts(self, ranges: Sequence[Range] | None, wanted: Numbers | None) -> list[_Rows]:
        """The rows to compare with a query, ascending, in parts of at most ``_ROWS_AT_ONCE``."""
        parts: list[_Rows] = []
        for first, end in [(0, self.count)] if ranges is None else sorted(ranges):
            if wanted is None:
                parts += [slice(start, min(start + _ROWS_AT_ONCE, end)) for start in range(first, end, _ROWS_AT_ONCE)]
            else:
                inside = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, end)]
                parts += [inside[n : n + _ROWS_AT_ONCE] for n in range(0, len(inside), _ROWS_AT_ONCE)]
        return parts


def best(numbers: Numbers, scores: Vectors, limit: int) -> list[Hit]:
    """The best ``limit`` of scored nodes, numbers and scores of shape [n], best first; equal ones by number."""
    if len(scores) > limit:
        near = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
        numbers, scores = numbers[near], scores[near]
    order = np.lexsort((numbers, -scores))[:limit]
    return list(zip(numbers[order].tolist(), scores[order].tolist(), strict=True))


def open(folder: Path, encoder: Encoder | None = None) -> VectorIndex:
    """Open a finished index. ``encoder`` is for queries; without one, minilm and lsa find their own.

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
        vectors = _mapped(folder / VECTORS_FILE, shape, np.float32)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a vector index: {error!r}") from error
    return VectorIndex(vectors, name, folder, encoder)


def _mapped(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike, mode: Mode = "r") -> Array:
    """Map an array of a known shape; an empty one cannot be mapped and is read. Raises ValueError for another."""
    array = load(path, mode if all(shape) else None)
    if array.shape != shape or array.dtype != np.dtype(dtype):
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


class Window(NamedTuple):
    """Nodes that are encoded together."""

    nodes: range
    written: Hashes | None
    """Of the texts whose vectors are written already, [nodes]; None where none are."""


class Made(NamedTuple):
    """The vectors that a window lacked."""

    nodes: int
    """How many the window has."""
    numbers: Numbers
    """Of the nodes whose vectors were made, [m]."""
    hashes: Hashes
    """Of their texts, [m]."""
    vectors: Vectors
    """[m, d]."""


Elsewhere = Callable[[Encoder, Iterable[Window]], Iterator[Made]]
"""Encodes windows as ``encode`` does, wherever it does so, and gives what came of them in any order."""


def build(
    nodes: Callable[[], Iterable[NodeText]],
    folder: Path,
    *,
    type_start: Sequence[int],
    encoder: Encoder | None = None,
    previous: Path | None = None,
    progress: Progress = no_progress,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Encode every node into ``folder``, which is empty or holds a build that was cut off.

    ``nodes`` begins anew at each call. Vectors in ``folder`` and in ``previous``, the vector index that is being
    replaced, are used again for equal texts where they come from the same encoder. Without an encoder lsa is used: the
    one of either folder, or a new one, fitted on the nodes. What encodes them ``elsewhere`` finds their texts itself.
    """
    count = type_start[-1]
    if encoder is None:
        encoder = _lsa(nodes, folder, previous, progress)
    writer = _Writer(folder, encoder.name, count)
    made: Iterator[Made]
    if elsewhere is None:
        old = Reused.of(previous, encoder.name)
        texts = iter(nodes())
        made = (encode(list(islice(texts, WINDOW)), one, encoder, old) for one in writer.windows())
    else:
        made = elsewhere(encoder, writer.windows())
    done = 0
    progress("vectors", done, count)
    for one in made:
        writer.put(one)
        done += one.nodes
        progress("vectors", done, count)
    writer.finish()


def change(
    nodes: Sequence[NodeText], folder: Path, *, encoder: Encoder | None = None, type_start: Sequence[int]
) -> None:
    """Give some nodes of the index in ``folder`` other vectors; without an encoder its own, lsa, is used."""
    encoder = encoder or LSA.load(folder)
    made = encode(nodes, Window(range(len(nodes)), None), encoder, Reused.of(None, encoder.name))
    writer = _Writer(folder, encoder.name, type_start[-1])
    writer.put(made._replace(numbers=np.array([node.number for node in nodes])))
    writer.finish()


def encode(nodes: Sequence[NodeText], window: Window, encoder: Encoder, old: Reused) -> Made:
    """The vectors of a window's ``nodes`` that are not written, those of texts that are known among the ``old``."""
    texts = [node.document for node in nodes]
    digests = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
    hashes = np.array(digests, dtype="S16")
    lacking = np.arange(len(nodes)) if window.written is None else np.flatnonzero(window.written != hashes)
    made = np.zeros((0, 0), np.float32)
    if len(lacking):
        made = old.encode([texts[place] for place in lacking.tolist()], hashes[lacking], encoder)
    return Made(len(nodes), lacking + window.nodes.start, hashes[lacking], made)


class _Writer:
    def __init__(self, folder: Path, encoder_name: str, count: int) -> None:
        """Go on with what is in the folder where it fits; what does not is overwritten."""
        self._folder, self._encoder_name, self._count = folder, encoder_name, count
        self._arrays: tuple[Vectors, Hashes] | None = None
        with suppress(OSError, EOFError, ValueError, KeyError, TypeError):
            meta = json.loads((folder / META).read_bytes())
            if same(meta["encoder"], encoder_name) and (meta["nodes"], meta["format"]) == (count, FORMAT):
                vectors = _mapped(folder / VECTORS_FILE, (count, meta["dimensions"]), np.float32, "r+")
                self._arrays = vectors, _mapped(folder / HASHES_FILE, (count,), "S16", "r+")

    def windows(self) -> Iterator[Window]:
        """All nodes, window by window."""
        for first in range(0, self._count, WINDOW):
            end = min(first + WINDOW, self._count)
            written = None if self._arrays is None else np.array(self._arrays[1][first:end])
            yield Window(range(first, end), written)

    def put(self, made: Made) -> None:
        """Put vectors in their places; the hashes are written last, so that they never promise too much."""
        if not len(made.numbers):
            return
        arrays = self._arrays or self._create(made.vectors.shape[1])
        for array, values in zip(arrays, (made.vectors, made.hashes), strict=True):
            array[made.numbers] = values
            if isinstance(array, np.memmap):
                array.flush()

    def finish(self) -> None:
        """Say that the index may be opened."""
        vectors, _ = self._arrays or self._create(0)
        self._describe(vectors.shape[1], finished=True)

    def _create(self, dimensions: int) -> tuple[Vectors, Hashes]:
        make = np.lib.format.open_memmap
        vectors = make(self._folder / VECTORS_FILE, mode="w+", dtype=np.float32, shape=(self._count, dimensions))
        hashes = make(self._folder / HASHES_FILE, mode="w+", dtype="S16", shape=(self._count,))
        self._describe(dimensions, finished=False)
        self._arrays = vectors, hashes
        return self._arrays

    def _describe(self, dimensions: int, *, finished: bool) -> None:
        document = {
            "format": FORMAT,
            "encoder": self._encoder_name,
            "nodes": self._count,
            "dimensions": dimensions,
            "finished": finished,
        }
        write_whole(self._folder / META, json.dumps(document))


class Reused:
    """Vectors that exist already, by the hash of their text."""

    def __init__(self, vectors: Vectors, hashes: Hashes) -> None:
        self._vectors = vectors
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, folder: Path | None, encoder_name: str) -> Reused:
        """Those of a finished index of the same encoder; none where there is no such index."""
        if folder is not None and (folder / META).is_file():
            index = open(folder)
            if same(index.encoder_name, encoder_name):
                return cls(index.vectors, np.asarray(_mapped(folder / HASHES_FILE, (index.count,), "S16")))
        return cls(np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype="S16"))

    def encode(self, texts: Sequence[str], hashes: Hashes, encoder: Encoder) -> Vectors:
        """Vectors of the texts: those known, the others from the encoder, each different text once."""
        unique, first, places = np.unique(hashes, return_index=True, return_inverse=True)
        at = np.minimum(np.searchsorted(self._hashes, unique), max(len(self._hashes) - 1, 0))
        known = self._hashes[at] == unique if len(self._hashes) else np.zeros(len(unique), dtype=bool)
        fresh = encoder.encode([texts[place] for place in first[~known]]) if not known.all() else None
        width = self._vectors.shape[1] if fresh is None else fresh.shape[1]
        vectors = np.empty((len(unique), width), dtype=np.float32)
        if fresh is not None:
            vectors[~known] = fresh
        if known.any():
            vectors[known] = self._vectors[self._order[at[known]]]
        return np.asarray(vectors[places])


def _lsa(nodes: Callable[[], Iterable[NodeText]], folder: Path, previous: Path | None, progress: Progress) -> LSA:
    fitted = next((place for place in (folder, previous) if place is not None and (place / LSA_FILE).is_file()), None)
    if fitted is not None:
        encoder = LSA.load(fitted)
    else:
        progress("lsa", 0, 1)
        encoder = LSA.fit(node.document for node in nodes())
        progress("lsa", 1, 1)
    encoder.save(folder)
    return encoder
