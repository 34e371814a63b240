"""Whether a program is better than the best so far: a race over growing parts of the validation queries.

A program that is no better on a first part is not run on a second; one that is better on all is accepted where a paired
test says that this is no chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kbnav.errors import UsageError
from kbnav.programs.trials import TrainingQuery, Trial
from kbnav.statistics import paired_test

STAGES = (25, 50, 100)
"""Validation queries of each heat."""
SIGNIFICANCE = 0.1
"""The two-sided p-value that a better program needs."""
METRIC = "mrr"


@dataclass(frozen=True)
class Heat:
    """One part of a race: means of the new program and of the best so far over as many queries, and the paired test."""

    queries: int
    mean: float
    best: float
    p: float


@dataclass(frozen=True)
class Race:
    """How a race ended. ``trials`` are all that were run, in the order of the queries."""

    accepted: bool
    heats: tuple[Heat, ...]
    trials: tuple[Trial, ...]
    whole: bool
    """Whether it was run on every query."""


def race(
    run: Callable[[Sequence[TrainingQuery]], Sequence[Trial]],
    queries: Sequence[TrainingQuery],
    best: Mapping[str, float],
    *,
    stages: Sequence[int] = STAGES,
    significance: float = SIGNIFICANCE,
) -> Race:
    """Race a program against ``best``, the MRR of the best so far by query id.

    ``queries`` beyond the last stage are left out. Accepted is what is better on the last heat with
    ``p <= significance``. Raises UsageError without queries.
    """
    if not queries:
        raise UsageError("there are no validation queries to race on")
    whole = queries[: stages[-1]]
    heats: list[Heat] = []
    trials: list[Trial] = []
    for upto in sorted({min(stage, len(whole)) for stage in stages}):
        trials += run(whole[len(trials) : upto])
        new, old = [one.metrics[METRIC] for one in trials], [best[query.id] for query in whole[:upto]]
        p = paired_test(old, new).p
        heats.append(Heat(upto, round(fmean(new), 6), round(fmean(old), 6), round(p, 6)))
        if fmean(new) <= fmean(old):
            return Race(False, tuple(heats), tuple(trials), upto == len(whole))
    return Race(heats[-1].p <= significance, tuple(heats), tuple(trials), True)
