"""Two servers with one PostgreSQL, behind nginx: one is killed in the middle of ten streams, and both are replaced."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import requests
from psycopg import connect

from tests.apps.web.conftest import linked_home
from tests.apps.web.parts import MARIE, Explorer, Visit, served_process
from tests.deploy.balancer import balanced, followed, put
from tests.ending import until

READERS = 10


def home(base: Path, fresh_home: Path, name: str) -> Path:
    """A home of a server's own, as on a machine of its own."""
    folder = base / name
    folder.mkdir()
    return linked_home(folder, fresh_home)


def serve(stack: ExitStack, folder: Path, model: Explorer, database: str, port: str = "0") -> tuple[str, Popen[str]]:
    environment = {"KBNAV_DATABASE": database, "KBNAV_WEB__RUNS": "16", "KBNAV_WEB__RUNS_PER_USER": "16"}
    options = ("--model", "stub", "--base-url", model.base_url, "--kb", "mini")
    given = () if port == "0" else ("--port", port)
    url, process = stack.enter_context(served_process(folder, *options, *given, environment=environment))
    until(lambda: requests.get(f"{url}/ready", timeout=60).ok)
    return url, process


def in_order(events: list[dict[str, Any]]) -> bool:
    numbers = [event["id"] for event in events]
    return numbers == sorted(set(numbers))


def test_a_server_is_killed_in_the_middle_of_ten_streams_and_every_reader_gets_the_answer(
    tmp_path, fresh_home, database
):
    with ExitStack() as stack:
        model = stack.enter_context(Explorer(held=1))
        servers = [serve(stack, home(tmp_path, fresh_home, name), model, database) for name in ("one", "two")]
        url = stack.enter_context(balanced(tmp_path, [url for url, _ in servers]))
        visits, runs = [], []
        for _ in range(READERS):  # three requests each, so that nginx, which goes round, gives both servers questions
            visits.append(Visit(url))
            runs.append(put(visits[-1], MARIE)["id"])
        for _ in range(READERS):
            assert model.holding.acquire(timeout=120)
        pool = stack.enter_context(ThreadPoolExecutor(READERS))
        streams = [pool.submit(followed, visit, run) for visit, run in zip(visits, runs, strict=True)]
        servers[0][1].kill()
        model.go_on.set()
        heard = [stream.result(240) for stream in streams]
        assert all(in_order(events) for events in heard)
        answers = [events[-1]["answer"] for events in heard]
        assert [answer["text"] for answer in answers] == ["Polonium and radium."] * READERS
        resumed = sum(any(event["kind"] == "resumed" for event in events) for events in heard)
        assert 0 < resumed < READERS, "only those of the dead one"
        kept = [visit("GET", f"/api/results/{answer['result']['id']}/rows").json() for visit, answer in zip(
            visits, answers, strict=True
        )]  # fmt: skip
        assert all(len(rows["rows"]) == 2 for rows in kept), "the other server has what the dead one found"


def test_servers_are_replaced_one_by_one_and_no_question_is_lost(tmp_path, fresh_home, database):
    with ExitStack() as stack:
        model = stack.enter_context(Explorer())
        homes = [home(tmp_path, fresh_home, name) for name in ("one", "two")]
        servers = [serve(stack, folder, model, database) for folder in homes]
        _reads_elsewhere(*(url for url, _ in servers), database)
        url = stack.enter_context(balanced(tmp_path, [url for url, _ in servers]))
        pool = stack.enter_context(ThreadPoolExecutor(4))
        readers = [pool.submit(_keeps_asking, url, 8) for _ in range(4)]
        for folder, (address, process) in zip(homes, servers, strict=True):
            process.terminate()
            assert process.wait(60) is not None
            serve(stack, folder, model, database, address.rpartition(":")[2])
        texts = [text for reader in readers for text in reader.result(300)]
        assert texts == ["Polonium and radium."] * 32


def _reads_elsewhere(one: str, two: str, database: str) -> None:
    """What one server answered is whole at the other, whose home is another: evidence, files, links; so is its end."""
    visit = Visit(one)
    session = visit.session()
    run = visit.answered(session, MARIE)
    share = visit("POST", f"/api/runs/{run['id']}/share").json()["share"]
    paths = [
        f"/api/results/{run['id']}/evidence?row=0",
        f"/api/shared/{share}/evidence?row=1",
        *(f"/api/sessions/{session}/{form}" for form in ("html", "json")),
        *(f"/api/results/{run['id']}/{form}" for form in ("csv", "tsv", "json", "xlsx")),
        f"/share/{share}",
    ]
    here = [visit("GET", path) for path in paths]
    visit.url = two
    there = [visit("GET", path) for path in paths]
    assert [found.status_code for found in (*here, *there)] == [200] * 2 * len(paths)
    assert [found.content for found in here[:-2]] == [found.content for found in there[:-2]]
    assert "polonium" in there[0].text
    environment = {**os.environ, "KBNAV_DATABASE": database}
    shown = subprocess.run(
        [sys.executable, "-m", "kbnav", "show", run["answer"]["run"]], env=environment, capture_output=True, text=True
    )
    assert MARIE in shown.stdout, shown.stderr
    assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
    with connect(database) as looked:
        assert looked.execute("SELECT count(*) FROM web_saved").fetchone() == (0,)


def _keeps_asking(url: str, times: int) -> list[str]:
    visits = [Visit(url) for _ in range(times)]
    return [followed(visit, put(visit, MARIE)["id"])[-1]["answer"]["text"] for visit in visits]
