"""Saved runs and append-only files: written whole, read back the same, cut by a kill, private, without secrets."""

import json
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Ranking, Term
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.store import open_sqlite
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GoldAnswer
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.models.calls import Blobs
from kbnav.runs.journal import open_journal, read_journal, write_whole
from kbnav.runs.trajectory import Call, Outcome, Run, Step, Turn, find_run, load_run, save_run
from kbnav.sessions.session import sqlite_sessions
from kbnav.settings.model import Settings

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
    | st.builds(lambda nodes: Ranking.from_scores(nodes), st.lists(st.tuples(TEXT, st.floats(0, 1)), max_size=2)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(st.lists(STEPS, max_size=4), OUTCOMES)
def test_a_saved_run_is_read_back_the_same(tmp_path, steps, outcome):
    run = Run("run-1", "?", "spinach", "m", "en", tuple(steps), (), outcome, history=(Turn("before", (), outcome),))
    assert load_run(save_run(run, tmp_path)) == run
    assert [path.name for path in tmp_path.iterdir()] == ["run-1.json"]


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
