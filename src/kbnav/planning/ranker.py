"""The planner ``ranker``: scores every path that the schema allows against the question, on a CPU in milliseconds.

Which paths are possible depends on the matched nodes: one that begins at a type of which no node was matched is not.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors
from kbnav.encoders.trained import MODEL, Card, check_files, check_schema, digests, read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.matching import Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import TEXT_PATH, Hop, PathSchema, Plan, PlannedPath, RelationPath
from kbnav.planning.training import Example
from kbnav.runs.trajectory import Trace

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]

MOST_WORDS = 4_096
EPOCHS, _RATE, _DECAY = 15, 5e-3, 1e-4
"""How long and how fast weights are learned, and how strongly they are pulled to 0."""
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
        seed: int = 0,
        epochs: int = EPOCHS,
    ) -> Scorer:
        """Learn from the distribution over candidates that each question should have, at a rate that falls to 0.

        Args:
            questions: n of them.
            candidates: c of them.
            target: Shape [n, c]; rows sum to 1 (PASemiQA, equation 3).
            possible: Shape [n, c]; where False, the candidate is left out of the question's softmax. None: all are.
            seed: Of the order in which they are learned from.
            epochs: How often.
        """
        words, rarity = _vocabulary(questions.texts)
        # A part that no right path has could only learn to be wrong.
        right = np.flatnonzero(target.sum(axis=0)).tolist()
        parts = tuple(sorted(frozenset().union(*(candidates.parts[place] for place in right))))
        shape = len(words) + questions.vectors.shape[1] + 1, len(parts)
        start = cls(words, rarity, parts, np.zeros(shape, np.float32))
        features, membership = start.features(questions), start.membership(candidates)
        cosines = questions.vectors @ candidates.vectors.T
        state = _Adam([start.weights.copy(), np.array([start.scale], np.float32)])
        random = np.random.default_rng(seed)
        size = min(max(len(features) // _STEPS, _SMALLEST), _LARGEST)
        batches = -(-len(features) // size)
        for epoch in range(epochs):
            for number, rows in enumerate(np.array_split(random.permutation(len(features)), batches)):
                weights, scale = state.values
                scores = (features[rows] @ weights) @ membership.T + scale * cosines[rows]
                found = np.exp(log_softmax(scores, None if possible is None else possible[rows]))
                error = ((found - target[rows]) / len(rows)).astype(np.float32)
                gradient = features[rows].T @ (error @ membership) + _DECAY * weights
                done = (epoch * batches + number) / (epochs * batches)
                state.step([gradient, np.array([(error * cosines[rows]).sum()], np.float32)], _RATE * (1 - done))
        return replace(start, weights=state.values[0], scale=float(state.values[1][0]))

    def scores(self, questions: Questions, candidates: Candidates) -> Floats:
        """Shape [n, c], unbounded; ``log_softmax`` makes logarithms of probabilities of a row."""
        learned = (self.features(questions) @ self.weights) @ self.membership(candidates).T
        return np.asarray(learned + self.scale * (questions.vectors @ candidates.vectors.T))

    def features(self, questions: Questions) -> Vectors:
        """The questions' vectors x, shape [n, words + d + 1]."""
        places = {word: place for place, word in enumerate(self.words)}
        found = np.zeros((len(questions.texts), len(places)), np.float32)
        for row, text in enumerate(questions.texts):
            known = [places[word] for word in set(_word_features(text)) if word in places]
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


def _word_features(text: str) -> Iterator[str]:
    """The words of a text, its beginning, and pairs of neighbours: what a question asks for stands in few words."""
    words = ["^", *_WORD.findall(text.casefold())]
    yield from words[1:]
    yield from map(" ".join, pairwise(words))


def _vocabulary(texts: Sequence[str]) -> tuple[tuple[str, ...], Vectors]:
    """The most frequent words and pairs that two texts have at least, and the rarity of each."""
    counts = Counter(word for text in texts for word in set(_word_features(text)))
    kept = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    kept = kept[:MOST_WORDS]
    rarity = np.log(len(texts) / np.array([counts[word] for word in kept], np.float64)) + 1.0
    return tuple(kept), rarity.astype(np.float32)


class _Adam:
    """Kingma and Ba (2015)."""

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


WEIGHTS = "ranker.npz"
MOST_PLANNED, LEAST_PROBABLE = 10, 0.005
"""Paths of a plan at most, and the probability below which a path is no part of it."""
LONGEST = 2
"""Hops of the paths that are ranked."""


