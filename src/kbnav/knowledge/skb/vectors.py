"""The vector index of an SKB: one vector a node, in order of node numbers, mapped into memory and searched exactly.

Node numbers are sorted by type, so the vectors of a type lie together and a search within it reads nothing else. A
search of many nodes reads their vectors rounded to a byte a number first (``rounded``), and then the few full ones that
can be among the best; with an approximate index (``ann``) that index proposes them. Beside each vector stands a hash of
the text it was made from: a build that was cut off goes on where it was, and an update encodes only the texts that
changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from kbnav import encoders
from kbnav.encoders import Encoder, Vectors
from kbnav.encoders.lsa import FILE as LSA_FILE
from kbnav.encoders.lsa import LSA
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import ann, rounded
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress

_META, _VECTORS, _HASHES = "vectors.json", "vectors.npy", "hashes.npy"
_FORMAT = 1
_WINDOW = 512  # nodes encoded before they are written: what a build that is killed loses
_ROWS_AT_ONCE = 1 << 14  # of a search: what one of its threads takes at a time; fewer are not worth rounding

SURE = 128
"""Of the scores that ``VectorIndex.scorer`` gives at once, so many are exact."""

Hashes = npt.NDArray[np.bytes_]
Mode = Literal["r", "r+"]
_Rows = slice | npt.NDArray[np.int64]

_log = logging.getLogger(__name__)


def node_text(node: NodeText) -> str:
    """What is encoded of a node: its name, its aliases, and as much of its document as the encoder reads."""
    return "\n".join(part for part in (node.name, ", ".join(node.aliases), node.text) if part)


def build(
    nodes: Callable[[], Iterable[NodeText]],
    folder: Path,
    *,
    type_start: Sequence[int],
    encoder: Encoder | None = None,
    previous: Path | None = None,
    progress: Progress = no_progress,
) -> None:
    """Encode every node into ``folder``, which is empty or holds a build that was cut off.

    ``nodes`` begins anew at each call. Vectors in ``folder`` and in ``previous``, the vector index that is being
    replaced, are used again for equal texts where they come from the same encoder. Without an encoder lsa is used: the
    one of either folder, or a new one, fitted on the nodes.
    """
    count = type_start[-1]
    if encoder is None:
        encoder = _lsa(nodes, folder, previous, progress)
    store = _Store.resume(folder, encoder.name, count)
    old = _Reused.of(previous, encoder.name)
    done = 0
    progress("vectors", done, count)
    for window in _windows(nodes()):
        store.fill(window, encoder, old)
        done += len(window)
        progress("vectors", done, count)
    store.finish()


def build_approximate(folder: Path, out: Path, *, progress: Progress = no_progress) -> None:
    """Write the approximate index of the finished index in ``folder`` into ``out``, which must be empty.

    Raises UsageError without faiss.
    """
    index = open(folder)
    ann.build(index.vectors, index.content, out, progress=progress)


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
        coarse: rounded.Rounded | None = None,
    ) -> None:
        self.vectors = vectors
        """Shape [nodes, d], row n for node n; read-only."""
        self.encoder_name = encoder_name
        self.content = content
        """Names encoder and texts, and so the vectors; empty where a build before approximate indexes left it out."""
        self._approximate_folder = approximate
        self._coarse = coarse
        self._folder = folder
        self._encoder = encoder

    @property
    def encoder(self) -> Encoder:
        """The encoder queries need; minilm and lsa are loaded when first asked for. Raises UsageError for others."""
        if self._encoder is None:
            kind = self.encoder_name.partition(":")[0]
            if kind not in ("lsa", "minilm"):
                raise UsageError(
                    f"{self._folder}: made by the encoder {self.encoder_name}, which must be given to search"
                )
            self._encoder = LSA.load(self._folder) if kind == "lsa" else encoders.load(self.encoder_name)
        return self._encoder

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
        return self.nearest(self.encoder.encode([text])[0], limit=limit, ranges=ranges, among=among, exact=exact)

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

        Of more than ``SURE`` nodes, the best so many are exact; the others may be off by what their rounding took, and
        are lower.
        """
        query, vectors = np.asarray(vector, dtype=np.float32), np.asarray(self.vectors)
        if self._coarse is None:
            parts = [scores for _, scores in self._scored(query, self._rows(query, 0, None, None, exact=True))]
            scores = np.concatenate([np.zeros(0, np.float32), *parts])
            return lambda nodes: scores[nodes]
        estimates, span = self._coarse.estimates(query)

        def score(nodes: npt.NDArray[np.integer]) -> Vectors:
            found: Vectors = estimates[nodes]
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
        elif self._coarse and limit > 0 and sum(end - first for first, end in spans) > _ROWS_AT_ONCE:
            wanted = self._coarse.candidates(query, limit, spans, _threads())
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
            _log.warning(
                "%s: all vectors are read: pip install 'kbnav[ann]' to use this index", self._approximate_folder
            )
            return None
        return ann.open(self._approximate_folder, self.content)


