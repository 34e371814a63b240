"""Latent semantic analysis: TF-IDF and a truncated SVD, fitted on the texts of an SKB (Deerwester et al., 1990).

It needs no weights and knows nothing but which words occur together in the texts it was fitted on. The few axes of an
SVD lose rare words, which are what names are made of, so what the axes leave of a text is kept as well, by a random
projection with a smaller weight: of WordNet's example sentences this puts 32 % among the first 20 with their synset,
the axes alone 7 %. BM25 finds 62 % of them and gains nothing by lsa; see benchmarks/skb_vectors.py.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import DataError

FILE = "lsa.npz"

_WORD = re.compile(r"[^\W_]+")
_MOST_TERMS = 50_000
_MOST_TEXTS = 50_000  # a fit on more takes longer and changes little
_REMAINDER_WEIGHT = np.float32(0.7)  # 0.5 and 1 are about as good
_OVERSAMPLING, _POWER_ITERATIONS = 16, 3  # of the randomized SVD (Halko, Martinsson and Tropp, 2011)
_PRODUCTS_AT_ONCE = 1 << 14  # entries of the sparse matrix multiplied in one go


class LSA:
    """The encoder. Terms are sorted; ``weights`` is [terms], ``axes`` [terms, d]."""

    def __init__(self, terms: Sequence[str], weights: Vectors, axes: Vectors) -> None:
        self._terms = list(terms)
        self._columns = {term: column for column, term in enumerate(self._terms)}
        self._weights = weights
        self._axes = axes
        digest = hashlib.sha256("\n".join(self._terms).encode() + weights.tobytes() + axes.tobytes()).hexdigest()
        self.name = f"lsa:{digest[:12]}"

    @classmethod
    def fit(cls, texts: Iterable[str], *, dimensions: int = 128, remainder: int = 256, seed: int = 0) -> LSA:
        """Fit on at most 50,000 of the texts, spread evenly, and their most frequent terms.

        Vectors have ``dimensions`` numbers from the SVD, fewer where there are fewer terms or texts, and ``remainder``
        numbers from the projection of the rest. Without any term all vectors are zeros.
        """
        counts = [Counter(_words(text)) for text in _spread(texts)]
        occurrences = Counter(term for words in counts for term in words)
        terms = sorted(term for term, _ in occurrences.most_common(_MOST_TERMS))
        if not terms:
            return cls([], np.zeros(0, np.float32), np.zeros((0, 1), np.float32))
        texts_with = np.array([occurrences[term] for term in terms], dtype=np.float32)
        weights = (np.log((1 + len(counts)) / (1 + texts_with)) + np.float32(1)) ** 2
        columns = {term: column for column, term in enumerate(terms)}
        matrix = _Sparse.of([_weighted(words, columns, weights) for words in counts], len(terms))
        axes = _right_singular_vectors(matrix, dimensions, seed)
        return cls(terms, weights, np.hstack([axes, _REMAINDER_WEIGHT * _remainder(axes, remainder, seed)]))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), d]; zeros for a text without a known term."""
        rows = [_weighted(Counter(_words(text)), self._columns, self._weights) for text in texts]
        return normalised(_Sparse.of(rows, len(self._terms)).times(self._axes))

    def save(self, folder: Path) -> None:
        """Write ``lsa.npz`` into the folder, whole or not at all."""
        terms = np.frombuffer("\n".join(self._terms).encode(), dtype=np.uint8)
        new = folder / f"{FILE}.new"
        with new.open("wb") as file:
            np.savez(file, terms=terms, weights=self._weights, axes=self._axes)
        new.replace(folder / FILE)

    @classmethod
    def load(cls, folder: Path) -> LSA:
        """Read what ``save`` wrote. Raises DataError where it is missing or damaged."""
        try:
            with (folder / FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                terms = arrays["terms"].tobytes().decode()
                return cls(terms.split("\n") if terms else [], arrays["weights"], arrays["axes"])
        except (OSError, ValueError, KeyError, EOFError, SyntaxError, TokenError, BadZipFile) as error:
            raise DataError(f"{folder / FILE}: {error!r}") from error


class _Sparse:
    def __init__(
        self, starts: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], values: Vectors, width: int
    ) -> None:
        self.starts, self.columns, self.values, self.width = starts, columns, values, width

    @classmethod
    def of(cls, rows: Sequence[tuple[list[int], Vectors]], width: int) -> _Sparse:
        starts = np.cumsum([0, *(len(columns) for columns, _ in rows)], dtype=np.int64)
        columns = np.array([column for columns, _ in rows for column in columns], dtype=np.int64)
        values = np.concatenate([np.zeros(0, np.float32), *(values for _, values in rows)])
        return cls(starts, columns, values, width)

    def transposed(self) -> _Sparse:
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.argsort(self.columns, kind="stable")
        starts = np.searchsorted(self.columns[order], np.arange(self.width + 1))
        return _Sparse(starts.astype(np.int64), rows[order], self.values[order], len(self.starts) - 1)

    def times(self, dense: Vectors) -> Vectors:
        """The product with ``dense`` [width, d], as float32 [rows, d]."""
        out = np.zeros((len(self.starts) - 1, dense.shape[1]), dtype=np.float32)
        filled = np.flatnonzero(np.diff(self.starts))
        row = 0
        while row < len(filled):
            first = self.starts[filled[row]]
            last = max(row + 1, int(np.searchsorted(self.starts[filled], first + _PRODUCTS_AT_ONCE)))
            part = slice(first, self.starts[filled[last - 1] + 1])
            products = dense[self.columns[part]] * self.values[part, None]
            out[filled[row:last]] = np.add.reduceat(products, self.starts[filled[row:last]] - first, axis=0)
            row = last
        return out


