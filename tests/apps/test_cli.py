"""The command line as a person or a script uses it: what it prints, its exit codes, its help."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from kbnav.agents.machine import Event
from kbnav.apps.cli import app
from kbnav.apps.cli.terminal import RunProgress as Progress
from kbnav.apps.cli.terminal import stop_on_signals
from kbnav.apps.console import EXAMPLES
from kbnav.runs.trajectory import Call, Step, load_run
from kbnav.settings.model import setting_names
from tests.apps.parts import QUERY, QUESTION, curie, model
from tests.conftest import ROOT
from tests.dripping import silent
from tests.ending import started
from tests.models.stub import Canned, ModelStub, completion, failure


def test_ask_streams_steps_then_prints_answer_table_query_with_labels_and_link(kbnav):
    out = kbnav.out("ask", QUESTION)
    steps, answer = out.split("─" * 100)
    assert "→ search_entities Marie Curie" in steps
    assert "offline policy: no language model" in steps
    assert answer.index("olonium") < answer.index("2 rows") < answer.index("Q7186: Marie Curie")
    link = next(line for line in answer.splitlines() if line.startswith("https://query.wikidata.org/#"))
    assert "wd:Q7186" in unquote(link)


def test_a_model_answers_in_its_own_words_and_its_tokens_are_saved(kbnav, home):
    with ModelStub(curie(said="Sie entdeckte Polonium und Radium.")) as stub:
        out = kbnav.out("ask", "--quiet", *model(stub), "Welche Elemente hat Marie Curie entdeckt?")
    assert "Sie entdeckte Polonium und Radium." in out
    assert "→" not in out
    assert re.search(
        r"^gefragt: mini; 3 Schritte, \d+\.\d s, \d+ Anfragen, 4 Modellaufrufe, 400 \+ 80 Token, "
        r"Kosten nicht bekannt \(Einstellung prices\); jeder",
        out,
        re.M,
    )
    assert "Der Link fragt" in out
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


@pytest.mark.parametrize("question", ["hello", "Why is the sky blue?"])
def test_rules_that_find_nothing_offer_questions_that_they_answer(kbnav, question):
    code, out, _ = kbnav("ask", "-q", question)
    assert (code, out.count("Ask instead:")) == (1, 1)
    offered = [line.strip() for line in out.partition("Ask instead:\n")[2].splitlines()[:3]]
    assert len({*offered} & {*EXAMPLES["mini"]}) == 3


@pytest.mark.parametrize(("kb", "question"), [(kb, one) for kb, some in EXAMPLES.items() for one in some])
def test_rules_answer_every_example_without_a_doubt(kbnav, kb, question):
    answer = json.loads(kbnav.out("ask", "-q", "--json", "--kb", kb, question))
    assert (answer["status"], answer["doubts"]) == ("answered", [])


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "Wie viele Elemente wurden von Humphry Davy entdeckt?",
            ["1 Zeile", "In dieser Kopie (einem Teil von Wikidata): 3"],
        ),
        ("Wer ist der Präsident von Frankreich?", ["Es wurde keine Antwort gefunden.", "Stattdessen fragen:"]),
    ],
)
def test_what_is_said_of_an_answer_is_in_the_language_of_the_question(kbnav, question, said):
    lines = kbnav("ask", "-q", question)[1].splitlines()
    assert [one for one in said if one not in lines] == []
    english = r"No answer|\brows?$|Doubt|This copy|not used|instead"
    assert [line for line in lines if re.search(english, line)] == []


def test_no_answer_is_exit_code_1(kbnav):
    with ModelStub([completion("I do not know.")]) as stub:
        code, out, _ = kbnav("ask", "-q", *model(stub), QUESTION)
    assert code == 1
    assert "The model's last 8 replies called no tool." in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", ""], "the question is empty"),
        (["ask", "--kb", "nowhere", "What?"], "no knowledge base 'nowhere'"),
        (["ask", "--kb", __file__, "What?"], "is a file: `kbnav skb build`"),
        (["ask", "--kb", ".", "What?"], "neither an SKB nor a mirror: the meta.json that either has is not in it"),
        (["retrieve", "--kb", "mini", "--system", "bm25", "radium"], "name an SKB, as in --kb demo (kb= in Python)"),
        (["ask", "--json", "--csv", "What?"], "not both"),
        (["ask", "--csv", "--evidence", "What?"], "--evidence goes with --json"),
        (["show", "last"], "no saved runs match 'last'"),
        (["ask", "# of Curie\nSELECT ?x { ?x wdt:P61 wd:Q7186 }"], "`kbnav sparql query` runs it"),
        (["ask", "SELECT # things\nDISTINCT # each once\n?x { ?x wdt:P61 wd:Q7186 }"], "`kbnav sparql query` runs it"),
        (["ask", "DESCRIBE wd:Q42"], "`kbnav sparql query` runs it"),
        (["ask", "--set", "model_timout=5", "What?"], "did you mean 'model_timeout'?"),
        (["chat", "--kb", "nowhere", "--session", "ed1"], "there is no session 'ed1'"),
        (["sparql", "index", "nowhere", "--out", "names"], "no SPARQL endpoint 'nowhere'"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_clear_line(kbnav, arguments, said):
    assert said in kbnav.refused(*arguments)


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


def test_a_model_without_a_key_says_what_to_set(kbnav):
    for command in (["ask", QUESTION], ["serve", "--port", "0", "--model", "offline"]):
        code, out, error = kbnav(*command, "--model", "gpt-4o")
        assert (code, out) == (3, "")
        assert "set OPENAI_API_KEY" in error


def test_ctrl_c_ends_a_run_at_once_and_saves_it(home):
    with silent() as (url, asked, _):
        command = [sys.executable, "-m", "kbnav", "ask", "--model", "m", "--base-url", url, QUESTION]
        with started(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
    assert process.returncode == 3
    assert error.endswith("kbnav: Interrupted; the run so far is saved: kbnav show last\n")
    (saved,) = (home / "runs").iterdir()
    assert load_run(saved).outcome.status == "failed"


@pytest.mark.timeout(5)
def test_a_signal_in_the_middle_of_a_wait_for_it_is_noticed():
    def interrupt(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is threading.Condition.wait.__code__:  # under the lock of the event
            sys.setprofile(None)
            signal.raise_signal(signal.SIGTERM)

    with stop_on_signals() as stop:
        sys.setprofile(interrupt)
        assert stop.wait(2)


def test_the_best_so_far_is_exit_code_0_and_the_words_are_asked_to_say_so(kbnav):
    lost = [
        completion(None, [("search_entities", {"thought": "Hm.", "query": f"thing {number}"})]) for number in range(14)
    ]
    with ModelStub([*curie()[:2], *lost, completion("So far: polonium and radium.")]) as stub:
        out = kbnav.out("ask", "-q", *model(stub), QUESTION)
    assert "The time or the steps ran out; the best found so far: So far: polonium and radium." in out
    assert "The work ran out of budget" in stub.requests[-1]["messages"][0]["content"]
    assert "Only finish is left" in stub.requests[-2]["messages"][-1]["content"]


CALL = Call("execute_query", {"query": "ASK {}"}, "Ask.")


def seen(*, terminal: bool, steps: bool = True) -> str:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=terminal, width=80), "gpt-4o", steps=steps) as progress:
        progress(Event("call", call=CALL))
        progress(Event("step", steps=(Step(1, CALL, "true"),)))
        progress(Event("call", call=CALL))
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", out.getvalue())


def test_a_terminal_says_what_is_waited_for_then_clears_it():
    shown = seen(terminal=True)
    model, running = shown.index("waiting for gpt-4o …"), shown.index("running execute_query …")
    assert model < shown.index("→ execute_query") < running < shown.rindex("waiting for gpt-4o …")
    assert "ASK {}" in shown
    assert "ASK" not in seen(terminal=True, steps=False)
    assert "waiting" in seen(terminal=True, steps=False)


def test_what_is_no_terminal_gets_the_steps_alone_a_thought_of_several_calls_once():
    assert "".join(seen(terminal=False).split()) == "·Ask.→execute_queryASK{}true→execute_queryASK{}"
    assert seen(terminal=False, steps=False) == ""


def test_each_setting_says_its_value_and_where_it_comes_from(kbnav, monkeypatch):
    Path("kbnav.toml").write_text('kb = "demo"\n[budget]\nsteps = 9\nactions = 11\n[bot]\npassword = "sesame-open"\n')
    monkeypatch.setenv("KBNAV_BUDGET__STEPS", "12")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nevertobeleft")
    out = kbnav.out("config", "--json")
    told = {one["name"]: (one["value"], one["source"]) for one in json.loads(out)}
    assert list(told) == list(setting_names())
    assert told["budget.steps"] == (12, "KBNAV_BUDGET__STEPS")
    assert told["budget.actions"] == (11, "kbnav.toml")
    assert told["kb"] == ("demo", "kbnav.toml")
    assert told["model"] == ("offline", "default")
    assert told["api_key"] == ("**********", "OPENAI_API_KEY")
    assert "sesame" not in out
    assert "secret" not in out
    _, words, _ = kbnav("config", "budget.steps", "kb")
    assert words.splitlines()[:2] == ["kb            demo   (kbnav.toml)", "budget.steps  12   (KBNAV_BUDGET__STEPS)"]


def test_the_settings_file_of_a_folder_above_holds_with_the_files_that_it_names(kbnav, monkeypatch):
    Path("kbnav.toml").write_text(
        'kb = "shop.skb + wikidata + here"\nhome = "state"\n[sparql.here]\nurl = "http://a/"\nindex = "names"\n'
        '[options]\nindex = "as it is"\n'
    )
    for folder in ("shop.skb", "wikidata", "here", "a/b"):
        Path(folder).mkdir(parents=True)
    monkeypatch.chdir("a/b")
    monkeypatch.delenv("KBNAV_HOME")
    told = {one["name"]: (one["value"], one["source"]) for one in json.loads(kbnav.out("config", "--json"))}
    assert told["kb"] == ("../../shop.skb + wikidata + here", "../../kbnav.toml")
    assert told["options"][0] == {"index": "as it is"}
    assert told["home"][0] == "../../state"
    assert told["sparql"][0]["here"] | {"url": "http://a/", "index": "../../names"} == told["sparql"][0]["here"]
    Path("kbnav.toml").write_text("")  # the nearer one, which names nothing
    assert "../../" not in kbnav.out("config")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_the_settings_file_of_another_user_above_is_not_read(kbnav, monkeypatch):
    Path("kbnav.toml").write_text('base_url = "http://127.0.0.1:9/v1"\n')
    os.chown("kbnav.toml", 4711, -1)
    Path("a").mkdir()
    monkeypatch.chdir("a")
    assert "127.0.0.1:9" not in kbnav.out("config", "base_url")
    monkeypatch.chdir("..")  # whoever works in the folder itself sees the file
    assert "127.0.0.1:9" in kbnav.out("config", "base_url")


def test_a_misspelled_setting_or_variable_is_told_what_was_meant(kbnav):
    assert kbnav("config", "bugdet")[::2] == (2, "kbnav: no setting 'bugdet'; did you mean 'budget'?\n")
    Path("kbnav.toml").write_text("[limits]\nretrys = 3\n")
    assert kbnav("config")[::2] == (2, "kbnav: settings: no setting 'limits.retrys'; did you mean 'limits.retries'?\n")


def commands(found: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name in getattr(found, "commands", {}):
        inner = found.commands[name]
        yield from commands(inner, f"{path} {name}") if hasattr(inner, "commands") else [(f"{path} {name}", inner)]


GROUP: Any = typer.main.get_command(app)
COMMANDS = dict(commands(GROUP, "kbnav"))
SILENT = ("kbnav serve", "kbnav mcp", "kbnav sparql serve", "kbnav eval collect", "kbnav chat", "kbnav bot preview")
"""Those that serve, that are spoken to, or whose print is wikitext."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache
def said(path: str, option: str = "-h") -> str:
    result = CliRunner().invoke(app, [*path.split()[1:], option], prog_name="kbnav")
    assert result.exit_code == 0, result.output
    return result.output


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_in_plain_words_with_an_example_of_the_commands_own_options(path):
    text = said(path)
    assert text == said(path, "--help")
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)(?: [^a-z ].*?)?  +(\S.*)$", text, re.MULTILINE)
    assert all(words for _, words in options)
    text = " ".join(COMMANDS[path].help.split())
    example = re.search(rf"{re.escape(path)} ?([^.]|\.\w)*", text.split("xample", 1)[-1] if "xample" in text else text)
    assert example, text
    given = {word for word in shlex.split(example[0].split(": ")[0]) if word.startswith("--")}
    assert given <= options_of(COMMANDS[path])


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in SILENT])
def test_what_prints_can_print_json(path):
    assert "--json" in said(path)


