"""The baselines beside SPINACH: a model's own knowledge, and one query without a look."""

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.agents.direct import direct_with
from kbnav.agents.one_query import one_query_with
from kbnav.errors import UsageError
from kbnav.runs.trajectory import Run, Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings

QUESTION = "Which elements were discovered by Marie Curie?"


def answered(make, said: str, kb, home, question: str = QUESTION) -> tuple[Run, list[str]]:
    prompts: list[str] = []

    def model(prompt: str, purpose: str, **_: object) -> tuple[str, Usage]:
        prompts.append(prompt)
        return said, Usage(prompt=10, calls=1)

    return ask(make(model, kb, Settings(home=home, model="scripted", language="en")), question), prompts


def test_direct_answers_are_names_linked_to_entities_and_marked_as_the_models_own(tmp_path, mini_kb):
    run, prompts = answered(direct_with, "- polonium\n- Radium\n- unobtainium", mini_kb, tmp_path)
    assert [row[0].entity_id or row[0].value for row in run.outcome.table.rows] == ["Q979", "Q1128", "unobtainium"]
    assert {node.basis for node in run.outcome.ranking.chosen} == {"generated"}
    assert (len(prompts), run.usage.calls, len(run.steps)) == (1, 1, 2)
    assert f"Question: {QUESTION}" in prompts[0]


def test_a_hundred_names_of_a_direct_answer_count_and_the_rest_is_counted(tmp_path, mini_kb):
    names = [f"unobtainium {number}" for number in range(102)]
    run, _ = answered(direct_with, "\n".join(f"- {name}" for name in names), mini_kb, tmp_path)
    assert [row[0].value for row in run.outcome.table.rows] == names[:100]
    assert run.path[0].observation.endswith("2 more names do not count: 100 are looked up.")


@pytest.mark.parametrize("said", ["```sparql\n{}\n```", "{}"])
def test_the_one_query_is_executed_and_is_the_answer(tmp_path, mini_kb, said):
    query = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    run, prompts = answered(one_query_with, said.replace("{}", query), mini_kb, tmp_path)
    assert (run.outcome.status, run.outcome.query, len(run.outcome.table)) == ("answered", query, 2)
    assert (len(prompts), [step.call.tool for step in run.steps]) == (1, ["execute_query", "finish"])


@pytest.mark.parametrize("query", ["SELECT ?x { ?x wdt:P61 wd:Q11344 }", "SELECT ?x { nonsense"])
def test_one_query_without_rows_is_no_answer_and_nothing_more_is_asked(tmp_path, mini_kb, query):
    run, prompts = answered(one_query_with, query, mini_kb, tmp_path)
    assert (run.outcome.status, len(prompts), len(run.steps)) == ("no answer", 1, 1)


@pytest.mark.parametrize("name", ["direct", "one-query"])
def test_baselines_need_a_model(tmp_path, mini_kb, name):
    with pytest.raises(UsageError):
        build_agent(mini_kb, Settings(home=tmp_path), name)
