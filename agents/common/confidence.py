"""From what is seen of an answer to how often such answers are right: a logistic curve, fitted where that is known.

The expected calibration error and the reliability diagram are those of Guo et al., On Calibration of Modern Neural
Networks (2017), section 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kbnav.answers.tables import Term
from kbnav.errors import DataError, UsageError
from kbnav.runs.trajectory import Attempt, Confidence, Outcome, Run, Usage, side_by_side
from kbnav.settings.model import Checks

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


GIVEN = ("answered", "best effort")


def agreed(attempts: Sequence[Attempt]) -> tuple[Attempt, int]:
    """The first of the attempts whose answer most of them give, with what all cost; and how many give it.

    An attempt that found nothing agrees with others that did not; among as many, an answer goes before none.
    """
    keys = [answer_key(one.run.outcome) for one in attempts]
    best = max(range(len(keys)), key=lambda place: (keys.count(keys[place]), keys[place] is not None, -place))
    run = _with_costs_of(attempts[best].run, [one.run for one in attempts])
    return Attempt(run, attempts[best].failure), keys.count(keys[best])


def fails(attempt: Attempt) -> bool:
    """Whether a stronger model is to be asked: no answer, an unfinished search, or anything that speaks against it."""
    outcome = attempt.run.outcome
    return attempt.failure is None and (outcome.status != "answered" or bool(outcome.doubts))


def escalated(first: Attempt, second: Attempt) -> Attempt:
    """The stronger model's attempt, or the first where that has an answer and the other none; with what both cost."""
    better = second.run.outcome.status in GIVEN or first.run.outcome.status not in GIVEN
    chosen = second if better else first
    why = " ".join(doubt.text for doubt in first.run.outcome.doubts) or "It did not finish with an answer."
    note = f"{first.run.model} was asked first, and then {second.run.model}: {why}"
    run = _with_costs_of(chosen.run, [first.run, second.run])
    return Attempt(replace(run, outcome=run.outcome.noted(note)), chosen.failure)


def _with_costs_of(run: Run, runs: Sequence[Run]) -> Run:
    """A run with what several took together; dollars of those whose price is known."""
    costs = [one.cost for one in runs if one.cost is not None]
    return replace(
        run,
        usage=sum((one.usage for one in runs), Usage()),
        replayed=side_by_side(one.replayed for one in runs),
        cost=sum(costs) if costs else None,
        requests=_added(runs),
        seconds=round(sum(one.seconds for one in runs), 3),
    )


def answer_key(outcome: Outcome) -> Hashable:
    """The same for two answers that say the same: what the first column has, in any order; None for no answer."""
    if outcome.status not in GIVEN:
        return None
    if outcome.ranking is not None:
        return frozenset(node.id for node in outcome.ranking.chosen)
    if outcome.table is None:
        return None
    if outcome.table.boolean is not None:
        return outcome.table.boolean
    return frozenset(_plain(row[0]) for row in outcome.table.rows if row)


def seen_of(run: Run, agreement: float = 1.0) -> Seen:
    """What a calibration reads of a run."""
    return Seen(len(run.outcome.doubts), run.outcome.status == "answered", len(run.steps), agreement)


def weighed(attempt: Attempt, checks: Checks, agreeing: int = 1, samples: int = 1) -> Attempt:
    """The attempt with its confidence, where that is wanted; its answer is withheld where it is not sure enough."""
    run = attempt.run
    wanted = samples > 1 or checks.min_confidence > 0 or checks.calibration is not None
    if not wanted or run.outcome.status not in GIVEN:
        return attempt
    known = read_calibration(checks.calibration)
    value = known.confidence(seen_of(run, agreeing / samples))
    confidence = Confidence(round(value, 3), agreeing, samples, f"{known.count} answers of {known.source}")
    outcome = replace(run.outcome, confidence=confidence)
    if value < checks.min_confidence:
        outcome = _withheld(outcome, checks.min_confidence)
    return attempt._replace(run=replace(run, outcome=outcome))


def _withheld(outcome: Outcome, wanted: float) -> Outcome:
    """No answer, with what was required and what stood against it; the query stays, so that a reader can run it."""
    value = outcome.confidence.value if outcome.confidence else 0.0
    said = [f"An answer was found and is withheld: its confidence is {value:.2f}, and {wanted:g} is required."]
    said += ["The search did not finish."] if outcome.status != "answered" else []
    said += [doubt.text for doubt in outcome.doubts]
    kept = replace(outcome, status="no answer", text="", table=None, ranking=None, doubts=())
    return kept.noted(" ".join(said))


def _added(runs: Sequence[Run]) -> dict[str, int]:
    names = dict.fromkeys(name for run in runs for name in run.requests)
    return {name: sum(run.requests.get(name, 0) for run in runs) for name in names}


def _plain(cell: Term | None) -> object:
    return cell.plain() if cell is not None else None