def test_the_package_is_a_program():
    told = subprocess.run([sys.executable, "-m", "kbnav", "-h"], capture_output=True, text=True, check=True).stdout
    assert told.split() == said("kbnav").split()


def sentences(text: str) -> list[str]:
    text = re.sub(r"(?ms)^\s*```.*?^\s*```|^\s*\|.*?$|^#.*?$", "", text)
    text = re.sub(r"`[^`]*`", "code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    return [one for block in blocks for one in re.split(r"(?<=[.!?:;])[\s)]+", " ".join(block.split()))]


def test_no_sentence_of_help_readme_and_tutorials_is_longer_than_thirty_words():
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.name.startswith(("README", "tutorial-"))]
    for command in COMMANDS.values():
        texts += [command.help, *(getattr(parameter, "help", None) or "" for parameter in command.params)]
    assert [one for text in texts for one in sentences(text) if len(one.split()) > 30] == []


def named(text: str) -> list[str]:
    """The commands of kbnav in a page's text, without its blocks."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`(kbnav [a-z][^`]*)`", outside)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_in_sentences_have_the_options_that_stand_behind_them(page):
    for line in named(page.read_text(encoding="utf-8")):
        words, command = shlex.split(line.replace("…", ""))[1:], GROUP
        while words and (found := getattr(command, "commands", {}).get(words[0])):
            command, words = found, words[1:]
        assert command is not GROUP, line
        given = {word.partition("=")[0].rstrip(",") for word in words if word.startswith("--")}
        assert given <= options_of(command) | {"--help"}, line
