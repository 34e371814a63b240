"""How a run goes and ends: what a turn may do, what is dropped and taken back, which result is the answer."""

import asyncio
import gc
import io
import re
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from rich.console import Console

from kbnav.agents.common.answering import QueryEnding
from kbnav.agents.common.state import State
from kbnav.agents.spinach import build_spinach, spinach_with
from kbnav.apps.console import print_answer
from kbnav.errors import ServiceError, Stopped, UsageError
from kbnav.models.cancellation import Cancellation
from kbnav.models.chat import ask as ask_model
from kbnav.models.scripted import ScriptedModel, replay_model, says
from kbnav.runs.trajectory import Outcome, Run, Usage, load_run
from kbnav.sessions.session import ask, attempt
from kbnav.settings.model import Settings
from kbnav.tools.context import Context
from tests.agents.parts import Heard, NumbersKB, agent_of, finishes, looks, runs
from tests.dripping import silent
from tests.models.stub import cancellation


def asked(replies: list[AIMessage], home: Path, **budget: object) -> Run:
    return ask(agent_of(replies, home, **budget), "How many?")


def on_path(run: Run) -> list[str]:
    return [_name(step) for step in run.path]


def dropped(run: Run) -> list[tuple[str, str]]:
    return [(_name(step), step.dropped) for step in sorted(run.discarded, key=lambda step: step.number)]


def _name(step) -> str:
    said = next((value for value in step.call.arguments.values() if value), "")
    return f"{step.call.tool} {said}".rstrip()


def test_the_drawing_of_the_graph_is_the_reviewed_one(tmp_path):
    drawing = agent_of([], tmp_path).machine.graph().get_graph().draw_mermaid(with_styles=False)
    assert drawing == (Path(__file__).parent / "machine.mermaid").read_text()


def test_a_repeat_is_not_run_and_takes_the_step_before_it_back(tmp_path):
    agent = agent_of([looks("a"), looks("b"), looks("c"), looks("a"), runs(1), finishes()], tmp_path)
    run = ask(agent, "?")
    assert on_path(run) == ["look a", "look b", "execute_query SELECT 1", "finish"]
    assert dropped(run) == [("look c", "rolled back"), ("look a", "repeat")]
    assert agent.kb.ran.count("look a") == 1


def test_white_space_and_unicode_forms_do_not_hide_a_repeat(tmp_path):
    run = asked(
        [looks("x"), looks("Ko\u0308ln  am Rhein"), looks(" K\u00f6ln am\nRhein "), runs(1), finishes()], tmp_path
    )
    assert [reason for _, reason in dropped(run)] == ["rolled back", "repeat"]


def test_a_repeat_right_after_a_rollback_doubles_the_depth_and_a_fresh_action_resets_it(tmp_path):
    letters = [looks(letter) for letter in "abcdefg"]
    run = asked([*letters, looks("a"), looks("b"), looks("h"), looks("a"), runs(1), finishes()], tmp_path)
    # a-g; repeat a: drop g; repeat b at once: depth 4, drop d, e, f; h is fresh; repeat a: depth 2 again, drop h.
    assert on_path(run) == ["look a", "look b", "look c", "execute_query SELECT 1", "finish"]
    assert [name for name, reason in dropped(run) if reason == "rolled back"] == [f"look {x}" for x in "defgh"]
    assert [name for name, reason in dropped(run) if reason == "repeat"] == ["look a", "look b", "look a"]


@pytest.mark.parametrize("before", [[], [runs(0)], [runs("broken")], [runs("broken"), runs(0)]])
def test_finish_while_no_query_has_rows_is_dropped_and_the_path_goes_back(tmp_path, before):
    run = asked([looks("a"), looks("b"), *before, finishes(), runs(5), finishes()], tmp_path)
    assert run.outcome.query == "SELECT 5"
    taken_back = on_path_before = ["look a", "look b", *[f"execute_query {_query(reply)}" for reply in before]]
    assert on_path(run) == [*on_path_before[:-1], "execute_query SELECT 5", "finish"]
    assert dropped(run) == [(taken_back[-1], "rolled back"), ("finish", "premature finish")]


def _query(reply: AIMessage) -> str:
    return str(reply.tool_calls[0]["args"]["query"])


