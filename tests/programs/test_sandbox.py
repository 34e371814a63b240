"""Programs in each sandbox: what they are given, what they may call, and what comes of them."""

from __future__ import annotations

from kbnav.programs.program import Program

PLACES = ["place:averhythe", "place:ropewalk-lane"]


def test_a_program_ranks_its_candidates_by_what_the_api_says(sandbox, api):
    program = Program.read(
        """
PARAMETERS = {"weight": 2.0}

def score(query, candidates, weight):
    texts = texts_of(candidates)
    debug("texts", len(texts))
    found = token_recall(query, [texts[node] for node in candidates])
    return {node: weight * part for node, part in zip(candidates, found)}
"""
    )
    outcome = sandbox.run(program, "a seaport known for its instrument makers", PLACES, api, parameters={"weight": 4.0})
    assert outcome.error is None
    assert list(outcome.scores) == PLACES
    assert outcome.scores[PLACES[0]] == 4.0
    assert outcome.debug == "texts 2"
    assert outcome.calls == {"texts_of": 1, "debug": 1, "token_recall": 1}


def test_what_it_raises_comes_back_with_its_line(sandbox, api):
    program = Program.read("def score(query, candidates):\n    x = 1\n    return {}[query]\n")
    outcome = sandbox.run(program, "q", PLACES, api)
    assert outcome.scores == {}
    assert (outcome.error.kind, outcome.error.line) == ("raised", 3)
    assert "KeyError" in outcome.error.message


def test_a_check_names_what_is_wrong_with_its_line(sandbox, api):
    program = Program.read("def score(query, candidates):\n    return {n: len(texts_off(n)) for n in candidates}\n")
    problems = sandbox.check(program, api)
    assert [problem.line for problem in problems] == [2]
    assert "texts_off" in problems[0].message


def test_an_unknown_node_is_an_error_that_a_program_can_catch(sandbox, api):
    program = Program.read(
        """
def score(query, candidates):
    try:
        texts_of(["nowhere"])
    except LookupError as error:
        debug(str(error))
    return {node: place for place, node in enumerate(candidates)}
"""
    )
    outcome = sandbox.run(program, "q", PLACES, api)
    assert outcome.error is None
    assert "nowhere" in outcome.debug
