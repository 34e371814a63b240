"""The baselines beside SPINACH, and SPINACH without some of its tools and rules."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import build_agent
from kbnav.agents.skb import build_skb, skb_with
from kbnav.agents.spinach import build_spinach, spinach_with
from kbnav.errors import UsageError
from kbnav.evaluation.evaluate import leave_out
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.skb import SKB_TOOLS
from tests.agents.parts import Script, agent_of, finishes, looks, runs, walker
from tests.knowledge.parts import Over

QUESTION = "Which elements were discovered by Marie Curie?"


def answered(name: str, said: str, kb, home) -> tuple[Run, list[str]]:
    script = Script([said])
    agent = walker(name, kb, Settings(home=home, model="scripted", language="en"), ask=script)
    return ask(agent, QUESTION), script.prompts


def test_direct_answers_are_names_linked_to_entities_and_marked_as_the_models_own(tmp_path, mini_kb):
    run, prompts = answered("direct", "- polonium\n- Radium\n- unobtainium", mini_kb, tmp_path)
    assert [row[0].entity_id or row[0].value for row in run.outcome.table.rows] == ["Q979", "Q1128", "unobtainium"]
    assert {node.basis for node in run.outcome.ranking.chosen} == {"generated"}
    assert (len(prompts), run.usage.calls, len(run.steps)) == (1, 1, 2)
    assert f"Question: {QUESTION}" in prompts[0]


def test_a_hundred_names_of_a_direct_answer_count_and_the_rest_is_counted(tmp_path, mini_kb):
    names = [f"unobtainium {number}" for number in range(102)]
    run, _ = answered("direct", "\n".join(f"- {name}" for name in names), mini_kb, tmp_path)
    assert [row[0].value for row in run.outcome.table.rows] == names[:100]
    assert run.path[0].observation.endswith("2 more names do not count: 100 are looked up.")


@pytest.mark.parametrize("said", ["```sparql\n{}\n```", "{}"])
def test_the_one_query_is_executed_and_is_the_answer(tmp_path, mini_kb, said):
    query = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    sent: list[str] = []

    def execute_query(text: str, **more: Any) -> Any:
        sent.append(text)
        return mini_kb.execute_query(text, **more)

    kb: Any = Over(mini_kb, execute_query=execute_query)
    run, prompts = answered("one-query", said.replace("{}", query), kb, tmp_path)
    assert (run.outcome.status, run.outcome.query, len(run.outcome.table)) == ("answered", query, 2)
    assert (len(prompts), [step.call.tool for step in run.steps]) == (1, ["execute_query", "finish"])
    assert sent == [query]


@pytest.mark.parametrize("query", ["SELECT ?x { ?x wdt:P61 wd:Q11344 }", "SELECT ?x { nonsense"])
def test_one_query_without_rows_is_no_answer_and_nothing_more_is_asked(tmp_path, mini_kb, query):
    run, prompts = answered("one-query", query, mini_kb, tmp_path)
    assert (run.outcome.status, len(prompts), len(run.steps)) == ("no answer", 1, 1)
    assert "wdt:P61" not in run.steps[0].observation, "which part has no match is not looked up"


@pytest.mark.parametrize("name", ["direct", "one-query"])
def test_baselines_need_a_model(tmp_path, mini_kb, name):
    with pytest.raises(UsageError):
        build_agent(mini_kb, Settings(home=tmp_path), name)


def asked(replies: list[AIMessage], home: Path, without: str) -> Run:
    budget = leave_out(Settings(), [without]).budget if without else Settings().budget
    return ask(agent_of(replies, home, **budget.model_dump()), "How many?")


def test_without_rollback_a_repeat_is_run_again_and_nothing_is_taken_back(tmp_path):
    replies = [looks("a"), looks("b"), looks("a"), runs(1), finishes()]
    assert [len(asked(replies, tmp_path, "").path), len(asked(replies, tmp_path, "rollback").path)] == [3, 5]
    run = asked(replies, tmp_path, "rollback")
    assert run.discarded == ()
    assert [step.call.arguments.get("at") for step in run.path[:3]] == ["a", "b", "a"]


def test_without_the_rule_on_premature_finishes_a_run_ends_without_an_answer(tmp_path):
    replies = [looks("a"), runs(0), finishes(), runs(2), finishes()]
    assert asked(replies, tmp_path, "").outcome.status == "answered"
    run = asked(replies, tmp_path, "premature_finish")
    assert (run.outcome.stop, run.outcome.status, len(run.steps)) == ("finish", "no answer", 3)


def test_a_tool_left_out_is_neither_offered_nor_named_to_the_model(tmp_path, mini_kb):
    settings = leave_out(Settings(home=tmp_path), ["get_entry", "search_neighbors"])
    model = ScriptedModel(replies=[says(("get_entry", {"entity_id": "Q42"}))])
    agent = spinach_with(model, None, mini_kb, settings)
    run = ask(agent, "Who discovered polonium?")
    assert agent.toolbox.names == ["search_entities", "get_property_examples", "execute_query", "show_rows", "finish"]
    assert "There is no tool 'get_entry'" in run.steps[0].observation
    system = str(model.seen[0][0].content)
    assert "search_entities, and see how a property is used with get_property_examples." in system
    assert "get_entry" not in system
    assert "search_neighbors" not in system


@pytest.mark.parametrize("tool", ["search_entities", "get_entry", "search_neighbors", "execute_query", "finish"])
def test_the_offline_policy_does_without_any_tool(tool, tmp_path, mini_kb):
    settings = leave_out(Settings(home=tmp_path, model="offline"), [tool])
    run = ask(build_spinach(mini_kb, settings), "Who discovered polonium?")
    assert tool not in {step.call.tool for step in run.steps}
    assert run.outcome.status in ("answered", "best effort", "no answer")


@pytest.mark.parametrize("tool", [function.__name__ for function in SKB_TOOLS])
def test_the_skb_agent_neither_offers_nor_names_a_tool_left_out(tool, tmp_path, demo_kb):
    model = ScriptedModel(replies=[])
    agent = skb_with(model, None, demo_kb, leave_out(Settings(home=tmp_path, budget={"steps": 1}), [tool]))
    ask(agent, "Which ship was painted yellow?")
    out = (tool, "show_rows") if tool == "execute_query" else (tool,)
    assert agent.toolbox.names == [function.__name__ for function in SKB_TOOLS if function.__name__ not in out]
    assert (tool in str(model.seen[0][0].content)) == (tool == "finish")  # a word of its own there


@pytest.mark.parametrize("tool", [function.__name__ for function in SKB_TOOLS])
def test_the_offline_policy_for_skbs_does_without_any_tool(tool, tmp_path, demo_kb):
    """The Keeper is the yellow ship of Marit Skarrow; whatever is left out, another way leads to it."""
    settings = leave_out(Settings(home=tmp_path, model="offline", language="en"), [tool])
    run = ask(build_skb(demo_kb, settings), "Which ship of Marit Skarrow was painted yellow?")
    assert tool not in {step.call.tool for step in run.steps}
    assert run.outcome.stop == ("gave up" if tool == "finish" else "finish")
    assert "ship:keeper" in run.outcome.ranking.ids[:2]
