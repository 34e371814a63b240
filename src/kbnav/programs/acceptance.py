"""Whether a program is better than the best so far: a race over growing parts of the validation queries.

A program that is worse on a part is not run on a larger one. What is better, or the same, on all of them is accepted on
one of three grounds (``Ground``), which the step keeps, so that a reader sees by how little a program was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean
from typing import Literal

from kbnav.errors import UsageError
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.programs.trials import TrainingQuery, Trial

STAGES = (25, 50, 100)
"""Validation queries of each heat; behind them comes one over all."""
SIGNIFICANCE = 0.1
"""The two-sided p-value that a better program needs."""
CEILING = 0.9
"""The MRR from which the best so far is near the ceiling."""
RULE = 2
"""Goes up where steps would be accepted otherwise: a training is gone on with by the rule that it began with."""
METRIC = "mrr"
_DIGITS = 6
"""As scores are kept in the journal: a score that was written and read again is the same."""
_SAME = 1e-9

Ground = Literal["test", "no loss", "batch"]
"""Why a program was accepted.

test: its mean is higher, and the paired test gives the significance asked for. no loss: the best so far is near the
ceiling, so few queries are left that no program could win the test, and this one is better on some and worse on none.
batch: every validation query has the same score, and on the step's training batch some are better and none is worse;
the validation numbers stay as they were, so this makes them look no better, however often it is done.
"""


@dataclass(frozen=True)
class Heat:
    """One part of a race: means of the new program and of the best so far over as many queries, and the paired test."""

    queries: int
    mean: float
    best: float
    p: float
    won: int = 0
    """Queries on which the new program is better."""
    lost: int = 0
    failed: int = 0
    """Queries on which it ended with an error, and has the first stage's score."""


@dataclass(frozen=True)
class Race:
    """How a race ended. ``trials`` are all that were run, in the order of the queries; ``scores`` their MRR."""

    ground: Ground | None
    """None: it was not accepted."""
    heats: tuple[Heat, ...]
    trials: tuple[Trial, ...]
    whole: bool
    """Whether it was run on every query."""

    @property
    def scores(self) -> tuple[float, ...]:
        """MRR of each trial, as it is kept and compared."""
        return scores_of(self.trials)


def race(
    run: Callable[[Sequence[TrainingQuery]], Sequence[Trial]],
    queries: Sequence[TrainingQuery],
    best: Mapping[str, float],
    *,
    stages: Sequence[int] = STAGES,
    significance: float = SIGNIFICANCE,
    batch: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Race:
    """Race a program against ``best``, the MRR of the best so far by query id; the last heat is over all queries.

    ``batch`` has the MRR of the best so far and of the new program on the same training queries, by which a tie is
    broken; None: a tie is not. Raises UsageError without queries.
    """
    if not queries:
        raise UsageError("there are no validation queries to race on")
    old = [round(best[query.id], _DIGITS) for query in queries]
    heats: list[Heat] = []
    trials: list[Trial] = []
    for upto in [*(stage for stage in stages if stage < len(queries)), len(queries)]:
        trials += run(queries[len(trials) : upto])
        heats.append(_heat(old[:upto], trials))
        if _gain(old[:upto], scores_of(trials)) < -_SAME:
            return Race(None, tuple(heats), tuple(trials), upto == len(queries))
    ground = _ground(old, scores_of(trials), heats[-1].p, significance, batch)
    return Race(ground, tuple(heats), tuple(trials), True)


def scores_of(trials: Sequence[Trial]) -> tuple[float, ...]:
    """MRR of each, as it is kept and compared."""
    return tuple(round(one.metrics[METRIC], _DIGITS) for one in trials)


def _heat(old: Sequence[float], trials: Sequence[Trial]) -> Heat:
    new = scores_of(trials)
    won, lost = _won_lost(old, new)
    failed = sum(bool(one.error) for one in trials)
    p = paired_test(old, new).p
    return Heat(len(new), round(fmean(new), _DIGITS), round(fmean(old), _DIGITS), round(p, _DIGITS), won, lost, failed)


def _ground(
    old: Sequence[float],
    new: Sequence[float],
    p: float,
    significance: float,
    batch: tuple[Sequence[float], Sequence[float]] | None,
) -> Ground | None:
    """Why a program is accepted that is not worse over all queries."""
    won, lost = _won_lost(old, new)
    if _gain(old, new) > _SAME:
        if p <= significance:
            return "test"
        return "no loss" if not lost and _near_ceiling(old, significance) else None
    if won or lost or batch is None:
        return None
    won, lost = _won_lost(*batch)
    return "batch" if won and not lost else None


def _near_ceiling(old: Sequence[float], significance: float) -> bool:
    """Whether so few queries can be better that the test cannot be won: of ``n`` gains without a loss p is 2 / 2**n."""
    left = sum(score < 1 for score in old)
    return fmean(old) >= CEILING and 2 / 2**left > significance


def _gain(old: Sequence[float], new: Sequence[float]) -> float:
    return fsum(new) - fsum(old)


def _won_lost(old: Sequence[float], new: Sequence[float]) -> tuple[int, int]:
    """On how many queries the new scores are higher, and on how many lower."""
    pairs = list(zip(old, new, strict=True))
    return sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
