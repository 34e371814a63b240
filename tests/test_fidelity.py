"""benchmarks/results/fidelity.md names only files and tests that exist."""

import re
from collections import Counter

import pytest

from kbnav.programs.train import ProgramsOptions
from kbnav.settings.model import Settings
from kbnav.settings.systems import find
from tests.conftest import ROOT

PAGE = (ROOT / "benchmarks" / "results" / "fidelity.md").read_text(encoding="utf-8")


def rows_of(text: str) -> list[list[str]]:
    """The cells of the rows of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith(("|---", "|element"))]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


ROWS = rows_of(PAGE[PAGE.index("\n## ") :])
FILE = re.compile(r"`((?:agents|tools|prompts|src|tests|docs|benchmarks)/[\w./-]+?)(?:::(\w+))?`")
LATER = "later"
"""The word that begins the third cell of a row whose element is not built yet."""


def counts() -> str:
    """The table of how many rows of each paper are in which class; ``python -m tests.test_fidelity`` prints it."""
    lines = ["|paper|rows|same|same, but for a detail|different|later|", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for part in PAGE.split("\n## ")[1:]:
        found: Counter[str] = Counter()
        for row in rows_of(part):
            begins = "remark" if row[3].startswith("same") else "different"
            found["later" if row[2].startswith(LATER) else "same" if row[3] == "same" else begins] += 1
        numbers = [found.total(), *(found[one] for one in ("same", "remark", "different", "later"))]
        total.update(found)
        lines.append(f"|{part.splitlines()[0].split(' (')[0]}|{'|'.join(map(str, numbers))}|")
    numbers = [total.total(), *(total[one] for one in ("same", "remark", "different", "later"))]
    lines.append(f"|in all|{'|'.join(map(str, numbers))}|")
    return "\n".join(lines)


def test_the_head_counts_the_rows_by_class():
    assert counts() in (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")


def test_every_row_has_five_cells_and_says_where_and_which_test():
    for row in ROWS:
        assert len(row) == 5, row
        if not row[2].startswith(LATER):
            assert FILE.search(row[2]), f"no file is named: {row}"
            assert FILE.search(row[4]), f"no test is named: {row}"
        assert row[3], row


PAPERS = [  # a system, options given, what they are then; SPINACH is below
    ("pasemiqa", {}, {"k": 10, "rounds": 10}),
    ("pasemiqa", {"preset": "paper"}, {"query": "cosine", "short": 0, "hops": 2}),
    ("tog", {"preset": "paper"}, {"depth": 3, "width": 3, "exploration": 0.4, "documents": "none", "links": 0}),
    ("rog", {}, {"paths": 3, "tokens": 4000}),
    ("rog", {"preset": "paper"}, {"hops": 2}),
    ("multi-vss", {}, {"aggregate": "max", "first": 50}),
    ("rerank", {}, {"top_v": 20}),
    ("kar", {}, {"samples": 3, "neighbours": 10, "hops": 2}),
    ("prf", {}, {"initial": 3}),
]


@pytest.mark.parametrize(("system", "given", "wanted"), PAPERS)
def test_numbers_of_the_papers_are_the_defaults(system, given, wanted):
    options = find(system).read(given).model_dump(mode="json")
    assert {name: options[name] for name in wanted} == wanted


def test_numbers_of_programs_are_the_defaults():
    """Agent Retriever, section 5.4: batches of 25; 100 rounds and 12 groups are asked for with --set."""
    assert (ProgramsOptions().batch, ProgramsOptions(steps=100, most=12).steps) == (25, 100)


def test_numbers_of_spinach_are_the_defaults():
    settings = Settings.model_construct()
    assert (settings.budget.steps, settings.budget.actions, settings.limits.query_timeout) == (15, 30, 60.0)


def test_every_file_and_test_that_is_named_exists():
    for path, test in set(FILE.findall(PAGE)):
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), test


if __name__ == "__main__":
    print(counts())
