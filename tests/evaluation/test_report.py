"""Reports and analyses: published runs, numbers worked out by hand, and texts that try to break out of the page."""

import base64
import csv
import gzip
import hashlib
import io
import json
import re
import runpy
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.dataset_stats import Triple, query_shape
from kbnav.evaluation.datasets import load_dataset
from kbnav.evaluation.importing import import_spinach
from kbnav.evaluation.records import GOLD as GOLD_FILE
from kbnav.evaluation.records import QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo, SavedRun, read_saved_run
from kbnav.evaluation.report import (
    COLUMNS,
    build_report,
    error_class,
    html_report,
    load_report,
    read_sheet,
    run_records,
    scores_table,
    write_sheet,
)
from kbnav.evaluation.runner import begin_run
from kbnav.evaluation.scoring import score_run
from kbnav.runs.journal import open_journal
from kbnav.runs.trajectory import Call, Outcome, Run, Step, Usage
from tests.conftest import ROOT
from tests.evaluation.parts import saved_folder, table

PAGE = ROOT / "docs" / "reports.md"
WD = "http://www.wikidata.org/entity/"
ELEMENTS = '<script>alert("x")</script><img src=x onerror=alert(1)>'
HOSTILE = f"""'"></td></pre></bdi>--></style>{ELEMENTS}{{{{ 7*7 }}}}{{% raw %}}"""


def question(name: str, outcome: Outcome, *, steps: int = 0, **rest) -> QuestionRecord:
    path = tuple(Step(n + 1, Call("search_entities", {"query": f"{n}"}), "seen") for n in range(steps))
    error = rest.pop("error", "")
    run = Run(name, f"question {name}", "spinach", "m", "en", path, (), outcome, **rest)
    return QuestionRecord(name, run, error)


def answered(table: AnswerTable | None, query: str = "", **rest) -> Outcome:
    return Outcome(rest.pop("status", "answered"), rest.pop("stop", "finish"), query, table, **rest)


def saved(records: list[QuestionRecord], gold: list[GoldAnswer], **info) -> SavedRun:
    about = RunInfo("spinach", "m", "own", info.pop("sha", "0"), tuple(one.id for one in gold), "en", **info)
    return SavedRun(about, {g.id: g for g in gold}, {r.id: r for r in records})


GOLD = [GoldAnswer(f"q{n}", f"question q{n}", "stored", table=table(f"Q{n}")) for n in range(1, 5)]


def test_actions_of_the_published_runs_are_those_of_the_recordings(shared_data, tmp_path):
    recordings, asked = shared_data / "spinach-qald10-runs", load_dataset("qald-10", shared_data / "benchmarks")
    actions = recordings / "trajectories.json.gz"
    import_spinach(recordings / "predictions.json.gz", asked, tmp_path / "published", trajectories=actions)
    trajectories = json.loads(gzip.decompress(actions.read_bytes()))
    (run,) = load_report([tmp_path / "published"]).runs
    numbers = [len(one["actions"]) for one in trajectories]
    counts = {bin_.label: bin_.count for bin_ in run.actions}
    assert counts == {
        "0–2": sum(n <= 2 for n in numbers),
        "3–5": sum(3 <= n <= 5 for n in numbers),
        "6–8": sum(6 <= n <= 8 for n in numbers),
        "9–11": sum(9 <= n <= 11 for n in numbers),
        "12–14": sum(12 <= n <= 14 for n in numbers),
        "15": numbers.count(15),
    }
    names = Counter(action["action_name"] for one in trajectories for action in one["actions"])
    used = {tool: calls for tool, calls, *_ in run.tools}
    assert used["execute_query"] == names["execute_sparql"]
    assert sum(used.values()) == names.total()
    assert (run.prompt_tokens, run.cost) == ((), None)


RIGHT = "SELECT ?x { ?x wdt:P31 wd:Q5 ; wdt:P21 wd:Q1 }"
ASKED = GoldAnswer("q", "?", "stored", RIGHT, table("Q1", "Q2"))
WRONG = {"f1": 0.5, "em": 0.0}


