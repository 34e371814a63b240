"""Many sessions at once, and sessions that outlive their server."""

import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
import requests

from tests.apps.web.parts import MARIE, Explorer, Server, Visit, served_process, web_settings

SESSIONS = 50


@pytest.mark.slow
def test_of_fifty_sessions_at_once_none_is_lost_and_none_is_mixed_up(fresh_home):
    with (
        Explorer() as model,
        Server(web_settings(fresh_home, **model.options(), web_runs_per_user=SESSIONS)) as server,
    ):

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
        with Server(settings, socket=True) as server:
            visit = Visit(server.url)
            run = visit.ask(visit.session(), MARIE)["id"]
            assert model.holding.acquire(timeout=60)
        for _ in range(3):
            with Server(settings, socket=True):
                assert model.holding.acquire(timeout=60)  # asked again, so it was gone on with
        with Server(settings, socket=True) as server:
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
