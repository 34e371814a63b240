"""One reader, one endpoint, one file must not take the others down."""

import secrets
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from kbnav.apps.web.limiter import Limiter, fair_queue
from kbnav.knowledge.open import bundled_mirror
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Limits
from tests.apps.web.parts import Explorer, Server, Visit, web_settings
from tests.attack.parts import HEAVY, POLONIUM, hangs
from tests.ending import until


@pytest.fixture
def busy(fresh_home: Path):
    """A server on which queries may take three seconds and pages one."""
    limits = Limits(query_timeout=3.0)
    settings = web_settings(fresh_home, "mini", "demo", limits=limits)
    with Server(settings) as server:
        yield server


def query(visit: Visit, text: str, name: str = "", kb: str = "mini"):
    return visit("POST", "/api/queries", {"query": text, "kb": kb, "name": name})


@pytest.mark.slow
def test_while_one_reader_runs_heavy_queries_anothers_question_is_answered(busy):
    greedy, other = Visit(busy.url), Visit(busy.url)
    began = time.monotonic()
    for _ in range(3):
        other("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"}).raise_for_status()
    alone = time.monotonic() - began
    with ThreadPoolExecutor(8) as threads:
        heavy = [threads.submit(query, greedy, HEAVY, kb=kb) for kb in ("mini", "demo") * 4]
        until(lambda: busy.app.state.parts.service.queries._jobs)
        began = time.monotonic()
        answers = [other("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"}).json() for _ in range(3)]
        assert time.monotonic() - began < max(15, 10 * alone)  # a busy machine was so before, too
        assert [(one["status"], one["text"], one["note"]) for one in answers] == [
            ("answered", "Marie Curie, Pierre Curie", "")
        ] * 3
        own = query(other, "SELECT * { ?a wdt:P61 ?b } LIMIT 3")
        assert own.json()["result"]["rows"] == 3
        greedy.http.close()
        wait(heavy, timeout=1)
        for job in list(busy.app.state.parts.service.queries._jobs.values()):
            job.cancellation.stop()


@pytest.mark.parametrize("many", [2, 5])
def test_a_query_begins_at_once_while_another_reader_has_many_on_each_knowledge_base(fresh_home, tmp_path, many):
    kbs = ["mini", "demo", "two", "three", "four"][:many]
    for name in kbs[2:]:
        shutil.copytree(bundled_mirror(fresh_home), tmp_path / name)
    places = [str(tmp_path / name) if name in kbs[2:] else name for name in kbs]
    with Server(web_settings(fresh_home, *places, limits=Limits(query_timeout=60.0))) as server:
        greedy, other = Visit(server.url), Visit(server.url)
        jobs = server.app.state.parts.service.queries._jobs
        with ThreadPoolExecutor(20) as threads:
            heavy = [threads.submit(query, greedy, HEAVY, secrets.token_hex(8), kb) for kb in kbs * 4]
            until(lambda: len(jobs) == len(heavy))
            for kb in kbs:
                began = time.monotonic()
                told = query(other, "SELECT * { ?a ?b ?c } LIMIT 3", kb=kb)
                assert told.json()["result"]["rows"] == 3
                assert time.monotonic() - began < 30  # less than one of the others' may take
            for job in list(jobs.values()):
                job.cancellation.stop()
            wait(heavy, timeout=30)


def test_however_many_knowledge_bases_hang_cards_of_another_come_at_once(fresh_home):
    with (
        hangs() as first, hangs() as second, ThreadPoolExecutor(24) as threads,
        Server(web_settings(fresh_home, "mini", first.url, second.url)) as server,
    ):  # fmt: skip
        service = server.app.state.parts.service
        pages, service.page_seconds = service.pages._jobs, 60
        paths = [f"/api/entities/{(first, second)[number % 2].url[7:]}/Q{number}" for number in range(24)]
        late = [threads.submit(Visit(server.url), "GET", path) for path in paths]
        until(lambda: len(pages) == len(paths))
        began = time.monotonic()
        assert Visit(server.url)("GET", "/api/entities/mini/Q979").json()["label"] == "polonium"
        assert time.monotonic() - began < 30  # half of what one that hangs may take
        for job in list(pages.values()):
            job.cancellation.stop()
        assert {one.result().status_code for one in late} <= {409, 504}


