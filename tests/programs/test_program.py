"""What is a program and what is not, told with lines before anything runs."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress

import pytest

from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.program import MOST_CHARACTERS, BadProgram, Program
from kbnav.programs.steps import Comparison, Trial, compare

SCORE = "def score(query, candidates, **parameters):\n    return {}\n"


def test_a_program_has_an_entry_and_parameters():
    source = 'PARAMETERS = {"a": 0.5, "b": -2, "c": "x", "d": True}\n' + SCORE
    program = Program.read(source)
    assert (program.entry, dict(program.parameters)) == ("score", {"a": 0.5, "b": -2, "c": "x", "d": True})
    assert program.sha256 == hashlib.sha256(source.encode()).hexdigest()
    assert Program.read("def retrieve(query): return {}").entry == "retrieve"
    assert Program.read("PARAMETERS: dict[str, float] = {'a': 1.0}\n" + SCORE).parameters == {"a": 1.0}


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("x = 1\ndef score(query, candidates:\n    pass", 2, "SyntaxError"),
        ("x = 1", 0, "neither score(query, candidates"),
        (SCORE + "def retrieve(query): return {}", 3, "second entry"),
        (SCORE + SCORE, 3, "second entry"),
        ("def score(q, c): return {}", 1, "must begin as score(query, candidates, …)"),
        ("class A:\n" + "    def score(self, query, candidates): return {}", 0, "neither"),
        ("PARAMETERS = {'a': 1}\ndef score(query, candidates): return {}", 2, "does not take 'a'"),
        ("def score(query, candidates, a): return {}", 1, "needs 'a', which PARAMETERS lacks"),
        ("PARAMETERS = dict(a=1)\n" + SCORE, 1, "a dict of names with plain"),
        ("PARAMETERS = {'a': 1e999}\n" + SCORE, 1, "'a' must be a finite number"),
        ("def score(query, candidates):\n    breakpoint()\n    return {}", 2, "waits for a person"),
        ("def score(query, candidates):\n    import pdb\n    pdb.set_trace()\n    return {}", 2, "a debugger"),
        ("x = 'caf\ud800'\n" + SCORE, 0, "no Unicode"),
        ("\0" + SCORE, 0, "null bytes"),
        ("#" * (MOST_CHARACTERS + 1), 0, "32000 are allowed"),
        ("x = " + "(" * 5000 + ")" * 5000, 0, "nested"),
        ("x = " + "-" * 30000 + "1", 0, "nested"),
    ],
)
def test_what_is_none_is_told_with_its_line(source, line, said):
    with pytest.raises(BadProgram) as error:
        Program.read(source)
    assert [problem.line for problem in error.value.problems] == [line]
    assert said in str(error.value)


@pytest.mark.parametrize("part", ["x.y" + ".y" * 9000, "1" + "+1" * 9000, "f" + "()" * 9000, "x" + "[0]" * 9000])
def test_long_chains_are_read_or_refused_and_do_no_harm(part):
    with suppress(BadProgram):
        assert Program.read(f"z = {part}\n{SCORE}").entry == "score"


def test_an_escape_that_python_would_warn_of_is_no_fault():
    assert Program.read("import re\nP = re.compile('\\d')\n" + SCORE).entry == "score"


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
