"""What a query is made of, power, sheets of errors and lengths of conversations."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.dataset_stats import Triple, conversation_lengths, conversations_markdown, query_shape
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.report import COLUMNS, html_report, load_report, read_sheet, write_sheet
from tests.apps.parts import Cli
from tests.evaluation.parts import saved_folder

ANN, BOB = (f"[[User:{name}|{name}]] 12:00, 1 January 2026 (UTC)" for name in ("Ann", "Bob"))
QUERY = "{{SPARQL|query=SELECT ?x { ?x wdt:P31 wd:Q5 }}}"


@pytest.fixture
def kbnav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kbnav: Cli) -> Cli:
    monkeypatch.chdir(tmp_path)
    return kbnav


def nodes(*ids: str) -> Ranking:
    return Ranking(tuple(Ranked(one, 1.0) for one in ids))


def ranked(folder: Path, *right: bool) -> Path:
    """A run of rankings: question n has the gold node n, and it is found where ``right`` says so."""
    gold = {f"q{n}": (f"n{n}",) for n in range(len(right))}
    answers = {f"q{n}": nodes(f"n{n}" if found else "other") for n, found in enumerate(right)}
    return saved_folder(folder, gold, answers)


def test_the_smallest_difference_that_a_set_can_show(kbnav, tmp_path):
    code, out, _ = kbnav("eval", "compare", "--questions", "155")
    # SPINACH, C.2: on its 155 questions differences of 9.0 % or more
    assert (code, "on 15.0% of them: 9.0 points" in out) == (0, True)
    ranked(tmp_path / "a", True, True, False, False)
    ranked(tmp_path / "b", True, False, True, False)
    code, out, _ = kbnav("eval", "compare", "a", "b", "--questions", "400")
    assert "hit@1: the runs disagree on 50.0% of 4 questions of both" in out
    assert "400 questions; smallest difference they can show (significance 0.05, power 0.8):" in out
    code, out, _ = kbnav("eval", "compare", "a")
    assert out.startswith("4 questions")
    assert "of them: none" in out
    assert kbnav("eval", "compare")[0] == 2


def test_a_sheet_of_errors_is_drawn_labelled_and_reported(kbnav, tmp_path):
    run = ranked(tmp_path / "run", *(n >= 30 for n in range(40)))
    code, out, _ = kbnav("eval", "report", "run", "--errors", "5", "--seed", "3")
    assert (code, "5 of 30 questions scored below 0.05" in out) == (0, True)
    rows = list(csv.DictReader(io.StringIO((run / "errors.csv").read_text())))
    assert [tuple(row) for row in rows] == [COLUMNS] * 5
    assert {row["class"] for row in rows} == {"not found"}
    assert [row["gold"] for row in rows] == [f"n{row['id'][1:]}" for row in rows]
    assert {row["answer"] for row in rows} == {"other"}
    first = (run / "errors.csv").read_bytes()
    kbnav("eval", "report", "run", "--errors", "5", "--seed", "3")
    assert (run / "errors.csv").read_bytes() == first
    kbnav("eval", "report", "run", "--errors", "5", "--seed", "4")
    assert [row["id"] for row in read_sheet(run / "errors.csv")] != [row["id"] for row in rows]
    for row, label in zip(rows, ("Property", "property ", "format", "<b>", ""), strict=True):
        row["label"] = label
    with (run / "errors.csv").open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    report = load_report([run])
    assert list(report.runs[0].labels.items()) == [
        ("property", {"not found": 2}),
        ("<b>", {"not found": 1}),
        ("format", {"not found": 1}),
    ]
    assert "<bdi>&lt;b&gt;</bdi>" in html_report(report)
    code, _, error = kbnav("eval", "report", "run", "--errors", "20")
    assert (code, "holds labels" in error) == (2, True)  # nobody's work is written over


def test_what_is_no_sheet_is_refused_and_formulas_stay_text(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="has the columns id, class and label"):
        read_sheet(tmp_path / "x.csv")
    with pytest.raises(UsageError, match="no question that was answered has mrr below"):
        write_sheet(read_saved_run(ranked(tmp_path / "good", True)), tmp_path / "y.csv")
    evil = saved_folder(tmp_path / "evil", {"=1+1": ("n",)}, {"=1+1": nodes("@x")})
    write_sheet(read_saved_run(evil), tmp_path / "z.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "z.csv").read_text()))
    assert [row[name][:1] for name in ("id", "question", "answer")] == ["'", "'", "'"]


def test_conversations_are_as_long_as_they_have_responses(kbnav, tmp_path):
    (tmp_path / "forum").mkdir()
    page = [
        f"== Volcanoes ==\nHow? {ANN}\n: {QUERY} {BOB}\n:: Thanks {ANN}\n",  # two responses
        f"== Alone ==\n{QUERY} {ANN}\n",
        f"== Chat ==\nHello {ANN}\n: Hello {BOB}\n",
        f"== Long ==\nHow? {ANN}\n" + f": so {QUERY} {BOB}\n" * 12,
    ]
    (tmp_path / "forum" / "2026-01.wiki").write_text("".join(page))
    out = kbnav.out("eval", "dataset", "stats", "forum", "--of", "threads")
    assert "2 conversations; 1 without a response and 1 without SPARQL are left out." in out
    assert "| 2 | 1 | 50.0% |" in out
    assert "| \\> 10 | 1 | 50.0% |" in out
    assert "| 7 and more | 1 | 50.0% |" in out
    assert json.dumps(conversations_markdown(conversation_lengths([]))).count("0 conversations") == 1
    assert kbnav("eval", "dataset", "stats", "nowhere", "--of", "threads")[0] == 2


WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"


def test_every_kind_of_clause_is_counted_once():
    shape = query_shape("""
        # ?comment wdt:P1 "not code"
        SELECT DISTINCT ?x ?xLabel (COUNT(?y) AS ?n) WHERE {
          VALUES ?x { wd:Q1 wd:Q2 }
          ?x wdt:P31/wdt:P279* wd:Q5, wd:Q6 ; wdt:P106 [ wdt:P279 ?y ] .
          OPTIONAL { ?x wdt:P18 ?image FILTER(?image != "a # b"@en) }
          MINUS { ?x wdt:P570 [] }
          { ?x wdt:P569 ?date } UNION { ?x wdt:P571 ?date }
          FILTER(YEAR(?date) > 1900 && NOT EXISTS { ?x wdt:P31 wd:Q7 })
          BIND(1.5 AS ?weight)
          SERVICE wikibase:label { bd:serviceParam wikibase:language "en" . }
        } GROUP BY ?x ?xLabel HAVING (COUNT(?y) > 2) ORDER BY DESC(?n) LIMIT 10""")
    assert shape.clauses == Counter(
        {"triple": 9, "FILTER": 2}
        | dict.fromkeys(("SELECT", "VALUES", "OPTIONAL", "MINUS", "UNION", "BIND"), 1)
        | dict.fromkeys(("GROUP BY", "HAVING", "ORDER BY", "LIMIT"), 1)
    )
    assert shape.projections == ("x", "xLabel", "n")
    assert shape.triples[0] == Triple("?x", f"{WDT}P31/{WDT}P279*", WD + "Q5")
    assert len(shape.subjects) == 2  # ?x and the blank node
    assert {WD + name for name in ("Q1", "Q2", "Q5", "Q6", "Q7")} < shape.objects
    assert {one.value for one in shape.literals} == {"a # b", "1900", "1.5", "2"}
    assert shape.properties == {"P31", "P279", "P106", "P18", "P570", "P569", "P571"}


def test_named_subqueries_and_hints_of_blazegraph_are_read():
    shape = query_shape("""
        SELECT * WITH { SELECT ?item (MAX(?d) AS ?last) { ?item wdt:P31 wd:Q5 ; wdt:P569 ?d } GROUP BY ?item } AS %i
        WHERE { INCLUDE %i . ?item wdt:P18 ?image . hint:Prior hint:gearing "forward" . }""")
    assert shape.projections == ("image", "item", "last")
    assert shape.clauses == Counter({"SELECT": 2, "triple": 3, "GROUP BY": 1})
    assert shape.literals == frozenset()


def test_a_pattern_is_blind_to_names_ids_numbers_and_strings_only():
    first = query_shape('SELECT ?a { ?a wdt:P31 wd:Q5 ; rdfs:label "x" } LIMIT 5').pattern
    long = "<http://www.wikidata.org/prop/direct/P279>"
    assert query_shape(f"select $b {{ $b {long} wd:Q2 ; rdfs:label 'y' # z\n }} limit 10").pattern == first
    assert query_shape('SELECT ?a { ?a p:P31 wd:Q5 ; rdfs:label "x" } LIMIT 5').pattern != first
    own = "PREFIX d: <http://www.wikidata.org/prop/direct/> PREFIX e: <http://www.wikidata.org/entity/>"
    assert query_shape(f'{own} SELECT ?a {{ ?a d:P31 e:Q5 ; rdfs:label "x" }} LIMIT 5').pattern == first