@pytest.mark.parametrize(
    ("kind", "outcome", "values"),
    [
        ("right", answered(table("Q1", "Q2"), RIGHT), {"f1": 1.0, "em": 1.0}),
        ("failed", answered(None, status="failed", stop="error"), WRONG),
        ("no answer", answered(None, status="no answer", stop="gave up"), WRONG),
        ("out of budget", answered(table("Q1"), RIGHT, status="best effort", stop="action budget"), WRONG),
        ("out of budget", answered(None, status="no answer", stop="step budget"), WRONG),  # it did not give up
        ("other kind", answered(AnswerTable(boolean=True), "ASK { wd:Q1 wdt:P31 wd:Q5 }"), WRONG),
        ("no rows", answered(AnswerTable(("x",)), RIGHT), WRONG),
        ("other properties", answered(table("Q1"), "SELECT ?x { ?x p:P31/ps:P31 wd:Q5 ; wdt:P106 ?y }"), WRONG),
        ("extra properties", answered(table("Q1"), RIGHT.replace("}", "; wdt:P27 wd:Q2 }")), WRONG),
        ("other query", answered(table("Q1"), "SELECT ?x { ?x wdt:P31 wd:Q5 OPTIONAL { ?x wdt:P21 ?y } }"), WRONG),
        ("other query", answered(table("Q1"), "SELECT ?x {"), WRONG),
        ("other rows", answered(table("Q1")), WRONG),
        ("no gold", answered(table("Q1"), RIGHT), None),
    ],
)
def test_a_wrong_answer_is_put_into_a_class(kind, outcome, values):
    assert error_class(question("q", outcome), ASKED, values) == kind


def costly_run(factor: int = 1, **rest) -> SavedRun:
    """Four questions, one of them not reached: F1 1, 0 and 0."""
    return saved(
        [
            question("q1", answered(table("Q1")), steps=3, usage=Usage(1000 * factor, 10, 0, 3), cost=0.02),
            question("q2", answered(table("Q9")), steps=8, usage=Usage(1900 * factor, 110, 0, 8), cost=0.05),
            question("q3", answered(None, status="failed", stop="error", note="down"), error="ServiceError"),
        ],
        GOLD,
        **rest,
    )


def test_tokens_costs_and_actions_of_a_run():
    report = build_report({"a": costly_run()})
    (run,) = report.runs
    assert run.means["f1"].mean == 0.25
    assert run.statuses == {"answered": 2, "failed": 1, "missing": 1}
    assert [(one.label, one.count) for one in run.prompt_tokens if one.count] == [
        ("1,000–1,090", 1),
        ("1,810–1,900", 1),
    ]
    assert len(run.completion_tokens) == 10
    assert [(one.label, one.count, one.score) for one in run.actions] == [("0–2", 1, 0), ("3–5", 1, 1), ("6–8", 1, 0)]
    assert run.mean_actions == pytest.approx(11 / 3)
    back = replace(run.results["q2"].record.run, discarded=(Step(9, Call("finish", {}), dropped="premature finish"),))
    again = costly_run()
    changed = {**again.records, "q2": replace(again.records["q2"], run=back)}
    (other,) = build_report({"a": replace(again, records=changed)}).runs
    assert [one.count for one in other.actions] == [1, 1, 0, 1]  # with what was rolled back: nine
    assert [one.count for one in other.path_actions] == [1, 1, 1]  # as Table 5 counts: eight
    assert run.cost == pytest.approx(0.07)
    (record,) = run_records(report)
    assert (record["questions"], record["reached"], record["means"]["f1"]["mean"]) == (4, 3, 0.25)


def test_runs_are_compared_where_they_can_be():
    other = costly_run()
    better = {**other.records, "q2": question("q2", answered(table("Q2")))}
    report = build_report({"a": costly_run(), "b": replace(other, records=better), "c": run(3, sha="1")})
    good, bad = report.against.values()
    assert good.questions == 3
    assert good.metrics[0].test.difference.mean == pytest.approx(1 / 3)
    assert "different datasets" in bad
    assert "different datasets" in visible(html_report(report))


# The page