def test_the_path_budget_ends_a_run_with_the_best_so_far(tmp_path):
    run = asked([runs(3), *[looks(str(n)) for n in range(40)]], tmp_path)
    assert len(run.path) == 15
    assert run.discarded == ()
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "step budget", "SELECT 3")


def test_the_action_budget_counts_what_was_rolled_back(tmp_path):
    run = asked([looks("a"), *[looks("b"), looks("b")] * 40], tmp_path)
    assert len(run.path) + len(run.discarded) == 30
    assert (run.outcome.status, run.outcome.stop) == ("no answer", "action budget")
    assert run.outcome.table is None


def test_the_best_so_far_may_have_been_rolled_back(tmp_path):
    run = asked([looks("a"), runs(4), *[looks("a")] * 40], tmp_path)
    assert (run.outcome.status, run.outcome.query) == ("best effort", "SELECT 4")


def test_calls_of_one_turn_are_one_action_each_and_are_looked_at_before_a_finish_beside_them(tmp_path):
    together = says(("look", {"at": "a"}), ("finish", {}), ("execute_query", {"query": "SELECT 2"}))
    agent = agent_of([together, finishes()], tmp_path, steps=3, actions=3)
    run = ask(agent, "?")
    assert on_path(run) == ["look a", "execute_query SELECT 2", "finish"]
    assert dropped(run) == [("finish", "not alone")]
    assert [step.call.turn for step in run.path] == [1, 1, 2]
    assert run.outcome.status == "answered"
    said = agent.policy._model.seen[1][-1].text
    assert "finish was not carried out: look at the results above first, then call it alone." in said
    assert "1 of 3 turns used, and 2 of 3 actions" in said


def test_a_repeat_beside_a_fresh_call_is_dropped_alone(tmp_path):
    mixed = says(("look", {"at": "a"}), ("look", {"at": "c"}), ("look", {"at": "c"}))
    run = asked([looks("a"), looks("b"), mixed, runs(1), finishes()], tmp_path)
    assert on_path(run) == ["look a", "look b", "look c", "execute_query SELECT 1", "finish"]
    assert dropped(run) == [("look a", "repeat"), ("look c", "repeat")]


def test_calls_beyond_the_budget_of_a_turn_are_not_run(tmp_path):
    many = says(*[("look", {"at": str(n)}) for n in range(32)])
    agent = agent_of([many, says(("finish", {"no_answer": True}))], tmp_path)
    run = ask(agent, "?")
    assert len(run.path) == 30
    assert len(agent.kb.ran) == 30
    assert dropped(run) == [("look 30", "over budget"), ("look 31", "over budget")]
    said = agent.policy._model.seen[1][-1].text
    assert '2 calls were not run, for which no action was left: look {"at": "30"}; look {"at": "31"}\n' in said
    assert "1 of 15 turns used, and 30 of 30 actions" in said


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (says(("fly", {"to": "moon"})), "There is no tool 'fly'. The tools are: look, execute_query, finish."),
        (says(("look", {"at": [1, 2]})), "look was not called: at: Input should be a valid string"),
        (says(("look", {})), "at: Field required"),
        (AIMessage(""), "If the result of the last query answers the question, call finish."),
        (AIMessage("The answer is 42."), "No tool was called"),
        (
            AIMessage("", invalid_tool_calls=[invalid_tool_call(name="look", args='{"at": "x', id="1", error=None)]),
            "not a readable JSON object",
        ),
    ],
)
def test_what_cannot_be_run_becomes_an_observation(tmp_path, reply, told):
    run = asked([reply, runs(1), finishes()], tmp_path)
    assert told in run.path[0].observation
    assert not run.path[0].ok
    assert run.outcome.status == "answered"


def test_a_reply_in_words_alone_is_asked_for_again_at_no_cost_and_counts_as_the_finish_the_second_time(tmp_path):
    words = AIMessage("There are two.")
    agent = agent_of([runs(2), words, AIMessage("There are two, as I said.")], tmp_path, steps=2, actions=2)
    run = ask(agent, "?")
    assert "said again alone they count as that" in run.path[1].observation
    assert "1 of 2 turns used." in agent.policy._model.seen[2][-1].text
    assert (run.outcome.status, run.outcome.text) == ("answered", "There are two, as I said.")
    last = asked([runs(2), looks("a"), words], tmp_path, steps=2)
    assert (last.outcome.status, last.outcome.text) == ("answered", "There are two.")


