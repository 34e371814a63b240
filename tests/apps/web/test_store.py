"""What the page keeps: sessions, runs and results, also where its server is killed."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
import requests

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.web.results import PART, Result, table_result
from kbnav.apps.web.store import DAY, Store, StoredResult, open_sqlite
from kbnav.errors import DatabaseAway, LimitReached, NotOffered
from kbnav.runs.trajectory import Outcome, Run
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, served_process, stored_run, web_settings

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
        assert store.add_events(name, "w", [{"kind": "started"}])
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
    for ask in (lambda: store.add_session("alice", "mini", "spinach", "m"), lambda: store.count_question("alice", 5)):
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
    table = ROWS.table([*ROWS.rows()] * size)
    head = StoredResult(name, owner, "mini", "en", session, ROWS.to_document())
    most = 10 * len(next(ROWS.parts()))
    return store.results.keep(head, Result.of(table), most).count


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


SESSIONS = 50


@pytest.mark.slow
def test_of_fifty_sessions_at_once_none_is_lost_and_none_is_mixed_up(fresh_home):
    with Explorer() as model, Server(web_settings(fresh_home, **model.options(), web_runs_per_user=SESSIONS)) as server:

        def one(number: int) -> tuple[str, list[str], list[str]]:
            visit = Visit(server.url)
            session = visit.session()
            question = f"Number {number}: which elements did she discover?"
            run = visit.ask(session, question)
            calls = [event["tool"] for event in visit.events(run["id"]) if event["kind"] == "call"]
            found = visit("GET", f"/api/sessions/{session}").json()
            assert found["runs"][0]["status"] == "done", found["runs"][0]["answer"]  # only then is there a result
            rows = visit("GET", f"/api/results/{run['id']}/rows").json()["rows"]
            assert [one["question"] for one in found["runs"]] == [question]
            return found["runs"][0]["status"], calls, [cell["id"] for (cell,) in rows]

        with ThreadPoolExecutor(SESSIONS) as pool:
            ended = list(pool.map(one, range(SESSIONS)))
    assert ended == [("done", ["search_entities", "execute_query", "finish"], ["Q979", "Q1128"])] * SESSIONS


@pytest.mark.slow
def test_a_killed_server_goes_on_with_its_question_after_a_restart(fresh_home):
    with Explorer(held=1) as model:
        options = ("--model", "stub", "--base-url", model.base_url)
        with served_process(fresh_home, *options) as (url, process):
            visit = Visit(url)
            session = visit.session()
            waiting = visit.ask(visit.session(), MARIE)["id"]
            run = visit.ask(session, MARIE)["id"]
            before = [event["kind"] for event in islice(visit.events(run), 3)]
            assert before == ["started", "call", "step"]
            assert all(model.holding.acquire(timeout=60) for _ in range(2))  # what was done before is saved by now
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert not reachable(url)
        model.go_on.set()
        with served_process(fresh_home, *options) as (url, process):
            again = Visit(url)
            again.http.cookies = visit.http.cookies
            ended = again.ended(run)
            assert again.ended(waiting)["status"] == "done"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM)
    events = ended["events"]
    assert ended["status"] == "done"
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert "resumed" in [event["kind"] for event in events]
    done = [(event["call"], event["ok"]) for event in events if event["kind"] == "step"]
    assert done == [(1, True), (2, True), (3, True)]  # the search was not done again
    assert ended["answer"]["text"] == "Polonium and radium."


def test_a_question_that_ends_its_server_each_time_is_given_up_after_three_resumptions(fresh_home):
    with Explorer(held=0) as model:
        settings = web_settings(fresh_home, **model.options())
        with Server(settings) as server:
            visit = Visit(server.url)
            run = visit.ask(visit.session(), MARIE)["id"]
            assert model.holding.acquire(timeout=60)
        for _ in range(3):
            with Server(settings):
                assert model.holding.acquire(timeout=60)  # asked again, so it was gone on with
        with Server(settings) as server:
            visit.url = server.url
            ended = visit.ended(run)
    assert [event["kind"] for event in ended["events"]] == ["started", *["resumed"] * 4, "end"]
    assert ended["status"] == "failed"
    assert "ended 4 times" in ended["answer"]["note"]


def reachable(url: str) -> bool:
    try:
        requests.get(url, timeout=2)
    except requests.ConnectionError:
        return False
    return True
