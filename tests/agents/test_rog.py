"""RoG: the plan's paths followed, their instances cut without breaking one, the answer from them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.agents.rog import tokens, within
from kbnav.agents.walking.options import RogOptions
from kbnav.errors import UsageError
from kbnav.planning.paths import Hop, PlannedPath, RelationPath
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.systems import read_options
from tests.agents.parts import BY_TEXT, OWNED, OWNED_IN, Given, Script, settings, walker

QUESTION = "What does Ann Reed own?"


def asked(kb, home: Path, planner: Given, *replies: str, **options: object) -> tuple[Run, Script]:
    script = Script(replies)
    return ask(walker("rog", kb, settings(home, **options), ask=script, planner=planner), QUESTION), script


def test_the_plans_paths_are_retrieved_in_one_turn_and_answered_from(village, tmp_path):
    run, script = asked(village, tmp_path, Given((OWNED, OWNED_IN)), "- Long Barn (h2)\n- The Mill (h1)")
    assert [(step.call.tool, step.call.turn) for step in run.path] == [
        ("plan", 1), ("follow_path", 2), ("follow_path", 2), ("finish", 3),
    ]  # fmt: skip
    assert run.path[0].observation == (
        "The nodes to begin with:\n- Ann Reed (p1): person\n"
        "Relation paths that may lead to the answer, the most probable first:\n"
        "- person -- owns --> house [0.70]\n"
        "- person -- owns --> house -- located_in --> town [0.20]"
    )
    assert set(run.path[1].observation.splitlines()) == {
        "2 nodes at its end.",
        "- Ann Reed (p1) -- owns --> The Mill (h1)",
        "- Ann Reed (p1) -- owns --> Long Barn (h2)",
    }
    in_town = "- Ann Reed (p1) -- owns --> The Mill (h1) ; The Mill (h1) -- located_in --> Coldwick (t1)"
    assert in_town in run.path[2].observation.splitlines()
    assert run.path[2].nodes == ("t1",)
    assert in_town in script.prompts[0]
    assert [(node.id, node.basis) for node in run.outcome.ranking.nodes] == [("h2", ""), ("h1", ""), ("t1", "seen")]
    assert run.usage.calls == 2  # one for the plan, one for the answer


def test_a_path_is_followed_backwards_and_only_from_nodes_of_its_type(village, tmp_path):
    back = PlannedPath(RelationPath((Hop("owns", "in"),), ("house", "person")), 0.9)
    agent = walker("rog", village, settings(tmp_path), ask=Script(["- Bob Lisk (p2)"]), planner=Given((back,)))
    run = ask(agent, "Who besides Ann Reed owns Long Barn?")
    assert [step.call.arguments["entity_id"] for step in run.path if step.call.tool == "follow_path"] == ["h2"]
    assert set(run.path[1].nodes) == {"p1", "p2"}
    assert run.outcome.text == "Bob Lisk"


def test_the_path_text_retrieves_by_documents(village, tmp_path):
    run, script = asked(village, tmp_path, Given((BY_TEXT,)), "- Ann Reed (p1)")
    assert [step.call.tool for step in run.path] == ["plan", "vector_query", "finish"]
    assert "Nodes whose documents fit the question:\n<result>\nAnn Reed (p1), score " in script.prompts[0]
    assert run.outcome.text == "Ann Reed"


def test_only_the_first_paths_of_a_plan_are_followed_and_notes_are_shown(village, tmp_path):
    run, _ = asked(village, tmp_path, Given((OWNED, OWNED_IN), ("a hop was turned",)), "- h1", paths=1)
    assert [step.call.tool for step in run.path] == ["plan", "follow_path", "finish"]
    assert run.path[0].observation.startswith("Note: a hop was turned\n")


def test_without_a_path_that_leads_anywhere_the_model_is_told_so(village, tmp_path):
    nowhere = PlannedPath(RelationPath((Hop("located_in"),), ("person", "town")), 1.0)
    run, script = asked(village, tmp_path, Given((nowhere,)), "unknown")
    assert run.path[1].observation == "The path leads nowhere from there."
    assert "No path was found in the graph." in script.prompts[0]
    assert run.outcome.status == "no answer"


def test_paths_beyond_the_budget_of_tokens_are_left_out_whole_and_counted(village, tmp_path):
    run, script = asked(village, tmp_path, Given((OWNED, OWNED_IN)), "- h1", tokens=50)
    shown = [line for line in script.prompts[0].splitlines() if line.startswith("- Ann")]
    found = [line for step in run.path[1:-1] for line in step.observation.splitlines()[1:]]
    assert set(shown) <= set(found)
    assert len(shown) < len(found)
    assert sum(map(tokens, shown)) <= 50
    assert f"({len(found) - len(shown)} more paths are left out.)" in script.prompts[0]
    assert run.path[-1].call.thought == f"Answered from {len(shown)} of {len(found)} lines found."


def test_a_budget_of_steps_leaves_out_neither_a_path_nor_a_name_and_the_cut_is_said(namesakes, tmp_path):
    script, plan = Script(["- The Mill (h)"]), Given((OWNED, OWNED_IN))
    agent = walker("rog", namesakes, settings(tmp_path, budget={"steps": 7}), ask=script, planner=plan)
    run = ask(agent, "What do Ann Reed and Bob Lisk own?")
    calls = [step.call.arguments for step in run.path if step.call.tool == "follow_path"]
    nodes = run.path[0].call.arguments["nodes"]
    assert nodes[1] == "b"  # the first of each name, then the other Anns
    assert len(run.path) == 7
    assert [(one["entity_id"], len(one["relations"])) for one in calls[:4]] == [
        (nodes[0], 1), ("b", 1), (nodes[0], 2), (nodes[2], 1)
    ]  # fmt: skip
    assert run.path[-1].call.thought.endswith("Followed 5 of 42 ways: paths of the plan, each from each of its nodes.")
    assert "(Followed 5 of 42 ways: " in script.prompts[0]


def test_rog_needs_a_plan_and_asks_the_model_for_one_where_none_is_trained(village, tmp_path):
    with pytest.raises(UsageError, match=r"rog: planner: .*rog answers from a plan's paths"):
        walker("rog", village, settings(tmp_path, planner="none"))
    assert read_options(RogOptions, {}, "rog").planner == "in-context"


@given(st.lists(st.lists(st.text("abc -", max_size=30), max_size=5), max_size=4), st.integers(-5, 80))
def test_what_is_kept_is_whole_fits_and_takes_turns(lists, budget):
    kept, left_out = within(lists, budget)
    assert len(kept) + left_out == sum(map(len, lists))
    assert sum(map(tokens, kept)) <= max(budget, 0)
    firsts = [one[0] for one in lists if one]
    assert kept[: len(firsts)] == firsts[: len(kept)]


def test_in_the_papers_preset_no_text_is_retrieved(village, tmp_path):
    run, script = asked(village, tmp_path, Given((OWNED, BY_TEXT)), "- Long Barn (h2)", preset="paper")
    assert [step.call.tool for step in run.path] == ["plan", "follow_path", "finish"]
    assert "green house" not in script.prompts[-1]
