"""A linear model that scores relation paths for a question, trained by KL divergence, in NumPy.

A question is a vector x: its words and pairs of neighbouring words weighed by rarity, its embedding, and a 1. A path is
a set of parts: itself, its hops, its types, its length. Its score is the sum over its parts of x's product with a
column of weights, and a scale times the cosine of the question's embedding with that of the path's words. Parts let a
path learn from others; the cosine lets it be found with no training at all. A softmax over the paths that are possible
makes the scores probabilities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Vectors

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]

MOST_WORDS = 4_096
UNTRAINED_SCALE = 10.0
_STEPS, _SMALLEST, _LARGEST = 32, 8, 256
"""Batches of an epoch, unless they would be smaller or larger than this: few questions take as many steps as many."""
_WORD = re.compile(r"[^\W_]+")
_IMPOSSIBLE = np.float32(-1e9)


@dataclass(frozen=True)
class Candidates:
    """What is scored: ``parts`` names each one's, ``vectors`` [c, d] are the embeddings of their words."""

    parts: Sequence[frozenset[str]]
    vectors: Vectors


@dataclass(frozen=True)
class Questions:
    """What is asked: texts, and their embeddings [n, d]."""

    texts: Sequence[str]
    vectors: Vectors


@dataclass(frozen=True)
class Training:
    """How long and how fast the weights are learned; ``decay`` pulls them to 0."""

    epochs: int = 15
    rate: float = 5e-3
    decay: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class Scorer:
    """The model. ``weights`` are [words + d + 1, parts]; with no words and no parts it is untrained."""

    words: tuple[str, ...]
    rarity: Vectors
    parts: tuple[str, ...]
    weights: Vectors
    scale: float = UNTRAINED_SCALE

    @classmethod
    def untrained(cls, dimensions: int) -> Scorer:
        """Scores by the cosine alone."""
        return cls((), np.zeros(0, np.float32), (), np.zeros((dimensions + 1, 0), np.float32))

    @classmethod
    def fit(
        cls,
        questions: Questions,
        candidates: Candidates,
        target: Floats,
        possible: Mask | None = None,
        training: Training | None = None,
    ) -> Scorer:
        """Learn from the distribution over candidates that each question should have.

        Args:
            questions: n of them.
            candidates: c of them.
            target: Shape [n, c]; rows sum to 1 (PASemiQA, equation 3).
            possible: Shape [n, c]; where False, the candidate is left out of the question's softmax. None: all are.
            training: How.
        """
        words, rarity = _vocabulary(questions.texts)
        # A part that no right path has could only learn to be wrong.
        right = np.flatnonzero(target.sum(axis=0)).tolist()
        parts = tuple(sorted(frozenset().union(*(candidates.parts[place] for place in right))))
        shape = len(words) + questions.vectors.shape[1] + 1, len(parts)
        start = cls(words, rarity, parts, np.zeros(shape, np.float32))
        weights, scale = _descend(start, questions, candidates, target, possible, training or Training())
        return cls(words, rarity, parts, weights, scale)

    def scores(self, questions: Questions, candidates: Candidates) -> Floats:
        """Shape [n, c], unbounded; ``log_softmax`` makes logarithms of probabilities of a row."""
        learned = (self.features(questions) @ self.weights) @ self.membership(candidates).T
        return np.asarray(learned + self.scale * (questions.vectors @ candidates.vectors.T))

    def features(self, questions: Questions) -> Vectors:
        """The questions' vectors x, shape [n, words + d + 1]."""
        places = {word: place for place, word in enumerate(self.words)}
        found = np.zeros((len(questions.texts), len(places)), np.float32)
        for row, text in enumerate(questions.texts):
            known = [places[word] for word in set(_words(text)) if word in places]
            found[row, known] = self.rarity[known]
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(lengths > 0, lengths, 1)
        return np.hstack([found, questions.vectors, np.ones((len(found), 1), np.float32)])

    def membership(self, candidates: Candidates) -> Vectors:
        """Which parts each candidate has, shape [c, parts]; parts that were not trained are left out."""
        places = {part: place for place, part in enumerate(self.parts)}
        found = np.zeros((len(candidates.parts), len(places)), np.float32)
        for row, parts in enumerate(candidates.parts):
            found[row, [places[part] for part in parts if part in places]] = 1.0
        return found


def log_softmax(scores: Floats, possible: Mask | None = None) -> Floats:
    """Logarithms of probabilities, row by row; what is not possible has one of about -1e9."""
    kept = scores if possible is None else np.where(possible, scores, _IMPOSSIBLE)
    shifted = kept - kept.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _words(text: str) -> Iterator[str]:
    """The words of a text, its beginning, and pairs of neighbours: what a question asks for stands in few words."""
    words = ["^", *_WORD.findall(text.casefold())]
    yield from words[1:]
    yield from map(" ".join, pairwise(words))


def _vocabulary(texts: Sequence[str]) -> tuple[tuple[str, ...], Vectors]:
    """The most frequent words and pairs that two texts have at least, and the rarity of each."""
    counts = Counter(word for text in texts for word in set(_words(text)))
    kept = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    kept = kept[:MOST_WORDS]
    rarity = np.log(len(texts) / np.array([counts[word] for word in kept], np.float64)) + 1.0
    return tuple(kept), rarity.astype(np.float32)


def _descend(
    start: Scorer,
    questions: Questions,
    candidates: Candidates,
    target: Floats,
    possible: Mask | None,
    training: Training,
) -> tuple[Vectors, float]:
    """Adam (Kingma and Ba, 2015) with a rate that falls to 0."""
    features, membership = start.features(questions), start.membership(candidates)
    cosines = questions.vectors @ candidates.vectors.T
    state = _Adam([start.weights.copy(), np.array([start.scale], np.float32)])
    random = np.random.default_rng(training.seed)
    size = min(max(len(features) // _STEPS, _SMALLEST), _LARGEST)
    batches = -(-len(features) // size)
    for epoch in range(training.epochs):
        for number, rows in enumerate(np.array_split(random.permutation(len(features)), batches)):
            weights, scale = state.values
            scores = (features[rows] @ weights) @ membership.T + scale * cosines[rows]
            found = np.exp(log_softmax(scores, None if possible is None else possible[rows]))
            error = ((found - target[rows]) / len(rows)).astype(np.float32)
            gradient = features[rows].T @ (error @ membership) + training.decay * weights
            done = (epoch * batches + number) / (training.epochs * batches)
            state.step([gradient, np.array([(error * cosines[rows]).sum()], np.float32)], training.rate * (1 - done))
    return state.values[0], float(state.values[1][0])


class _Adam:
    def __init__(self, values: list[Vectors]) -> None:
        self.values = values
        self._mean = [np.zeros_like(value) for value in values]
        self._square = [np.zeros_like(value) for value in values]
        self._steps = 0

    def step(self, gradients: Sequence[Vectors], rate: float) -> None:
        self._steps += 1
        for value, mean, square, gradient in zip(self.values, self._mean, self._square, gradients, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            unbiased = np.sqrt(square / (1 - 0.999**self._steps)) + 1e-8
            value -= (rate / (1 - 0.9**self._steps)) * mean / unbiased
