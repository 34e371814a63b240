"""Chats, follow-ups and saved runs, as a person meets them on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import score_run
from kbnav.runs.trajectory import load_run, save_run
from tests.apps.parts import QUERY, QUESTION, Cli, curie, model
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving as endpoint
from tests.models.stub import ModelStub, failure


def test_show_prints_every_step_and_marks_those_taken_back(kbnav):
    again = curie()
    with ModelStub([again[0], *again]) as stub:
        _, out, _ = kbnav("ask", "-q", "--json", *model(stub), QUESTION)
    shown = kbnav.out("show", "last")
    assert json.loads(out)["run"] in shown
    assert "↶ search_entities Marie Curie (repeat)" in shown
    assert "↶ search_entities Marie Curie (rolled back)" in shown
    assert "2 undone" in shown


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
        out = kbnav.out("chat", "--session", session, *model(stub), typed="And who was her husband?\n")
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
        out = kbnav.out("ask", "-q", "--continue", "--base-url", second.base_url, "And who was her husband?")
    assert f"after: {QUESTION}" in out
    assert "Pierre Curie." in out
    sent = second.requests[0]
    assert sent["model"] == "stub"
    assert [message["content"] for message in sent["messages"] if message["role"] == "user"][:2] == [
        QUESTION,
        "And who was her husband?",
    ]
    for file in ("a.html", "a.json"):
        kbnav.out("export", "last", file)
    assert json.loads(Path("a.json").read_text())["history"] == [
        {"question": QUESTION, "answer": "Polonium and radium."}
    ]
    assert f"{QUESTION} → Polonium and radium." in Path("a.html").read_text()


def test_where_no_follow_up_is_read_a_chat_and_ask_continue_say_so_once(kbnav):
    said = "no follow-up is read"
    assert said not in kbnav.out("chat", typed="Who discovered polonium?\n")
    with endpoint(COMPANY) as served:
        asked = kbnav("ask", "-q", "--kb", served.url, "How many products are there?")[1]
        again = kbnav("ask", "-q", "--continue", "And lamps?")[1]
        told = kbnav.out("chat", "--kb", served.url, typed="How many products are there?\nAnd lamps?\n")
    assert [one.count(said) for one in (asked, again, told)] == [0, 1, 1]
    assert "after:" not in again


def test_what_can_be_typed_in_a_chat_beside_questions(kbnav):
    lines = ["/sparql", "/nonsense", "/help", QUESTION, "What is xyzzy?", "/sparql", "/quit", "/left"]
    out = kbnav.out("chat", "--quiet", typed="\n".join(lines) + "\n")
    before, after = out.split("polonium, radium", 1)
    assert "there is no /nonsense; /help lists the commands" in before
    assert "/sparql  the query of the last answer" in before
    assert "no query has run here yet" in before
    assert "→" not in before
    assert "/left" not in after
    assert after.count("SELECT DISTINCT ?answer WHERE { ?answer wdt:P61 wd:Q7186 .") == 2
    assert kbnav.out("chat", "--set", "language=de", typed="/quit\n").startswith("einfache Regeln ohne Sprachmodell")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT ?x { ?x wdt:P61 wd:Q7186 }", ["discoverer or inventor of [x]: Marie Curie"]),
        ("SELECT ?x { wd:Q7186 wdt:P61 ?x }", ["the other way round, `?x wdt:P61 wd:Q7186`, it has matches"]),
        ("SELECT ?x { ?x wdt:P575 ?d FILTER(?d > 1800) }", ["?d is a date: YEAR(?d) is its year"]),
        ("SELECT ?x { ?x wdt:P31 wd:Q5 FILTER(!(BOUND(?d))) OPTIONAL { ?x wdt:P20 ?d } }", ["copy is only a part"]),
        ("SELECT ?x { ?x wdt:P31 wd:Q5 FILTER NOT EXISTS { ?x p:P570 [] } }", ["None: ", "copy is a part only"]),
    ],
)
def test_a_query_is_told_in_words_and_why_it_finds_nothing_beside_its_rows(kbnav, query, told):
    code, out, error = kbnav("sparql", "query", "--kb", "mini", query)
    assert code == 0
    assert [one for one in told if one not in error or one in out] == []
    assert kbnav("sparql", "query", "--kb", "mini", "--csv", query)[2] == ""


def test_runs_lists_what_was_asked_the_newest_last_and_ids_that_show_knows(kbnav):
    assert kbnav("runs") == (0, "", "")
    for question in ("Who was the spouse of Marie Curie?", "Which elements were discovered by Marie Curie?"):
        kbnav("ask", "--quiet", question)
    out = kbnav.out("runs")
    first, second = out.splitlines()
    assert first.split()[1:3] == ["rules", "answered"]
    assert first.endswith("Who was the spouse of Marie Curie?")
    assert kbnav("show", second.split()[0])[0] == 0
    assert kbnav("runs", "--limit", "1")[1] == second + "\n"
    assert "; not saved" in kbnav.out("ask", "-q", "--set", "save_runs=false", "Who discovered radium?")
    assert kbnav("runs", "--limit", "1")[1] == second + "\n"
    kbnav("ask", "-q", "Who is the president of France?")
    code, _, error = kbnav("export", "last", "a.csv")
    assert (code, "ended without rows" in error, Path("a.csv").exists()) == (2, True, False)


QUESTIONS = """\
id;question;sparql;answers;topic
polonium;Who discovered polonium?;;Q7186|wd:Q37463;people
tungsten;What is the atomic number of tungsten?;SELECT ?n { wd:Q743 wdt:P1086 ?n };;numbers
gas;Which gas glows red?;;neon;names
"""


@pytest.fixture
def evaluation(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(QUESTIONS, encoding="utf-8")
    return Cli(monkeypatch, capsys, "eval")


def scores(folder: str) -> dict[str, float]:
    return {one.id: one.values["f1"] for one in score_run(read_saved_run(Path(folder))).questions}


def test_questions_of_a_spreadsheet_with_plain_ids_are_run_and_scored(evaluation):
    assert "3 questions" in evaluation.out("run", "mine.csv", "--kb", "mini", "--out", "runs/a")
    assert scores("runs/a")["polonium"] == 1.0
    assert read_saved_run(Path("runs/a")).gold["gas"].table.rows[0][0].value == "neon"


PREDICTED = """\
id,sparql
polonium,SELECT ?who { wd:Q979 wdt:P61 ?who }
tungsten,SELECT nonsense
"""


def test_queries_of_another_system_are_executed_and_scored(evaluation, tmp_path):
    (tmp_path / "theirs.csv").write_text(PREDICTED)
    code, out, error = evaluation(
        "import", "theirs.csv", "mine.csv", "--kb", "mini", "--system", "theirs", "--model", "llm", "--out", "runs/t"
    )
    assert (code, out) == (0, "runs/t: 3 questions of mine, 1 query failed, 1 without a prediction\n"), error
    assert scores("runs/t") == {"polonium": 1.0, "tungsten": 0.0, "gas": 0.0}
    saved = read_saved_run(Path("runs/t"))
    assert (saved.info.system, saved.info.model, saved.info.origin) == ("theirs", "llm", "theirs.csv")
    assert "QuerySyntaxError" in saved.records["tungsten"].run.outcome.note
    assert evaluation("run", "mine.csv", "--kb", "mini", "--out", "runs/a")[0] == 0
    code, out, _ = evaluation("compare", "runs/a", "runs/t")
    assert "runs/t against runs/a, 3 questions of both" in out
    assert "runs/t has no prediction of 1 question; a missing one counts as 0" in out
    assert "f1         66.67 → 33.33" in out
    (tmp_path / "names.csv").write_text("id,answers\ngas,Neon\n")
    assert evaluation("import", "names.csv", "mine.csv", "--kb", "mini", "--out", "runs/n")[0] == 0
    assert "f1         66.67 → 0.00" in evaluation("compare", "runs/a", "runs/n")[1]
    assert "f1         66.67 → 33.33" in evaluation("compare", "runs/a", "runs/n", "--by", "labels", "--kb", "mini")[1]
    told = json.loads(evaluation("report", "runs/a", "runs/n", "--by", "labels", "--json")[1])["runs"]
    assert [one["means"]["em"]["mean"] for one in told] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    code, _, error = evaluation("import", "theirs.csv", "mine.csv", "--kb", "mini", "--out", "runs/t")
    assert (code, "choose another folder" in error) == (2, True)


def test_answers_of_another_system_need_no_knowledge_base(evaluation, tmp_path):
    questions = (
        '{"id": "a", "question": "Who?", "answers": ["Q1", "Q2"]}\n{"id": "b", "question": "Is it?", "answers": true}\n'
    )
    (tmp_path / "q.jsonl").write_text(questions)
    (tmp_path / "theirs.json").write_text(
        json.dumps([{"question": "Who?", "answers": ["Q2"]}, {"id": "b", "answers": False}])
    )
    assert evaluation.out("import", "theirs.json", "q.jsonl", "--out", "runs/t") == "runs/t: 2 questions of q\n"
    assert scores("runs/t") == {"a": pytest.approx(2 / 3), "b": 0.0}


def test_predictions_come_in_the_forms_that_programs_write(evaluation, tmp_path, caplog):
    questions = [{"id": one, "question": f"{one}?", "answers": [f"Q{one}"]} for one in (0, 1, 2)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (tmp_path / "plain.json").write_text(json.dumps([{"id": 0, "answers": ["", "Q0"]}, {"id": 1, "answers": [""]}]))
    assert "1 without a prediction" in evaluation.out("import", "plain.json", "q.jsonl", "--out", "plain")
    assert scores("plain") == {"0": 1.0, "1": 0.0, "2": 0.0}
    assert "empty answers are left out: 2" in caplog.text
    query, uri = "SELECT ?x { ?x wdt:P61 wd:Q7186 }", {"type": "uri", "value": "http://www.wikidata.org/entity/Q1"}
    found = {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": uri}]}}
    asked = [{"id": 0, "query": {"sparql": query}}, {"id": "1", "query": {"sparql": query}, "answers": [found]}]
    (tmp_path / "qald.json").write_text(json.dumps({"questions": [*asked, {"id": 2, "query": {}, "answers": []}]}))
    said = evaluation.out("import", "qald.json", "q.jsonl", "--kb", "mini", "--out", "qald")
    assert (scores("qald"), "1 without a prediction" in said) == ({"0": 0.0, "1": 1.0, "2": 0.0}, True)
    assert len(read_saved_run(Path("qald")).records["0"].run.outcome.table) == 2  # polonium and radium
    (tmp_path / "nodes.csv").write_text("id,question,nodes\n0,Which?,n1\n")
    (tmp_path / "theirs.trec").write_text("0 Q0 n1 1 2.5 t\n")
    evaluation.out("import", "theirs.trec", "nodes.csv", "--out", "trec")
    assert read_saved_run(Path("trec")).records["0"].run.outcome.ranking.ids == ["n1"]


def test_plain_values_as_gold_answers_equal_literals_of_that_value(evaluation, tmp_path):
    born, number = "wd:Q7186 wdt:P569", "wd:Q1128 wdt:P1086"
    asked = {"day": (born, "1867-11-07"), "other": (born, "1867-11-08"), "number": (number, 88)}
    gold = [{"id": name, "question": name, "answers": [value]} for name, (_, value) in asked.items()]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, gold)))
    rows = [f"{name},SELECT ?x {{ {of} ?x }}" for name, (of, _) in asked.items()]
    (tmp_path / "theirs.csv").write_text("\n".join(["id,sparql", *rows]) + "\n")
    evaluation.out("import", "theirs.csv", "own.jsonl", "--kb", "mini", "--out", "runs/own")
    assert scores("runs/own") == {"day": 1.0, "other": 0.0, "number": 1.0}


def test_ranked_nodes_of_another_system_are_scored_as_a_ranking(evaluation, tmp_path):
    (tmp_path / "q.csv").write_text("id,question,nodes\n1,Which?,n1|n2\n2,What?,n3\n")
    (tmp_path / "theirs.tsv").write_text("id\tanswers\n1\tn9|n1\n2\tn3\n")
    assert evaluation("import", "theirs.tsv", "q.csv", "--out", "runs/t")[0] == 0
    found = {one.id: one.values["mrr"] for one in score_run(read_saved_run(Path("runs/t"))).questions}
    assert found == {"1": 0.5, "2": 1.0}


def test_gold_that_answers_could_not_be_scored_against_ends_a_run_before_it_begins(evaluation, tmp_path):
    (tmp_path / "nodes.jsonl").write_text('{"id": "1", "question": "Which?", "nodes": ["n1"]}\n')
    error = evaluation.refused("run", "nodes.jsonl", "--kb", "mini", "--out", "runs/n")
    assert "the gold answers are nodes of an SKB (of 1: n1)" in error
    (tmp_path / "both.csv").write_text("id,question,nodes,answers\n1,Which?,n1,\n2,What?,,Q7186\n")
    code, _, error = evaluation("run", "both.csv", "--kb", "mini", "--out", "runs/b")
    assert (code, "of 1 is nodes and that of 2 is a table" in error) == (2, True)
    (tmp_path / "tables.jsonl").write_text('{"id": "1", "question": "Is it?", "answers": true}\n')
    code, _, error = evaluation("run", "tables.jsonl", "--kb", "demo", "--system", "bm25", "--out", "runs/t")
    assert (code, "this system ranks nodes: give the gold as nodes" in error) == (2, True)
    assert not any(Path(folder, "questions.jsonl").exists() for folder in ("runs/n", "runs/b", "runs/t"))


def test_the_list_says_what_is_here_and_how_the_rest_is_got(evaluation, tmp_path, monkeypatch):
    (tmp_path / "benchmarks" / "spinach").mkdir(parents=True)
    (tmp_path / "benchmarks" / "spinach" / "dev.json").write_text("[]")
    out = evaluation.out("dataset", "list")
    states = {line.split()[0]: " ".join(line.split()[1:3]) for line in out.splitlines()}
    assert (states["spinach-dev"].split()[0], states["qald-10"].split()[0]) == ("here", "fetch")
    code, _, error = evaluation("run", "qald-10", "--kb", "mini", "--out", "runs/q")
    assert (code, "kbnav eval dataset fetch qald-10 downloads it" in error) == (2, True)
    (tmp_path / "benchmarks").rename(tmp_path / "sets")
    assert "the setting benchmarks" in evaluation.refused("freeze", "spinach-dev", "--out", "gold")
    assert (
        "sets/spinach/dev.json: no questions"
        in evaluation("freeze", "spinach-dev", "--out", "gold", "--set", "benchmarks=sets")[2]
    )
    monkeypatch.setenv("KBNAV_BENCHMARKS", "sets")
    assert "sets/spinach/dev.json: no questions" in evaluation("dataset", "stats", "spinach-dev")[2]
    listed = json.loads(evaluation("dataset", "list", "--json")[1])
    assert (listed["folder"], listed["datasets"]["spinach-dev"]["here"]) == ("sets", True)
