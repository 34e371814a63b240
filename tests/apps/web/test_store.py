"""What the server forgets after a day, and what it keeps."""

import time
from dataclasses import replace

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.web.results import PART, Result, table_result
from kbnav.apps.web.store import DAY, Store, StoredResult, open_sqlite
from kbnav.errors import DatabaseAway, LimitReached, NotOffered
from kbnav.runs.trajectory import Outcome, Run
from tests.apps.web.parts import stored_run

ROWS = table_result(AnswerTable(("x",), ((Term("literal", "a value of some letters"),),) * PART))


@pytest.fixture
def database(tmp_path):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        Store(database).set_up()
        yield database


@pytest.fixture
def store(database):
    return Store(database)


def test_questions_without_a_session_are_forgotten_unless_somebody_shares_them(database, tmp_path):
    store = Store(database, tmp_path)
    (tmp_path / "saved plain.json").touch()
    (tmp_path / "saved shared.json").touch()
    ages = {"plain": 2.0, "new": 0.5, "shared": 2.0, "under way": 2.0, "of a session": 2.0}
    for name, days in ages.items():
        session = store.add_session("alice", "mini", "spinach", "m").id if name == "of a session" else ""
        store.add_run(stored_run(name, session, "running", time.time() - days * DAY), at_once=10, a_day=10)
        assert store.add_event(name, "w", {"kind": "started"})
        assert name == "under way" or store.end(name, "w", "done", {"text": "", "run": f"saved {name}"})
    store.results.keep(StoredResult("plain", "alice", "mini", "en", "", ROWS.to_document()), ROWS)  # made now
    store.share("shared", "share-1")
    store.delete_old(DAY)
    assert [file.stem for file in tmp_path.glob("*.json")] == ["saved shared"]
    assert [name for name in ages if store.run(name) is None] == ["plain"]
    assert [name for name in ages if not store.events(name)] == ["plain"]
    assert store.results.find("plain")
    store.may_ask("alice", 2)  # of those, one was asked in the last 24 hours
    with pytest.raises(LimitReached, match="you have asked 1 question in"):
        store.may_ask("alice", 1)


def test_a_database_that_takes_nothing_is_one_error_and_takes_it_later(database, store):
    database.run("PRAGMA query_only = 1")  # as a full disk, or a file that may not be written
    for ask in (
        lambda: store.add_session("alice", "mini", "spinach", "m"),
        lambda: store.count_question("alice", 5),
    ):
        with pytest.raises(DatabaseAway, match="try again"):
            ask()
    assert store.sessions("alice") == []
    database.run("PRAGMA query_only = 0")
    store.count_question("alice", 5)


def test_a_question_of_a_session_that_was_deleted_meanwhile_is_not_taken(store):
    session = store.add_session("alice", "mini", "spinach", "m")
    store.delete_session(session)
    with pytest.raises(NotOffered):
        store.add_run(stored_run("n", session.id, made=time.time()), at_once=10, a_day=10)
    assert store.run("n") is None


def kept(store: Store, name: str, size: int, *, owner: str = "alice", session: str = "") -> int:
    table = replace(ROWS.table, rows=ROWS.table.rows * size)
    head = StoredResult(name, owner, "mini", "en", session, ROWS.to_document())
    most = 10 * len(next(ROWS.parts()))
    return len(store.results.keep(head, Result(table, len(table)), most).table.rows)


def count(store: Store, name: str) -> int:
    """Rows of a result that are kept."""
    found = store.results.find(name)
    assert found
    return found[1].count


def test_the_results_of_one_user_take_only_so_much_and_the_oldest_go_first(store):
    assert kept(store, "in a session", 3, session="chat") == 600
    assert kept(store, "another's", 9, owner="bob") == 1800
    assert kept(store, "first", 3) == 600
    assert kept(store, "second", 3) == 600
    assert count(store, "first") == 600
    assert kept(store, "third", 2) == 400
    names = ("in a session", "another's", "first", "second", "third")
    assert [count(store, name) for name in names] == [600, 1800, 0, 600, 400]
    assert store.results.part("first", 0) is None
    assert kept(store, "too large", 50) == 1800  # of the first rows, as many as there is room for
    assert count(store, "too large") == 1800


def test_sessions_in_which_nothing_was_asked_do_not_pile_up(database, store):
    asked = store.add_session("alice", "mini", "s", "m")
    store.add_run(stored_run("n", asked.id, "done"), at_once=1, a_day=9)
    sessions = [store.add_session("alice", "mini", "s", "m").id for _ in range(30)]
    assert [store.session(one) is not None for one in sessions] == [False] * 10 + [True] * 20
    assert store.session(asked.id) is not None
    database.run("UPDATE web_sessions SET made = 1.0")
    store.delete_old(DAY)
    assert [one for one in sessions if store.session(one)] == []
    assert store.session(asked.id) is not None


def record(name: str) -> Run:
    table = AnswerTable(("x",), ((Term("literal", "an odd\x00 text é"),),))
    return Run(name, "Who?", "spinach", "m", "en", (), (), Outcome("answered", "finish", table=table))


def test_what_one_server_saves_another_reads(database):
    one, two = Store(database), Store(database)
    one.save("run-1", record("first"))
    one.save("run-1", record("first"))  # as by a worker that takes it over
    assert two.saved("first") == record("first")
    two.delete_traces("run-1", "")
    assert one.saved("first") is None


@pytest.mark.parametrize("way", ["with its session", "after a day", "gone when it ends"])
def test_a_saved_run_is_forgotten_with_its_question_even_if_no_answer_names_it(store, way):
    session = store.add_session("alice", "mini", "spinach", "m")
    of = "" if way == "after a day" else session.id
    store.add_run(stored_run("run-1", of, "running"), at_once=1, a_day=1)
    for number in (1, 2):  # that of a server that died before it told the answer, and the next one's
        store.save("run-1", record(f"record-{number}"))
    store.end("run-1", "w", "done", {"text": "", "run": "record-2"})
    store.save("another", record("anothers"))
    if way == "with its session":
        store.delete_session(session)
    elif way == "after a day":
        store.delete_old(DAY)
    else:
        store.delete_traces("run-1", "record-2")
    assert [store.saved(f"record-{number}") for number in (1, 2)] == [None, None]
    assert store.saved("anothers") is not None