def _right_singular_vectors(matrix: _Sparse, dimensions: int, seed: int) -> Vectors:
    """The leading right singular vectors, [width, d], by random projection and power iterations."""
    rows = len(matrix.starts) - 1
    size = min(dimensions + _OVERSAMPLING, rows, matrix.width)
    flipped = matrix.transposed()
    basis = np.random.default_rng(seed).standard_normal((matrix.width, size), dtype=np.float32)
    for _ in range(_POWER_ITERATIONS):
        basis = np.linalg.qr(matrix.times(basis))[0]
        basis = np.linalg.qr(flipped.times(basis))[0]
    projected = matrix.times(basis)
    _, turns = np.linalg.eigh(projected.T @ projected)  # smallest eigenvalue first
    return np.ascontiguousarray(basis @ turns[:, ::-1][:, :dimensions], dtype=np.float32)


def _remainder(axes: Vectors, size: int, seed: int) -> Vectors:
    """A random projection [width, size] of what is at right angles to the axes; it keeps lengths on average."""
    projection = np.random.default_rng([seed, 1]).standard_normal((len(axes), size), dtype=np.float32)
    projection *= np.float32(max(size, 1) ** -0.5)
    rest: Vectors = projection - axes @ (axes.T @ projection)
    return rest


def _weighted(words: Counter[str], columns: dict[str, int], weights: Vectors) -> tuple[list[int], Vectors]:
    known = sorted((columns[word], count) for word, count in words.items() if word in columns)
    places = [column for column, _ in known]
    values = (1 + np.log(np.array([count for _, count in known], dtype=np.float32))) * weights[places]
    length = float(np.linalg.norm(values))
    return places, (values / length if length else values).astype(np.float32)


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(char for char in folded if not unicodedata.combining(char)))


def _spread(texts: Iterable[str]) -> list[str]:
    """At most ``_MOST_TEXTS`` of the texts at even distances; the distance doubles whenever there are too many."""
    kept: list[str] = []
    distance = 1
    for number, text in enumerate(texts):
        if number % distance == 0:
            kept.append(text)
            if len(kept) > _MOST_TEXTS:
                kept, distance = kept[::2], 2 * distance
    return kept