def test_words_that_come_before_any_result_are_no_answer_and_cost_an_action_the_second_time(tmp_path):
    agent = agent_of([AIMessage("I know it."), AIMessage("I do."), runs(2), finishes()], tmp_path)
    run = ask(agent, "?")
    assert [step.call.tool for step in run.path] == ["(no tool)", "(no tool)", "execute_query", "finish"]
    shown = [messages[-1].text for messages in agent.policy._model.seen]
    assert ["0 of 15" in shown[1], "1 of 15" in shown[2], "2 of 15" in shown[3]] == [True] * 3


def test_results_are_numbered_by_themselves_and_not_by_the_action(tmp_path, mini_kb):
    def queries(text):
        return says(("execute_query", {"query": text}))

    good, other = "SELECT ?x { ?x wdt:P61 wd:Q7186 }", "SELECT ?x { ?x wdt:P61 ?y }"
    replies = [
        says(("search_entities", {"query": "radium"})), queries(good), queries("SELECT"), queries(other), queries(good),
        says(("show_rows", {"result": 3})), says(("finish", {"result": 1})),
    ]  # fmt: skip
    run = ask(spinach_with(ScriptedModel(replies=replies), None, mini_kb, Settings(home=tmp_path, language="en")), "?")
    assert "Result 1: 2 rows" in run.path[1].observation
    assert "Result 3: " in run.path[3].observation
    assert run.path[4].observation.startswith("This is result 1 again.")
    assert run.path[5].observation.startswith("Result 3:\n")
    assert run.outcome.query == good
    assert [step.result for step in run.path] == [0, 1, 2, 3, 1, 0, 0]


def test_a_follow_up_knows_the_answer_that_was_taken_back_and_its_numbers_go_on(tmp_path, mini_kb):
    texts = [f"SELECT ?x {{ ?x {path} ?y }}" for path in ("wdt:P61", "wdt:P31", "wdt:P575", "wdt:P19")]
    one, two, three, four = (says(("execute_query", {"query": text})) for text in texts)
    named = says(("finish", {"result": 3}))
    model = ScriptedModel(replies=[one, two, one, three, one, named, four, named])
    agent = spinach_with(model, None, mini_kb, Settings(home=tmp_path, language="en"))
    run = ask(agent, "?")
    after = ask(agent, "And?", history=run.turns)
    assert [(step.result, step.dropped) for step in run.discarded] == [(3, "rolled back"), (0, "repeat")]
    assert [step.result for step in (*run.turns[0].steps, *after.path)] == [1, 2, 1, 3, 0, 4, 0]
    assert run.outcome.query == after.outcome.query == texts[2]


def test_a_corrected_call_is_no_repeat_of_the_one_that_could_not_be_run(tmp_path):
    unread = AIMessage(
        "", tool_calls=[{"name": "execute_query", "args": {"query": "SELECT 2", "thought": []}, "id": "1"}]
    )
    unread.tool_calls[0]["args"]["thought"] = ["not a text"]
    run = asked([unread, runs(2), finishes()], tmp_path)
    assert on_path(run) == ["execute_query SELECT 2", "execute_query SELECT 2", "finish"]
    assert run.outcome.status == "answered"
    assert run.discarded == ()


def test_an_answer_is_not_turned_away_for_the_lack_of_a_thought(tmp_path):
    run = asked([runs(2), AIMessage("", tool_calls=[{"name": "finish", "args": {}, "id": "1"}])], tmp_path)
    assert (run.outcome.status, run.outcome.query) == ("answered", "SELECT 2")


def test_a_query_in_a_fence_in_the_text_is_run(tmp_path):
    run = asked([AIMessage("I try this:\n```sparql\nSELECT 3\n```\nLet us see."), finishes()], tmp_path)
    assert (run.path[0].call.tool, run.path[0].rows, run.path[0].call.thought) == ("execute_query", 3, "I try this:")
    assert run.outcome.query == "SELECT 3"


