"""GERBIL's metrics, by hand."""

from __future__ import annotations

import pytest

from kbnav.evaluation.metrics import qald_macro
from tests.evaluation.test_rows import table


def test_gerbil_counts_an_unanswered_question_as_precise_in_the_qald_measure_only():
    macro = qald_macro([(table(("a",), ("b",)), table(("a",))), (None, table(("c",)))])
    assert (macro.precision, macro.recall, macro.f1) == pytest.approx((1 / 4, 1 / 2, 1 / 3))
    assert macro.qald_precision == 3 / 4
    assert macro.qald_f1 == pytest.approx(2 * (3 / 4) * (1 / 2) / (5 / 4))


def test_gerbil_on_empty_gold_and_booleans():
    assert qald_macro([([], [])]).f1 == qald_macro([(None, [])]).f1 == 1
    assert qald_macro([(table(("a",)), [])]).f1 == 0
    assert qald_macro([(True, True)]).qald_f1 == 1
    assert qald_macro([(True, False)]).qald_f1 == 0
    assert qald_macro([]).f1 == 0