class Tags(HTMLParser):
    """The elements of a page, in order, with its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.classes.update((dict(attrs).get("class") or "").split())
        self.attributes += attrs

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)

    def handle_comment(self, data):
        self.tags.append("comment")

    def handle_data(self, data):
        self.texts.append(data)


def visible(page: str) -> str:
    return " ".join(" ".join(Tags(page).texts).split())


def run_of(text: str) -> dict[str, SavedRun]:
    """A run that has the text wherever a model, a knowledge base or a dataset can put one."""
    table = AnswerTable(
        (text, "x"),
        ((Term("literal", text, text, text), Term("uri", WD + "Q1")), (Term("uri", text), None)),
        labels={"Q1": text},
    )
    call = Call(text, {text: text, "list": [text]}, text, text)
    steps = (Step(1, call, text), Step(2, call, text, ok=False, dropped="repeat"))
    outcome = Outcome("answered", "finish", text, table, text=text, note=text)
    run = Run("r", text, text, text, text, steps[:1], steps[1:], outcome, Usage(5, 5, 0, 1), cost=0.1, seconds=1.0)
    gold = GoldAnswer(text, text, "stored", text, table, error=text)
    info = RunInfo(text, text, text, "0", (text, "other"), text)
    one = SavedRun(info, {text: gold, "other": GOLD[0]}, {text: QuestionRecord(text, run, text)})
    return {text: one, "second": replace(one, info=replace(info, dataset_sha256="1"))}


def test_hostile_texts_stay_texts():
    plain, hostile = (Tags(html_report(build_report(run_of(text)), title=text)) for text in ("plain", HOSTILE))
    assert hostile.tags == plain.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in plain.attributes]
    assert hostile.tags.count("script") == 1
    assert sum(HOSTILE in text for text in hostile.texts) > 20


def test_the_page_fetches_nothing_and_runs_its_own_script_only():
    page = html_report(build_report(run_of(HOSTILE)))
    parsed = Tags(page)
    references = [value for name, value in parsed.attributes if name in ("src", "href", "action", "data", "srcset")]
    assert {value[0] for value in references} == {"#"}
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    policy = next(value for name, value in parsed.attributes if name == "content" and "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def write(run: SavedRun, folder: Path) -> Path:
    begin_run(folder, run.info)
    for name, lines in ((GOLD_FILE, [GoldInfo("own", "0"), *run.gold.values()]), (QUESTIONS, run.records.values())):
        with open_journal(folder / name) as journal:
            for line in lines:
                journal.append(line)
    return folder


# The guide


def test_the_example_of_the_page_on_reports_runs(tmp_path, monkeypatch):
    example = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    for name in ("a", "b"):
        write(costly_run(), tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("example.py")
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if "runs" not in path.parts}
    assert {"report.html", "report.md"} < written


def test_nodes_only_seen_earn_a_wrong_answer_nothing_but_their_own_figure():
    def values(*nodes: Ranked) -> Mapping[str, float]:
        step = Step(1, Call("finish", {}), "Finished.")
        outcome = Outcome("answered", "finish", ranking=Ranking(nodes))
        record = QuestionRecord("q", Run("q", "?", "gog", "m", "en", (step,), (), outcome), "")
        return score_run(saved([record], [GoldAnswer("q", "?", "stored", nodes=("b", "c"))])).all.values

    seen = (Ranked("b", 0.5, "B", "", "seen"), Ranked("c", 0.3, "C", "", "seen"))
    wrong = values(Ranked("a", 1.0, "A"), *seen)
    assert wrong == {"hit@1": 0, "hit@5": 0, "recall@20": 0, "mrr": 0, "f1": 0, "trail@20": 1}
    right = values(Ranked("a", 1.0, "A"), Ranked("c", 0.5, "C"), seen[0])
    assert (right["mrr"], right["recall@20"], right["trail@20"]) == (0.5, 0.5, 1)


def run(right: int, reached: int = 12, last: str = "Q12", asked: int = 12, **info) -> SavedRun:
    """Twelve questions whose first answers are right; the last's gold may be another, or empty."""
    wanted = [table(*filter(None, [last if n == 12 else f"Q{n}"])) for n in range(1, asked + 1)]
    gold = [GoldAnswer(f"q{n}", f"question q{n}", "stored", table=one) for n, one in enumerate(wanted, 1)]
    found = [table(f"Q{n}" if n <= right else "Q99") for n in range(1, reached + 1)]
    return saved([question(f"q{n}", answered(rows)) for n, rows in enumerate(found, 1)], gold, **info)


