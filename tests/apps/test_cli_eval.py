"""``kbnav eval`` as a person uses it, on the mini mirror, killed and interrupted on the way."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kbnav.evaluation.evaluate import run_card
from kbnav.evaluation.records import QUESTIONS, read_records, read_saved_run
from kbnav.evaluation.scoring import score_run
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import to_json
from tests.apps.parts import Cli
from tests.ending import started, until
from tests.evaluation.parts import mini_dataset
from tests.models.stub import ModelStub, completion


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the mini mirror unpacked and its questions in ``mini.jsonl``."""
    monkeypatch.chdir(tmp_path)
    mini_dataset(tmp_path / "mini.jsonl")
    return tmp_path


@pytest.fixture
def kbnav(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    return Cli(monkeypatch, capsys, "eval")


RUN = ["run", "mini.jsonl", "--kb", "mini", "--jobs", "2"]
PAPER = ["run", "mini.jsonl", "--kb", "demo", "--out", "a", "--set", "preset=paper", "--system"]


def test_run_score_and_compare(kbnav, folder):
    code, out, error = kbnav(*RUN, "--out", "runs/a", "--limit", "8")
    assert code == 0
    assert "8/8 questions" in error
    assert "runs/a: spinach (offline) on mini, 8 questions" in out
    saved = read_saved_run(folder / "runs" / "a")
    scores = score_run(saved)
    assert scores.all.values["f1"] > 0.4
    assert f"f1         {100 * scores.all.values['f1']:.2f}" in out
    assert saved.info.kb["mirror"]["triples"] > 1000
    assert "endpoints" not in saved.info.kb
    assert saved.info.versions["kbnav"]
    assert str(folder) not in to_json(saved.info)
    assert all(record.run.steps and not record.run.settings for record in saved.records.values())
    assert list((folder / "home").glob("runs/*")) == []
    again = kbnav(*RUN, "--out", "runs/a", "--limit", "8")[2]
    assert "going on: 8 of 8 questions were answered before, nothing is left to ask" in again
    before = (folder / "runs" / "a" / "scores.json").read_bytes()
    out = kbnav.out("score", "runs/a", "--json")
    assert json.loads(out)["all"]["questions"] == 8
    assert (folder / "runs" / "a" / "scores.json").read_bytes() == before
    assert "+0.00 (+0.00 to +0.00), p = 1.0000" in kbnav.out("compare", "runs/a", "runs/a")


def test_a_run_is_made_again_from_what_it_saved(kbnav, folder, monkeypatch):
    secret = ("--set", "api_key=sk-not-to-be-shown")
    kbnav.out(*RUN, "--out", "runs/a", "--limit", "4", "--without", "rollback", "--set", "budget.steps=7", *secret)
    out = kbnav.out("repeat", "runs/a/run.json", "--json")
    card = json.loads(out)
    assert (card["setting budget.steps"], card["setting budget.without"]) == ("7", '["rollback"]')
    assert (card["model"], card["system"]) == ("offline", "spinach (without rollback)")
    assert ("4 questions" in card["dataset"], card["sample"]) == (True, "limit 4")
    info = read_saved_run(folder / "runs" / "a").info
    long = dict(run_card(replace(info, model="gpt-4o", kb={"files": {f"f{n}": "0" * 64 for n in range(99)}})))
    assert long["list price"].startswith("$2.5 in, $10 out")
    assert max(map(len, long.values())) < 200
    assert secret[1].partition("=")[2] not in out
    (folder / "mini.jsonl").rename(folder / "kept.jsonl")
    gold = folder / "runs" / "a" / "gold.jsonl"
    whole = gold.read_text()
    gold.write_text(whole.splitlines()[0] + "\n")
    assert "gold.jsonl: the question " in kbnav.refused("repeat", "runs/a", "--out", "runs/b")
    gold.write_text(whole)
    out = kbnav.out("repeat", "runs/a", "--out", "runs/b")  # the folder is enough
    (folder / "kept.jsonl").rename(folder / "mini.jsonl")
    assert "changed since runs/a: nothing" in out
    write_whole(folder / "runs" / "a" / "run.json", to_json(replace(info, versions={**info.versions, "openai": "1"})))
    code, out, _ = kbnav("repeat", "runs/a", "--dataset", "mini.jsonl", "--out", "runs/b")
    assert f"changed since runs/a:\n  version of openai: 1 → {info.versions['openai']}\n" in out
    first, again = (read_saved_run(folder / "runs" / name) for name in "ab")
    assert {one: record.run.outcome.table for one, record in first.records.items()} == {
        one: record.run.outcome.table for one, record in again.records.items()
    }
    assert again.gold == first.gold
    for name in ("gold.jsonl", "questions.jsonl"):
        (folder / "runs" / "a" / name).unlink()
    gone = {**info.settings, "options": {**info.settings["options"], "gone": 1}}
    write_whole(folder / "runs" / "a" / "run.json", to_json(replace(info, settings=gone)))
    code, _, error = kbnav("repeat", "runs/a", "--dataset", "mini.jsonl", "--out", "runs/c")
    assert (code, "a kbnav with other settings: spinach has no option 'gone'" in error) == (2, True)
    for name, value in {
        "kb": "http://127.0.0.1:9/",
        "base_url": "http://127.0.0.1:9/",
        "with_tools": ["os:system"],
        "endpoints": {"sparql": "http://127.0.0.1:9/"},
        "sparql": {"evil": {"url": "http://127.0.0.1:9/"}},
    }.items():
        foreign = to_json(replace(info, settings={**info.settings, name: value}))
        write_whole(folder / "runs" / "a" / "run.json", foreign)
        refused = kbnav.refused("repeat", "runs/a", "--dataset", "mini.jsonl", "--out", "runs/c")
        assert f"KBNAV_{name.upper()}" in refused
    moved = to_json(replace(info, settings={**info.settings, "kb": "moved"}))
    write_whole(folder / "runs" / "a" / "run.json", moved)
    out = kbnav.out("repeat", "runs/a", "--dataset", "mini.jsonl", "--kb", "mini", "--out", "runs/d")
    assert "runs/a holds no answers to compare with" in out
    assert read_saved_run(folder / "runs" / "d").gold.keys() == first.gold.keys()
    with (folder / "mini.jsonl").open("a") as file:
        file.write('{"id": "new", "question": "Who?", "sparql": "ASK {}"}\n')
    assert "have changed" in kbnav.refused("repeat", "runs/a", "--dataset", "mini.jsonl", "--out", "runs/c")


def test_gold_queries_that_fail_are_named_before_the_first_question(kbnav, folder, caplog):
    (folder / "q.csv").write_text("id,question,sparql\na,A?,SELECT ?x { ?x wdt:P61 wd:Q7186 }\nbad,Bad?,SELECT ?x {")
    code, out, _ = kbnav("run", "q.csv", "--kb", "mini", "--out", "runs/q")
    assert (code, "1 of 2 questions have no gold answer and are not scored" in out) == (1, True)
    assert caplog.messages[0].startswith("no gold answer of bad: QuerySyntaxError: ")
    assert caplog.messages[1].startswith("1 of 2 questions have no gold answer and cannot be scored")


def test_what_no_score_can_come_of_is_said_before(kbnav, folder, caplog):
    lines = [{"id": one, "question": f"Who is {one}?", "answers": [one]} for one in ("Q7186", "Q99999991", "Q99999992")]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "half.jsonl").write_text("\n".join(map(json.dumps, lines[:2])))
    kbnav.out("run", "half.jsonl", "--kb", "mini", "--out", "h")
    assert not [one for one in caplog.messages if "not in this copy" in one]
    kbnav.out("run", "q.jsonl", "--kb", "mini", "--out", "a")
    assert "2 of 3 answers in the gold, such as Q99999991, are not in this copy" in caplog.messages[-1]
    asked = [f"q{one},Who?,SELECT ?x {{ ?x wdt:P61 wd:{one} }}" for one in ("Q7186", "Q99999991", "Q99999992")]
    (folder / "q.csv").write_text("\n".join(["id,question,sparql", *asked]))
    kbnav.out("run", "q.csv", "--kb", "mini", "--out", "empty")
    assert "2 of 3 gold answers, such as that of qQ99999991, have no rows on this copy" in caplog.messages[-1]
    more = ["no,No?,ASK { wd:Q7186 wdt:P61 wd:Q7186 }", "zero,Zero?,SELECT (COUNT(?x) AS ?n) { ?x wdt:P61 wd:Q1 }"]
    (folder / "q.csv").write_text("\n".join(["id,question,sparql", *asked, *more]))
    kbnav.out("run", "q.csv", "--kb", "mini", "--answerable", "--out", "some")
    assert sum("have no rows" in one for one in caplog.messages) == 1
    assert read_saved_run(folder / "some").info.questions == ("qQ7186",)
    (folder / "one.txt").write_text("qQ7186\n")
    kbnav.out("run", "q.csv", "--kb", "mini", "--only", "one.txt", "--out", "one")
    kbnav.out("repeat", "one", "--dataset", "q.csv", "--out", "again")
    for one in ("one", "again"):
        card = json.loads(kbnav.out("repeat", one, "--json"))
        assert card["dataset"].startswith("q, 1 question, ")
        assert card["sample"] == f"only 1 of 5, SHA-256 of the ids {hashlib.sha256(b'qQ7186').hexdigest()}"
    (folder / "n.jsonl").write_text(json.dumps({"id": "n", "question": "Which ship?", "nodes": ["ship:heron"]}))
    for system in ("kar", "pasemiqa", "skb"):
        kbnav.out("run", "n.jsonl", "--kb", "demo", "--system", system, "--out", system)
    said = [one.split()[8] for one in caplog.messages if one.startswith("rules stand in for the language model")]
    assert said == ["kar", "pasemiqa"]


