"""The command line as a person or a script uses it: what it prints, and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

import pytest

from kbnav.trajectory import load_run, save_run
from tests.apps.parts import Cli
from tests.models.stub import Canned, ModelStub, completion, failure, silent_endpoint

QUESTION = "Which elements were discovered by Marie Curie?"
QUERY = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 }"


@pytest.fixture
def home(mini_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, with the bundled mirror already unpacked."""
    folder = tmp_path / "home"
    folder.mkdir()
    (mini_home / "mirrors").mkdir(exist_ok=True)
    (folder / "mirrors").symlink_to(mini_home / "mirrors")
    monkeypatch.setenv("KBNAV_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture
def kbnav(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(home)
    return Cli(monkeypatch, capsys)


def curie(*, query: str = QUERY, said: str = "Polonium and radium.") -> list[Canned]:
    """A model that searches, queries, finishes and writes."""
    return [
        completion(None, [("search_entities", {"thought": "Who is she?", "query": "Marie Curie"})]),
        completion(None, [("execute_query", {"thought": "Ask.", "query": query})]),
        completion(None, [("finish", {"thought": "Done."})]),
        completion(said),
    ]


def model(stub: ModelStub) -> list[str]:
    return ["--model", "stub", "--base-url", stub.base_url]


def test_ask_streams_steps_then_prints_answer_table_query_with_labels_and_link(kbnav):
    code, out, _ = kbnav("ask", QUESTION)
    assert code == 0
    steps, answer = out.split("─" * 100)
    assert "→ search_entities Marie Curie" in steps
    assert "offline policy: no language model" in steps
    assert answer.index("olonium") < answer.index("2 rows") < answer.index("Q7186: Marie Curie")
    link = next(line for line in answer.splitlines() if line.startswith("https://query.wikidata.org/#"))
    assert "wd:Q7186" in unquote(link)


def test_a_model_answers_in_its_own_words_and_its_tokens_are_saved(kbnav, home):
    with ModelStub(curie(said="Sie entdeckte Polonium und Radium.")) as stub:
        code, out, _ = kbnav("ask", "--quiet", *model(stub), "Welche Elemente hat Marie Curie entdeckt?")
    assert code == 0
    assert "Sie entdeckte Polonium und Radium." in out
    assert "→" not in out
    assert re.search(
        r"^3 steps, \d+\.\d s, \d+ requests, 4 model calls, 400 \+ 80 tokens, cost not known \(setting prices\); every",
        out,
        re.M,
    )
    asked_for_words = stub.requests[-1]
    assert "in the language of the question (code de)" in asked_for_words["messages"][0]["content"]
    assert "tools" not in asked_for_words
    (saved,) = (home / "runs").glob("*.json")
    run = load_run(saved)
    assert (run.usage.prompt, run.usage.completion, run.usage.calls) == (400, 80, 4)
    assert run.kb["mirror"]["triples"] > 1000
    assert run.versions["kbnav"]
    assert {"spinach/policy.md", "spinach/answer.md", "spinach/prune.md", "notice.md"} <= set(run.prompts)


def test_json_is_all_there_is_on_standard_output(kbnav):
    with ModelStub(curie()) as stub:
        code, out, error = kbnav("ask", "--json", *model(stub), QUESTION)
    answer = json.loads(out)
    assert code == 0
    assert answer["status"] == "answered"
    assert answer["answer"] == "Polonium and radium."
    found = {row["element"]["value"].rsplit("/", 1)[1] for row in answer["table"]["results"]["bindings"]}
    assert found == {"Q979", "Q1128"}
    assert {answer["labels"][one] for one in found} == {"polonium", "radium"}
    assert answer["query_labelled"].startswith("# P61: discoverer or inventor\n# Q7186: Marie Curie\nSELECT")
    assert unquote(answer["link"].partition("#")[2]) == QUERY
    assert "→ search_entities Marie Curie" in error


def test_csv_is_the_whole_table(kbnav):
    query = "SELECT ?n WHERE { ?x wdt:P1086 ?n } ORDER BY ?n"
    with ModelStub(curie(query=query)) as stub:
        code, out, _ = kbnav("ask", "--csv", *model(stub), "Which atomic numbers are there?")
    rows = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert rows[0] == ["n"]
    assert len(rows) > 25
    assert [int(row[0]) for row in rows[1:]] == sorted(int(row[0]) for row in rows[1:])


def test_a_limit_for_probing_is_taken_off_the_answer(kbnav):
    with ModelStub(curie(query="SELECT ?x WHERE { ?x wdt:P31 wd:Q11344 } LIMIT 3")) as stub:
        _, out, _ = kbnav("ask", "--json", *model(stub), "Which chemical elements are there?")
    answer = json.loads(out)
    assert "LIMIT" not in answer["query"]
    assert len(answer["table"]["results"]["bindings"]) > 25


def test_no_answer_is_exit_code_1(kbnav):
    with ModelStub([completion("I do not know.")]) as stub:
        code, out, _ = kbnav("ask", "-q", *model(stub), QUESTION)
    assert code == 1
    assert "The model's last 8 replies called no tool." in out


def test_a_refusal_is_exit_code_1(kbnav):
    with ModelStub([completion(None, refusal="I cannot help with that.")]) as stub:
        code, out, _ = kbnav("ask", "-q", *model(stub), QUESTION)
    assert code == 1
    assert "I cannot help with that." in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", ""], "the question is empty"),
        (["ask", "x" * 102_400], "102,400 characters"),
        (["ask", "--kb", "nowhere", "What?"], "no knowledge base 'nowhere'"),
        (["ask", "--kb", "minni", "What?"], "did you mean 'mini'?"),
        (["ask", "--kb", ".", "What?"], "neither an SKB nor a mirror: the meta.json that either has is not in it"),
        (["retrieve", "--kb", "mini", "--system", "bm25", "radium"], "name an SKB, as in --kb demo, or ask this one"),
        (["ask", "--json", "--csv", "What?"], "not both"),
        (["ask", "--model", "replay:none.json", "What?"], "cannot read the run none.json"),
        (["ask"], "Missing argument"),
        (["show", "last"], "no saved runs match 'last'"),
        (["chat", "--session", "chat-of-yesterday"], "there is no session 'chat-of-yesterday'"),
        (["mirror", "serve", "nowhere"], "no mirror in nowhere"),
        (["sparql", "serve", "nowhere.ttl"], "nowhere.ttl: no such file"),
        (["mirror", "build", "none.nt", "--out", "m"], "none.nt"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_clear_line(kbnav, arguments, said):
    code, _, error = kbnav(*arguments)
    assert code == 2
    assert said in error
    assert "Traceback" not in error


def test_a_wrong_setting_is_named(kbnav, home):
    (home / "kbnav.toml").write_text("[budget]\nsteps = 0\n")
    assert kbnav("ask", "What?")[0::2] == (
        2,
        "kbnav: settings: budget.steps: Input should be greater than or equal to 1\n",
    )
    (home / "kbnav.toml").write_text("[budget\n")
    code, _, error = kbnav("ask", "What?")
    assert code == 2
    assert error.startswith("kbnav: kbnav.toml: ")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (failure(401, "Incorrect API key provided"), "refused the key"),
        (Canned(b"<html>hello</html>", 200, "text/html"), "no completion"),
    ],
)
def test_a_failing_service_is_exit_code_3_and_the_run_is_saved(kbnav, home, reply, said):
    with ModelStub([reply]) as stub:
        code, _, error = kbnav("ask", *model(stub), QUESTION)
    assert code == 3
    assert said in error
    assert error.count("\n") == 1
    assert len(list((home / "runs").glob("*.json"))) == 1


def test_a_model_that_does_not_answer_is_said_to_be_asked_again(kbnav, home):
    (home / "kbnav.toml").write_text("model_retries = 1\n")
    code, _, error = kbnav("ask", "-q", "--model", "stub", "--base-url", "http://127.0.0.1:9/v1", QUESTION)
    assert code == 3
    assert re.search(r"trying again in \d s\nkbnav: the model's endpoint cannot be reached", error)


def test_live_wikidata_without_a_contact_says_what_to_set(kbnav):
    code, _, error = kbnav("ask", "--kb", "wikidata", QUESTION)
    assert code == 3
    assert "KBNAV_CONTACT" in error


def test_a_model_without_a_key_says_what_to_set(kbnav):
    for command in (["ask", QUESTION], ["serve", "--port", "0", "--model", "offline"]):
        code, out, error = kbnav(*command, "--model", "gpt-4o")
        assert (code, out) == (3, "")
        assert "set OPENAI_API_KEY" in error


def test_show_prints_every_step_and_marks_those_taken_back(kbnav):
    again = curie()
    with ModelStub([again[0], *again]) as stub:
        _, out, _ = kbnav("ask", "-q", "--json", *model(stub), QUESTION)
    code, shown, _ = kbnav("show", "last")
    assert code == 0
    assert json.loads(out)["run"] in shown
    assert "↶ search_entities Marie Curie (repeat)" in shown
    assert "↶ search_entities Marie Curie (rolled back)" in shown
    assert "2 taken back" in shown


def test_a_finish_beside_other_calls_was_not_run_and_so_not_taken_back(kbnav):
    search, _, finish, said = curie()
    both = completion(None, [("execute_query", {"thought": "Ask.", "query": QUERY}), ("finish", {})])
    with ModelStub([search, both, finish, said]) as stub:
        _, out, _ = kbnav("ask", "-q", "--json", *model(stub), QUESTION)
    answer = json.loads(out)
    assert (answer["taken_back"], answer["not_run"]) == (0, 1)
    _, shown, _ = kbnav("show", "last")
    assert "3 steps, 1 not run," in shown
    assert "taken back" not in shown


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


def test_ctrl_c_ends_a_run_at_once_and_saves_it(home):
    with silent_endpoint() as (url, asked, _):
        command = [
            sys.executable,
            "-c",
            "from kbnav.apps.cli import main; main()",
            "ask",
            "--model",
            "m",
            "--base-url",
            url,
            QUESTION,
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 3
    assert error == "kbnav: Interrupted; the run so far is saved: kbnav show last\n"
    (saved,) = (home / "runs").iterdir()
    assert load_run(saved).outcome.status == "failed"


def test_the_version_is_that_of_the_package(kbnav):
    assert kbnav("--version") == (0, f"kbnav {version('kbnav')}\n", "")


def test_a_saved_run_can_be_replayed_without_its_model(kbnav, home):
    with ModelStub(curie()) as stub:
        kbnav("ask", "-q", *model(stub), QUESTION)
    (saved,) = (home / "runs").glob("*.json")
    code, out, _ = kbnav("ask", "--json", "-q", "--model", f"replay:{saved}", QUESTION)
    assert code == 0
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


def test_a_link_to_live_wikidata_says_that_it_is_not_this_copy(kbnav):
    _, out, _ = kbnav("ask", "-q", QUESTION)
    assert "the link asks live Wikidata" in out


def test_a_bad_line_or_a_failing_model_does_not_end_a_chat(kbnav):
    with ModelStub([failure(401, "Incorrect\x1b[2J key"), *curie()]) as stub:
        code, out, error = kbnav("chat", *model(stub), typed=f"{'x' * 20_000}\n{QUESTION}\n{QUESTION}\n")
    assert code == 0
    assert "20,000 characters" in error
    assert "refused the key: Incorrect[2J key" in error
    assert "Polonium and radium." in out


def test_the_best_so_far_is_exit_code_0_and_the_words_are_asked_to_say_so(kbnav):
    lost = [
        completion(None, [("search_entities", {"thought": "Hm.", "query": f"thing {number}"})]) for number in range(14)
    ]
    with ModelStub([*curie()[:2], *lost, completion("So far: polonium and radium.")]) as stub:
        code, out, _ = kbnav("ask", "-q", *model(stub), QUESTION)
    assert code == 0
    assert "Out of budget; the best found so far: So far: polonium and radium." in out
    assert "The work ran out of budget" in stub.requests[-1]["messages"][0]["content"]
    assert "Only finish is left" in stub.requests[-2]["messages"][-1]["content"]


def test_a_model_on_a_mirror_is_told_that_much_is_missing(kbnav):
    with ModelStub(curie()) as stub:
        kbnav("ask", "-q", *model(stub), QUESTION)
    assert "a frozen part of Wikidata" in stub.requests[0]["messages"][0]["content"]


def test_labels_cannot_move_the_cursor(kbnav):
    with ModelStub(curie(said="Polonium\x1b[2J\x1b]0;owned\x07 and radium.")) as stub:
        _, out, _ = kbnav("ask", "-q", *model(stub), QUESTION)
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_question_in_arabic_is_answered_in_arabic_labels(kbnav):
    with ModelStub(curie(said="البولونيوم والراديوم")) as stub:
        code, out, _ = kbnav("ask", "--json", "-q", *model(stub), "ما العناصر التي اكتشفتها ماري كوري؟")
    assert code == 0
    assert json.loads(out)["language"] == "ar"


def test_a_mirror_can_be_built_and_asked(kbnav, home):
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (home / "tiny.nt").write_text(
        f'<http://www.wikidata.org/entity/Q1> {label} "one"@en .\n'
        "<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P31>"
        " <http://www.wikidata.org/entity/Q2> .\n"
    )
    code, _, _ = kbnav("mirror", "build", "tiny.nt", "--out", "tiny-mirror")
    assert code == 0
    with ModelStub(curie(query="SELECT ?x WHERE { wd:Q1 wdt:P31 ?x }")) as stub:
        code, out, _ = kbnav("ask", "--json", "-q", "--kb", "tiny-mirror", *model(stub), "What is one?")
    assert code == 0
    assert json.loads(out)["table"]["results"]["bindings"][0]["x"]["value"].endswith("/Q2")


def test_a_corrupt_slice_is_named_with_its_line(kbnav, home):
    (home / "bad.nt").write_text("<http://a/b> <http://a/c> <http://a/d> .\nnonsense\n")
    code, _, error = kbnav("mirror", "build", "bad.nt", "--out", "m")
    assert code == 2
    assert "bad.nt" in error
    assert "2" in error
    assert not (home / "m").exists()


def test_a_question_is_read_from_standard_input(kbnav):
    code, out, _ = kbnav("ask", "-q", "--json", "-", typed="Which elements were\ndiscovered by Marie Curie?\n")
    assert code == 0
    assert json.loads(out)["question"] == QUESTION


def test_ask_continue_is_a_follow_up_to_the_last_question(kbnav, home):
    code, _, error = kbnav("ask", "--continue", "And her husband?")
    assert (code, error) == (2, "kbnav: nothing was asked before that could be followed up\n")
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


def test_what_can_be_typed_in_a_chat_beside_questions(kbnav, home):
    lines = [
        "/sparql", "/nonsense", "/help", QUESTION, "/sparql", "/steps", "/model", "/kb", "/model gpt-4o", "/kb nowhere",
        "/save", "/save answers.json", "/save table.csv", "/save table.txt", "/kb demo", "/save",
    ]  # fmt: skip
    code, out, error = kbnav("chat", "--quiet", typed="\n".join(lines) + "\n")
    assert code == 0
    before, after = out.split("polonium, radium", 1)
    assert "there is no /nonsense; /help lists what there is" in before
    assert [line for line in ("/help", "/sparql", "/steps", "/model", "/kb", "/save") if line not in before] == []
    assert "→" not in before
    assert after.count("SELECT DISTINCT ?answer WHERE { ?answer wdt:P61 wd:Q7186 .") == 4
    assert "→ search_entities" in after
    assert "model: offline" in after
    assert "kb: mini" in after
    assert "nothing was asked yet" in error
    assert "set OPENAI_API_KEY" in error
    assert "no knowledge base 'nowhere'" in error
    assert "must end in .md, .json or .csv" in error
    assert "from now on on demo with offline" in after
    session = out.split("session ")[1].split()[0]
    assert f"kbnav chat --session {session} --kb demo" in after
    assert json.loads((home / "answers.json").read_text())[0]["question"] == QUESTION
    assert (home / "table.csv").read_text().splitlines()[0] == "answer"
    told = (home / f"{session}.md").read_text()
    assert told.startswith(f"## {QUESTION}\n\npolonium, radium\n\n| answer |\n| --- |\n| Q979 (polonium) |\n")
    assert "# P61: discoverer or inventor\n" in told


def test_parts_are_left_out_of_a_question_as_of_a_benchmark(kbnav):
    _, _, steps = kbnav("ask", "--json", "--without", "get_entry,search_neighbors", "--without", "hint", QUESTION)
    assert "search_entities" in steps
    assert "get_entry" not in steps
    assert "search_neighbors" not in steps
    code, _, said = kbnav("ask", "--without", "get_entries", QUESTION)
    assert (code, "no tool get_entries to leave out" in said) == (2, True)


def test_options_of_a_served_system_need_its_name(kbnav):
    code, _, said = kbnav("serve", "--set", "preset=paper")
    assert (code, "name it with --system" in said) == (2, True)
