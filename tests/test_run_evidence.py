"""What makes the answers of runs true, on the bundled knowledge bases, and how it is told."""

import json
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kbnav
from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.console import answer_table, evidence_data, evidence_lines
from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.store import open_sqlite
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GoldAnswer
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import Provenance
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.models.calls import Blobs
from kbnav.runs.journal import open_journal, read_journal, write_whole
from kbnav.runs.trajectory import Call, Fact, Outcome, Run, Step, Turn, find_run, load_run, save_run
from kbnav.sessions.evidence import run_evidence
from kbnav.sessions.session import sqlite_sessions
from kbnav.settings.model import Settings
from tests.data import DEMO_QUESTIONS, EDGES, MINI_QUESTIONS


def ranking_run(question: str, nodes: list[str], starts: list[str], facts: tuple[Fact, ...] = ()) -> Run:
    """A run that looked at the starts and answered with the nodes."""
    path = tuple(
        Step(number, Call("search_neighbors", {"entity_id": one}), facts=facts) for number, one in enumerate(starts, 1)
    )
    outcome = Outcome("answered", "finish", ranking=Ranking(tuple(Ranked(one, 1.0) for one in nodes)))
    return Run("run-1", question, "skb", "m", "en", path, (), outcome)


def query_run(query: str, kb: KnowledgeBase, language: str = "en") -> Run:
    outcome = Outcome("answered", "finish", query=query, table=kb.execute_query(query, language=language))
    return Run("run-1", "", "spinach", "m", language, (), (), outcome)


def test_every_node_of_the_demos_questions_has_its_edges_to_what_was_asked_about_and_a_sentence(demo_kb):
    rows = 0
    for question in DEMO_QUESTIONS:
        starts = [rule["to"] for rule in question.get("relations", ())]
        run = ranking_run(question["question"], question["answer"], starts)
        found = run_evidence(demo_kb, run)
        assert len(found.rows) == len(question["answer"])
        for node, told in zip(question["answer"], found.rows, strict=True):
            edges = [one for one in told if one.source == "graph"]
            assert {(one.subject.entity_id, one.property, one.value.entity_id) for one in edges} <= set(EDGES)
            assert [one.value.value != "" for one in told if one.source == "document"] == [True]
            near = any(len(rule["path"]) <= 3 for rule in question.get("relations", ()))
            assert not near or node in {end.entity_id for one in edges for end in (one.subject, one.value)}
            rows += 1
        lines = list(evidence_lines(found, answer_table(run.outcome)))
        told = [line for line in lines if line.startswith("   ")]
        assert "reference" not in " ".join(told)
    assert rows >= len(DEMO_QUESTIONS)


def test_a_models_word_is_told_as_one(demo_kb):
    fact = Fact("person:odd-skarrow", "^taught", "instrument:rowlock", "Odd Skarrow", "taught", "Rowlock", True)
    run = ranking_run("?", ["instrument:rowlock"], ["place:little-mew"], (fact,))
    lines = list(evidence_lines(run_evidence(demo_kb, run), answer_table(run.outcome)))
    (line,) = [line for line in lines if "a model's word alone" in line]
    assert "(Rowlock) — taught — " in line


def test_a_run_without_rows_has_no_evidence(demo_kb, mini_kb):
    nothing = Run("run-1", "?", "skb", "m", "en", (), (), Outcome("no answer", "gave up"))
    assert run_evidence(demo_kb, nothing) is None
    assert run_evidence(mini_kb, nothing) is None


def test_every_row_of_the_mirrors_questions_names_a_statement_and_a_reference_or_says_that_there_is_none(mini_kb):
    rows = 0
    for question in MINI_QUESTIONS:
        run = query_run(question["sparql"], mini_kb)
        table = run.outcome.table
        if table.boolean is False or any(cell and cell.value == "0" for row in table.rows for cell in row):
            continue
        found = run_evidence(mini_kb, run)
        for told, record in zip(found.rows, evidence_data(found, table)["rows"], strict=True):
            assert told or found.absent, question["sparql"]
            for one in record:
                says = ("this copy has no reference", "reference: ", "whose references are not looked at")
                assert any(words in one["text"] for words in says) == bool(one["statement"] or one["chain"])
            assert not told or any("reference" in one["text"] and not one["chain"] for one in record)
            rows += 1
    assert rows > 30