def test_frozen_gold_answers_and_an_ablation_against_them(kbnav, folder):
    out = kbnav.out("freeze", "mini.jsonl", "--kb", "mini", "--out", "gold", "--jobs", "2")
    assert "questions, " in out
    assert "0 failed" in out
    assert kbnav("freeze", "mini.jsonl", "--kb", "mini", "--out", "gold", "--set", "retires=1")[0] == 2
    whole = (folder / "gold" / "mini.jsonl").read_bytes()
    told = json.loads(kbnav.out("freeze", "mini.jsonl", "--kb", "mini", "--out", "gold", "--json"))
    assert told["no_or_0"] == 2  # chlorine, Cavendish
    assert (folder / "gold" / "mini.jsonl").read_bytes() == whole
    out = kbnav.out(
        "sweep", *RUN[1:], "--gold", "gold", "--answerable", "--limit", "6", "--out", "abl",
        "--without", "search_entities", "--without", "hint,rollback",
    )  # fmt: skip
    assert "abl/without-search_entities against abl/full, 6 questions of both" in out
    assert "p = " in out
    full, without, rules = (
        read_saved_run(folder / "abl" / name) for name in ("full", "without-search_entities", "without-hint-rollback")
    )
    tools = {step.call.tool for record in without.records.values() for step in record.run.steps}
    assert "search_entities" not in tools
    assert without.info.settings["without_tools"] == ["search_entities"]
    assert set(rules.info.settings["budget"]["without"]) == {"hint", "rollback"}
    assert score_run(full).all.values["f1"] > score_run(without).all.values["f1"]
    assert full.gold == without.gold


