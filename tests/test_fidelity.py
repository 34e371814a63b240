"""docs/fidelity.md names only files and tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| element "))
]
FILE = re.compile(r"`((?:agents|tools|prompts|src|tests|docs|benchmarks)/[\w./-]+?)(?:::(\w+))?`")
LATER = "later"
"""The word that begins the third cell of a row whose element is not built yet."""


def test_every_row_has_five_cells_and_says_where_and_which_test():
    for row in ROWS:
        assert len(row) == 5, row
        if not row[2].startswith(LATER):
            assert FILE.search(row[2]), f"no file is named: {row}"
            assert FILE.search(row[4]), f"no test is named: {row}"
        assert row[3], row


@pytest.mark.parametrize(("path", "test"), sorted(set(FILE.findall(PAGE))))
def test_every_file_and_test_that_is_named_exists(path: str, test: str):
    assert (ROOT / path).exists(), path
    if test:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), test
