"""ToG: each stage's prompt and its reply, bad replies, the beam, the budget, and its own knowledge, said to be that.

The village's links are in conftest.py: Ann Reed owns The Mill and Long Barn, both in Coldwick.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.common.choice import build_agent
from kbnav.agents.common.scores import bm25_scores, read_scores
from kbnav.agents.common.walking import answer_lines, known_nodes
from kbnav.agents.tog import tog_with
from kbnav.errors import ServiceError, UsageError
from kbnav.models.scripted import ScriptedModel
from kbnav.session import Chat, ask, attempt, sqlite_sessions
from kbnav.trajectory import Run, load_run
from tests.agents.walkers import Script, by_calls, settings

QUESTION = "In which town are the houses of Ann Reed?"


def asked(kb, home: Path, *replies: str, question: str = QUESTION, **given: object) -> tuple[Run, Script]:
    script = Script(replies)
    return ask(tog_with(script, None, kb, settings(home, **given)), question), script


def tools(run: Run) -> list[str]:
    return [step.call.tool for step in run.path]


def test_relations_are_scored_then_links_and_the_answer_is_named_once_it_is_known(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 0.9", "1: 0.8\n2: 0.8", "no", "1: 1", "1: 0.9", "yes\n- Coldwick (t1)")
    assert tools(run) == [
        "plan", "search_relations", "search_neighbors",
        "search_relations", "search_neighbors", "finish",
    ]  # fmt: skip
    assert script.purposes == [
        "score relations", "score facts", "judge", "score relations", "score facts", "judge",
    ]  # fmt: skip
    assert "1. Ann Reed: owns\n2. Ann Reed: painted\n" in script.prompts[0]
    assert (
        "1. Ann Reed (p1) -- owns --> The Mill (h1)\n2. Ann Reed (p1) -- owns --> Long Barn (h2)" in script.prompts[1]
    )
    assert run.path[3].call.arguments == {"entity_ids": ["h1", "h2"]}
    assert "- Ann Reed (p1) -- owns --> The Mill (h1)" in script.prompts[3]  # what is known goes on
    assert "- The Mill (h1) -- located in --> Coldwick (t1)" in script.prompts[5]
    assert run.outcome.ranking is not None
    assert [node.id for node in run.outcome.ranking.chosen] == ["t1"]
    assert (run.outcome.status, run.outcome.text, run.outcome.note) == (
        "answered",
        "Coldwick",
        "Supported by: The Mill (h1) -- located in --> Coldwick (t1).",
    )
    assert run.usage.calls == 6
    assert load_run(tmp_path / "runs" / f"{run.id}.json") == run


def test_nodes_seen_on_the_way_follow_the_answer_in_the_ranking_marked_as_such(village, tmp_path):
    run, _ = asked(village, tmp_path, "1: 1", "1: 1\n2: 1", "yes\n- Long Barn (h2)", question="What does Ann Reed own?")
    assert run.outcome.ranking is not None
    assert [(node.id, node.score, node.basis) for node in run.outcome.ranking.nodes] == [
        ("h2", 1.0, ""),
        ("h1", 0.5, "seen"),
    ]
    assert run.outcome.text == "Long Barn"


def test_links_that_the_model_did_not_keep_are_no_evidence(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 1", "2: 0.9", "yes\n- The Mill (h1)", "", "")
    # Only Long Barn was kept: The Mill is not among what the judge was shown, so naming it is not enough.
    assert "The Mill" not in script.prompts[2]
    assert "finish" not in tools(run)[:4]


@pytest.mark.parametrize("reply", ["", "I cannot say.", "99: 0.9", "1: 7", "-"])
def test_scores_that_cannot_be_read_are_replaced_by_words_and_it_is_said(village, tmp_path, reply):
    run, _ = asked(village, tmp_path, reply, question="Which house was painted by Ann Reed?")
    step = run.path[2]
    assert step.call.arguments["relation"] == "painted"  # the only relation whose name shares a word
    assert "because the model's scores could not be read" in step.call.thought


def test_without_enough_it_says_what_the_model_knows_itself_and_that_nothing_supports_it(village, tmp_path):
    run, script = asked(
        village, tmp_path, "1: 1", "1: 1", "no", "1: 1", "1: 1", "no", "1: 1", "1: 1", "no", "- Mew\n- Atlantis"
    )
    assert tools(run)[-2:] == ["recall", "finish"]
    assert script.purposes[-1] == "recall"
    ranking = run.outcome.ranking
    assert ranking is not None
    # Mew is a node of the SKB, by its name; Atlantis is none. Neither was found by walking.
    assert [(node.id, node.label, node.basis) for node in ranking.chosen] == [
        ("t2", "Mew", "generated"),
        ("Atlantis", "Atlantis", "generated"),
    ]
    assert "nothing here supports it" in run.outcome.note
    assert run.outcome.text == "[Rests on the model's own word, not on the knowledge base.] Mew, Atlantis"
    assert (
        "From the model's own knowledge, not from the knowledge base:\n- Mew (t2)\n- Atlantis"
        in run.path[-2].observation
    )


def test_a_question_that_names_nothing_goes_straight_to_the_models_own_knowledge(village, tmp_path):
    run, script = asked(village, tmp_path, "unknown", question="Who wrote it?", matching="exact")
    assert tools(run) == ["plan", "recall", "finish"]
    assert script.purposes == ["recall"]
    assert run.outcome.status == "no answer"
    assert run.outcome.ranking is None


def test_depth_and_width_bound_the_walk(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 1\n2: 1", "1: 1", "no", "- Mew", depth=1, width=1)
    assert tools(run) == ["plan", "search_relations", "search_neighbors", "recall", "finish"]
    assert "Score at most 1 of them" in script.prompts[0]


def test_a_budget_too_small_ends_with_the_best_so_far_and_never_over_it(village, tmp_path):
    run, _ = asked(village, tmp_path, "1: 1", "1: 1", "no", budget={"steps": 4})
    assert len(run.path) <= 4
    assert run.outcome.status == "best effort"
    assert run.outcome.ranking is not None
    assert set(run.outcome.ranking.ids) <= {"p1", "h1", "h2"}


def test_nothing_is_looked_at_twice(village, tmp_path):
    # Following owns and back again leads to Ann Reed herself: she is not explored again.
    run, _ = asked(village, tmp_path, "1: 1", "2: 1", "no", "2: 1", "1: 1\n2: 1", "no", "1: 1", "1: 1", "no", "unknown")
    explored = [
        node for step in run.path if step.call.tool == "search_relations" for node in step.call.arguments["entity_ids"]
    ]
    assert len(explored) == len(set(explored))
    assert run.discarded == ()


@pytest.mark.parametrize("prune", ["bm25", "embedding"])
def test_pruning_without_a_model_asks_it_only_to_judge(village, tmp_path, prune):
    run, script = asked(
        village, tmp_path, "yes\n- Old Forge (h3)", question="Which house did Ann Reed have painted?", prune=prune
    )
    assert script.purposes == ["judge"]
    assert "painted" in {step.call.arguments["relation"] for step in run.path if step.call.tool == "search_neighbors"}
    assert run.outcome.text == "Old Forge"


def test_a_failing_model_ends_the_run_with_what_was_seen_saved(village, tmp_path):
    def down(prompt: str, purpose: str):
        raise ServiceError("the model's endpoint cannot be reached")

    run, failure = attempt(tog_with(down, None, village, settings(tmp_path)), QUESTION)
    assert isinstance(failure, ServiceError)
    assert (run.outcome.status, tools(run)) == ("failed", ["plan", "search_relations"])


def test_a_chat_goes_on_from_the_answer_before_and_after_a_restart(village, tmp_path):
    first = ["1: 1", "1: 1", "yes\n- The Mill (h1)"]
    with sqlite_sessions(tmp_path) as saver:
        agent = tog_with(Script(first), None, village, settings(tmp_path))
        Chat(agent, "walk", saver).ask("What does Ann Reed own?")
    script = Script(["1: 1", "1: 1", "yes\n- Coldwick (t1)"])
    with sqlite_sessions(tmp_path) as saver:
        run = Chat(tog_with(script, None, village, settings(tmp_path)), "walk", saver).ask("And where is it?")
    assert run.path[0].nodes == ("h1",)
    assert "asked after: What does Ann Reed own? → The Mill" in script.prompts[0]
    assert run.outcome.text == "Coldwick"


def test_through_model_calls_tokens_are_counted(village, tmp_path):
    run = ask(
        tog_with(by_calls("1: 1", "1: 1", "yes\n- h1"), None, village, settings(tmp_path)), "What does Ann Reed own?"
    )
    assert run.outcome.text == "The Mill"
    assert run.usage.calls == 3


def test_a_writer_puts_the_answer_into_words(village, tmp_path):
    writer = ScriptedModel(replies=[AIMessage("It is The Mill.")])
    run = ask(
        tog_with(Script(["1: 1", "1: 1", "yes\n- h1"]), writer, village, settings(tmp_path)), "What does Ann Reed own?"
    )
    assert run.outcome.text == "It is The Mill."


def test_it_needs_a_model_and_all_of_its_tools(village, tmp_path):
    offline = settings(tmp_path).model_copy(update={"model": "offline"})
    with pytest.raises(UsageError, match="the system tog needs a model: name one with --model"):
        build_agent(village, offline, "tog")
    with pytest.raises(UsageError, match="no tool can be left out"):
        tog_with(Script([]), None, village, settings(tmp_path).model_copy(update={"without_tools": ("finish",)}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1: 0.9\n2: 0.1", {1: 0.9, 2: 0.1}),
        ('{"1": 0.9, "2": 1}', {1: 0.9, 2: 1.0}),
        ("Here they are:\n1. score = 3\n- 2: 0.5 (likely)\n", {2: 0.5}),
        ("3: 0.5, 1: .25", {3: 0.5, 1: 0.25}),
        ("1: 0.9\n1: 0.1", {1: 0.9}),
        ("4: 0.9, 0: 1, 2: 1.5, 3: 80%, 1: 7/10", {}),
        ("1: 0.8/1, 2: 0.85%, 3: 0.7.", {3: 0.7}),
        ("none of them", {}),
    ],
)
def test_scores_are_read_from_lines_objects_and_prose(text, expected):
    assert read_scores(text, 3) == expected


def test_bm25_scores_are_those_of_the_formula():
    # Three texts of 2, 2 and 1 words, mean 5/3; "owns" is in one: idf ln(1 + 2.5/1.5).
    scores = bm25_scores("Who owns it?", ["owns house", "painted house", "town"])
    idf = 0.9808292530117262
    assert scores == pytest.approx([idf * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / (5 / 3))), 0, 0])
    assert bm25_scores("?", []) == []


def test_answers_are_found_by_id_in_brackets_by_id_and_by_name():
    names = {"h1": "The Mill", "h2": "Long Barn", "t1": "Coldwick"}
    lines = answer_lines("Sure:\n- **The Mill (h1)**\n- long barn\n- t1\n- Atlantis (t9)\n- unknown")
    assert known_nodes(lines, names) == ["h1", "h2", "t1"]
    assert answer_lines("unknown") == []
    assert known_nodes(answer_lines("Coldwick"), names) == ["t1"]