def test_who_waits_is_told_how_many_are_before_and_a_reader_stops_their_own_query(busy):
    visit, other = Visit(busy.url), Visit(busy.url)
    names = [secrets.token_hex(8) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        asked = []
        for name in names:
            asked.append(threads.submit(query, visit, HEAVY, name))
            until(lambda name=name: visit("GET", f"/api/queries/{name}").status_code == 200)
        assert [visit("GET", f"/api/queries/{name}").json()["before"] for name in names] == [0, 0, 1]
        assert other("GET", f"/api/queries/{names[0]}").status_code == 404
        assert other("DELETE", f"/api/queries/{names[0]}").status_code == 404
        for name in reversed(names):
            assert visit("DELETE", f"/api/queries/{name}").status_code == 204
        assert {one.result().status_code for one in asked} == {409}


def test_a_question_that_waits_is_told_how_many_are_before_it(fresh_home):
    with Explorer(held=0) as model, Server(web_settings(fresh_home, **model.options(), web_runs=1)) as server:
        first, second = Visit(server.url), Visit(server.url)
        runs = [visit.ask(visit.session(), POLONIUM) for visit in (first, first, second)]
        assert model.waiting.wait(60)
        assert second("GET", f"/api/runs/{runs[2]['id']}").json()["before"] == 0  # whoever has less comes first
        assert first("GET", f"/api/runs/{runs[1]['id']}").json()["before"] == 1
        told = next(event for event in first.events(runs[1]["id"]) if event["kind"] == "waiting")
        assert told["before"] == 1
        model.go_on.set()
        assert second.ended(runs[2]["id"])["status"] == "done"


def test_exports_hold_up_nothing_else(fresh_home):
    with Server(web_settings(fresh_home)) as server, ThreadPoolExecutor(30) as threads:
        visit, other, go_on = Visit(server.url), Visit(server.url), threading.Event()
        session = visit.session()
        store = server.app.state.parts.store
        at_work, runs = [], store.runs

        def slow(session_id: str):
            at_work.append(session_id)
            go_on.wait(30)
            return runs(session_id)

        object.__setattr__(store, "runs", slow)
        exports = [threads.submit(visit, "GET", f"/api/sessions/{session}/json") for _ in range(30)]
        until(lambda: at_work)
        began = time.monotonic()
        assert other("POST", "/api/ask", {"question": POLONIUM}).json()["text"] == "Marie Curie, Pierre Curie"
        assert time.monotonic() - began < 15
        assert len(at_work) <= 2
        go_on.set()
        assert {one.result().status_code for one in exports} == {200}


def test_pages_of_a_knowledge_base_that_hangs_hold_up_nothing_else(fresh_home):
    with hangs() as hanging:
        key = hanging.url[7:]
        settings = web_settings(fresh_home, "mini", hanging.url, limits=Limits(request_timeout=1.0, retries=0))
        with Server(settings) as server, ThreadPoolExecutor(45) as threads:
            service = server.app.state.parts.service
            service.pages, service.page_seconds = Limiter(fair_queue(3), wait=3.0), 0.5
            visits = [Visit(server.url) for _ in range(5)]
            pages = [threads.submit(visits[number % 5], "GET", f"/entry/{key}/Q{number + 1}") for number in range(45)]
            time.sleep(0.3)
            slowest = 0.0
            for path in ("/health", "/ready", "/", "/api/options", "/health", "/entry/mini/Q979"):
                began = time.monotonic()
                assert visits[0]("GET", path).status_code == 200, path
                slowest = max(slowest, time.monotonic() - began)
            assert slowest < 5  # a fraction of a second where nothing else is at work
            told = [page.result() for page in pages]
            assert {page.status_code for page in told} <= {429, 502, 503, 504}
            assert any("does not answer" in page.text for page in told)
            again = visits[0]("GET", f"/entry/{key}/Q1")
            assert (again.status_code, "does not answer" in again.text) == (503, True)
            assert visits[0]("GET", "/ready").json() == {
                "status": "degraded", "kbs": ["mini"], "out_of_service": [key],
            }  # fmt: skip
            asked = visits[0]("POST", "/api/ask", {"question": POLONIUM, "kb": key}).json()
            assert (asked["status"], "does not answer" in asked["note"]) == ("failed", True)


def test_a_server_starts_without_what_does_not_answer_yet_and_takes_it_in_once_it_does(fresh_home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    late = f"127.0.0.1:{port}"
    settings = web_settings(fresh_home, f"http://{late}", limits=Limits(retries=0, request_timeout=1.0))
    with ExitStack() as mirror, Server(settings, pause=0.1) as server:
        visit = Visit(server.url)
        page = visit("GET", "/")
        assert (page.status_code, "cannot be reached" in page.text) == (503, True)
        ready = visit("GET", "/ready")
        assert (ready.status_code, ready.json()) == (
            503, {"status": "not ready", "kbs": [], "out_of_service": [late]},
        )  # fmt: skip
        for told in (
            visit("POST", "/api/ask", {"question": POLONIUM}),
            visit("POST", "/api/ask", {"question": POLONIUM, "kb": late}),
            visit("POST", "/api/queries", {"query": "ASK {}"}),
            visit("GET", f"/entry/{late}/Q1"),
        ):
            assert told.status_code == 503
            assert f"{late} is out of service: " in told.json()["detail"]
        mirror.enter_context(MirrorServer(bundled_mirror(fresh_home), port=port))
        until(lambda: visit("GET", "/ready").status_code == 200)
        assert visit("GET", "/ready").json() == {"status": "ok", "kbs": [late]}
        assert visit("GET", "/").status_code == 200
        assert visit("POST", "/api/ask", {"question": POLONIUM}).json()["text"] == "Marie Curie, Pierre Curie"
