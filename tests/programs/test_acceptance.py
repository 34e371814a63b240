"""Races: what is worse on a part runs no further, chance is not enough, near the ceiling a gain without a loss is.

The p-values that tests expect are worked out by hand: of n queries that differ, all better by the same, two of the 2**n
exchanges are as far from 0 as what was seen, so that p is 2 / 2**n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kbnav.errors import UsageError
from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.steps import Trial, race

QUERIES = [TrainingQuery(str(number), f"q{number}", ("a",)) for number in range(120)]


def scored(
    scores: Sequence[float], seen: list[int] | None = None, failed: Sequence[int] = ()
) -> Callable[[Sequence[TrainingQuery]], list[Trial]]:
    def run(queries: Sequence[TrainingQuery]) -> list[Trial]:
        if seen is not None:
            seen.append(len(queries))
        errors = ["line 1: no" if int(one.id) in failed else "" for one in queries]
        return [
            Trial(one, (), {}, {"mrr": scores[int(one.id)]}, error) for one, error in zip(queries, errors, strict=True)
        ]

    return run


def best(*scores: float, others: float = 1.0) -> dict[str, float]:
    """Those of the first queries, and of all others."""
    return {one.id: scores[place] if place < len(scores) else others for place, one in enumerate(QUERIES)}


def flat(score: float) -> dict[str, float]:
    return best(others=score)


def test_a_better_program_runs_25_50_100_and_at_last_all_queries_each_once():
    seen: list[int] = []
    found = race(scored([0.6] * 120, seen), QUERIES, flat(0.5))
    assert (found.ground, found.whole, seen) == ("test", True, [25, 25, 50, 20])
    assert [heat.queries for heat in found.heats] == [25, 50, 100, 120]
    assert (found.heats[-1].mean, found.heats[-1].best) == (0.6, 0.5)
    assert [(heat.won, heat.lost) for heat in found.heats] == [(25, 0), (50, 0), (100, 0), (120, 0)]


def test_worse_on_the_first_heat_ends_the_race():
    seen: list[int] = []
    found = race(scored([0.49] + [0.5] * 119, seen), QUERIES, flat(0.5))
    assert (found.ground, found.whole, seen) == (None, False, [25])
    assert (found.heats[0].won, found.heats[0].lost) == (0, 1)


def test_a_tie_goes_on_to_all_queries_where_it_may_be_won():
    """The same on 25 and on 50; of the next 70 all are better, so that p is far below 0.1."""
    seen: list[int] = []
    found = race(scored([0.5] * 50 + [1.0] * 70, seen), QUERIES, flat(0.5))
    assert (found.ground, seen) == ("test", [25, 25, 50, 20])
    assert [heat.p for heat in found.heats[:2]] == [1.0, 1.0]


def test_better_on_the_first_heat_and_worse_on_the_second_is_not_accepted():
    found = race(scored([0.6] * 25 + [0.0] * 95), QUERIES, flat(0.5))
    assert (found.ground, [heat.queries for heat in found.heats]) == (None, [25, 50])


def test_what_is_worse_on_the_last_heat_alone_was_still_run_on_all():
    found = race(scored([0.6] * 100 + [0.0] * 20), QUERIES, flat(0.55))
    assert (found.ground, found.whole, len(found.trials)) == (None, True, 120)


def test_a_gain_that_may_be_chance_is_not_accepted():
    """One query in a hundred is better: of the two exchanges both are as far from 0, so that p is 1."""
    found = race(scored([1.0] + [0.5] * 119), QUERIES, flat(0.5))
    assert (found.ground, found.whole, found.heats[-1].p) == (None, True, 1.0)


def test_the_significance_asked_for_decides():
    scores = [1.0] * 4 + [0.5] * 116  # four better ones: p = 2 / 2**4
    assert race(scored(scores), QUERIES, flat(0.5), significance=0.125).ground == "test"
    assert race(scored(scores), QUERIES, flat(0.5), significance=0.12).ground is None


def test_near_the_ceiling_where_the_test_cannot_be_won_a_gain_without_a_loss_is_accepted():
    """Four queries are left: winning all four gives p = 2 / 2**4 = 0.125, which is above 0.1."""
    before = best(0.5, 0.5, 0.5, 0.5)
    assert race(scored([1.0, 0.5, 0.5, 0.5] + [1.0] * 116), QUERIES, before).ground == "no loss"
    assert race(scored([1.0] * 120), QUERIES, before).ground == "no loss"
    lost = [1.0, 1.0, 1.0, 0.4] + [1.0] * 116
    assert race(scored(lost), QUERIES, before).ground is None
    assert race(scored([1.0, 1.0, 1.0, 0.5] + [1.0] * 115 + [0.5]), QUERIES, before).ground is None


def test_few_queries_far_from_the_ceiling_are_no_reason_to_be_lenient():
    """Four queries at 0.5: the test cannot be won, but 0.5 is no ceiling. Of 0.9 it is, of a hair less it is not."""
    assert race(scored([1.0] * 4), QUERIES[:4], flat(0.5)).ground is None
    assert race(scored([1.0] * 10), QUERIES[:10], best(0.5, 0.5)).ground == "no loss"  # the mean is 0.9
    assert race(scored([1.0] * 10), QUERIES[:10], best(0.5, 0.49)).ground is None


def test_a_score_that_was_written_and_read_again_is_the_same_score():
    """A third has six digits in the journal: as if new ones had more, 120 queries would each be better by a hair."""
    found = race(scored([1 / 3] * 120), QUERIES, flat(0.333333))
    assert (found.heats[-1].won, found.heats[-1].p, found.ground) == (0, 1.0, None)
    assert found.scores == (0.333333,) * 120


def test_queries_on_which_it_failed_are_counted():
    found = race(scored([0.6] * 120, failed=[3, 30, 31]), QUERIES, flat(0.5))
    assert [heat.failed for heat in found.heats] == [1, 3, 3, 3]


def test_with_fewer_queries_than_a_stage_all_are_the_last_heat():
    found = race(scored([0.6] * 120), QUERIES[:30], flat(0.5))
    assert [heat.queries for heat in found.heats] == [25, 30]
    assert [heat.queries for heat in race(scored([0.6] * 120), QUERIES[:25], flat(0.5)).heats] == [25]
    with pytest.raises(UsageError, match="no validation queries"):
        race(scored([]), [], {})
