"""Chats: follow-ups know the earlier turns, and a killed session goes on where it was."""

import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from kbnav.agents.common.agent import build_agent
from kbnav.agents.skb import skb_with
from kbnav.agents.spinach import build_spinach, spinach_with
from kbnav.answers.question import checked_question
from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout, ServiceError, UsageError
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import load_run
from kbnav.sessions.session import Chat, ask, attempt, sqlite_sessions
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, agent_of, finishes, looks, runs, walker
from tests.conftest import ROOT
from tests.knowledge.parts import Over

KILLED = """
import os, sys
from pathlib import Path
from tests.agents.parts import NumbersKB, agent_of, looks, runs
from kbnav.sessions.session import Chat, sqlite_sessions

home, dying = Path(sys.argv[1]), NumbersKB(lambda query: os._exit(9))
with sqlite_sessions(home) as saver:
    Chat(agent_of([looks("a"), looks("b"), runs(2)], home, kb=dying), "s1", saver).ask("How many?")
"""


def test_a_turn_that_ended_before_a_kill_came_is_saved_once_when_the_session_is_opened_again(tmp_path):
    agent = agent_of([runs(2), finishes()], tmp_path)
    with sqlite_sessions(tmp_path) as saver:
        run = Chat(agent, "s1", saver).attempt("How many?").run  # killed here, before it was saved
        for _ in range(2):
            Chat(agent, "s1", saver).recover()
    (path,) = (tmp_path / "runs").glob("*.json")
    found = load_run(path)
    assert (found.id, found.outcome.table, found.path) == (run.id, run.outcome.table, run.path)


def test_a_killed_session_goes_on_where_it_was(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert killed.returncode == 9
    agent = agent_of([finishes()], tmp_path)
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent, "s1", saver)
        assert chat.unfinished == "How many?"
        run = chat.ask("How many?")
        assert chat.unfinished is None
    assert [step.call.tool for step in run.path] == ["look", "look", "execute_query", "finish"]
    assert agent.kb.ran == ["SELECT 2"]  # the looks were not done again
    assert len(run.outcome.table) == 2


def test_a_question_that_was_only_written_down_when_a_kill_came_is_asked_again_once(tmp_path):
    with sqlite_sessions(tmp_path) as saver:
        for question in ("How many?", "And who?"):
            Chat(agent_of([runs(2), finishes()], tmp_path), "s1", saver).ask(question)
        with saver.cursor() as file:  # type: ignore[attr-defined]
            file.execute(
                "SELECT MAX(rowid) FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.source') = 'input'"
            )
            (written,) = file.fetchone()
            file.execute("DELETE FROM checkpoints WHERE rowid > ?", (written,))
            file.execute("DELETE FROM writes")
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent_of([runs(3), finishes()], tmp_path), "s1", saver)
        assert (chat.unfinished, [turn.question for turn in chat.history]) == (None, ["How many?"])
        assert len(chat.ask("And who?").outcome.table) == 3
        assert (chat.unfinished, [turn.question for turn in chat.history]) == (None, ["How many?", "And who?"])


def test_a_follow_up_reaches_the_policy_with_the_earlier_turns_actions_and_results(tmp_path):
    with sqlite_sessions(tmp_path) as saver:
        Chat(agent_of([looks("her"), runs(2), finishes()], tmp_path), "s1", saver).ask("How many did she find?")
    agent = agent_of([runs(3), finishes()], tmp_path)
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent, "s1", saver)
        run = chat.ask("And her husband?")
        assert [turn.question for turn in chat.history] == ["How many did she find?", "And her husband?"]
    assert len(run.history) == 1
    assert [step.result for step in run.path] == [2, 0]  # numbers go on
    again = agent_of([runs(4), says(("finish", {"result": 1, "thought": "As before."}))], tmp_path)
    with sqlite_sessions(tmp_path) as saver:
        assert len(Chat(again, "s1", saver).ask("And the first again?").outcome.table) == 2
    earlier = agent.policy._model.seen[0][1:]
    asked = [call["name"] for message in earlier if isinstance(message, AIMessage) for call in message.tool_calls]
    assert asked == ["look", "execute_query", "finish"]
    said = [message.text for message in earlier if not getattr(message, "tool_calls", None)]
    assert [text.removeprefix("<result>\n").removesuffix("\n</result>") for text in said] == [
        "How many did she find?", "seen: her", "2 rows", "Finished.", "0, 1", "And her husband?",
    ]  # fmt: skip
    assert isinstance(earlier[0], HumanMessage)
    assert isinstance(earlier[-1], HumanMessage)


def test_an_id_of_an_earlier_turn_is_not_told_to_be_checked(mini_kb, tmp_path):
    query = says(("execute_query", {"query": "SELECT ?x { wd:Q42 wdt:P69 ?x }"}))
    settings = Settings(home=tmp_path, language="en", model="scripted", budget={"steps": 1})
    told = []
    with sqlite_sessions(tmp_path) as saver:
        for question in ("Where did Douglas Adams learn?", "Where, again?"):
            agent = spinach_with(ScriptedModel(replies=[query]), None, mini_kb, settings)
            told.append(Chat(agent, "s1", saver).ask(question).path[0].observation.partition("\n")[0])
    assert told[0].startswith("(Check the ids that you have not seen before: ")
    assert "Q42" in told[0]
    assert not told[1].startswith("(Check")