def test_reports_and_dataset_statistics_are_written_where_they_are_asked_for(kbnav, folder):
    for name in ("a", "b"):
        assert kbnav(*RUN, "--out", name, "--limit", "2")[0] == 0
    out = kbnav.out("report", "a", "b")
    assert "| Run |" in out
    code, out, _ = kbnav("report", "a", "b", "--html", "r/report.html")
    size = (folder / "r" / "report.html").stat().st_size
    assert (code, out) == (0, f"r/report.html ({size:,} bytes)\n")
    assert r"\begin{table}" in kbnav.out("report", "a", "b", "--html", "r/report.html", "--table", "latex")
    told = json.loads(kbnav("report", "a", "b", "--json")[1])
    assert [run["run"] for run in told["runs"]] == ["a", "b"]
    assert "Who discovered polonium?" in (folder / "r" / "report.html").read_text()
    statistics = json.loads(kbnav.out("dataset", "stats", "mini.jsonl", "--json"))
    assert statistics["questions"] == len((folder / "mini.jsonl").read_text().splitlines())
    assert kbnav("dataset", "stats", "mini.jsonl")[1].startswith("| Dataset |")
    assert "spinach-dev" in kbnav("dataset", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*RUN, "--out", "a", "--system", "oracle"], "no system 'oracle'; known: spinach"),
        ([*RUN, "--out", "a", "--without", "get_entries"], "no tool get_entries to leave out"),
        ([*RUN, "--out", "a", "--model", "our-own", "--max-cost", "1"], "--max-cost needs the price of our-own"),
        ([*RUN, "--out", "a", "--only", os.devnull], "names no question"),
        ([*RUN, "--out", "a", "--set", "preset=paper"], "the preset paper needs a model"),
        ([*PAPER, "kar"], "the preset paper needs a model"),
        (["run", "qald-11", "--out", "a"], "no dataset 'qald-11'"),
        (["run", "hf:owner/name", "--out", "a"], "hf download owner/name"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_clear_line(kbnav, arguments, said):
    assert said in kbnav.refused(*arguments)


def test_a_models_tokens_and_cost_are_counted_and_its_key_is_not_saved(kbnav, folder, monkeypatch):
    (folder / "kbnav.toml").write_text("[prices.stub]\nprompt = 1000.0\ncompletion = 10000.0\n")
    monkeypatch.setenv("KBNAV_API_KEY", "a-nevertobeleft-key")
    replies = [
        completion(None, [("execute_query", {"thought": "Ask.", "query": "SELECT ?x { ?x wdt:P61 wd:Q7186 }"})]),
        completion(None, [("finish", {"thought": "Done."})]),
        completion("Polonium and radium."),
    ]
    with ModelStub(replies * 2) as stub:
        model = ["--model", "stub", "--base-url", stub.base_url, "--jobs", "1", "--max-cost", "0.5"]
        code, out, error = kbnav("run", "mini.jsonl", "--kb", "mini", *model, "--limit", "3", "--out", "a")
    # A reply is 100 tokens in and 20 out: three are $0.30 + $0.60, so that one question passes the limit.
    assert code == 1
    assert "3 model calls, 300 + 60 tokens, $0.90" in out
    assert "1/3 questions" in error
    assert "stopped (cost limit)" in error
    (record,) = read_records(folder / "a").values()
    assert (record.run.cost, record.run.usage.calls) == (pytest.approx(0.9), 3)
    saved = read_saved_run(folder / "a").info
    assert "spinach/policy.md" in saved.prompts
    assert "notice.md" in saved.prompts
    for path in (folder / "a").iterdir():
        assert "a-nevertobeleft-key" not in path.read_text()


def test_ctrl_c_lets_the_questions_under_way_end(folder):
    command = [sys.executable, "-m", "kbnav", "eval", *RUN, "--limit", "12", "--out", "interrupted"]
    answered, pipe = folder / "interrupted" / QUESTIONS, subprocess.PIPE
    with started(command, stderr=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        until(lambda: answered.exists() and answered.stat().st_size)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        out, error = process.communicate(timeout=60)
    records = read_records(folder / "interrupted")
    assert process.returncode == 1
    assert "stopped (interrupted); the same command continues it" in error
    assert "Traceback" not in error
    assert 1 <= len(records) < 12
    assert not any(record.error for record in records.values())
    assert f"over the {len(records)} reached" in out
