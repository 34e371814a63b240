"""The laws of ``benchmarks/scale.py``, on figures whose laws are known."""

from __future__ import annotations

import json
import re

import pytest
from benchmarks._scale_arithmetic import print_arithmetic, print_laws

from tests.conftest import ROOT


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
