"""What is a program and what is not, told with lines before anything runs."""

import hashlib
from contextlib import suppress

import pytest

from kbnav.programs.program import MOST_CHARACTERS, BadProgram, Program

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
