"""PASemiQA: the plan as the first step, T rounds, k neighbours kept by the model, unknown as an answer."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from kbnav.agents.common.agent import build_agent
from kbnav.agents.common.policy import read_demonstrations
from kbnav.agents.walking.base import open_match
from kbnav.agents.walking.options import PasemiqaOptions
from kbnav.errors import UsageError
from kbnav.models.scripted import ScriptedModel, says
from kbnav.planning.paths import Hop, RelationPath, encoder_of
from kbnav.planning.ranker import Ranker
from kbnav.planning.training import Example
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.systems import read_options
from tests.agents.parts import OWNED, Given, Script, near, settings, walker

QUESTION = "What does Ann Reed own?"
PATH = RelationPath((Hop("owns"),), ("person", "house"))
LOOK = says(("search_neighbors", {"entity_id": "p1", "relation": "owns"}), thought="Her houses.")


def finish(*nodes: str) -> AIMessage:
    return says(("finish", {"nodes": list(nodes)}), thought="These.")


def asked(kb, home: Path, *replies: AIMessage, kept: Script | None = None, **options) -> tuple[Run, ScriptedModel]:
    model = ScriptedModel(replies=list(replies))
    plan = Given((OWNED,), ("a note",))
    agent = walker("pasemiqa", kb, settings(home, **options), ask=kept, model=model, planner=plan)
    return ask(agent, QUESTION), model


def test_the_plan_is_the_first_step_which_the_model_sees_and_does_not_make(village, tmp_path):
    run, model = asked(village, tmp_path, LOOK, finish("h2", "h1"))
    assert [step.call.tool for step in run.path] == ["plan", "search_neighbors", "finish"]
    assert run.path[0].call.arguments["paths"] == [
        {"relations": ["owns"], "types": ["person", "house"], "probability": 0.7}
    ]
    first = model.seen[0]
    # the plan is text behind the question: strict endpoints refuse a call of a tool that was not declared
    assert [type(one) for one in first] == [SystemMessage, HumanMessage]
    assert first[-1].text == f"{QUESTION}\n\n<result>\n{run.path[0].observation}\n</result>"
    assert run.path[0].observation.startswith("Note: a note\nThe nodes to begin with:\n- Ann Reed (p1): person\n")
    assert run.path[0].observation.endswith("- person -- owns --> house [0.70]")
    declared = {"search_neighbors", "vector_query", "finish"}
    assert {call["name"] for seen in model.seen for one in seen for call in getattr(one, "tool_calls", ())} <= declared
    assert (
        "Act only by calling tools: search_neighbors, find_relations, vector_query, read_document, finish."
        in first[0].text
    )
    assert "- owns: person --> house 4" in first[0].text
    assert run.outcome.text == "Long Barn, The Mill"
    assert run.usage.calls == 3  # the plan's one, and two of the policy; a script reports no tokens but counts
    assert list(run.prompts) == sorted(run.prompts)
    assert {"pasemiqa/policy.md", "walking/neighbors.md", "notice.md"} <= set(run.prompts)


def test_of_many_neighbours_the_model_keeps_k_by_number(village, tmp_path):
    kept = Script(["2, 1, 2, 99"])
    run, _ = asked(village, tmp_path, near("p1", query="A red one."), finish(), kept=kept, k=2, short=0)
    assert "Links of Ann Reed (p1):\n1. " in kept.prompts[0]
    assert "What is wanted now: A red one." in kept.prompts[0]
    offered = [line.split(". ", 1)[1] for line in kept.prompts[0].splitlines() if line[:1].isdigit()]
    assert len(offered) == 3  # she owns two houses and painted one
    lines = run.path[1].observation.splitlines()
    assert lines[0] == "Ann Reed (p1): 3 links, 2 kept as most related. limit=3 shows more."
    assert [line for line in lines if line.startswith("- ")] == [f"- {offered[1]}", f"- {offered[0]}"]
    assert len(run.path[1].nodes) == len(run.path[1].facts) == 2
    assert run.usage.calls == 4


def test_neighbours_come_with_what_fits_best_in_their_documents(village, tmp_path):
    run, _ = asked(village, tmp_path, near("t2"), finish("h3"))
    assert run.path[1].observation.splitlines() == [
        "Mew (t2): 1 link.",
        "- Old Forge (h3) -- located_in --> Mew (t2); Old Forge: A red house by the sea.",
    ]


def test_t_rounds_are_all_it_may_take_the_plan_not_counted(village, tmp_path):
    looks = [near(one) for one in ("p1", "h1", "h2", "t1")]
    run, model = asked(village, tmp_path, *looks, rounds=3)
    assert [step.call.tool for step in run.path] == ["plan", *["search_neighbors"] * 3]
    assert (run.outcome.status, run.outcome.stop) == ("best effort", "step budget")
    assert "You have at most 3 turns" in model.seen[0][0].text


def test_unknown_is_an_answer(village, tmp_path):
    run, _ = asked(village, tmp_path, LOOK, finish())
    assert (run.outcome.status, run.outcome.note) == ("no answer", "These.")


def test_a_plan_that_a_rollback_took_back_is_written_down_again_and_not_made_anew(village, tmp_path):
    run, _ = asked(village, tmp_path, LOOK, LOOK, LOOK, near("h1"), finish("t1"))
    plans = [step for step in run.steps if step.call.tool == "plan"]
    assert [step.dropped for step in plans] in (["rolled back", ""], [""])
    assert {step.observation for step in plans} == {run.path[0].observation}
    assert run.outcome.text == "Coldwick"
    assert run.usage.calls == 6  # the planner was asked once, the policy five times


def test_a_node_that_no_result_has_shown_is_not_accepted(village, tmp_path):
    run, model = asked(village, tmp_path, LOOK, finish("t2"), LOOK, finish("h1"))
    assert [step.dropped for step in run.steps].count("premature finish") == 1
    assert run.outcome.text == "The Mill"


def test_k_is_one_number_for_search_query_and_matching(village, tmp_path):
    looks = says(("search_neighbors", {"entity_id": "p1"}), ("vector_query", {"text": "A red green house by the sea."}))
    run, _ = asked(village, tmp_path, looks, finish(), kept=Script(["1, 2, 3"]), matching="embedding", k=2, short=0)
    plan, search, query = run.path[:3]
    assert [len(plan.call.arguments["nodes"]), len(search.facts), len(query.nodes)] == [2, 2, 2]


def test_query_is_by_cosine_alone_where_asked_for(village, tmp_path):
    text = "a house by the pond"
    look = says(("vector_query", {"text": text}))
    by_cosine, _ = asked(village, tmp_path, look, finish(), query="cosine", k=3)
    wanted = [village.skb.id(node) for node, _ in village.skb.vectors.search(text, limit=3)]
    assert list(by_cosine.path[1].nodes) == wanted
    assert len(wanted) == 3
    fused, _ = asked(village, tmp_path, look, finish(), k=3)
    assert list(fused.path[1].nodes) != wanted


def test_without_a_plan_the_run_says_so_once_and_the_prompt_speaks_of_none(village, tmp_path):
    model = ScriptedModel(replies=[LOOK, finish("h1")])
    run = ask(walker("pasemiqa", village, settings(tmp_path), model=model), QUESTION)
    said = [step for step in run.path if "planner=none" in step.call.thought]
    assert [step.number for step in said] == [1]
    assert not any("plan" in one.text.casefold() for seen in model.seen for one in seen)
    planned = asked(village, tmp_path, LOOK, finish("h1"))[1].seen[0][0].text
    assert "Behind them stands a plan" in planned


def test_what_was_trained_is_a_ranker_and_must_be_there(village, tmp_path):
    def planned(**options: str) -> Run:
        model = ScriptedModel(replies=[LOOK, finish("h1")])
        return ask(walker("pasemiqa", village, settings(tmp_path, **options), model=model), QUESTION)

    with pytest.raises(UsageError, match="the planner ranker must be trained first: kbnav train ranker"):
        planned(planner="ranker")
    examples = [Example("What does Ann Reed own?", ("p1",), frozenset({"person"}), {PATH: 1.0})]
    Ranker.train(village.skb, encoder_of(village.skb), examples, epochs=2).save(tmp_path / "planner")
    trained = planned(trained=str(tmp_path / "planner")).path[0]  # a ranker, without saying so
    assert (trained.call.tool, trained.call.arguments["notes"]) == ("plan", [])
    with pytest.raises(UsageError, match="the planner none is not trained; ranker and seq2seq are"):
        planned(planner="none", trained="planner")


def test_offline_it_is_the_skbs_policy_and_follows_no_plan(village, tmp_path):
    offline = settings(tmp_path, planner="none").model_copy(update={"model": "offline"})
    run = ask(build_agent(village, offline, "pasemiqa"), QUESTION)
    assert run.system == "pasemiqa"
    assert "plan" not in {step.call.tool for step in run.path}
    with pytest.raises(UsageError, match="the offline policy follows no plan"):
        build_agent(village, offline.model_copy(update={"options": {"planner": "in-context"}}), "pasemiqa")


@pytest.mark.parametrize("reply", ["", "none of these", "0", "77"])
def test_a_reply_that_keeps_nothing_readable_leaves_the_ranking_and_says_so(village, tmp_path, reply):
    run, _ = asked(village, tmp_path, near("p1"), finish(), kept=Script([reply]), k=1, short=0)
    assert "1 kept by their ranking, because the model named none" in run.path[1].observation


@pytest.mark.parametrize(("budget", "steps"), [({"steps": 3}, 3), ({"actions": 4}, 4), ({"steps": 40}, 7)])
def test_t_rounds_and_the_budget_both_hold(village, tmp_path, budget, steps):
    model = ScriptedModel(replies=[near(one) for one in ("p1", "p2", "h1", "h2", "h3", "t1", "t2")])
    chosen = settings(tmp_path, budget=budget, rounds=6)
    run = ask(walker("pasemiqa", village, chosen, model=model, planner=Given((OWNED,))), QUESTION)
    assert len(run.path) == steps
    assert f"You have at most {2 if steps == 3 else 6} turns" in model.seen[0][0].text


def test_who_gives_k_sees_no_more_and_the_papers_preset_asks_from_the_first_neighbour_too_many(village, tmp_path):
    for options, links in (({}, 3), ({"k": 1}, 1), ({"k": 2}, 2), ({"k": 2, "short": 21}, 3)):
        run, _ = asked(village, tmp_path, near("p1"), finish(), kept=Script(["1, 2, 3"]), **options)
        assert len(run.path[1].facts) == links
    own = read_options(PasemiqaOptions, {"preset": "paper"}, "pasemiqa")
    assert (own.short, own.query) == (0, "cosine")


def test_in_the_papers_preset_t_bounds_turns_finish_included(village, tmp_path):
    both = says(("search_neighbors", {"entity_id": "p1"}), ("search_neighbors", {"entity_id": "p2"}))
    run, model = asked(village, tmp_path, both, LOOK, finish("h1"), preset="paper", rounds=2)
    assert [step.call.tool for step in run.path] == ["plan", "search_neighbors", "search_neighbors"]
    assert run.outcome.stop == "step budget"
    assert "You have at most 2 actions, finish included." in model.seen[0][0].text
    _, usual = asked(village, tmp_path, both, LOOK, finish("h1"), rounds=2)
    assert "You have at most 2 turns, and finish besides." in usual.seen[0][0].text


def test_names_spelled_alike_do_not_stand_in_for_the_nearest_by_meaning(village, tmp_path):
    question = "Who lives in the Olde Forges by the sea?"
    near = [village.skb.id(number) for number, _ in village.skb.vectors.search(question, limit=4)]
    found = open_match(village, "hybrid", 4)(question)
    assert (list(found.nodes), found.named) == (near, False)
    assert any("Old Forge (h3)" in note for note in found.notes)
    assert not any("(h3)" in note for note in open_match(village, "exact")(question).notes)


def test_a_document_is_read_whole_but_not_in_the_papers_preset(village, tmp_path):
    read = says(("read_document", {"entity_id": "h3"}))
    run, _ = asked(village, tmp_path, LOOK, read, finish("h3"))
    assert run.path[2].observation == village.get_entry("h3").document.strip()
    assert "A red house by the sea." in run.path[2].observation
    rest, _ = asked(village, tmp_path, LOOK, says(("read_document", {"entity_id": "h3", "start": 9})), finish("h3"))
    assert rest.path[2].observation == run.path[2].observation[8:]
    _, paper = asked(village, tmp_path, LOOK, finish("h1"), preset="paper")
    assert "read_document" not in paper.seen[0][0].text


ASKED = "What does Ann Reed own?"
FIRST = {"question": "What does Bob Lisk own?", "steps": ["Follow owns.", "Name all."], "answer": ["Long Barn (h2)"]}
SECOND = {"id": "two", "question": "Who painted Old Forge?", "steps": ["Follow ^painted."], "answer": "Ann Reed (p1)"}
SHOWN = (
    "Question: What does Bob Lisk own?\n1. Follow owns.\n2. Name all.\nAnswer: Long Barn (h2)\n\n"
    "Question: Who painted Old Forge?\n1. Follow ^painted.\nAnswer: Ann Reed (p1)\n\n"
)


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "shots.json").write_text(json.dumps([FIRST, SECOND]))
    return str(tmp_path / "shots.json")


def test_they_stand_in_the_policies_prompts_and_by_default_there_are_none(village, tmp_path, file):
    for given, expected in (({"demonstrations": file}, True), ({}, False)):
        for name in ("pasemiqa", "gog"):
            model = ScriptedModel(replies=[near("p1"), finish("h1")])
            planner = Given((OWNED,)) if name == "pasemiqa" else None
            run = ask(walker(name, village, settings(tmp_path, **given), model=model, planner=planner), ASKED)
            prompt = model.seen[0][0].text
            assert (f"each with the steps to its answer:\n\n{SHOWN}How to work" in prompt) is expected
            assert ("Bob Lisk own" in prompt) is expected
            assert ("demonstrations" in run.prompts) is expected


def test_tog_has_them_where_it_scores_and_judges(village, tmp_path, file):
    script = Script(["1: 1", "1: 1\n2: 1", "yes\n- Long Barn (h2)"])
    ask(walker("tog", village, settings(tmp_path, demonstrations=file), ask=script), ASKED)
    assert script.purposes == ["score relations", "score facts", "judge"]
    assert all(f"{SHOWN}Question: {ASKED}" in prompt for prompt in script.prompts)


def test_the_question_that_is_asked_is_not_its_own_example(village, file):
    held = read_demonstrations(file)
    assert [one.question for one in held.of("what does  BOB LISK own")] == [SECOND["question"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"question": "Who?", "steps": [], "answer": "x"}]', "0.steps: Tuple should have at least 1 item"),
        ('[{"question": "Who?", "answer": "x"}]', "0.steps: Field required"),
        ("{", "not JSON"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(village, tmp_path, text, said):
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_demonstrations(str(path))


def test_what_is_evaluated_is_no_example(village, file):
    held = read_demonstrations(file)
    held.leave_out([("1", "Who?")])
    for asked in (("two", "Anything?"), ("1", FIRST["question"].upper())):
        with pytest.raises(UsageError, match="1 of the 2 demonstrations are among the questions to be evaluated"):
            held.leave_out([asked])