def test_one_table_of_runs_marks_the_best_and_what_differs_from_the_first():
    runs = {"a_1 & {50%}": run(3), "strong": run(12), "same": run(3), "equal": run(12)}
    others = {
        "other": run(6, last="Q77", sha="1"),
        "none": run(0, last="Q77", sha="1"),
    }  # of another dataset: a table of their own
    report = build_report({**runs, **others})
    first, second = (text.splitlines() for text in scores_table(report, "markdown").split("\n\n"))
    markdown = {line.split(" | ")[0]: line for line in (*first, *second)}
    assert (len(first), len(second)) == (6, 4)
    assert "| own | 12 | 25.0 | 25.0 |" in markdown[r"| a_1 & {50%}"]
    assert r"| **100.0**\* |" in markdown["| strong"]
    assert r"| **100.0**\* |" in markdown["| equal"]
    assert "*" not in markdown["| same"]
    assert "| **50.0** |" in markdown["| other"]
    assert r"| 0.0\* |" in markdown["| none"]  # 6 of 12 pairs differ, all one way: p = 2/64
    latex = scores_table(report, "latex")
    assert r"a\_1 \& \{50\%\} & spinach" in latex
    assert r"\textbf{100.0}*" in latex
    assert latex.count(r"\label{tab:") == len({one for one in latex.splitlines() if r"\label{" in one}) == 2
    assert "**" not in scores_table(build_report({"a": run(3), "b": run(3)}), "markdown")
    left = {"options": {"preset": "paper", "without": ["kg"]}, "budget": {"without": ["hint"]}, "pruning": "none"}
    alone = build_report({"a": replace(run(3), by="labels", info=replace(run(3).info, model="", settings=left))})
    about = "| spinach (preset paper; without hint, kg, pruning) | – | own, by labels |"
    assert about in scores_table(alone, "markdown")
    assert (" & – & " in scores_table(alone, "latex"), "differs" in scores_table(alone, "latex")) == (True, False)
    assert latex.count(r"\begin{table}") == latex.count(r"\caption{Scores in percent on own (n = 12)") == 2
    rows = list(csv.DictReader(scores_table(report, "csv").splitlines()))
    assert [float(row["F1"]) for row in rows] == [25.0, 100.0, 25.0, 100.0, 50.0, 0.0]
    assert r"| **100.0**\* (100.0 to 100.0) |" in scores_table(report, "markdown", with_intervals=True)
    assert r"\textbf{100.0}* {\scriptsize (100.0--100.0)}" in scores_table(report, "latex", with_intervals=True)
    rows = list(csv.DictReader(scores_table(report, "csv", with_intervals=True).splitlines()))
    assert 0 <= float(rows[0]["F1 low"]) < 25 < float(rows[0]["F1 high"]) < 75


def test_other_gold_answers_or_questions_are_another_table_and_only_tests_over_all_are_marked(caplog):
    runs = {"a": run(3), "stopped": run(11, reached=11), "frozen": run(12, last="Q77"), "few": run(0, 6, asked=6)}
    more = {"frozen none": run(0, last="Q77"), "few right": run(6, 6, asked=6), "whole": run(12)}
    tables = scores_table(build_report({**runs, **more}), "markdown").split("\n\n")
    assert "frozen is not compared with a: the runs have different gold answers to 1 question" in caplog.text
    marked = [{row.split(" | ")[0]: r"\*" in row for row in one.splitlines()[2:]} for one in tables]
    of_all, frozen = {"| a": False, "| stopped": False, "| whole": True}, {"| frozen": False, "| frozen none": True}
    assert marked == [of_all, frozen, {"| few": False, "| few right": True}]  # 2/64
    counts = {"a": 0, "b": 6, "c": 0, "d": 8}
    four = build_report({name: run(right, last="") for name, right in counts.items()})  # 2/64 beside a smaller p: 4/64
    assert [line.count(r"\*") for line in scores_table(four, "markdown").splitlines()[3:]] == [0, 0, 2]


def nodes(*ids: str) -> Ranking:
    return Ranking(tuple(Ranked(one, 1.0) for one in ids))


def ranked(folder: Path, *right: bool) -> Path:
    """A run of rankings: question n has the gold node n, and it is found where ``right`` says so."""
    gold = {f"q{n}": (f"n{n}",) for n in range(len(right))}
    answers = {f"q{n}": nodes(f"n{n}" if found else "other") for n, found in enumerate(right)}
    return saved_folder(folder, gold, answers)


def test_the_smallest_difference_that_a_set_can_show(kbnav, tmp_path):
    # SPINACH, C.2: on its 155 questions differences of 9.0 % or more
    assert "on 15.0% of them: 9.0 points" in kbnav.out("eval", "compare", "--questions", "155")
    ranked(tmp_path / "a", True, True, False, False)
    ranked(tmp_path / "b", True, False, True, False)
    out = kbnav.out("eval", "compare", "a", "b", "--questions", "400")
    assert "hit@1: the runs disagree on 50.0% of 4 questions of both" in out
    assert "400 questions; smallest difference they can show (significance 0.05, power 0.8):" in out
    out = kbnav.out("eval", "compare", "a")
    assert out.startswith("4 questions")
    assert "of them: none" in out
    assert kbnav("eval", "compare")[0] == 2


def test_a_sheet_of_errors_is_drawn_labelled_and_reported(kbnav, tmp_path):
    run = ranked(tmp_path / "run", *(n >= 30 for n in range(40)))
    assert "5 of 30 questions scored below 0.05" in kbnav.out("eval", "report", "run", "--errors", "5", "--seed", "3")
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