class Ranker:
    """The planner. Use ``train`` or ``load``."""

    name = "ranker"

    def __init__(
        self, skb: SKB, encoder: Encoder, scorer: Scorer, paths: Sequence[RelationPath], notes: Sequence[str] = ()
    ) -> None:
        """``paths`` are those that are ranked; ``text`` is among them. ``notes`` are those of every plan."""
        self._skb, self._encoder, self._scorer, self._notes = skb, encoder, scorer, tuple(notes)
        self._paths = tuple(paths)
        self._starts = np.array([path.start for path in self._paths])
        self._candidates = Candidates([path_parts(path) for path in self._paths], path_vectors(self._paths, encoder))

    @classmethod
    def train(
        cls, skb: SKB, encoder: Encoder, examples: Sequence[Example], seed: int = 0, epochs: int = EPOCHS
    ) -> Ranker:
        """Learn the distributions of the examples (PASemiQA, equations 3 to 5). Raises UsageError without examples."""
        if not examples:
            raise UsageError("no questions to train the planner on")
        seen = {path for example in examples for path in example.label}
        paths = list(dict.fromkeys([*PathSchema.of(skb).paths(LONGEST), *sorted(seen)]))
        places = {path: place for place, path in enumerate(paths)}
        target = np.zeros((len(examples), len(paths)), np.float32)
        for row, example in enumerate(examples):
            for path, share in example.label.items():
                target[row, places[path]] = share
        new = cls(skb, encoder, Scorer.untrained(1), paths)
        possible = np.array([new._possible(example.starts) for example in examples]) | (target > 0)
        texts = [example.question for example in examples]
        asked = Questions(texts, encoder.encode(texts))
        new._scorer = Scorer.fit(asked, new._candidates, target, possible, seed, epochs)
        return new

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """The most probable paths; only ``text`` where no node was matched."""
        starts = {self._skb.type(self._skb.number(node)) for node in nodes}
        possible = self._possible(starts)
        asked = Questions([question], self._encoder.encode([question]))
        logs = log_softmax(self._scorer.scores(asked, self._candidates)[0], possible)
        best = np.argsort(-logs, kind="stable")[:MOST_PLANNED]
        probable = [(self._paths[place], float(np.exp(logs[place]))) for place in best if possible[place]]
        kept = (PlannedPath(path, share) for path, share in probable if share >= LEAST_PROBABLE)
        return Plan(tuple(kept), self._notes)

    def _possible(self, starts: Iterable[str]) -> Mask:
        return np.isin(self._starts, [TEXT_PATH.start, *starts])

    def save(self, folder: Path, matching: Variant = "hybrid") -> None:
        """Write the weights, and the card with what they are bound to and how nodes were matched."""
        scorer, meta = self._scorer, self._skb.meta
        (folder / MODEL).mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            folder / MODEL / WEIGHTS,
            weights=scorer.weights,
            rarity=scorer.rarity,
            scale=scorer.scale,
            words=np.array(scorer.words, str),
            parts=np.array(scorer.parts, str),
            paths=json.dumps([[path.hops, path.types] for path in self._paths]),
        )
        Card(
            kind="ranker",
            skb=meta.name,
            schema_sha256=meta.schema_sha256,
            base=self._encoder.name,
            settings={"matching": matching},
            files=digests(folder / MODEL),
        ).write(folder)

    @classmethod
    def load(cls, folder: Path, skb: SKB, encoder: Encoder, notes: Sequence[str] = ()) -> Ranker:
        """Read what ``save`` wrote; ``notes`` go with every plan. Raises UsageError for another SKB's, DataError."""
        card = read_card(folder, "ranker")
        check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
        if card.base != encoder.name:
            raise UsageError(f"{folder}: trained with the encoder {card.base}; {skb.meta.name} has {encoder.name}")
        check_files(folder / MODEL, card.files)
        with np.load(folder / MODEL / WEIGHTS, allow_pickle=False) as found:
            words, parts = (tuple(found[name].tolist()) for name in ("words", "parts"))
            scorer = Scorer(words, found["rarity"], parts, found["weights"], float(found["scale"]))
            paths = json.loads(str(found["paths"]))
        known = [RelationPath(tuple(Hop(*hop) for hop in hops), tuple(types)) for hops, types in paths]
        return cls(skb, encoder, scorer, known, notes)


def path_parts(path: RelationPath) -> frozenset[str]:
    """What a path shares with others, by name: hops with their types, relations, first and last type, length."""
    if not path.hops:
        return frozenset({"text"})
    steps = [" ".join(map(str, step)) for step in _steps(path)]
    whole = ["path " + " / ".join(steps), f"start {path.types[0]}", f"end {path.types[-1]}", f"length {len(path.hops)}"]
    return frozenset([*whole, *(f"step {step}" for step in steps), *(f"relation {hop}" for hop in path.hops)])


def path_vectors(paths: Sequence[RelationPath], encoder: Encoder) -> Vectors:
    """The mean of a path's encoded hops, [paths, d], shorter than 1 where they differ; zeros for ``text``."""
    words = {
        (source, hop, target): " ".join(
            (source, hop.relation, target) if hop.way == "out" else (target, hop.relation, source)
        ).replace("_", " ")
        for path in paths
        for source, hop, target in _steps(path)
    }
    vectors = dict(zip(words, encoder.encode(list(words.values())), strict=True)) if words else {}
    width = next(iter(vectors.values())).shape[0] if vectors else encoder.encode(["text"]).shape[1]
    found = np.zeros((len(paths), width), np.float32)
    for row, path in enumerate(paths):
        for step in _steps(path):
            found[row] += vectors[step] / len(path.hops)
    return found


def _steps(path: RelationPath) -> list[tuple[str, Hop, str]]:
    return list(zip(path.types, path.hops, path.types[1:], strict=False))
