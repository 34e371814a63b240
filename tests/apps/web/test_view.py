"""Runs of benchmarks watched on a page while they go on, in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kbnav.answers.tables import Ranking
from kbnav.apps.web.routes.evaluation import view_router as router
from kbnav.apps.web.server import small_app
from kbnav.errors import ServiceError
from kbnav.evaluation.monitoring import Monitor, MonitoredRun
from kbnav.evaluation.runner import LIVE, StepListener, System, run_questions, under_way
from kbnav.runs.trajectory import Attempt, Call, Step
from tests.apps.web.parts import Served, browse, until, web_settings
from tests.apps.web.test_accessibility import faults, look  # noqa: F401 - a fixture
from tests.evaluation.parts import run_of, saved_folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

GOLD = {"one": ("n1",), "two": ("n2",), "three": ("n3",), "four": ("n4",)}
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


class Held:
    """A system that tells of a step and then waits to be let go, question by question."""

    def __init__(self) -> None:
        self.at, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def system(self) -> System:
        return System("held", "m", self.ask)

    def ask(self, question: str, given: Mapping[str, str], tell: StepListener) -> Attempt:
        call = Call("search_entities", {"query": question}, f"What is {HOSTILE}?")
        tell(call, None)
        tell(call, Step(1, call, f"nothing for {question}"))
        self.at.release()
        assert self.go_on.acquire(timeout=60)
        answer = ServiceError("down") if question == "four" else Ranking.from_scores([("n2", 1.0), ("n3", 0.5)])
        return Attempt(run_of(question, answer, 0.25), answer if isinstance(answer, ServiceError) else None)


@contextmanager
def going(folder: Path, held: Held) -> Iterator[threading.Thread]:
    """A run of which two questions are answered and two are under way."""
    saved_folder(folder, GOLD, {})
    (folder / "questions.jsonl").unlink()
    questions = {name: name for name in GOLD}
    thread = threading.Thread(target=run_questions, args=(held.system(), questions, folder), kwargs={"jobs": 2})
    thread.start()
    for _ in range(2):
        held.go_on.release()
    for _ in range(4):
        assert held.at.acquire(timeout=60)
    try:
        yield thread
    finally:
        held.go_on.release(4)
        thread.join()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[str, Held, threading.Thread]]:
    """The address of a server that shows a run that goes on, and another that ended."""
    runs, held = tmp_path / "runs", Held()
    runs.mkdir()
    answers = {name: Ranking.from_scores([(nodes[0], 1.0)]) for name, nodes in GOLD.items()}
    saved_folder(runs / "ended", GOLD, answers, system="right")
    app = small_app(web_settings(tmp_path), [router], following=Monitor(runs))
    with going(runs / "deep" / "er", held) as thread, Served(app) as server:
        yield server.url, held, thread


def test_a_run_is_followed_to_its_end(page: Page, watched):
    url, held, thread = watched
    page.goto(url)
    row = page.locator("tr:has-text('deep/er')")
    row.locator("text=going on").wait_for()
    assert [text.split("\n")[0] for text in page.locator("tr:has-text('ended') td").all_inner_texts()][3:7] == [
        *("4/4", "0", "0", "100.0 mrr"),
    ]
    page.wait_for_selector("tr:has-text('deep/er') >> text=2/4")
    row.locator("a").click()
    page.wait_for_selector("#open tr[data-id=three]")
    under = page.inner_text("#open")
    assert ("search_entities" in under, "nothing for four" in under, HOSTILE in under) == (True, True, True)
    assert page.inner_text("#sums").startswith("going on · 2 of 4 questions · 0 failed · mrr 50.0 · $0.5000")
    assert page.locator("#samples tbody tr").count() == 2
    page.click("#open tr[data-id=four] a")
    page.wait_for_selector("#sample >> text=Under way, 1 step so far.")
    held.go_on.release(2)
    page.wait_for_selector("h3 >> text=Gold answer")
    assert "ServiceError" in page.inner_text("main")
    page.go_back()
    page.wait_for_selector("#sums >> text=ended · 4 of 4 questions · 1 failed")
    page.wait_for_selector("#open >> text=No question is under way.")
    assert page.locator("#samples tbody tr").count() == 4
    for kind, names in (("right", ["two"]), ("partly", ["three"]), ("wrong", ["one"]), ("failed", ["four"])):
        page.select_option("#kind", kind)
        assert page.locator("#samples tbody th").all_inner_texts() == names
    page.select_option("#kind", "")
    page.fill("#text", "thr")
    assert (page.inner_text("#count"), page.locator("#samples tbody th").all_inner_texts()) == ("1 of 4", ["three"])
    page.click("#samples a")
    page.wait_for_selector("td.right")
    assert "mrr 50.0" in page.inner_text("main")
    assert page.locator("td.right").all_inner_texts() == ["n3"]
    assert page.title() == "three · deep/er"
    thread.join(60)


@pytest.mark.slow
def test_axe_finds_nothing_on_the_pages_of_runs(look: Page, watched):  # noqa: F811 - the fixture
    url, *_ = watched
    look.context.set_extra_http_headers({"Accept-Language": "de"})
    look.goto(f"{url}/run?name=deep/er")
    look.wait_for_selector("#open tr[data-id=three]")
    assert faults(look) == []
    assert look.evaluate("document.documentElement.scrollWidth <= innerWidth")
    phone = look.viewport_size["width"] < 400
    look.goto(f"{url}/sample?run=ended&id=one" if phone else url)
    look.wait_for_selector("td.right" if phone else "text=läuft")
    assert faults(look) == []


def test_what_is_not_there_is_told(watched):
    url, *_ = watched
    for path in ("/run?name=none", "/run?name=../ended", "/sample?run=ended&id=none", "/api/run?name=none"):
        assert browse(url).get(url + path, timeout=60).status_code == 404, path
    runs = {one["name"]: one for one in browse(url).get(f"{url}/api/runs", timeout=60).json()}
    assert {name: one["state"] for name, one in runs.items()} == {"deep/er": "live", "ended": "over"}
    assert browse(url).get(f"{url}/api/runs", headers={"Origin": "https://evil.example"}, timeout=60).status_code == 403


def test_a_record_is_read_once_and_what_is_asked_again_replaces_it(tmp_path: Path):
    folder = saved_folder(tmp_path / "run", GOLD, {"one": ServiceError("down")})
    followed = MonitoredRun(folder)
    assert [(one.id, one.error, one.score) for one in followed.samples()] == [("one", "ServiceError", 0.0)]
    line = (folder / "questions.jsonl").read_bytes()
    fixed = saved_folder(tmp_path / "again", GOLD, {"one": Ranking.from_scores([("n1", 1.0)])})
    with (folder / "questions.jsonl").open("ab") as file:
        file.write((fixed / "questions.jsonl").read_bytes()[:-5])  # half written
        file.flush()
        assert followed.samples(followed.version) == []
        file.write((fixed / "questions.jsonl").read_bytes()[-5:])
    assert [(one.id, one.error, one.score) for one in followed.samples(1)] == [("one", "", 1.0)]
    assert len(followed.samples()) == 1
    assert followed.sample("one")[0].run.outcome.ranking.ids == ["n1"]
    (folder / "questions.jsonl").write_bytes(line)
    assert followed.samples()[0].error == "ServiceError"


def test_nothing_is_left_behind_and_what_a_kill_left_is_old(tmp_path: Path):
    held = Held()
    with going(tmp_path, held):
        until(lambda: len(under_way(tmp_path) or ()) == 2)
        text = (tmp_path / LIVE).read_text("utf-8")
    assert not (tmp_path / LIVE).exists()
    assert under_way(tmp_path) is None
    (tmp_path / LIVE).write_text(text, "utf-8")
    assert len(under_way(tmp_path) or ()) == 2
    import os

    os.utime(tmp_path / LIVE, (1, 1))
    assert under_way(tmp_path) is None
    assert json.loads(text)[0]["step"]["ok"] is True
