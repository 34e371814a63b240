"""Chats, follow-ups and saved runs, as a person meets them on the command line."""

import json
from dataclasses import replace

from kbnav.runs.trajectory import load_run, save_run
from tests.apps.parts import QUERY, QUESTION, curie, model
from tests.models.stub import ModelStub, failure


def test_show_prints_every_step_and_marks_those_taken_back(kbnav):
    again = curie()
    with ModelStub([again[0], *again]) as stub:
        _, out, _ = kbnav("ask", "-q", "--json", *model(stub), QUESTION)
    shown = kbnav.out("show", "last")
    assert json.loads(out)["run"] in shown
    assert "↶ search_entities Marie Curie (repeat)" in shown
    assert "↶ search_entities Marie Curie (rolled back)" in shown
    assert "2 taken back" in shown


def test_a_saved_run_can_be_replayed_without_its_model(kbnav, home):
    with ModelStub(curie()) as stub:
        kbnav("ask", "-q", *model(stub), QUESTION)
    (saved,) = (home / "runs").glob("*.json")
    out = kbnav.out("ask", "--json", "-q", "--model", f"replay:{saved}", QUESTION)
    assert json.loads(out)["query"] == QUERY


def test_a_chat_understands_a_follow_up_and_goes_on_by_its_id(kbnav):
    with ModelStub(curie()) as stub:
        code, out, _ = kbnav("chat", *model(stub), typed=f"{QUESTION}\n")
    session = out.split("session ")[1].split()[0]
    assert f"kbnav chat --session {session} --model stub --base-url {stub.base_url}" in out
    assert code == 0
    with ModelStub(curie(query="SELECT ?spouse WHERE { wd:Q7186 wdt:P26 ?spouse }", said="Pierre Curie.")) as stub:
        code, out, _ = kbnav("chat", "--session", session, *model(stub), typed="And who was her husband?\n")
    assert code == 0
    assert "Pierre Curie." in out
    sent = stub.requests[0]["messages"]
    assert [message["role"] for message in sent] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert sent[1]["content"] == QUESTION
    assert json.loads(sent[4]["tool_calls"][0]["function"]["arguments"])["query"] == QUERY
    assert "polonium" in sent[5]["content"]
    assert sent[8]["content"] == "Polonium and radium."
    assert sent[9]["content"] == "And who was her husband?"


def test_a_bad_line_or_a_failing_model_does_not_end_a_chat(kbnav):
    with ModelStub([failure(401, "Incorrect\x1b[2J key"), *curie()]) as stub:
        code, out, error = kbnav("chat", *model(stub), typed=f"{'x' * 20_000}\n{QUESTION}\n{QUESTION}\n")
    assert code == 0
    assert "20,000 characters" in error
    assert "refused the key: Incorrect[2J key" in error
    assert "Polonium and radium." in out


def test_ask_continue_is_a_follow_up_to_the_last_question(kbnav, home):
    code, _, error = kbnav("ask", "--continue", "And her husband?")
    assert (code, error) == (2, "kbnav: there is no earlier question to follow up\n")
    with ModelStub(curie()) as stub:
        kbnav("ask", "-q", *model(stub), QUESTION)
    (asked,) = (home / "runs").glob("*.json")
    for name, language in (("bm25", "en"), ("tests.apps.parts:RANKER", "en"), ("gone:build_it", "")):
        ranked = replace(load_run(asked), id=f"run-{name}", system=name, language=language, question="words")
        save_run(ranked, home / "runs")
    follow = curie(query="SELECT ?spouse WHERE { wd:Q7186 wdt:P26 ?spouse }", said="Pierre Curie.")
    with ModelStub(follow) as second:
        code, out, _ = kbnav("ask", "-q", "--continue", "--base-url", second.base_url, "And who was her husband?")
    assert code == 0
    assert f"after: {QUESTION}" in out
    assert "Pierre Curie." in out
    sent = second.requests[0]
    assert sent["model"] == "stub"
    assert [message["content"] for message in sent["messages"] if message["role"] == "user"][:2] == [
        QUESTION,
        "And who was her husband?",
    ]


def test_what_can_be_typed_in_a_chat_beside_questions(kbnav):
    lines = ["/sparql", "/nonsense", "/help", QUESTION, "What is xyzzy?", "/sparql", "/quit", "/left"]
    out = kbnav.out("chat", "--quiet", typed="\n".join(lines) + "\n")
    before, after = out.split("polonium, radium", 1)
    assert "there is no /nonsense; /help lists the commands" in before
    assert "/sparql  the query of the last answer" in before
    assert "no answer here has a query yet" in before
    assert "→" not in before
    assert "/left" not in after
    assert after.count("SELECT DISTINCT ?answer WHERE { ?answer wdt:P61 wd:Q7186 .") == 2


def test_runs_lists_what_was_asked_the_newest_last_and_ids_that_show_knows(kbnav):
    assert kbnav("runs") == (0, "", "")
    for question in ("Who was the spouse of Marie Curie?", "Which elements were discovered by Marie Curie?"):
        kbnav("ask", "--quiet", question)
    code, out, _ = kbnav("runs")
    first, second = out.splitlines()
    assert code == 0
    assert "answered" in first
    assert first.endswith("Who was the spouse of Marie Curie?")
    assert kbnav("show", second.split()[0])[0] == 0
    assert kbnav("runs", "--limit", "1")[1] == second + "\n"
