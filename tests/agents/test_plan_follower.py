"""A plan followed without a model: which ends are the answer, in which order, and what happens where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbnav.agents.pasemiqa import pasemiqa_offline
from kbnav.planning.paths import Hop, PlannedPath
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from tests.agents.walkers import BY_TEXT, OWNED, OWNED_IN, Given, settings

NOWHERE = PlannedPath((Hop("located_in"),), 0.9, "person", ("person", "town"))


def asked(kb, home: Path, question: str, *paths: PlannedPath, **given) -> Run:
    own = settings(home, **given).model_copy(update={"model": "offline"})
    return ask(pasemiqa_offline(kb, own, Given(paths)), question)


def chosen(run: Run) -> list[str]:
    return [node.id for node in run.outcome.ranking.chosen] if run.outcome.ranking else []


def test_the_likeliest_path_gives_the_answer_and_the_others_follow_in_the_ranking(village, tmp_path):
    run = asked(village, tmp_path, "What does Ann Reed own?", OWNED, OWNED_IN)
    assert [step.call.tool for step in run.path] == ["plan", "follow_path", "follow_path", "vector_query", "finish"]
    assert sorted(chosen(run)) == ["h1", "h2"]
    assert ("t1", "seen") in [(node.id, node.basis) for node in run.outcome.ranking.nodes]
    assert run.outcome.note == "What the plan's paths lead to."


def test_what_all_names_lead_to_is_the_answer(village, tmp_path):
    assert chosen(asked(village, tmp_path, "What do Ann Reed and Bob Lisk own?", OWNED)) == ["h2"]


@pytest.mark.parametrize(("word", "first"), [("green", "h2"), ("wheel", "h1")])
def test_among_the_ends_of_a_path_what_fits_the_question_comes_first(village, tmp_path, word, first):
    run = asked(village, tmp_path, f"Which house of Ann Reed has to do with {word}?", OWNED)
    assert chosen(run)[0] == first
    assert len(chosen(run)) == 2


@pytest.mark.parametrize("paths", [(NOWHERE,), (BY_TEXT,), ()])
def test_where_no_path_leads_anywhere_the_one_node_that_fits_best_is_named(village, tmp_path, paths):
    run = asked(village, tmp_path, "Which red house of Ann Reed is by the sea?", *paths)
    assert run.path[-1].call.thought == "The paths lead nowhere; what fits the words best."
    assert len(chosen(run)) == 1
    found = next(step for step in run.path if step.call.tool == "vector_query")
    assert chosen(run) == [found.nodes[0]]


def test_a_question_that_names_nothing_is_answered_by_text(village, tmp_path):
    run = asked(village, tmp_path, "One by the sea?", OWNED, matching="exact")
    assert [step.call.tool for step in run.path] == ["plan", "vector_query", "finish"]
    assert chosen(run) == ["h3"]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_it_keeps_within_the_budget(village, tmp_path, steps):
    run = asked(village, tmp_path, "What does Ann Reed own?", OWNED, OWNED_IN, budget={"steps": steps})
    assert len([step for step in run.path if step.call.tool != "finish"]) <= steps
    assert run.outcome.status in ("answered", "best effort")


def test_a_plan_that_is_cut_keeps_every_path_and_says_how_much_was_followed(namesakes, tmp_path):
    run = asked(namesakes, tmp_path, "What does Ann Reed own?", OWNED, OWNED_IN, matching="exact")
    followed = [step.call.arguments for step in run.path if step.call.tool == "follow_path"]
    assert [len(one["relations"]) for one in followed] == [1, 1, 2, 1, 2, 1, 2, 1, 2]
    assert len({one["entity_id"] for one in followed}) == 5
    assert run.outcome.note == (
        "What the plan's paths lead to. Followed 9 of 40 ways: paths of the plan, each from each of its nodes."
    )
    assert chosen(run) == ["h"]