def gives_up() -> AIMessage:
    return says(("finish", {"no_answer": True}), thought="Nobody is known for it.")


def test_no_answer_can_be_said_after_a_query_and_not_before(tmp_path):
    run = asked([looks("a"), gives_up(), runs(0), gives_up()], tmp_path)
    assert dropped(run) == [("look a", "rolled back"), ("finish True", "premature finish")]
    assert (run.outcome.status, run.outcome.stop, run.outcome.note) == (
        "no answer",
        "finish",
        "Nobody is known for it.",
    )
    assert run.outcome.table is None


def test_a_question_may_be_asked_back_before_any_query_and_says_nothing_of_the_knowledge_base(tmp_path):
    back = says(("finish", {"no_answer": True, "answer": "Which query do you mean?"}))
    for before in ([], [runs(0)]):
        run, out = asked([*before, back], tmp_path), io.StringIO()
        print_answer(Console(file=out), run, "")
        outcome = run.outcome
        assert out.getvalue().split("\n")[0].strip() == outcome.text
        assert (outcome.status, outcome.text, outcome.absence) == ("no answer", "Which query do you mean?", None)


def test_a_refusal_is_a_typed_stop(tmp_path):
    run = asked([AIMessage("", additional_kwargs={"refusal": "I will not."})], tmp_path)
    assert (run.outcome.status, run.outcome.stop, run.outcome.note) == ("refused", "refusal", "I will not.")


def test_a_dead_service_stops_the_run_after_the_trajectory_is_saved(tmp_path):
    with pytest.raises(ServiceError, match="the query service is down"):
        asked([looks("a"), runs(3), runs("down"), runs(1)], tmp_path)
    (saved,) = (tmp_path / "runs").glob("*.json")
    run = load_run(saved)
    assert [step.call.tool for step in run.path] == ["look", "execute_query", "execute_query"]
    assert (run.outcome.status, run.outcome.stop, run.outcome.note) == ("failed", "error", "the query service is down")
    assert len(run.outcome.table) == 3


def test_what_was_dropped_is_hinted_at_unless_that_is_turned_off(tmp_path):
    for hint in (True, False):
        agent = agent_of([looks("a"), looks("a"), runs(1), finishes()], tmp_path, hint=hint)
        ask(agent, "?")
        last = agent.policy._model.seen[2][-1]
        assert isinstance(last, HumanMessage)
        assert ('look {"at": "a"}' in last.text) is hint


def test_events_tell_of_every_call_before_it_runs_and_of_every_drop(tmp_path):
    heard = Heard()
    ask(agent_of([looks("a"), looks("b"), looks("a"), runs(1), finishes()], tmp_path), "?", on_event=heard)
    kinds = [event.kind for event in heard.events]
    assert kinds == ["call", "step", "call", "step", "dropped", "call", "step", "call", "step"]
    assert [step.dropped for step in heard.events[4].steps] == ["rolled back", "repeat"]


def test_a_saved_run_replays_to_the_same_path(tmp_path):
    first = asked([looks("a"), looks("b"), looks("a"), runs(0), finishes(), runs(2), finishes()], tmp_path)
    again = asked(replay_model(first).replies, tmp_path)
    assert [step.call.key for step in again.path] == [step.call.key for step in first.path]
    assert [step.number for step in again.discarded] == [step.number for step in first.discarded]
    assert again.outcome.table == first.outcome.table


def test_at_most_eight_calls_of_a_turn_run_at_once(tmp_path):
    places, pairs = threading.Semaphore(8), threading.Barrier(2, timeout=60)

    def together(query: str) -> None:
        assert places.acquire(blocking=False), "a ninth runs"
        pairs.wait()
        time.sleep(0.02)
        places.release()

    calls = says(*(("execute_query", {"query": f"SELECT {number}"}) for number in range(20)))
    run = ask(agent_of([calls], tmp_path, kb=NumbersKB(together)), "?")
    assert [step.rows for step in run.path[:20]] == [*range(20)]


