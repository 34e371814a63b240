"""Intervals, the paired test and power, against exact values and the paper's figures."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kbnav.errors import UsageError
from kbnav.evaluation.metrics.statistics import (
    bootstrap_interval,
    mcnemar_power,
    minimum_detectable_effect,
    paired_test,
)


def test_the_interval_of_an_em_is_that_of_a_proportion():
    values = [1.0] * 33 + [0.0] * 122  # 21.3 % of 155, as in SPINACH's Table 3
    interval = bootstrap_interval(values)
    spread = 1.96 * math.sqrt(33 / 155 * 122 / 155 / 155)
    assert interval.mean == pytest.approx(33 / 155)
    assert (interval.low, interval.high) == pytest.approx((33 / 155 - spread, 33 / 155 + spread), abs=0.007)
    assert bootstrap_interval(values) == interval
    assert bootstrap_interval(values, confidence=0.5).low > interval.low


def test_equal_scores_have_an_interval_of_no_width_and_none_have_no_mean():
    interval = bootstrap_interval([0.5] * 20)
    assert (interval.low, interval.mean, interval.high) == (0.5, 0.5, 0.5)
    with pytest.raises(UsageError, match="no scores"):
        bootstrap_interval([])


scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=9))
def test_few_questions_get_the_exact_p_value(pairs):
    a, b = zip(*pairs, strict=True)
    differences = [y - x for x, y in pairs]
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product((1, -1), repeat=len(a))
    ]
    test = paired_test(a, b, resamples=512)
    assert test.p == pytest.approx(np.mean([value >= abs(sum(differences)) - 1e-12 for value in sums]))
    assert test.difference.mean == pytest.approx(np.mean(differences))


def test_many_questions_get_about_the_sign_test_where_every_difference_is_one():
    a, b = [0.0] * 40 + [1.0] * 20 + [1.0] * 100, [1.0] * 40 + [0.0] * 20 + [1.0] * 100
    assert paired_test(a, b).p == pytest.approx(stats.binomtest(40, 60).pvalue, abs=0.004)
    assert paired_test(a, b).p == paired_test(b, a).p
    assert paired_test(a, a).p == 1


def test_the_papers_minimum_detectable_effect_comes_out_at_a_disagreement_of_15_percent():
    effect = minimum_detectable_effect(155, 0.15)
    assert effect is not None
    assert 100 * effect == pytest.approx(9.0, abs=0.05)  # SPINACH, appendix C.2: 9.0 points, from 21.4 to 30.4
    assert mcnemar_power(0.09, 0.15, 155) == pytest.approx(0.80, abs=0.01)


def test_small_sets_may_detect_nothing():
    assert minimum_detectable_effect(20, 0.1) is None
    with pytest.raises(UsageError, match="effect <= disagreement"):
        mcnemar_power(0.3, 0.2, 100)
