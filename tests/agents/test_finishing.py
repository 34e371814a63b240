"""How a run ends: which result is the answer, what finishing costs, and what a model is told on the way."""

import asyncio
import gc
import re
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kbnav.agents.spinach import build_spinach, spinach_with
from kbnav.errors import Stopped, UsageError
from kbnav.models.cancellation import Cancellation
from kbnav.models.chat import ask as ask_model
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask, attempt
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, agent_of, finishes, looks, runs
from tests.models.stub import cancellation, silent_endpoint


def asked(replies: list[AIMessage], home: Path, **budget: object) -> Run:
    return ask(agent_of(replies, home, **budget), "How many?")


def names(result: int) -> AIMessage:
    return says(("finish", {"result": result}))


def test_finish_takes_the_last_result_with_rows_so_that_a_probe_does_not_replace_it(tmp_path):
    run = asked([runs(3), runs(0), finishes()], tmp_path)
    assert (run.outcome.status, run.outcome.query, run.discarded) == ("answered", "SELECT 3", ())
    beside = says(("execute_query", {"query": "SELECT 3"}), ("execute_query", {"query": "SELECT 0"}))
    assert asked([beside, finishes()], tmp_path).outcome.query == "SELECT 3"


def test_finish_names_its_result_also_one_that_was_taken_back(tmp_path):
    assert asked([runs(3), runs(5), names(1)], tmp_path).outcome.query == "SELECT 3"
    run = asked([looks("a"), runs(4), looks("a"), runs(2), names(1)], tmp_path)
    assert [step.dropped for step in run.discarded] == ["rolled back", "repeat"]
    assert (run.outcome.query, run.path[-1].observation) == (
        "SELECT 4",
        "Finished: result 1 is the answer, 4 rows of `SELECT 4`.",
    )


def test_a_result_that_is_not_there_is_no_end(tmp_path):
    run = asked([runs(3), runs(0), names(2), names(1)], tmp_path)
    assert run.path[2].observation == "There is no result 2 with rows. Results with rows:\n1: 3 rows of `SELECT 3`"
    assert run.outcome.query == "SELECT 3"


def test_a_result_without_rows_is_an_answer_if_a_sentence_says_so(tmp_path):
    ends = says(("finish", {"result": 2, "answer": "None of them."}))
    run = asked([runs(3), runs(0), ends], tmp_path)
    assert (run.outcome.status, run.outcome.query, run.outcome.text) == ("answered", "SELECT 0", "None of them.")
    assert len(run.outcome.table) == 0


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("SELECT ?x { wd:Q131733 p:P26/ps:P26 ?x }", "answered"),  # it is stated that he had no spouse
        ("SELECT ?x { ?x wdt:P61 wd:Q131761 MINUS { ?x wdt:P575 ?d } }", "no answer"),  # a copy may lack some
    ],
)
def test_the_sentence_of_no_answer_is_told_and_is_the_answer_where_there_is_none_for_sure(
    query, status, mini_kb, tmp_path
):
    ends = says(("finish", {"no_answer": True, "answer": "There is none."}))
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), ends])
    outcome = ask(spinach_with(model, None, mini_kb, Settings(home=tmp_path, language="en")), "Which?").outcome
    assert (outcome.status, outcome.text, outcome.note) == (status, "There is none.", "")


def test_a_good_query_run_once_more_is_the_choice_and_a_third_time_a_repeat(tmp_path):
    run = asked([runs(3), runs(5), runs(3), finishes()], tmp_path)
    assert (run.outcome.query, run.discarded) == ("SELECT 3", ())
    run = asked([runs(3), runs(5), runs(3), runs(3), finishes()], tmp_path)
    assert [step.dropped for step in run.discarded] == ["rolled back", "repeat"]
    empty = asked([looks("a"), runs(0), looks("b"), runs(0), runs(1), finishes()], tmp_path)
    assert [step.dropped for step in empty.discarded] == ["rolled back", "repeat"]


