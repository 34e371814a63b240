"""From what is seen of an answer to how often such answers are right: a logistic curve, fitted where that is known.

The expected calibration error and the reliability diagram are those of Guo et al., On Calibration of Modern Neural
Networks (2017), section 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from kbnav.errors import DataError, UsageError

BINS = 10
FOLDS = 5
_RIDGE = 1.0
_ROUNDS = 50


class Seen(NamedTuple):
    """What is seen of an answer: doubts, whether the run finished, its actions, the share of attempts that agree."""

    doubts: int
    finished: bool
    actions: int
    agreement: float

    @property
    def vector(self) -> tuple[float, ...]:
        """As numbers of like size, the first for the constant; more than two doubts count as two."""
        return (1.0, min(self.doubts, 2), float(not self.finished), math.log1p(self.actions), self.agreement)


class Bin(NamedTuple):
    """Answers of like confidence: bounds, how many, their mean confidence, and the share that is right."""

    low: float
    high: float
    size: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """A fitted curve: ``weights`` of ``Seen.vector``; fitted on ``count`` answers of ``source``, on the day ``made``.

    ``samples`` is how many attempts each of them had; with one, agreement says nothing of the weights.
    """

    weights: tuple[float, ...]
    source: str
    count: int
    made: str
    samples: int = 1

    def confidence(self, seen: Seen) -> float:
        """How often such answers are right; where no agreement was learnt, times the share that agrees."""
        learnt = self.samples > 1
        value = _curve(self.weights, (seen if learnt else seen._replace(agreement=1.0)).vector)
        return value if learnt else value * seen.agreement


def fit(seen: Sequence[Seen], right: Sequence[bool], source: str, made: str, samples: int = 1) -> Calibration:
    """The curve that fits best, by Newton's method with a small ridge. Raises UsageError without two kinds."""
    if len(set(right)) < 2:
        raise UsageError("a calibration needs right and wrong answers, and there are none of one kind")
    import numpy as np

    x = np.array([one.vector for one in seen])
    y = np.array(right, dtype=float)
    weights = np.zeros(x.shape[1])
    ridge = _RIDGE * np.eye(x.shape[1])
    ridge[0, 0] = 1e-6
    for _ in range(_ROUNDS):
        likely = 1 / (1 + np.exp(-(x @ weights)))
        slope = x.T @ (y - likely) - ridge @ weights
        curve = (x * (likely * (1 - likely))[:, None]).T @ x + ridge
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration(tuple(round(float(one), 6) for one in weights), source, len(seen), made, samples)


def held_out(seen: Sequence[Seen], right: Sequence[bool], samples: int = 1) -> list[float]:
    """The confidence of each answer by a curve that was fitted without it and a fifth of the others."""
    found = [0.0] * len(seen)
    for fold in range(FOLDS):
        rest = [place for place in range(len(seen)) if place % FOLDS != fold]
        curve = fit([seen[place] for place in rest], [right[place] for place in rest], "", "", samples)
        for place in range(fold, len(seen), FOLDS):
            found[place] = curve.confidence(seen[place])
    return found


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> list[Bin]:
    """Bins of equal width, those without answers left out."""
    inside: dict[int, list[tuple[float, bool]]] = {}
    for pair in zip(confidences, right, strict=True):
        inside.setdefault(min(int(pair[0] * BINS), BINS - 1), []).append(pair)
    return [
        Bin(
            number / BINS,
            (number + 1) / BINS,
            len(pairs),
            sum(one for one, _ in pairs) / len(pairs),
            sum(good for _, good in pairs) / len(pairs),
        )
        for number, pairs in sorted(inside.items())
    ]


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Expected calibration error: how far confidence and share right are apart, by bin, weighted by size."""
    bins = reliability(confidences, right)
    return sum(one.size * abs(one.confidence - one.right) for one in bins) / max(1, len(confidences))


def write_calibration(found: Calibration, path: Path) -> None:
    """As JSON. Raises UsageError where it cannot be written."""
    try:
        path.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def read_calibration(path: Path | None = None) -> Calibration:
    """What was written; none named: the one that comes with kbnav. Raises UsageError, DataError."""
    path = path or Path(__file__).with_name("published_runs.json")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Calibration(**{**told, "weights": tuple(told["weights"])})
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: not a calibration") from error


def _curve(weights: Sequence[float], vector: Sequence[float]) -> float:
    if len(weights) != len(vector):
        raise DataError(f"a calibration has {len(vector)} weights, not {len(weights)}")
    return 1 / (1 + math.exp(-sum(one * two for one, two in zip(weights, vector, strict=True))))
