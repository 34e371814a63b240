"""``kbnav retrieve``, and retrieval systems in ``kbnav eval``, from the command line to the files they leave."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbnav.apps.cli import app
from kbnav.errors import UsageError
from kbnav.runs.trajectory import find_run, load_run

QUERY = "What did the ship Patience carry?"


@pytest.fixture(autouse=True)
def home(demo_home: Path, demo_kb: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    return demo_home


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_run_is_saved_and_shown(home):
    chosen = ("--set", "candidates=ship", "--set", "name_weight=2")
    printed = run("retrieve", "--system", "bm25", "--kb", "demo", "--k", "3", *chosen, QUERY)
    assert "1. Patience (ship, ship:patience)" in printed
    saved = load_run(find_run("last", home / "runs"))
    assert (saved.system, saved.model, saved.question) == ("bm25", "none", QUERY)
    assert saved.settings["options"] == {"candidates": ["ship"], "relations": None, "name_weight": 2.0}
    assert saved.outcome.ranking is not None
    assert saved.outcome.ranking.ids[0] == "ship:patience"
    assert "→ bm25" in run("show", "last")
    assert run("retrieve", "--kb", "demo", "--csv", QUERY) == run(
        "retrieve", "--kb", "demo", "--system", "bm25", "--csv", QUERY
    )
    rows = [
        *csv.DictReader(io.StringIO(run("ask", "--kb", "demo", "--csv", "-q", "Which person was born in Little Mew?")))
    ]
    assert [(row["name"], row["born"], row["aliases"]) for row in rows] == [
        ("Marit Skarrow", "1761", ""),
        ("Odd Skarrow", "1730", "the Skarrow fiddler"),
    ]


def test_words_that_lsa_does_not_know_find_nothing_and_that_is_said(tmp_path):
    (tmp_path / "n.csv").write_text("id,name,type,text\n1,Ann,person,a chemist\n2,Bob,person,an engineer\n")
    place = str(tmp_path / "n.skb")
    run("skb", "build", "--nodes", str(tmp_path / "n.csv"), "--encoder", "lsa", "--out", place)
    result = CliRunner().invoke(app, ("retrieve", "--kb", place, "--system", "vss", "less noise"))
    assert (result.exit_code, "0.0000" in result.output) == (1, False)
    assert "nothing found: lsa knows no word of the query" in result.output
    assert "no word of the query" in run("show")


def test_a_file_of_queries_without_answers_is_run_as_a_batch(tmp_path):
    queries = {"q1": QUERY, "q2": "straight, light and white wood", "q3": "made by Prudence Sark"}
    lines = [json.dumps({"id": name, "question": text}) for name, text in queries.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    fixed = ("eval", "run", str(tmp_path / "queries.jsonl"), "--kb", "demo", "--system", "rerank")
    printed = run(*fixed, "--model", "offline", "--set", "first=bm25", "--jobs", "3", "--out", str(tmp_path / "out"))
    assert "nothing is scored" in printed
    records = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()]
    assert {record["id"]: record["run"]["question"] for record in records} == queries
    assert all(record["run"]["outcome"]["ranking"]["nodes"] for record in records)


def test_a_retrieval_system_is_evaluated_resumed_and_compared(tmp_path):
    questions = [
        ("q1", "a log boat with otters under her deck", ["ship:patience"]),
        ("q2", "straight, light and white wood", ["material:hartsworth-spruce"]),
    ]
    lines = [json.dumps({"id": name, "question": text, "nodes": nodes}) for name, text, nodes in questions]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    fixed = ("eval", "run", str(tmp_path / "questions.jsonl"), "--kb", "demo")
    for system in ("bm25", "graph-rank"):
        run(*fixed, "--system", system, "--out", str(tmp_path / system), "--limit", "2")
    scores = json.loads(run("eval", "score", str(tmp_path / "bm25"), "--json"))
    assert "hit@1" in json.dumps(scores)
    records = [json.loads(line) for line in (tmp_path / "bm25" / "questions.jsonl").read_text().splitlines()]
    assert [record["run"]["outcome"]["ranking"]["nodes"][0][0] for record in records] == [
        nodes[0] for *_, nodes in questions
    ]
    assert records[0]["run"]["path"][0]["call"]["tool"] == "bm25"
    run(*fixed, "--system", "bm25", "--out", str(tmp_path / "bm25"), "--limit", "2")
    assert len((tmp_path / "bm25" / "questions.jsonl").read_text().splitlines()) == 2
    with pytest.raises(UsageError, match="differs in: setting options"):
        run(*fixed, "--system", "bm25", "--out", str(tmp_path / "bm25"), "--limit", "2", "--set", "relations=false")
    run("eval", "compare", str(tmp_path / "bm25"), str(tmp_path / "graph-rank"))


@pytest.mark.parametrize("system", ["bm25", "vss", "multi-vss", "graph-rank"])
def test_what_a_query_names_whole_comes_first(tmp_path, system):
    rows = "r1,Rossi S.p.A.,firm,office p\nP-0189,Oak table,product,of a firm\nP-0190,Rossi table,product,oak\n"
    (tmp_path / "n.csv").write_text(f"id,name,type,text\n{rows}")
    place = str(tmp_path / "n.skb")
    run("skb", "build", "--nodes", str(tmp_path / "n.csv"), "--encoder", "lsa", "--out", place)

    def found(*more: str) -> list[str]:
        result = CliRunner().invoke(app, ("retrieve", "--kb", place, "--system", system, "--csv", *more))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return [row["id"] for row in csv.DictReader(io.StringIO(result.stdout))]

    firsts = [found(query)[0] for query in ("P-0189", "r1", "rossi s.p.a.", "oak table")]
    assert firsts == ["P-0189", "r1", "r1", "P-0189"]
    assert len(found("--k", "1", "r1")) == 1
    assert "r1" not in found("--set", "candidates=product", "r1")