def test_an_answer_of_the_library_looks_its_evidence_up_when_it_is_read(mini_home):
    settings = kbnav.Settings(home=mini_home)
    closed = kbnav.ask("Who discovered polonium?", kb="mini", settings=settings)
    assert [{one.property for one in row} for row in closed.evidence.rows] == [{"P61"}, {"P61"}]
    assert kbnav.Answer(closed.run).evidence == Provenance()
    with kbnav.open("mini", settings=settings) as kb:
        given = kbnav.ask("Who discovered polonium?", kb=kb)
        assert given.evidence is given.evidence
        assert kb.evidence(given) == given.evidence == closed.evidence
        after = kbnav.ask("Who discovered polonium?", kb=kb)
    with pytest.raises(UsageError, match="closed"):
        _ = after.evidence


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TERMS = st.builds(Term, st.sampled_from(["uri", "literal", "bnode"]), TEXT, st.none() | TEXT, st.none() | TEXT)
TABLES = st.builds(
    lambda rows: AnswerTable(("a", "b"), tuple(rows), labels={"Q1": "one"}),
    st.lists(st.tuples(TERMS | st.none(), TERMS | st.none()), max_size=3),
)
CALLS = st.builds(
    Call,
    TEXT,
    st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT, max_size=2), max_size=2),
    TEXT,
    TEXT,
    st.integers(1, 9),
)
STEPS = st.builds(Step, st.integers(1, 30), CALLS, TEXT, st.booleans(), st.none() | st.integers(0, 9))
OUTCOMES = st.builds(
    Outcome,
    st.sampled_from(["answered", "best effort", "no answer"]),
    st.sampled_from(["finish", "step budget"]),
    TEXT,
    st.none() | TABLES,
    st.none()
    | st.builds(
        lambda nodes: Ranking(nodes), st.lists(st.tuples(TEXT, st.floats(0, 1)).map(tuple), max_size=2).map(tuple)
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(st.lists(STEPS, max_size=4), OUTCOMES)
def test_a_saved_run_is_read_back_the_same(tmp_path, steps, outcome):
    run = Run("run-1", "?", "spinach", "m", "en", tuple(steps), (), outcome, history=(Turn("before", (), outcome),))
    assert load_run(save_run(run, tmp_path)) == run
    assert [path.name for path in tmp_path.iterdir()] == ["run-1.json"]


def test_a_ranking_saved_with_values_of_its_nodes_is_read_without_them(tmp_path):
    run = ranking_run("?", ["n1"], [])
    saved = json.loads(save_run(run, tmp_path).read_text())
    saved["outcome"]["ranking"]["nodes"][0].append("1.85")
    (tmp_path / "valued.json").write_text(json.dumps(saved))
    assert load_run(tmp_path / "valued.json") == run


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"id": "run-1", "path": 3}', "not json", '{"id": "x'])
def test_something_else_is_refused_with_its_name(tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(DataError, match=r"odd\.json is not a saved run"):
        load_run(tmp_path / "odd.json")


def test_a_run_is_found_by_path_id_start_or_as_the_last(tmp_path):
    for name in ("run-a1", "run-a2", "run-b"):
        save_run(Run(name, "?", "s", "m", "en", (), (), Outcome("no answer", "finish")), tmp_path)
    assert find_run(str(tmp_path / "run-b.json"), tmp_path).stem == "run-b"
    assert find_run("run-b", tmp_path).stem == "run-b"
    assert find_run("run-a1", tmp_path).stem == "run-a1"
    assert find_run("last", tmp_path).stem == "run-b"
    with pytest.raises(UsageError, match="2 saved runs match 'run-a'"):
        find_run("run-a", tmp_path)
    with pytest.raises(UsageError, match="no saved runs match 'run-c'"):
        find_run("run-c", tmp_path)


ANSWERS = st.lists(st.builds(GoldAnswer, id=TEXT, question=TEXT, source=st.just("stored")), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(answers=ANSWERS, data=st.data())
def test_a_file_cut_at_any_byte_keeps_its_whole_lines_and_goes_on_from_there(tmp_path, answers, data):
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    ends = [0]
    with open_journal(path) as journal:
        for answer in answers:
            journal.append(answer)
            ends.append(path.stat().st_size)
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    whole = answers[: max(number for number, end in enumerate(ends) if end <= cut)]
    assert read_journal(path, GoldAnswer) == whole
    with open_journal(path) as journal:
        journal.append(answers[0])
    assert read_journal(path, GoldAnswer) == [*whole, answers[0]]


def test_a_last_line_of_zeros_as_a_power_cut_leaves_it_is_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    with open_journal(path) as journal:
        journal.append(GoldAnswer("a", "A?", "stored"))
    with path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")
    assert [answer.id for answer in read_journal(path, GoldAnswer)] == ["a"]


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    with open_journal(path) as journal:
        for name in "abc":
            journal.append(GoldAnswer(name, "?", "stored"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + '{"id": 7}\n' + lines[2])
    with pytest.raises(DataError, match=r"journal.jsonl: record 2: id"):
        read_journal(path, GoldAnswer)


def test_a_file_is_written_by_one_at_a_time(tmp_path):
    with open_journal(tmp_path / "a.jsonl"), pytest.raises(UsageError, match="being written by another run"):  # noqa: SIM117
        with open_journal(tmp_path / "a.jsonl"):
            pass


def test_folders_that_cannot_be_written_are_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_whole(tmp_path / "file" / "a.json", "")
    with pytest.raises(UsageError, match="cannot be written"), open_journal(tmp_path / "file" / "a.jsonl"):
        pass


def test_all_files_under_home_are_their_owners_alone(tmp_path):
    home = tmp_path / "state" / "kbnav"
    HttpCache(home / "http.sqlite", age=60)
    Throttle(home / "limits.sqlite")
    Blobs(home / "replies.sqlite", "replies")
    ledger = Ledger(home / "bot.sqlite", alone=True)
    with sqlite_sessions(home) as saver, open_sqlite(home / "web.sqlite"), closing(ledger):
        saver.setup()  # type: ignore[attr-defined]
        outcome = Outcome("answered", "finish")
        save_run(Run("run-1", "Who?", "spinach", "offline", "en", (), (), outcome), home / "runs")
        found = sorted(home.rglob("*"))
        assert {path.name for path in found} >= {"http.sqlite", "sessions.sqlite", "web.sqlite", "bot.sqlite", "runs"}
        assert {oct(path.stat().st_mode & 0o777) for path in (home, *found)} == {"0o600", "0o700"}
        assert all(path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600) for path in (home, *found))


CLOSED_EARLY = """
import sqlite3, sys, threading, time
from pathlib import Path
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.web.store import open_sqlite
from kbnav.errors import UsageError
from kbnav.knowledge.endpoint.names import Names
from kbnav.sessions.session import sqlite_sessions
home = Path(sys.argv[1])
def web(path):
    opened = open_sqlite(path)
    file = opened.__enter__()
    def read():
        with file.transaction("x") as run:
            run("SELECT 1")
    return lambda: opened.__exit__(None, None, None), read
def chats(path):
    file = sqlite_sessions(home).__enter__()
    return file.close, lambda: file.get_tuple({"configurable": {"thread_id": "a"}})
def bot(path):
    file = Ledger(path)
    return file.close, file.entries
def names(path):
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("CREATE TABLE name (iri, text)")
    file = Names(connection)
    return file.close, file.count
def reads(read):
    try:
        while True:
            read()
    except (sqlite3.Error, UsageError):
        pass
for open_file in (web, chats, bot, names):
    for place in range(8):
        print(open_file.__name__, place, flush=True)
        close, read = open_file(home / f"{open_file.__name__}{place}.sqlite")
        thread = threading.Thread(target=reads, args=(read,))
        thread.start()
        time.sleep(0.003)
        close()
        thread.join()
"""


def test_a_file_that_is_closed_while_a_thread_reads_it_does_not_end_the_process(tmp_path):
    done = subprocess.run([sys.executable, "-c", CLOSED_EARLY, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-40:] + done.stderr


def test_a_password_in_an_address_is_in_no_copy_of_the_settings():
    settings = Settings(
        base_url="https://me:a-password@models.example/v1", kb="https://you:another-1@kb.example/sparql"
    )
    told = json.dumps(settings.public())
    assert "a-password" not in told
    assert "another-1" not in told
    assert "https://models.example/v1" in told


@pytest.mark.parametrize("text", ["a-password", "bWU6YS1wYXNzd29yZA==", "me:a-password", "key of the endpoint"])
def test_what_addresses_and_keys_hold_is_hidden(text):
    settings = Settings(base_url="https://me:a-password@models.example/v1", api_key="key of the endpoint")  # type: ignore[arg-type]
    assert secrets_of(settings).hidden(f"<{text}>") == "<[hidden]>"
