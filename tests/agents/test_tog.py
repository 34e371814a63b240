"""ToG: each stage's prompt and its reply, bad replies, the beam, the budget, and its own knowledge, said to be that.

The village's links are in conftest.py: Ann Reed owns The Mill and Long Barn, both in Coldwick.
"""

from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.agents.tog import bm25_scores, embedding_scores, read_scores
from kbnav.agents.walking.base import answer_lines, known_nodes
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.runs.trajectory import Fact, Run, load_run
from kbnav.sessions.session import Chat, ask, sqlite_sessions
from kbnav.tools.walking import fresh
from tests.agents.parts import Script, settings, walker
from tests.knowledge.skb.sources import small_skb

QUESTION = "In which town are the houses of Ann Reed?"


def asked(kb, home: Path, *replies: str, question: str = QUESTION, **given: object) -> tuple[Run, Script]:
    script = Script(replies)
    return ask(walker("tog", kb, settings(home, **given), ask=script), question), script


def tools(run: Run) -> list[str]:
    return [step.call.tool for step in run.path]


def test_relations_are_scored_then_links_and_the_answer_is_named_once_it_is_known(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 0.9", "1: 0.8\n2: 0.8", "no", "1: 1", "1: 0.9", "yes\n- Coldwick (t1)")
    assert tools(run) == [
        "plan", "search_relations", "follow_relations",
        "search_relations", "follow_relations", "finish",
    ]  # fmt: skip
    assert script.purposes == [
        "score relations", "score facts", "judge", "score relations", "score facts", "judge",
    ]  # fmt: skip
    assert "1. Ann Reed: owns, to house\n2. Ann Reed: painted, to house\n" in script.prompts[0]
    assert (
        "1. Ann Reed (p1) -- owns --> The Mill (h1): A red house with a wheel.\n"
        "2. Ann Reed (p1) -- owns --> Long Barn (h2): A green house.\n"
    ) in script.prompts[1]
    assert (
        "From their documents:\n<result>\n- The Mill: A red house with a wheel.\n- Long Barn: A green house.\n"
        in script.prompts[2]
    )
    assert run.path[3].call.arguments == {"entity_ids": ["h1", "h2"]}
    assert "- Ann Reed (p1) -- owns --> The Mill (h1)" in script.prompts[3]  # what is known goes on
    assert "- The Mill (h1) -- located_in --> Coldwick (t1)" in script.prompts[5]
    assert [node.id for node in run.outcome.ranking.chosen] == ["t1"]
    assert (run.outcome.status, run.outcome.text, run.outcome.note) == (
        "answered",
        "Coldwick",
        "Supported by: The Mill (h1) -- located_in --> Coldwick (t1); Ann Reed (p1) -- owns --> The Mill (h1).",
    )
    assert run.usage.calls == 6
    assert load_run(tmp_path / "runs" / f"{run.id}.json") == run


@pytest.mark.parametrize("reply", ["", "I cannot say.", "99: 0.9", "1: 7", "-"])
def test_scores_that_cannot_be_read_are_replaced_by_words_and_it_is_said(village, tmp_path, reply):
    run, _ = asked(village, tmp_path, reply, question="Which house was painted by Ann Reed?")
    step = run.path[2]
    # The only relation whose name shares a word comes first; the other still counts for something.
    assert [(way["relation"], way["score"]) for way in step.call.arguments["ways"]] == [
        ("painted", 1.0),
        ("owns", 0.01),
    ]
    assert "because the model's scores could not be read" in step.call.thought


def test_without_enough_it_says_what_the_model_knows_itself_and_that_nothing_supports_it(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 1", "1: 1", "no", "1: 1", "1: 1", "no", "- Mew\n- Atlantis", depth=2)
    assert tools(run)[-2:] == ["recall", "finish"]
    assert script.purposes[-1] == "recall"
    ranking = run.outcome.ranking
    # Mew is a node of the SKB, by its name; Atlantis is none. Neither was found by walking.
    assert [(node.id, node.label, node.basis) for node in ranking.chosen] == [
        ("t2", "Mew", "generated"),
        ("Atlantis", "Atlantis", "generated"),
    ]
    assert run.outcome.note == (
        "The model's own knowledge. The knowledge base did not suffice: this is what the model itself knows, and "
        "nothing here supports it. Not in the knowledge base at all: Atlantis."
    )
    assert run.outcome.text == "[Rests on the model's own word, not on the knowledge base.] Mew, Atlantis"
    assert (
        "From the model's own knowledge, not from the knowledge base:\n"
        "- Mew (t2)\n- Atlantis [not in the knowledge base]" in run.path[-2].observation
    )


def test_a_question_that_names_nothing_goes_straight_to_the_models_own_knowledge(village, tmp_path):
    run, script = asked(village, tmp_path, "unknown", question="Who wrote it?", matching="exact")
    assert tools(run) == ["plan", "recall", "finish"]
    assert script.purposes == ["recall"]
    assert run.outcome.status == "no answer"
    assert run.outcome.ranking is None


def test_depth_and_width_bound_the_walk(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 1\n2: 1", "1: 1", "no", "- Mew", depth=1, width=1)
    assert tools(run) == ["plan", "search_relations", "follow_relations", "recall", "finish"]
    assert "at most 1 relations of each node" in script.prompts[0]
    assert len(run.path[2].call.arguments["ways"]) == 1


def test_a_budget_too_small_ends_with_the_best_so_far_and_never_over_it(village, tmp_path):
    run, _ = asked(village, tmp_path, "1: 1", "1: 1", "no", budget={"steps": 4})
    assert len(run.path) <= 4
    assert run.outcome.status == "best effort"
    assert set(run.outcome.ranking.ids) <= {"p1", "h1", "h2"}


def ways(run: Run) -> list[tuple[str, str]]:
    taken = [step for step in run.path if step.call.tool == "follow_relations"]
    return [(way["entity_id"], way["relation"]) for step in taken for way in step.call.arguments["ways"]]


def test_a_links_score_is_its_relations_times_its_own(village, tmp_path):
    # owns .1, painted .9: Old Forge (.9 × .5 = .45) comes before The Mill (.1 × .9 = .09), though .9 is above .5.
    run, script = asked(village, tmp_path, "1: 0.1\n2: 0.9", "3: 0.9\n1: 0.5\n2: 0.3", "no", width=2)
    assert ways(run)[:2] == [("p1", "painted"), ("p1", "owns")]
    assert "1. Ann Reed (p1) -- painted --> Old Forge (h3)" in script.prompts[1]
    assert run.path[3].call.arguments == {"entity_ids": ["h3", "h2"]}  # .45, then .09; The Mill has .03
    known = script.prompts[2]
    assert known.index("Old Forge (h3)") < known.index("Long Barn (h2)") < known.index("The Mill (h1)")


def test_of_many_neighbours_behind_a_relation_twenty_are_looked_at(tmp_path):
    towns = ["Hub", *(f"Town {number}" for number in range(30))]
    nodes = [{"id": one, "type": "town", "name": one} for one in towns]
    with small_skb(tmp_path, nodes, [("Hub", "beside", one) for one in towns[1:]]) as skb:
        run, _ = asked(SkbKB(skb), tmp_path, "1: 1", question="Which town is beside Hub?")
    (step,) = [step for step in run.path if step.call.tool == "follow_relations"]
    assert (len(step.facts), "30 links, those 20 that fit" in step.observation) == (20, True)


def test_each_node_of_the_beam_has_its_own_best_relations(village, tmp_path):
    # Two nodes begin; with width 2 both keep up to two relations, and the four ways are one action.
    question = "Where do Ann Reed and Bob Lisk have houses?"
    run, script = asked(village, tmp_path, "1: 0.9\n2: 0.8\n3: 0.1", "1: 1", "no", question=question, width=2)
    assert (
        "1. Ann Reed: owns, to house\n2. Ann Reed: painted, to house\n3. Bob Lisk: owns, to house" in script.prompts[0]
    )
    assert ways(run)[:3] == [("p1", "owns"), ("p1", "painted"), ("p2", "owns")]


def test_a_node_that_two_nodes_lead_to_comes_before_one_that_one_leads_to(village, tmp_path):
    question = "Which house do Ann Reed and Bob Lisk share?"
    links = "1: 0.6\n2: 0.5\n3: 0.5\n4: 0.6"  # Long Barn by both: 1 - .5 × .5 = .75
    run, script = asked(village, tmp_path, "1: 1\n3: 1", links, "yes\n- Long Barn (h2)", question=question)
    assert script.prompts[2].index("Long Barn (h2)") < script.prompts[2].index("The Mill (h1)")
    assert run.outcome.note.startswith(
        "Supported by: Ann Reed (p1) -- owns --> Long Barn (h2); Bob Lisk (p2) -- owns --> Long Barn (h2)"
    )


def test_the_relation_just_followed_is_not_offered_backwards(village, tmp_path):
    replies = ["1: 1", "1: 1", "no", ""]
    _, script = asked(village, tmp_path, *replies, depth=2)
    assert "1. The Mill: located_in, to town\n" in script.prompts[3]
    assert "^owns" not in script.prompts[3]


def test_what_the_model_scores_0_is_not_followed_and_is_no_fact(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 0.8\n2: 0", "1: 0\n2: 0.7", "yes\n- The Mill (h1)", "", "", "unknown")
    assert {way for way in ways(run) if way[0] == "p1"} == {("p1", "owns")}, "a relation scored 0 was followed"
    assert "The Mill" not in script.prompts[2]
    assert run.outcome.status == "no answer"


def test_where_all_scores_are_low_it_says_so_links_anew_once_and_then_asks_what_the_model_knows(village, tmp_path):
    run, script = asked(village, tmp_path, "1: 0.05\n2: 0", "- Coldwick", "1: 0.02", "unknown")
    assert tools(run) == ["plan", "search_relations", "search_entities", "search_relations", "recall", "finish"]
    assert script.purposes == ["score relations", "name topics", "score relations", "recall"]
    assert "These were looked at and led nowhere: Ann Reed." in script.prompts[1]
    said = "No relation of the nodes reached seems to lead to an answer."
    assert run.path[2].call.thought.startswith(said)
    assert run.path[3].call.arguments == {"entity_ids": ["t1"]}
    assert run.path[4].call.thought.startswith(said)


def test_links_seen_from_both_ends_and_to_themselves_count_once_or_not_at_all():
    owns = Fact("p1", "owns", "h1")
    assert fresh([owns, Fact("h1", "^owns", "p1"), Fact("p1", "knows", "p1"), Fact("p1", "sold", "h1")], ()) == [
        owns,
        Fact("p1", "sold", "h1"),
    ]
    assert fresh([Fact("h1", "^owns", "p1")], [owns]) == []


def test_by_relations_links_are_drawn_and_chains_of_relations_are_judged(village, tmp_path):
    replies = ["1: 1", "no", "1: 1", "yes\n- Coldwick (t1)"]
    run, script = asked(village, tmp_path, *replies, reasoning="relations")
    assert script.purposes == ["score relations", "judge", "score relations", "judge"]
    assert "- Ann Reed (p1): owns → located_in → Coldwick (t1)" in script.prompts[3]
    assert run.outcome.text == "Coldwick"
    again, _ = asked(village, tmp_path, *replies, reasoning="relations")
    assert [step.call for step in again.path] == [step.call for step in run.path]


def test_it_explores_at_its_own_temperature_and_judges_at_0(village, tmp_path):
    replies = ["1: 1", "1: 1", "no", "1: 1", "1: 1", "no", "unknown"]
    _, script = asked(village, tmp_path, *replies, exploration=0.4, depth=2)
    assert script.temperatures == [0.4, 0.4, None, 0.4, 0.4, None, None]
    _, script = asked(village, tmp_path, *replies, depth=2)
    assert set(script.temperatures) == {None}


@pytest.mark.parametrize("prune", ["bm25", "embedding"])
def test_pruning_without_a_model_asks_it_only_to_judge(village, tmp_path, prune):
    question = "Which house did Ann Reed have painted?"
    run, script = asked(village, tmp_path, "yes\n- Old Forge (h3)", question=question, prune=prune)
    assert script.purposes == ["judge"]
    assert run.outcome.text == "Old Forge"
    texts = ["owns owns", "painted painted"]
    cosines = embedding_scores(village.skb.vectors.encoder, question, texts)
    assert cosines != pytest.approx(bm25_scores(question, texts))
    scores = bm25_scores(question, texts) if prune == "bm25" else cosines
    expected = {
        way: max(score / (max(scores) or 1), 0.01) for way, score in zip(["owns", "painted"], scores, strict=True)
    }
    given = {way["relation"]: way["score"] for way in run.path[2].call.arguments["ways"]}
    assert given == pytest.approx(expected, abs=1e-4)


def test_a_chat_goes_on_from_the_answer_before_and_after_a_restart(village, tmp_path):
    first = ["1: 1", "1: 1", "yes\n- The Mill (h1)"]
    with sqlite_sessions(tmp_path) as saver:
        agent = walker("tog", village, settings(tmp_path), ask=Script(first))
        Chat(agent, "walk", saver).ask("What does Ann Reed own?")
    script = Script(["1: 1", "1: 1", "yes\n- Coldwick (t1)"])
    with sqlite_sessions(tmp_path) as saver:
        run = Chat(walker("tog", village, settings(tmp_path), ask=script), "walk", saver).ask("And where is it?")
    assert run.path[0].nodes == ("h1",)
    assert "asked after: What does Ann Reed own? → The Mill" in script.prompts[0]
    assert run.outcome.text == "Coldwick"


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


LINES = ("A miller", "A red house", "A green house", "A market town", "A harbour")


def test_in_the_papers_preset_the_model_sees_nothing_of_the_documents(village, tmp_path):
    replies = ("1: 0.9", "1: 0.8\n2: 0.8", "no", "1: 1", "1: 0.9", "yes\n- Coldwick (t1)")
    run, script = asked(village, tmp_path, *replies, preset="paper")
    assert run.outcome.text == "Coldwick"
    assert not any(line in text for line in LINES for text in (*script.prompts, *(one.observation for one in run.path)))
    _, usual = asked(village, tmp_path, *replies)
    assert any("A green house" in prompt for prompt in usual.prompts)


@pytest.mark.parametrize(("given", "judged"), [({}, 2), ({"links": 1}, 1), ({"preset": "paper", "width": 1}, 1)])
def test_as_many_links_as_the_beam_is_wide_are_judged_in_the_papers_preset(village, tmp_path, given, judged):
    _, script = asked(village, tmp_path, "1: 1", "1: 0.8\n2: 0.9", "no", "1: 1", "1: 0.9", "yes\n- t1", **given)
    assert script.purposes[2] == "judge"
    assert [f"owns --> {house}" in script.prompts[2] for house in ("Long Barn", "The Mill")] == [True, judged == 2]


def test_the_judge_keeps_the_documents_of_all_depths_and_recall_the_links_found_last(village, tmp_path):
    replies = ("1: 0.9", "1: 0.8\n2: 0.8", "no", "1: 1", "1: 0.9", "no", "unknown")
    _, script = asked(village, tmp_path, *replies, depth=2)
    judged = script.prompts[5].partition("From their documents:")[2]
    assert all(line in judged for line in ("A miller", "A green house", "A market town"))
    assert "Coldwick (t1)" in script.prompts[6]


def test_it_needs_a_model_and_all_of_its_tools(village, tmp_path):
    offline = settings(tmp_path).model_copy(update={"model": "offline"})
    with pytest.raises(UsageError, match="the system tog needs a model: name one with --model"):
        build_agent(village, offline, "tog")
    with pytest.raises(UsageError, match="no tool can be left out"):
        walker("tog", village, settings(tmp_path).model_copy(update={"without_tools": ("finish",)}))
