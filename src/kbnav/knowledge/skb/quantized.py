"""Vectors quantized to int8, a byte a number: what an exact search reads first, a quarter of the memory.

A vector x is kept as c·s, with c whole numbers from -127 to 127 and a step s of its own, at most E away from x. A query
q is quantized alike to p·t, F away. By Cauchy and Schwarz, twice, the product of the quantized vectors misses that of
the full ones by no more than m = E·|q| + (|x| + E)·F. So the true best k are among those whose quantized product is not
more than 2m below the k-th best quantized one: only their full vectors need to be compared, and nothing is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Vectors
from kbnav.knowledge.skb.arrays import load

NUMBERS, STEPS = "quantized.npy", "steps.npy"
MOST = 8
"""The search gives up where more than one vector in so many would have to be compared in full."""

_LARGEST = 127
_SLACK = 1e-5  # float32 sums of the products themselves
_ROWS_AT_ONCE = 1 << 14
_ALONE = 1 << 18  # fewer rows are read sooner than threads are woken on a busy machine

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]


def installed() -> bool:
    """Whether the package that multiplies bytes is there; NumPy does it slower than full numbers."""
    return find_spec("numkong") is not None


class Error(NamedTuple):
    """How far the quantized vectors of an index are from the full ones at most, and how long those are at most."""

    distance: float
    length: float


def build(vectors: Vectors, folder: Path) -> Error:
    """Write the quantized ``vectors``, shape [nodes, d], beside the full ones."""
    quantized = np.lib.format.open_memmap(folder / NUMBERS, mode="w+", dtype=np.int8, shape=vectors.shape)
    steps = np.empty(len(vectors), dtype=np.float32)
    distance = length = 0.0
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        full = np.asarray(vectors[rows])
        quantized[rows], steps[rows], errors = _quantize(full)
        distance = max(distance, float(errors.max()))
        length = max(length, float(_lengths(full).max()))
    quantized.flush()
    np.save(folder / STEPS, steps)
    return Error(distance, length)


class Quantized:
    """Open quantized vectors, mapped into memory; safe to share between threads."""

    def __init__(self, folder: Path, shape: tuple[int, int], error: Error) -> None:
        """Raises OSError or ValueError where the files are missing or damaged."""
        self._numbers = _mapped(folder / NUMBERS)
        self._steps = _mapped(folder / STEPS)
        self._error = error
        self._last: tuple[bytes, Vectors] | None = None
        """The query that was last compared with all rows, and the products."""
        kinds = (self._numbers.dtype.name, self._steps.dtype.name)
        if self._numbers.shape != shape or self._steps.shape != shape[:1] or kinds != ("int8", "float32"):
            raise ValueError(f"{NUMBERS} is {self._numbers.shape} and {STEPS} {self._steps.shape}, not for {shape}")

    def candidates(self, query: Vectors, limit: int, ranges: Sequence[tuple[int, int]], threads: int) -> Numbers | None:
        """Rows, ascending, that are sure to hold the ``limit`` best products with ``query`` within the ranges.

        None where they are too many to be worth it.
        """
        parts = [
            slice(start, min(start + _ROWS_AT_ONCE, end))
            for first, end in ranges
            for start in range(first, end, _ROWS_AT_ONCE)
        ]
        total = sum(end - first for first, end in ranges)
        most = max(total // MOST, limit)
        asked = self._quantized_query(query)
        # Where one thread reads all rows, they are as well kept for the next stage, which asks for the same.
        known = self.estimates(query)[0] if total == len(self._steps) < _ALONE else self._known(query)

        def read(parts: Sequence[slice]) -> _Found | None:
            found = _Found(limit, asked.span)
            for rows in parts:
                found.add(rows, self._products(asked, rows) if known is None else known[rows])
                if len(found.rows) > most:
                    return None
            return found

        share = max(1, len(parts) if total < _ALONE else -(-len(parts) // threads))
        shares = [parts[first : first + share] for first in range(0, len(parts), share)]
        if len(shares) < 2:
            found = [read(one) for one in shares]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(read, shares))
        together = _Found(limit, asked.span)
        for one in found:
            if one is None:
                return None
            together.keep(one.rows, one.scores)
        return together.rows if len(together.rows) <= most else None

    def estimates(self, query: Vectors) -> tuple[Vectors, float]:
        """The quantized products of all rows with ``query``, and how far two of them may be from their true order.

        They are read-only, and kept until another query is compared with all rows.
        """
        asked, known = self._quantized_query(query), self._known(query)
        if known is None:
            starts = range(0, len(self._steps), _ROWS_AT_ONCE)
            parts = [self._products(asked, slice(start, start + _ROWS_AT_ONCE)) for start in starts]
            known = np.concatenate([np.zeros(0, np.float32), *parts])
            known.flags.writeable = False
            self._last = query.tobytes(), known
        return known, asked.span

    def _known(self, query: Vectors) -> Vectors | None:
        last = self._last  # once: another thread may put another in its place
        return last[1] if last is not None and last[0] == query.tobytes() else None

    def _quantized_query(self, query: Vectors) -> _Query:
        numbers, step, distance = _quantize(query[None])
        margin = self._error.distance * float(_lengths(query))
        margin += (self._error.length + self._error.distance) * float(distance[0]) + _SLACK
        return _Query(numbers, step, 2 * margin)

    def _products(self, query: _Query, rows: slice) -> Vectors:
        import numkong

        products: Vectors = np.asarray(numkong.cdist(query.numbers, self._numbers[rows], "dot", out_dtype="float32"))[0]
        products *= self._steps[rows]
        products *= query.step
        return products


class _Query(NamedTuple):
    """A quantized query; of two rows whose products are ``span`` apart, the order is sure."""

    numbers: Bytes
    step: Vectors
    span: float


class _Found:
    """The rows that may be among the best few, of scores that come in parts and may be off by half of ``span``."""

    def __init__(self, limit: int, span: float) -> None:
        self._limit, self._span = limit, span
        self._least = -np.inf
        self.rows: Numbers = np.zeros(0, dtype=np.int64)
        self.scores: Vectors = np.zeros(0, dtype=np.float32)

    def add(self, rows: slice, scores: Vectors) -> None:
        """Take those of the scores that are not too far below the best so far, or among themselves."""
        places = np.flatnonzero(scores >= self._least)
        if len(places) > self._limit:
            kept = scores[places]
            places = places[kept >= self._bound(kept)]
        if len(places):
            self.keep(places + rows.start, scores[places])

    def keep(self, rows: Numbers, scores: Vectors) -> None:
        """Put rows behind those so far, and let go of those that are too far below."""
        self.rows, self.scores = np.concatenate([self.rows, rows]), np.concatenate([self.scores, scores])
        if len(self.scores) >= self._limit:
            self._least = self._bound(self.scores)
            good = self.scores >= self._least
            self.rows, self.scores = self.rows[good], self.scores[good]

    def _bound(self, scores: Vectors) -> float:
        cut = len(scores) - self._limit
        return float(np.partition(scores, cut)[cut]) - self._span


def _mapped(path: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = load(path).view(np.ndarray)
    return array


def _quantize(vectors: Vectors) -> tuple[Bytes, Vectors, Vectors]:
    """Vectors [n, d] as bytes [n, d] with a step each [n], and how far each is from what it was [n]."""
    steps = np.abs(vectors).max(axis=1) / np.float32(_LARGEST)
    safe = np.where(steps > 0, steps, np.float32(1))[:, None]
    numbers = np.rint(vectors / safe).astype(np.int8)
    return numbers, steps, _lengths(vectors - numbers * safe)


def _lengths(vectors: Vectors) -> Vectors:
    """Euclidean lengths over the last axis, without BLAS, whose threads cost more here than the sum."""
    lengths: Vectors = np.sqrt(np.vecdot(vectors, vectors))
    return lengths
