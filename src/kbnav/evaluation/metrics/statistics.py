"""How sure a score is: confidence intervals, a paired test, and the smallest difference a set can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from kbnav.errors import UsageError
from kbnav.settings.plugins import needs

_BLOCK = 5_000_000  # numbers drawn at a time, to bound memory
_RESAMPLES, _SEED = 10_000, 0
ALPHA, POWER = 0.05, 0.8
"""The significance and the power by which a difference counts as one that a set can show."""


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


class Spread(NamedTuple):
    """A mean and the standard deviation, n - 1 in the denominator; None of fewer than two values."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of some values, one at least."""
        found = list(values)
        return cls(fmean(found), stdev(found) if len(found) > 1 else None)

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """As ``1.25 ± 0.10``."""
        mean = f"{scale * self.mean:.{digits}f}"
        return mean if self.deviation is None else f"{mean} ± {scale * self.deviation:.{digits}f}"


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """95 % bootstrap interval of the mean of scores, [q], as ``scipy.stats.bootstrap``'s. Raises UsageError."""
    scores = np.asarray(values, dtype=float)
    if not len(scores):
        raise UsageError("no scores to take the mean of")
    random = np.random.default_rng(_SEED)
    means = [scores[random.integers(0, len(scores), (size, len(scores)))].mean(axis=1) for size in _blocks(len(scores))]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Interval(float(scores.mean()), float(low), float(high))


@dataclass(frozen=True)
class PairedTest:
    """The mean difference of two runs over the same questions, b - a, its interval, and the two-sided p-value."""

    difference: Interval
    p: float


def paired_test(a: Sequence[float], b: Sequence[float]) -> PairedTest:
    """Randomisation test of two runs' scores, [q] each in the same order of questions.

    Under the null hypothesis the two scores of a question may be exchanged: the p-value is the share of exchanges at
    random, the observed one counted in, whose mean differs from 0 by at least as much. With few enough questions that
    differ, all exchanges are tried instead. Raises UsageError.
    """
    if len(a) != len(b):
        raise UsageError(f"the runs have {len(a)} and {len(b)} questions; compare them over the same ones")
    differences = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
    interval = bootstrap_interval(differences.tolist())
    moving = differences[differences != 0]
    # A hair less than the observed sum, because the same terms may be added in another order.
    observed = abs(moving.sum()) - 1e-9 * np.abs(moving).sum()
    if 2 ** len(moving) <= _RESAMPLES:
        masks = np.arange(2 ** len(moving))[:, None] >> np.arange(len(moving)) & 1
        return PairedTest(interval, float(np.mean(np.abs((1 - 2 * masks) @ moving) >= observed)))
    # Of equal differences it matters only how many are exchanged.
    random, (sizes, counts) = np.random.default_rng(_SEED), np.unique(np.abs(moving), return_counts=True)
    as_far = 0
    for size in _blocks(len(counts)):
        exchanged = (counts - 2 * random.binomial(counts, 0.5, (size, len(counts)))) @ sizes
        as_far += int(np.count_nonzero(np.abs(exchanged) >= observed))
    return PairedTest(interval, (as_far + 1) / (_RESAMPLES + 1))


def holm(values: Sequence[float]) -> list[float]:
    """The p-values of several tests, in their order, adjusted by Holm's step-down method (1979)."""
    order = np.argsort(values)
    steps = np.asarray(values)[order] * np.arange(len(values), 0, -1)
    adjusted = np.minimum(1, np.maximum.accumulate(steps))
    found: list[float] = adjusted[np.argsort(order)].tolist()
    return found


def _blocks(width: int) -> Iterator[int]:
    largest = max(1, _BLOCK // max(1, width))
    for start in range(0, _RESAMPLES, largest):
        yield min(largest, _RESAMPLES - start)


def mcnemar_power(effect: float, disagreement: float, questions: int) -> float:
    """Probability that McNemar's exact two-sided test finds a true difference of ``effect`` in accuracy or EM.

    ``disagreement`` is the share of questions that exactly one of the two systems gets right; it is at least the
    effect. Summed over all numbers of disagreements and of wins among them. Raises UsageError.
    """
    with needs("eval", "the power of a test"):
        from scipy.stats import binom
    if not 0 <= effect <= disagreement <= 1 or questions < 1:
        raise UsageError("need 0 <= effect <= disagreement <= 1 and at least one question")
    if not disagreement:
        return 0.0
    better = (disagreement + effect) / (2 * disagreement)
    differing = binom.pmf(np.arange(questions + 1), questions, disagreement)
    counts = np.flatnonzero(differing > 1e-15)
    most = binom.ppf(ALPHA / 2, counts, 0.5)
    most -= 2 * binom.cdf(most, counts, 0.5) > ALPHA  # so many wins of one side, or fewer, are significant
    significant = binom.cdf(most, counts, better) + binom.sf(counts - most - 1, counts, better)
    return float(differing[counts] @ significant)


def minimum_detectable_effect(questions: int, disagreement: float) -> float | None:
    """The smallest difference in accuracy or EM that is found with ``POWER`` (SPINACH, appendix C.2).

    To a thousandth of a point; None where even the largest possible difference, ``disagreement``, is not found.
    """
    with needs("eval", "the smallest difference"):
        from scipy.optimize import bisect

    def lacking(effect: float) -> float:
        return POWER - mcnemar_power(effect, disagreement, questions)

    if lacking(disagreement) > 0:
        return None
    near = 5e-6
    return min(disagreement, float(bisect(lacking, 0.0, disagreement, xtol=near)) + near)
