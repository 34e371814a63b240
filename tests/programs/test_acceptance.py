"""A program in validation: chance is not enough; near the ceiling a gain without a loss is.

The p-values are worked out by hand: of n queries that differ, all better by the same, two of the 2**n exchanges are as
far from 0 as what was seen, so that p is 2 / 2**n.
"""

from collections.abc import Sequence

import pytest

from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.steps import Comparison, Trial, compare


def compared(new: Sequence[float], best: Sequence[float], failed: int = 0) -> Comparison:
    trials = [
        Trial(TrainingQuery(str(place), "q", ("a",)), (), {}, {"mrr": score}, "line 1: no" if place < failed else "")
        for place, score in enumerate(new)
    ]
    return compare(trials, best)


@pytest.mark.parametrize(
    ("new", "best", "accepted"),
    [
        ([0.6] * 120, [0.5] * 120, True),
        ([0.5] * 120, [0.5] * 120, False),
        ([0.6] * 60 + [0.0] * 60, [0.5] * 120, False),
        ([1.0] + [0.5] * 119, [0.5] * 120, False),  # one better: p is 1
        ([1.0] * 5 + [0.5] * 115, [0.5] * 120, True),  # p is 2 / 2**5, below 0.1
        ([1.0] * 4 + [0.5] * 116, [0.5] * 120, False),  # p is 2 / 2**4, above it
        ([1.0, 0.5] + [1.0] * 8, [0.5, 0.5] + [1.0] * 8, True),  # the mean before is 0.9, the ceiling
        ([1.0] * 10, [0.5, 0.49] + [1.0] * 8, False),  # and here a hair less
        ([1.0, 1.0, 0.9] + [1.0] * 17, [0.5, 0.5] + [1.0] * 18, False),  # one is lost
        ([1 / 3] * 120, [0.333333] * 120, False),  # as a journal keeps it: no query is better by a hair
    ],
)
def test_a_program_is_accepted_for_a_gain_that_is_not_chance(new, best, accepted):
    assert compared(new, best).accepted is accepted


def test_what_a_comparison_counts():
    found = compared([0.6, 0.4, 0.5, 0.6], [0.5] * 4, failed=2)
    assert (found.mean, found.best, found.won, found.lost, found.failed) == (0.525, 0.5, 2, 1, 2)
