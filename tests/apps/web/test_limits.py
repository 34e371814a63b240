"""Questions in line: how many and how long, stopped, deleted, and through failures of the database."""

import http.client
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from kbnav.apps.web.server import DATABASE
from kbnav.apps.web.store import Store, open_sqlite
from kbnav.settings.model import Price
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, browse, until, web_settings


@pytest.fixture
def held_model() -> Iterator[Explorer]:
    """A model whose first reply waits until it is told to go on."""
    with Explorer(held=0) as model:
        yield model
        model.go_on.set()


def test_a_question_that_waits_is_stopped_at_once_and_one_that_is_deleted_leaves_nothing(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options(), web_runs=1, web_questions_per_day=2)) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)["id"]
        assert held_model.waiting.wait(60)
        second = visit.ask(visit.session(), MARIE)["id"]
        assert visit("GET", f"/api/runs/{second}").json()["status"] == "queued"
        visit("POST", f"/api/runs/{second}/stop")
        assert visit.ended(second)["status"] == "stopped"
        assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
        asked = visit("POST", f"/api/sessions/{visit.session()}/questions", {"question": MARIE})
        assert asked.status_code == 429  # what is deleted was asked all the same
    with open_sqlite(fresh_home / DATABASE) as database:
        assert Store(database).events(first) == []


@pytest.mark.slow
def test_of_twenty_questions_at_the_same_moment_no_more_are_taken_than_the_limits_allow(fresh_home, held_model):
    settings = web_settings(fresh_home, **held_model.options(), web_runs_per_user=3, web_questions_per_day=5)
    with Server(settings) as server:
        visit = Visit(server.url)

        def post(session: str) -> tuple[int, str]:
            other = browse(server.url).post(
                f"{server.url}/api/sessions/{session}/questions",
                json={"question": MARIE},
                cookies=visit.http.cookies.get_dict(),
                timeout=60,
            )
            return other.status_code, other.json().get("id", "")

        for allowed in (3, 2):  # three at once, and then what is left of five a day
            with ThreadPoolExecutor(20) as pool:
                found = list(pool.map(post, [visit.session() for _ in range(20)]))
            assert sorted(status for status, _ in found) == [202] * allowed + [429] * (20 - allowed)
            held_model.go_on.set()
            for _, run in found:
                assert not run or visit.ended(run)["status"] == "done"


def test_the_next_question_can_be_asked_at_the_very_end_of_the_one_before(visit):
    session = visit.session(kb="mini")
    run = visit.ask(session, "Who discovered polonium?")
    for _ in range(8):
        for event in visit.events(run["id"]):
            if event["kind"] == "end":
                run = visit.ask(session, "When was it discovered?")  # asserts that it is taken
    assert visit.ended(run["id"])["status"] == "done"


def test_a_run_whose_database_fails_goes_on_once_that_is_back(fresh_home, held_model, caplog):
    settings = web_settings(fresh_home, **held_model.options(), web_runs=1, web_runs_per_user=1)
    with Server(settings) as server, closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database:
        visit = Visit(server.url)
        session = visit.session()
        run = visit.ask(session, MARIE)
        assert held_model.waiting.wait(60)
        database.execute("ALTER TABLE web_events RENAME TO away")
        held_model.go_on.set()
        until(lambda: " run: " in caplog.text)  # it has broken off
        assert server.app.state.parts.store.run(run["id"]).status == "running"  # it cannot be said yet
        database.execute("ALTER TABLE away RENAME TO web_events")
        ended = visit.ended(run["id"])
        assert (ended["status"], ended["answer"]["text"]) == ("done", "Polonium and radium.")
        kinds = [event["kind"] for event in ended["events"]]
        assert (kinds[:2], kinds[-1]) == (["started", "resumed"], "end")
        assert visit.answered(session, MARIE)["status"] == "done"


def test_a_question_that_waits_for_the_database_holds_up_nobody(fresh_home):
    with (
        Server(web_settings(fresh_home)) as server,
        closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database,
        ThreadPoolExecutor(1) as threads,
    ):
        visit = Visit(server.url)
        database.execute("BEGIN IMMEDIATE")
        asked = threads.submit(visit, "POST", "/api/ask", {"question": "Who discovered polonium?"})
        for _ in range(20):  # a server that waited would answer these when the question had been given up
            assert browse(server.url).get(f"{server.url}/health", timeout=60).status_code == 200
        assert not asked.done()
        database.execute("COMMIT")
        assert asked.result(60).json()["text"] == "Marie Curie, Pierre Curie"


def test_a_session_is_at_one_question_at_a_time(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options())) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)
        assert visit("POST", f"/api/sessions/{session}/questions", {"question": MARIE}).status_code == 409
        held_model.go_on.set()
        visit.ended(first["id"])


def test_time_and_money_for_a_question_are_limited(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options(), web_question_seconds=0.3)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert (run["status"], run["answer"]["note"]) == (
            "stopped", "The limit of 0.3 s for a question was reached.",
        )  # fmt: skip
    held_model.go_on.set()
    # A reply of the stub is 100 + 20 tokens; at these prices, two of them cost 0.24 dollars.
    prices = {"stub": Price(prompt=1000, completion=1000)}
    options = {**held_model.options(), "prices": prices, "web_question_dollars": 0.2}
    with Server(web_settings(fresh_home, **options)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert run["answer"]["note"] == "The limit of $0.20 for a question was reached."
        assert run["answer"]["actions"] == 2


def test_a_client_that_hangs_up_stops_its_question(fresh_home, held_model):
    with Server(web_settings(fresh_home, **held_model.options()), socket=True) as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port))
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/ask", json.dumps({"question": MARIE}), headers)
        assert held_model.waiting.wait(60)
        connection.close()
        until(lambda: not server.app.state.parts.store.workers())