def test_a_query_chosen_with_the_last_action_is_an_answer(tmp_path):
    run = asked([runs(3), runs(5), runs(3)], tmp_path, steps=3)
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("answered", "step budget", "SELECT 3")
    assert asked([runs(3), runs(5), runs(4)], tmp_path, steps=3).outcome.status == "best effort"


@pytest.mark.parametrize(
    ("free", "status", "stop"), [(True, "answered", "finish"), (False, "best effort", "step budget")]
)
def test_finishing_costs_no_action(tmp_path, free, status, stop):
    run = asked([runs(3), runs(5), names(1)], tmp_path, steps=2, free_finish=free)
    assert (run.outcome.status, run.outcome.stop) == (status, stop)
    assert run.outcome.query == ("SELECT 3" if free else "SELECT 5")


def test_with_no_action_left_anything_but_finish_ends_the_run(tmp_path):
    run = asked([runs(3), looks("a"), looks("b"), finishes()], tmp_path, steps=2)
    assert [step.call.tool for step in run.steps] == ["execute_query", "look"]
    assert (run.outcome.status, run.outcome.query) == ("best effort", "SELECT 3")


def test_one_thought_in_a_turn_is_enough_and_is_sent_back_once(tmp_path):
    first = {"name": "look", "args": {"thought": "Both at once.", "at": "a"}, "id": "1"}
    second = {"name": "look", "args": {"at": "b"}, "id": "2"}
    agent = agent_of([AIMessage("", tool_calls=[first, second]), runs(1), finishes()], tmp_path)
    run = ask(agent, "?")
    assert [(step.call.thought, step.ok) for step in run.path[:2]] == [("Both at once.", True)] * 2
    said = next(message for message in agent.policy._model.seen[1] if isinstance(message, AIMessage))
    assert [call["args"] for call in said.tool_calls] == [{"thought": "Both at once.", "at": "a"}, {"at": "b"}]


def test_the_sentence_that_comes_with_finish_is_the_answer_and_saves_a_call(tmp_path):
    ends = says(("finish", {"answer": " There are three. "}))
    agent = agent_of([runs(3), ends], tmp_path)
    assert ask(agent, "?").outcome.text == "There are three."
    other = replace(agent_of([runs(3), ends], tmp_path), ending=replace(agent.ending, sentence=False))
    assert ask(other, "?").outcome.text == "0, 1, 2"


def test_a_sentence_about_a_probe_is_not_said_of_the_whole_result(tmp_path, mini_kb):
    ends = says(("finish", {"answer": "One element."}))
    query = "SELECT ?e { ?e wdt:P61 wd:Q7186 } LIMIT 1"
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), ends])
    run = ask(spinach_with(model, None, mini_kb, Settings(home=tmp_path, language="en")), "What did she discover?")
    assert len(run.outcome.table) == 2
    assert "One element" not in run.outcome.text


PAPER = {"preset": "paper"}


def paper(replies: list[AIMessage], home: Path, kb, question: str = "Who discovered polonium?", **more: str):
    model = ScriptedModel(replies=replies)
    agent = spinach_with(model, None, kb, Settings(home=home, language="en", options={**PAPER, **more}))
    return ask(agent, question), agent, model


def test_the_papers_own_agent_has_five_actions_one_a_turn_and_is_told_nothing_more(tmp_path, mini_kb):
    queries = [f"SELECT ?x {{ ?x wdt:P61 wd:Q7186 }} LIMIT {number}" for number in (1, 2)]
    both = says(*[("execute_query", {"query": query}) for query in queries])
    replies = [both, says(("execute_query", {"query": queries[1]})), says(("finish", {}))]
    run, agent, model = paper(replies, tmp_path, mini_kb)
    assert agent.toolbox.names == ["search_entities", "get_entry", "get_property_examples", "execute_query", "finish"]
    assert [step.call.arguments.get("query") for step in run.path] == [*queries, None]
    assert [message.text.count("actions used") for message in model.seen[1]] == [0, 0, 0, 0]
    assert agent.toolbox.validate("finish", {"thought": "t"}) == ("t", {})
    assert (agent.settings.pruning, agent.shown.whole_rows) == ("model", 0)
    assert "no_answer" not in str(agent.toolbox.schemas)


