"""The planner ``ranker``: scores every path that the schema allows against the question, on a CPU in milliseconds.

Which paths are possible depends on the matched nodes: one that begins at a type of which no node was matched is not.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbnav.encoders import Encoder, Vectors
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.names import Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import Hop, Plan, PlannedPath
from kbnav.planning.saved import describe, fits, read_description, write_description
from kbnav.planning.schema import TEXT_PATH, PathSchema, RelationPath
from kbnav.planning.scorer import Candidates, Mask, Questions, Scorer, Training, log_softmax

if TYPE_CHECKING:
    from kbnav.planning.training import Example
    from kbnav.runs.trace import Trace

WEIGHTS = "planner.npz"
MOST_PLANNED, LEAST_PROBABLE = 10, 0.005
"""Paths of a plan at most, and the probability below which a path is no part of it."""
LONGEST = 2
"""Hops of the paths that are ranked."""
UNTRAINED = "The planner ranker was not trained: it goes by the words of the schema alone."
"""A note of its plans then."""


class Ranker:
    """The planner. ``Ranker.untrained`` knows the schema's words alone; ``Ranker.train`` has learned from questions."""

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
    def untrained(cls, skb: SKB, encoder: Encoder) -> Ranker:
        """Ranks by how near the words of a path are to those of the question; its plans say that it is untrained."""
        paths = PathSchema.of(skb).paths(LONGEST)
        return cls(skb, encoder, Scorer.untrained(encoder.encode([skb.meta.name]).shape[1]), paths, [UNTRAINED])

    @classmethod
    def train(cls, skb: SKB, encoder: Encoder, examples: Sequence[Example], training: Training | None = None) -> Ranker:
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
        new._scorer = Scorer.fit(asked, new._candidates, target, possible, training)
        return new

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """The most probable paths; only ``text`` where no node was matched."""
        starts = {self._skb.type_name(self._skb.number(node)) for node in nodes}
        possible = self._possible(starts)
        asked = Questions([question], self._encoder.encode([question]))
        logs = log_softmax(self._scorer.scores(asked, self._candidates)[0], possible)
        best = np.argsort(-logs, kind="stable")[:MOST_PLANNED]
        probable = [(self._paths[place], float(np.exp(logs[place]))) for place in best if possible[place]]
        return Plan(
            tuple(
                PlannedPath(path.hops, share, path.start, path.types)
                for path, share in probable
                if share >= LEAST_PROBABLE
            ),
            self._notes,
        )

    def _possible(self, starts: Iterable[str]) -> Mask:
        return np.isin(self._starts, [TEXT_PATH.start, *starts])

    def save(self, folder: Path, matching: Variant = "hybrid") -> None:
        """Write ``planner.npz`` and ``planner.json``, which has its checksum, the schema's and the encoder's name.

        ``matching`` is how the nodes of the questions were found that it learned from.
        """
        folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, weights=self._scorer.weights, rarity=self._scorer.rarity)
        (folder / WEIGHTS).write_bytes(buffer.getvalue())
        description = describe(
            self.name,
            self._skb,
            matching,
            encoder=self._encoder.name,
            sha256=hashlib.sha256(buffer.getvalue()).hexdigest(),
            scale=self._scorer.scale,
            words=self._scorer.words,
            parts=self._scorer.parts,
            paths=[[path.hops, path.types] for path in self._paths],
        )
        write_description(folder, description)

    @classmethod
    def load(cls, folder: Path, skb: SKB, encoder: Encoder, notes: Sequence[str] = ()) -> Ranker:
        """Read what ``save`` wrote; ``notes`` are those of every plan.

        Raises UsageError where it is none or was trained for another schema or encoder, DataError where it is damaged.
        """
        found = read_description(folder, cls.name)
        fits(folder, found, skb, encoder)
        try:
            data = (folder / WEIGHTS).read_bytes()
            if hashlib.sha256(data).hexdigest() != found["sha256"]:
                raise DataError(f"{folder / WEIGHTS}: its checksum does not match; the file was changed or damaged")
            arrays = np.load(io.BytesIO(data), allow_pickle=False)
            scorer = Scorer(
                tuple(found["words"]), arrays["rarity"], tuple(found["parts"]), arrays["weights"], float(found["scale"])
            )
            paths = [RelationPath(tuple(Hop(*hop) for hop in hops), tuple(types)) for hops, types in found["paths"]]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{folder}: not a planner: {error!r}") from error
        return cls(skb, encoder, scorer, paths, notes)


def path_parts(path: RelationPath) -> frozenset[str]:
    """What a path shares with others, by name: hops with their types, relations, first and last type, length."""
    if not path.hops:
        return frozenset({"text"})
    steps = [f"{a} {hop} {b}" for a, hop, b in zip(path.types, path.hops, path.types[1:], strict=False)]
    whole = ["path " + " / ".join(steps), f"start {path.types[0]}", f"end {path.types[-1]}", f"length {len(path.hops)}"]
    return frozenset([*whole, *(f"step {step}" for step in steps), *(f"relation {hop}" for hop in path.hops)])


def path_vectors(paths: Sequence[RelationPath], encoder: Encoder) -> Vectors:
    """The mean of a path's hops, each encoded as words, shape [paths, d]; zeros for ``text``.

    It is shorter than 1 where hops differ, so that a hop too many lowers the cosine.
    """
    words = {step: _step_words(*step) for path in paths for step in _steps(path)}
    vectors = dict(zip(words, encoder.encode(list(words.values())), strict=True)) if words else {}
    width = next(iter(vectors.values())).shape[0] if vectors else encoder.encode(["text"]).shape[1]
    found = np.zeros((len(paths), width), np.float32)
    for row, path in enumerate(paths):
        for step in _steps(path):
            found[row] += vectors[step] / len(path.hops)
    return found


def _steps(path: RelationPath) -> list[tuple[str, Hop, str]]:
    return list(zip(path.types, path.hops, path.types[1:], strict=False))


def _step_words(source: str, hop: Hop, target: str) -> str:
    ends = (source, target) if hop.way == "out" else (target, source)
    return f"{ends[0]} {hop.relation} {ends[1]}".replace("_", " ")