def open(folder: Path, encoder: Encoder | None = None, approximate: Path | None = None) -> VectorIndex:
    """Open a finished index. ``encoder`` is for queries; without one, minilm and lsa find their own.

    ``approximate`` is the folder of its approximate index, which is opened when it is first needed; a search raises
    DataError where it is damaged or of other vectors.

    Raises UsageError where it is another encoder than the index was made with, DataError where the index is missing,
    unfinished, damaged or too new.
    """
    try:
        meta = json.loads((folder / _META).read_bytes())
        version, name, shape = int(meta["format"]), str(meta["encoder"]), (int(meta["nodes"]), int(meta["dimensions"]))
        if version > _FORMAT:
            raise DataError(f"{folder}: vector index of format {version}; this version reads {_FORMAT}")
        if not meta["finished"]:
            raise DataError(f"{folder}: its build was not finished; run it again")
        vectors = _mapped(folder / _VECTORS, shape)
        content = str(meta.get("content", ""))
        coarse = _coarse(folder, shape, meta.get("rounded"))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a vector index: {error!r}") from error
    if encoder is not None and encoder.name != name:
        raise UsageError(f"{folder}: made by the encoder {name}; {encoder.name} cannot search it")
    return VectorIndex(vectors, name, folder, encoder, content=content, approximate=approximate, coarse=coarse)


def _coarse(folder: Path, shape: tuple[int, int], error: Sequence[float] | None) -> rounded.Rounded | None:
    """The rounded vectors, where a build wrote them and the package that reads them quickly is there."""
    if error is None or not rounded.installed():
        return None
    return rounded.Rounded(folder, shape, rounded.Error(*map(float, error)))


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


