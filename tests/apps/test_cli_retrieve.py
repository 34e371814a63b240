"""``kbnav retrieve``, and retrieval systems in ``kbnav eval``, from the command line to the files they leave."""

import csv
import io
import json
from pathlib import Path

import pytest

from kbnav.runs.trajectory import find_run, load_run
from tests.apps.parts import Cli

QUERY = "What did the ship Patience carry?"


@pytest.fixture
def kbnav(demo_home: Path, demo_kb: object, monkeypatch: pytest.MonkeyPatch, kbnav: Cli) -> Cli:
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    return kbnav


def test_the_run_is_saved_and_shown(kbnav, demo_home):
    chosen = ("--set", "candidates=ship", "--set", "name_weight=2")
    printed = kbnav.out("retrieve", "--system", "bm25", "--kb", "demo", "--k", "3", *chosen, QUERY)
    assert "1. Patience (ship, ship:patience)" in printed
    saved = load_run(find_run("last", demo_home / "runs"))
    assert (saved.system, saved.model, saved.question) == ("bm25", "none", QUERY)
    assert saved.settings["options"] == {"candidates": ["ship"], "relations": None, "name_weight": 2.0}
    assert saved.outcome.ranking.ids[0] == "ship:patience"
    assert "→ bm25" in kbnav.out("show", "last")
    ranked = ("retrieve", "--kb", "demo", "--csv", QUERY)
    assert kbnav.out(*ranked) == kbnav.out(*ranked, "--system", "bm25")
    out = kbnav.out("ask", "--kb", "demo", "--csv", "-q", "Which person was born in Little Mew?")
    assert [(row["name"], row["born"], row["aliases"]) for row in csv.DictReader(io.StringIO(out))] == [
        ("Marit Skarrow", "1761", ""),
        ("Odd Skarrow", "1730", "the Skarrow fiddler"),
    ]


def test_words_that_lsa_does_not_know_find_nothing_and_that_is_said(kbnav):
    Path("n.csv").write_text("id,name,type,text\n1,Ann,person,a chemist\n2,Bob,person,an engineer\n")
    kbnav.out("skb", "build", "--nodes", "n.csv", "--encoder", "lsa", "--out", "n.skb")
    code, out, error = kbnav("retrieve", "--kb", "n.skb", "--system", "vss", "less noise")
    assert (code, "0.0000" in out + error) == (1, False)
    assert "nothing found: lsa knows no word of the query" in out + error
    assert "no word of the query" in kbnav.out("show")


def test_a_file_of_queries_without_answers_is_run_as_a_batch(kbnav):
    queries = {"q1": QUERY, "q2": "straight, light and white wood", "q3": "made by Prudence Sark"}
    lines = [json.dumps({"id": name, "question": text}) for name, text in queries.items()]
    Path("queries.jsonl").write_text("\n".join(lines))
    fixed = ("eval", "run", "queries.jsonl", "--kb", "demo", "--system", "rerank", "--model", "offline")
    assert "nothing is scored" in kbnav.out(*fixed, "--set", "first=bm25", "--jobs", "3", "--out", "out")
    records = [json.loads(line) for line in Path("out/questions.jsonl").read_text().splitlines()]
    assert {record["id"]: record["run"]["question"] for record in records} == queries
    assert all(record["run"]["outcome"]["ranking"]["nodes"] for record in records)


@pytest.mark.parametrize("system", ["bm25", "vss", "multi-vss", "graph-rank"])
def test_what_a_query_names_whole_comes_first(kbnav, system):
    rows = "r1,Rossi S.p.A.,firm,office p\nP-0189,Oak table,product,of a firm\nP-0190,Rossi table,product,oak\n"
    Path("n.csv").write_text(f"id,name,type,text\n{rows}")
    kbnav.out("skb", "build", "--nodes", "n.csv", "--encoder", "lsa", "--out", "n.skb")

    def found(*more: str) -> list[str]:
        _, out, error = kbnav("retrieve", "--kb", "n.skb", "--system", system, "--csv", *more)
        assert "Traceback" not in error
        return [row["id"] for row in csv.DictReader(io.StringIO(out))]

    firsts = [found(query)[0] for query in ("P-0189", "r1", "rossi s.p.a.", "oak table")]
    assert firsts == ["P-0189", "r1", "r1", "P-0189"]
    assert len(found("--k", "1", "r1")) == 1
    assert "r1" not in found("--set", "candidates=product", "r1")
