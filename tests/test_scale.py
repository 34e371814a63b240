"""The laws of ``benchmarks/scale.py``, on figures whose laws are known."""

from __future__ import annotations

import json
import re

import pytest
from benchmarks._scale_arithmetic import Law, fitted, print_arithmetic, print_laws

from tests.conftest import ROOT


def of(nodes: int, words: int = 40, **figures: float) -> dict[str, object]:
    return {"step": "build", "nodes": nodes, "words": words, "figures": {"disk MiB": float(nodes), **figures}}


def test_the_law_through_figures_of_a_power_is_that_power():
    constant, power, off = fitted({10: 3 * 10**1.5, 100: 3 * 100**1.5, 1000: 3 * 1000**1.5})
    assert (constant, power, off) == (pytest.approx(3), pytest.approx(1.5), pytest.approx(0, abs=1e-9))
    assert fitted({10: 10, 100: 200, 1000: 1000})[2] == pytest.approx(2 ** (2 / 3) - 1), "the middle one is twice that"


def test_other_sizes_lie_on_the_line_and_what_grows_faster_on_its_power():
    law = Law([of(size, line=50 + 2 * size, square=size**2 / 100) for size in (1_000, 2_000, 4_000)])
    assert law.at("build", "line", 1_000_000, 40) == pytest.approx(50 + 2_000_000)
    assert law.at("build", "square", 1_000_000, 40) == pytest.approx(1_000_000**2 / 100)


def test_more_words_add_what_they_added_to_a_size_that_was_measured_with_both():
    law = Law([of(1_000, text=100), of(2_000, text=200), of(1_000, words=140, text=300)])
    assert law.words == 40
    assert law.at("build", "text", 10_000, 40) == pytest.approx(1_000)
    assert law.at("build", "text", 10_000, 240) == pytest.approx(1_000 + 10_000 * 200 * (200 / 100 / 1_000))


def test_all_tables_come_from_figures_and_assumptions(capsys: pytest.CaptureFixture[str]):
    parts = ("graph", "nodes", "names", "documents", "text", "vectors", "disk", "build memory")
    seconds = ("build", "nodes", "edges", "text and names")
    steps = {
        "build": [*(f"{part} MiB" for part in parts), *(f"{part} CPU s" for part in seconds)],
        "use": ["text CPU ms", "vectors, exact CPU ms"],
        "lance": ["disk MiB", "write CPU s"],
    }
    print_arithmetic(
        [
            {"step": step, "nodes": nodes, "words": 40, "figures": dict.fromkeys(names, nodes / 1_000)}
            for step, names in steps.items()
            for nodes in (1_000, 10_000)
        ]
    )
    said = capsys.readouterr().out
    assert "922" in said, "2^63 - 1 over the square of 100 million nodes"
    assert "33 questions a minute" in said, "60 seconds, 1.82 queries of one second"
    assert "19,320.00" in said, "60 x 10,000 x $0.0322"


def tables(text: str) -> list[str]:
    """The tables of Markdown, whole."""
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


def test_the_page_of_results_has_the_tables_that_the_saved_figures_give(capsys: pytest.CaptureFixture[str]):
    measured = json.loads((ROOT / "benchmarks" / "scale_measured.json").read_text())
    print_laws(measured)
    print("\n")
    print_arithmetic(measured)
    printed = tables(capsys.readouterr().out)
    assert tables((ROOT / "benchmarks" / "results" / "scale.md").read_text(encoding="utf-8")) == printed