class _Store:
    """The files of a build under way. The vectors' file is made when their length is known."""

    def __init__(self, folder: Path, encoder_name: str, count: int) -> None:
        self._folder, self._encoder_name, self._count = folder, encoder_name, count
        self._vectors: Vectors | None = None
        self._hashes: Hashes | None = None

    @classmethod
    def resume(cls, folder: Path, encoder_name: str, count: int) -> _Store:
        """Go on with what is in the folder where it fits; what does not is overwritten."""
        store = cls(folder, encoder_name, count)
        try:
            meta = json.loads((folder / _META).read_bytes())
            if (meta["encoder"], meta["nodes"], meta["format"]) == (encoder_name, count, _FORMAT):
                store._vectors = _mapped(folder / _VECTORS, (count, meta["dimensions"]), "r+")
                store._hashes = _mapped_hashes(folder / _HASHES, count, "r+")
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            return cls(folder, encoder_name, count)
        return store

    def fill(self, window: Sequence[NodeText], encoder: Encoder, old: _Reused) -> None:
        """Put the vectors of some nodes in place; the hashes are written last, so that they never promise too much."""
        texts = [node_text(node) for node in window]
        hashes = np.array([_hash(text) for text in texts], dtype="S16")
        numbers = np.array([node.number for node in window])
        if self._hashes is not None:
            missing = np.flatnonzero(self._hashes[numbers] != hashes)
        else:
            missing = np.arange(len(window))
        if not len(missing):
            return
        vectors = old.encode([texts[place] for place in missing], hashes[missing], encoder)
        if self._vectors is None or self._hashes is None:
            self._vectors, self._hashes = self._create(vectors.shape[1])
        self._vectors[numbers[missing]] = vectors
        _flush(self._vectors)
        self._hashes[numbers[missing]] = hashes[missing]
        _flush(self._hashes)

    def finish(self) -> None:
        """Say that the index may be opened."""
        if self._vectors is None or self._hashes is None:
            self._vectors, self._hashes = self._create(0)
        content = hashlib.blake2b(self._encoder_name.encode(), digest_size=16)
        content.update(self._hashes.tobytes())
        error = rounded.build(self._vectors, self._folder) if self._vectors.size else None
        self._describe(self._vectors.shape[1], finished=True, content=content.hexdigest(), error=error)

    def _create(self, dimensions: int) -> tuple[Vectors, Hashes]:
        made = np.lib.format.open_memmap(
            self._folder / _VECTORS, mode="w+", dtype=np.float32, shape=(self._count, dimensions)
        )
        hashes = np.lib.format.open_memmap(self._folder / _HASHES, mode="w+", dtype="S16", shape=(self._count,))
        self._describe(dimensions, finished=False)
        return made, hashes

    def _describe(
        self, dimensions: int, *, finished: bool, content: str = "", error: rounded.Error | None = None
    ) -> None:
        document = {
            "format": _FORMAT,
            "encoder": self._encoder_name,
            "nodes": self._count,
            "dimensions": dimensions,
            "finished": finished,
            "content": content,
            "rounded": error,
        }
        new = self._folder / f"{_META}.new"
        new.write_text(json.dumps(document))
        new.replace(self._folder / _META)


class _Reused:
    """Vectors that exist already, by the hash of their text."""

    def __init__(self, vectors: Vectors, hashes: Hashes) -> None:
        self._vectors = vectors
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, folder: Path | None, encoder_name: str) -> _Reused:
        """Those of a finished index of the same encoder; none where there is no such index."""
        if folder is not None and (folder / _META).is_file():
            index = open(folder)
            if index.encoder_name == encoder_name:
                return cls(index.vectors, np.asarray(_mapped_hashes(folder / _HASHES, len(index.vectors))))
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
    """The fitted encoder of a build, in its folder before any vector is."""
    for place in (folder, previous):
        if place is not None and (place / LSA_FILE).is_file():
            encoder = LSA.load(place)
            break
    else:
        progress("lsa", 0, 1)
        encoder = LSA.fit(node_text(node) for node in nodes())
        progress("lsa", 1, 1)
    encoder.save(folder)
    return encoder


def _windows(nodes: Iterable[NodeText]) -> Iterator[list[NodeText]]:
    iterator = iter(nodes)
    while window := list(islice(iterator, _WINDOW)):
        yield window


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _mapped(path: Path, shape: tuple[int, int], mode: Mode = "r") -> Vectors:
    """Map an array of a known shape; an empty one cannot be mapped and is read. Raises ValueError for another."""
    array: Vectors = np.load(path, mmap_mode=mode if all(shape) else None)
    if array.shape != shape or array.dtype != np.float32:
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not float32 {shape}")
    return array


def _mapped_hashes(path: Path, count: int, mode: Mode = "r") -> Hashes:
    array: Hashes = np.load(path, mmap_mode=mode if count else None)
    if array.shape != (count,) or array.dtype != np.dtype("S16"):
        raise ValueError(f"{path.name} is {array.dtype} {array.shape}, not the hashes of {count} texts")
    return array


def _flush(array: npt.NDArray[np.generic]) -> None:
    if isinstance(array, np.memmap):
        array.flush()