def test_rows_are_kept_where_only_the_words_fail(tmp_path):
    def no_words(outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        raise ServiceError("the model is down")

    run = ask(replace(agent_of([runs(2), finishes()], tmp_path), ending=QueryEnding(no_words)), "?")
    assert (run.outcome.status, len(run.outcome.table), run.outcome.text) == ("answered", 2, "0, 1")
    assert run.outcome.note == "The sentence could not be written; the rows are the answer."
    assert run.outcome.error == "the model is down"


CALLS = st.one_of(
    st.tuples(st.just("look"), st.fixed_dictionaries({"at": st.sampled_from("abc")})),
    st.tuples(
        st.just("execute_query"),
        st.fixed_dictionaries({"query": st.sampled_from(["SELECT 0", "SELECT 1", "SELECT 2", "SELECT broken"])}),
    ),
    st.tuples(st.just("finish"), st.just({})),
    st.tuples(st.just("finish"), st.fixed_dictionaries({"result": st.integers(1, 4)})),
    st.tuples(
        st.sampled_from(["look", "finish", "nothing", ""]), st.dictionaries(st.text(max_size=3), st.text(), max_size=2)
    ),
    st.tuples(st.just("look"), st.fixed_dictionaries({"at": st.one_of(st.integers(), st.none(), st.text())})),
)
BROKEN = st.builds(
    lambda args: AIMessage("", invalid_tool_calls=[invalid_tool_call(name="look", args=args, id="1", error=None)]),
    st.text(),
)
REPLIES = st.one_of(
    st.lists(CALLS, min_size=1, max_size=5).map(lambda calls: says(*calls)),
    st.sampled_from(["", "Nothing to do.", "\ud800"]).map(AIMessage),
    BROKEN,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(REPLIES, max_size=20),
    st.fixed_dictionaries(
        {}, optional={"steps": st.integers(1, 15), "actions": st.integers(1, 30), "rollback_depth": st.integers(1, 5)}
    ),
)
def test_whatever_a_model_says_the_rules_hold(tmp_path, replies, budget):
    agent = agent_of(replies, tmp_path, **budget)
    heard = Heard()
    run = ask(agent, "?", on_event=heard)
    rules = agent.settings.budget
    keys = Counter(step.call.key for step in run.path)
    with_rows = {step.call.key for step in run.path if step.rows}
    assert all(keys[key] == 1 + (key in with_rows and keys[key] == 2) for key in keys), "the path holds a repeat"
    free = {step.number for step in run.steps if step.call.tool == "finish" and not step.call.problem}
    assert len({step.call.turn for step in run.path if step.number not in free}) <= rules.steps + 1
    uncounted = {step.number for step in run.steps if step.dropped in ("over budget", "not alone")}
    silent = any(step.call.tool == "(no tool)" for step in run.steps)
    assert len(run.steps) - len(free | uncounted) - silent <= rules.actions
    assert [step.number for step in run.steps] == list(range(1, len(run.steps) + 1)), "an action was lost"
    assert {step.number: step.dropped for step in run.discarded} == {
        step.number: step.dropped for event in heard.events if event.kind == "dropped" for step in event.steps
    }
    observed = {step.number for event in heard.events if event.kind == "step" for step in event.steps}
    assert observed == {step.number for step in run.steps if step.dropped in ("", "rolled back")}
    assert run.outcome.status in ("answered", "best effort", "no answer", "refused")
    finished = [index for index, step in enumerate(run.path) if step.call.tool == "finish" and step.ok]
    assert finished in ([], [len(run.path) - 1])
    chosen = bool(run.path) and keys[run.path[-1].call.key] == 2
    assert (run.outcome.status == "answered") == bool(finished or (chosen and run.outcome.stop.endswith("budget")))
    if run.outcome.status == "no answer":
        assert run.outcome.table is None
    elif run.outcome.status != "refused" or run.outcome.table is not None:
        assert len(run.outcome.table) > 0
    assert load_run(tmp_path / "runs" / f"{run.id}.json") == run


def test_what_is_asked_side_by_side_is_one_turn_of_the_path_and_each_an_action(tmp_path):
    two = [says(("look", {"at": f"{n}a"}), ("look", {"at": f"{n}b"})) for n in range(20)]
    run = asked([runs(3), *two], tmp_path)
    assert (len(run.path), run.outcome.stop) == (1 + 2 * 14, "step budget")
    assert asked([runs(3), *two], tmp_path, actions=20).outcome.stop == "action budget"
    one_a_turn = asked([runs(3), *two], tmp_path, steps=5, without=("parallel",))
    assert len(one_a_turn.path) == 5


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
    ("queries", "result", "status"),
    [
        (["SELECT ?x { wd:Q131733 p:P26/ps:P26 ?x }"], 0, "answered"),  # it is stated that he had no spouse
        (
            ["SELECT ?x { ?x wdt:P61 wd:Q131761 MINUS { ?x wdt:P575 ?d } }"],
            0,
            "answered",
        ),  # all are excluded, in this copy
        (["SELECT ?x { wd:Q979 wdt:P61 ?x }", "SELECT ?x { wd:Q131733 p:P26/ps:P26 ?x }"], 0, "no answer"),  # beside it
        (["SELECT ?x { wd:Q979 wdt:P61 ?x }", "SELECT ?x { wd:Q131733 p:P26/ps:P26 ?x }"], 2, "answered"),
    ],
)
def test_the_sentence_of_no_answer_is_told_and_is_the_answer_where_there_is_none_for_sure(
    queries, result, status, mini_kb, tmp_path
):
    ends = says(("finish", {"no_answer": True, "result": result, "answer": "There is none."}))
    model = ScriptedModel(replies=[*(says(("execute_query", {"query": one})) for one in queries), ends])
    run = ask(spinach_with(model, None, mini_kb, Settings(home=tmp_path, language="en")), "Which?")
    outcome, out = run.outcome, io.StringIO()
    print_answer(Console(file=out), run, "")
    assert out.getvalue().partition("\n")[0].endswith("There is none.")
    assert (outcome.status, outcome.text, outcome.note) == (status, "There is none.", "")
    assert (outcome.query, outcome.table is None) == (queries[-1], status == "no answer")


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


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Which elements did the Curies discover?", "The query also gives person."),
        ("Welche Elemente haben die Curies entdeckt?", "Die Abfrage ergibt auch person."),
    ],
)
def test_finish_names_the_columns_that_were_asked_for_and_equal_rows_are_one(mini_kb, tmp_path, question, note):
    query = "SELECT ?element ?person { ?element wdt:P61 ?person . VALUES ?person { wd:Q7186 wd:Q37463 } }"
    replies = [
        says(("execute_query", {"query": query})),
        says(("finish", {"columns": "who"})),
        says(("finish", {"columns": "element", "answer": "Polonium and radium."})),
    ]
    agent = spinach_with(ScriptedModel(replies=replies), None, mini_kb, Settings(home=tmp_path, model="s"))
    run = ask(agent, question)
    assert run.path[-2].observation.endswith("The result has no column who; it has element, person.")
    table = run.outcome.table
    assert (table.columns, run.outcome.note) == (("element",), note)
    assert sorted(table.entity(row[0]) for row in table.rows) == ["Q1128", "Q979"]