def test_the_papers_own_agent_searches_as_the_service_does_and_has_no_arguments_beside(tmp_path, mini_kb):
    replies = [says(("search_entities", {"query": "a"})), says(("get_entry", {"entity_id": "Q7186"}))]
    run, agent, model = paper([*replies, says(("finish", {}))], tmp_path, mini_kb)
    arguments = {tool.name: set(tool.arguments.model_fields) - {"thought"} for tool in agent.toolbox}
    assert arguments["search_entities"] == {"query"}
    assert arguments["get_entry"] == {"entity_id"}
    found = mini_kb.named("a", items=8, properties=4)
    assert (len(found.entities), len(found.properties)) == (8, 4)
    ids = [one.id for one in (*found.entities, *found.properties)]
    assert re.findall(r"\(([PQ]\d+)\)", run.steps[0].observation) == ids
    prompt = model.seen[0][0].text
    said = ("has an answer in", "an ASK", "fetch it by a query", "as small as can be", "checked before it is built on")
    said += ("each later one adds a condition whose effect", "not done again", "entities as ids")  # published rules
    said += ("from memory", "the part that causes it", "label service")  # kbnav's own
    assert [words for words in said if words not in prompt] == []
    assert not any(words in str(agent.toolbox.schemas) for words in ("come in", "what its instances have", "counts"))


def test_the_papers_own_agent_runs_no_call_without_a_thought(tmp_path, mini_kb):
    bare = AIMessage("", tool_calls=[{"name": "execute_query", "args": {"thought": "", "query": "ASK {}"}, "id": "1"}])
    run, _, _ = paper([bare, says(("finish", {}))], tmp_path, mini_kb)
    assert (run.steps[0].ok, run.steps[0].rows) == (False, None)
    assert "thought" in run.steps[0].observation


def test_the_papers_own_agent_goes_back_by_two_each_time_and_says_nothing_of_it(tmp_path, mini_kb):
    searches = [says(("search_entities", {"query": name})) for name in "abcd"]
    run, _, model = paper([*searches, searches[0], searches[1]], tmp_path, mini_kb)
    assert [step.dropped for step in sorted(run.discarded, key=lambda step: step.number)][:4] == [
        "rolled back", "rolled back", "repeat", "repeat",
    ]  # fmt: skip
    assert not any(isinstance(message, HumanMessage) for message in model.seen[5][2:])


def test_the_published_program_starts_over_compares_four_actions_and_shows_ten(tmp_path, mini_kb):
    searches = [says(("search_entities", {"query": name})) for name in "abcdefghijkl"]
    # The first of six may be taken again; the third from the end is a repeat, and takes the step before it back.
    run, _, model = paper([*searches[:6], searches[0], searches[4]], tmp_path, mini_kb, going_back="published")
    told = [(step.call.arguments["query"], step.dropped) for step in run.discarded[:2]]
    assert told == [("a", "rolled back"), ("e", "repeat")]
    run, _, model = paper([*searches, says(("finish", {})), searches[0]], tmp_path, mini_kb, going_back="published")
    assert [sum(isinstance(one, ToolMessage) for one in seen) for seen in model.seen][:15] == [
        *range(11), 10, 10, 0, 1
    ]  # fmt: skip
    assert [step.dropped for step in run.discarded][:13] == [*["rolled back"] * 12, "premature finish"]
    with pytest.raises(UsageError, match="preset=paper"):
        paper([], tmp_path, mini_kb, preset="kbnav", going_back="published")


