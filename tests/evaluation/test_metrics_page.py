"""The page on metrics says what the code does."""

from __future__ import annotations

import doctest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "metrics.md"


def test_the_examples_of_the_page_give_the_results_it_shows():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8", optionflags=doctest.FAIL_FAST)
    assert (failed, tried) == (0, 11)