@pytest.mark.parametrize("cancelling", [cancellation, lambda: nullcontext(Cancellation())])
def test_stopping_hangs_up_on_the_model_at_once(tmp_path, cancelling):
    with cancelling() as stoppable, silent() as (url, asked, hung_up):
        settings = Settings(home=tmp_path, language="en", model="any", base_url=url, model_retries=0)
        agent = build_spinach(NumbersKB(), settings)
        threading.Thread(target=lambda: asked.wait(30) and stoppable.stop()).start()
        run, failure = attempt(agent, "How many?", cancellation=stoppable)
        assert hung_up.wait(10)
    assert isinstance(failure, Stopped)
    assert (run.outcome.status, run.outcome.note, run.path) == ("failed", "Stopped on request.", ())
    assert run.outcome.absence is None


def test_stopping_does_not_wait_for_a_tool_and_records_the_call_that_was_cut_off(tmp_path):
    asked, go_on, cancellation = threading.Event(), threading.Event(), Cancellation()
    kb = NumbersKB(lambda query: (asked.set(), go_on.wait(30)))
    agent = agent_of([looks("a"), runs(5), finishes()], tmp_path, kb=kb)
    threading.Thread(target=lambda: asked.wait(30) and cancellation.stop("Out of time.")).start()
    run, failure = attempt(agent, "How many?", cancellation=cancellation)
    go_on.set()
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