def test_the_papers_own_agent_takes_the_last_executed_query_and_diagnoses_nothing(tmp_path, mini_kb):
    nothing = "SELECT ?x { ?x wdt:P61 wd:Q11344 . ?x wdt:P31 wd:Q11344 }"
    good = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    replies = [says(("execute_query", {"query": query})) for query in (good, nothing)]
    run, _, model = paper([*replies, says(("finish", {})), says(("finish", {}))], tmp_path, mini_kb)
    shown = [message.text for message in model.seen[2] if isinstance(message, ToolMessage)]
    assert shown[1] == "<result>\nThe query ran and returned no rows.\n</result>"
    assert [step.dropped for step in run.discarded] == ["rolled back", "premature finish"]
    assert run.outcome.query == good
    assert shown[0].endswith("\n2 rows.\n</result>")


def test_finish_names_the_columns_that_were_asked_for_and_equal_rows_are_one(mini_kb, tmp_path):
    query = "SELECT ?element ?person { ?element wdt:P61 ?person . VALUES ?person { wd:Q7186 wd:Q37463 } }"
    replies = [
        says(("execute_query", {"query": query})),
        says(("finish", {"columns": "who"})),
        says(("finish", {"columns": "element", "answer": "Polonium and radium."})),
    ]
    agent = spinach_with(ScriptedModel(replies=replies), None, mini_kb, Settings(home=tmp_path, model="s"))
    run = ask(agent, "Which elements did the Curies discover?")
    assert run.path[-2].observation.endswith("The result has no column who; it has element, person.")
    table = run.outcome.table
    assert (table.columns, run.outcome.note) == (("element",), "The query also gives person.")
    assert sorted(table.entity(row[0]) for row in table.rows) == ["Q1128", "Q979"]


class SlowKB(NumbersKB):
    """Its queries end when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def execute_query(self, query, *, language="en"):
        self.asked.set()
        self.go_on.wait(30)
        return super().execute_query(query, language=language)


def test_stopping_hangs_up_on_the_model_at_once(tmp_path):
    with cancellation() as stoppable, silent_endpoint() as (url, asked, hung_up):
        settings = Settings(home=tmp_path, language="en", model="any", base_url=url, model_retries=0)
        agent = build_spinach(NumbersKB(), settings)
        threading.Thread(target=lambda: asked.wait(30) and stoppable.stop()).start()
        run, failure = attempt(agent, "How many?", cancellation=stoppable)
        assert hung_up.wait(10)
    assert isinstance(failure, Stopped)
    assert (run.outcome.status, run.outcome.note, run.path) == ("failed", "Stopped on request.", ())
    assert run.outcome.absence is None


def test_stopping_does_not_wait_for_a_tool_and_records_the_call_that_was_cut_off(tmp_path):
    kb, cancellation = SlowKB(), Cancellation()
    agent = agent_of([looks("a"), runs(5), finishes()], tmp_path, kb=kb)
    threading.Thread(target=lambda: kb.asked.wait(30) and cancellation.stop("Out of time.")).start()
    run, failure = attempt(agent, "How many?", cancellation=cancellation)
    assert not kb.go_on.is_set()
    kb.go_on.set()
    assert str(failure) == "Out of time."
    assert [(step.call.tool, step.ok, step.observation) for step in run.path] == [
        ("look", True, "seen: a"),
        ("execute_query", False, "Out of time."),
    ]


@pytest.mark.parametrize("end", [Cancellation.stop, Cancellation.abandon, lambda cancellation: None])
def test_a_model_that_is_asked_after_its_run_and_loop_are_over_is_not_even_begun(end):
    loop = asyncio.new_event_loop()
    loop.close()
    cancellation = Cancellation(loop)
    end(cancellation)
    with pytest.raises((Stopped, CancelledError)):
        cancellation.run_here(lambda: ask_model(ScriptedModel(replies=[AIMessage("Yes?")]), "Hello?"))
    gc.collect()  # a coroutine that nobody awaited would warn here