@pytest.mark.parametrize(
    ("text", "said"),
    [*((text, "empty") for text in ("", "  \n\t ", "\x00\x1b", "\ud800")), ("x" * 102_400, "102,400 characters")],
)
def test_a_question_has_words_and_is_no_document_and_control_characters_are_taken_out(text, said):
    with pytest.raises(UsageError, match=said):
        checked_question(text)
    persian = "من\x00 اكتشف\x1b[31m\u202fالراديوم؟ می\u200cخواهم"
    assert checked_question(persian) == "من اكتشف [31m الراديوم؟ می\u200cخواهم"


def test_a_question_whose_server_was_killed_at_its_very_end_is_in_the_history_once(mini_kb, tmp_path):
    agent = build_spinach(mini_kb, Settings(home=tmp_path, language="en"))
    question = "Who discovered polonium?"
    with sqlite_sessions(tmp_path) as saver:
        Chat(agent, "s", saver).attempt(question)  # and the server did not live to tell
        Chat(agent, "s", saver).attempt(question, again=True)
        assert [turn.question for turn in Chat(agent, "s", saver).history] == [question]
        Chat(agent, "s", saver).attempt(question)  # somebody asks it once more
        assert [turn.question for turn in Chat(agent, "s", saver).history] == [question] * 2


def test_history_does_not_carry_whole_tables(tmp_path):
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent_of([runs(500), finishes()], tmp_path), "s1", saver)
        assert len(chat.ask("?").outcome.table) == 500
        assert chat.history[0].outcome.table is None


NAMES = re.compile(
    r"\b(search_entities|get_entry|get_property_examples|execute_query|search_neighbors|vector_query|show_rows|"
    r"find_relations|follow_paths|get_fields|follow_relations|search_relations|search_further)\b"
)


@pytest.mark.parametrize("name", ["spinach", "paper", "skb", "pasemiqa", "gog"])
def test_a_prompt_names_only_the_tools_that_its_agent_has(demo_kb, mini_kb, tmp_path, name):
    model = ScriptedModel(replies=[])
    options = {"preset": "paper"} if name == "paper" else {}
    settings = Settings(home=tmp_path, model="scripted", options=options)
    make = {
        "spinach": lambda: spinach_with(model, None, mini_kb, settings),
        "paper": lambda: spinach_with(model, None, mini_kb, settings),
        "skb": lambda: skb_with(model, None, demo_kb, settings),
    }
    agent = make[name]() if name in make else walker(name, demo_kb, settings, model=model)
    attempt(agent, "Which ship was built by Marit Skarrow?")
    prompt = str(model.seen[0][0].text)
    named = set(NAMES.findall(prompt))
    assert named <= set((agent.model_tools or agent.toolbox).names)
    assert named or name == "gog"
    if name == "pasemiqa":
        assert not re.search(r"\bplan\b", prompt)


SLOW = "the query took longer than 20 s"


def late(times: int, *queries: str) -> NumbersKB:
    """These queries are not answered the first so many times that each is asked."""
    asked: Counter[str] = Counter()

    def before(query: str) -> None:
        asked[query] += 1
        if query in queries and asked[query] <= times:
            raise QueryTimeout(SLOW)

    return NumbersKB(before)


def gives_up():
    return says(("finish", {"no_answer": True}))


def test_a_run_that_found_nothing_because_queries_were_not_answered_is_an_error_that_says_so(tmp_path):
    agent = agent_of([runs(2), runs(0), gives_up(), gives_up()], tmp_path, kb=late(9, "SELECT 2"))
    run, failure = attempt(agent, "How many?")
    assert run.outcome.status == "failed"
    assert f"A look-up was not answered ({SLOW})" in run.outcome.note
    assert isinstance(failure, ServiceError)
    assert SLOW in str(failure)


def test_an_answer_beside_which_a_query_was_not_answered_says_so(tmp_path):
    run = ask(agent_of([runs(3), runs(2), finishes()], tmp_path, kb=late(9, "SELECT 3")), "How many?")
    assert run.outcome.status == "answered"
    assert run.outcome.note == f"A look-up was not answered, so that something may be missing ({SLOW})."


def test_a_model_may_try_what_was_not_answered_once_more_itself(tmp_path):
    run = ask(agent_of([runs(2), runs(2), finishes()], tmp_path, kb=late(1, "SELECT 2")), "How many?")
    assert (run.outcome.status, run.discarded) == ("answered", ())
    kb = late(2, "SELECT 2", "SELECT 3")
    again, _ = attempt(agent_of([runs(2), runs(2), runs(2), runs(3), finishes()], tmp_path, kb=kb), "How many?")
    assert [step.dropped for step in again.discarded if step.call.key == again.path[0].call.key][-1:] == ["repeat"]


def test_the_offline_policy_does_not_go_on_to_another_property_when_a_query_was_late(tmp_path, mini_kb):
    late = [QueryTimeout(SLOW)]

    def first_late(query: str, **options: Any) -> AnswerTable:
        if late:
            raise late.pop()
        return mini_kb.execute_query(query, **options)

    agent = build_agent(Over(mini_kb, execute_query=first_late), Settings(home=tmp_path, language="en"), "spinach")
    run = ask(agent, "Who discovered polonium?")
    assert (run.outcome.status, run.outcome.text) == ("answered", "Marie Curie, Pierre Curie")
