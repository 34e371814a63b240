"""Races: a program no better on a first part runs no further, and being better by chance is not enough."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kbnav.errors import UsageError
from kbnav.programs.acceptance import race
from kbnav.programs.trials import TrainingQuery, Trial

QUERIES = [TrainingQuery(str(number), f"q{number}", ("a",)) for number in range(120)]


def scored(scores: Sequence[float], seen: list[int] | None = None):  # type: ignore[no-untyped-def]
    def run(queries: Sequence[TrainingQuery]) -> list[Trial]:
        if seen is not None:
            seen.append(len(queries))
        return [Trial(one, (), {}, {"mrr": scores[int(one.id)]}) for one in queries]

    return run


def flat(score: float) -> dict[str, float]:
    return {one.id: score for one in QUERIES}


def test_a_better_program_runs_25_50_and_100_queries_each_once():
    seen: list[int] = []
    found = race(scored([0.6] * 120, seen), QUERIES, flat(0.5))
    assert found.accepted
    assert found.whole
    assert seen == [25, 25, 50]
    assert [heat.queries for heat in found.heats] == [25, 50, 100]
    assert found.heats[-1].mean == 0.6
    assert found.heats[-1].best == 0.5


@pytest.mark.parametrize("score", [0.5, 0.4])
def test_no_better_or_worse_on_the_first_heat_ends_the_race(score: float):
    seen: list[int] = []
    found = race(scored([score] * 120, seen), QUERIES, flat(0.5))
    assert (found.accepted, found.whole, seen) == (False, False, [25])


def test_better_on_the_first_heat_and_worse_on_the_second_is_not_accepted():
    found = race(scored([0.6] * 25 + [0.0] * 95), QUERIES, flat(0.5))
    assert (found.accepted, [heat.queries for heat in found.heats]) == (False, [25, 50])


def test_what_is_worse_on_the_last_heat_alone_was_still_run_on_all():
    found = race(scored([0.6] * 50 + [0.0] * 70), QUERIES, flat(0.5))
    assert (found.accepted, found.whole, len(found.trials)) == (False, True, 100)


def test_a_gain_that_may_be_chance_is_not_accepted():
    """One query in a hundred is better: of the two exchanges both are as far from 0, so that p is 1."""
    found = race(scored([1.0] + [0.5] * 119), QUERIES, flat(0.5))
    assert found.whole
    assert not found.accepted
    assert found.heats[-1].p == 1.0


def test_the_significance_asked_for_decides():
    scores = [1.0] * 4 + [0.5] * 116  # four better ones: p = 2 / 2**4
    assert race(scored(scores), QUERIES, flat(0.5), significance=0.125).accepted
    assert not race(scored(scores), QUERIES, flat(0.5), significance=0.12).accepted


def test_with_fewer_queries_than_a_stage_all_are_the_last_heat():
    found = race(scored([0.6] * 120), QUERIES[:30], flat(0.5))
    assert [heat.queries for heat in found.heats] == [25, 30]
    assert found.whole
    with pytest.raises(UsageError, match="no validation queries"):
        race(scored([]), [], {})
