"""Evaluations on a Ray cluster of two workers, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbnav.evaluation.evaluate import Plan, evaluate, find_dataset, score_folder
from kbnav.evaluation.on_ray import on_ray
from kbnav.evaluation.records import read_records
from kbnav.settings import Settings
from tests.apps.web.parts import MARIE, Explorer
from tests.models.stub import Canned

QUESTIONS = [
    (MARIE, "SELECT ?e { ?e wdt:P61 wd:Q7186 }"),
    ("Who discovered polonium?", "SELECT ?e { wd:Q979 wdt:P61 ?e }"),
    ("Who discovered radium?", "SELECT ?e { wd:Q1128 wdt:P61 ?e }"),
    ("When was Marie Curie born?", "SELECT ?e { wd:Q7186 wdt:P569 ?e }"),
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Questions with gold queries, as one's own file."""
    file = tmp_path / "questions.jsonl"
    lines = [{"id": f"q{number}", "question": text, "sparql": query} for number, (text, query) in enumerate(QUESTIONS)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def plan(dataset: Path, settings: Settings, jobs: int = 4) -> Plan:
    return Plan("spinach", find_dataset(str(dataset), settings.data), settings, jobs=jobs)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers as quick as the test; Ray would let everything else on the machine go first."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


@contextmanager
def cluster() -> Iterator[Any]:
    with on_ray(jobs=4, workers=2) as build:
        yield build


def processes(named: str) -> list[int]:
    """The processes of a title; a worker's names what it does."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if title.startswith(named):
            found.append(int(process.name))
    return found


def test_a_cluster_gives_the_scores_of_one_machine(tmp_path: Path, dataset: Path, mini_home: Path):
    settings = Settings(home=mini_home, kb="mini", language="en")
    assert evaluate(plan(dataset, settings), tmp_path / "here") == "done"
    with cluster() as build:
        assert evaluate(plan(dataset, settings), tmp_path / "there", build=build) == "done"
    assert score_folder(tmp_path / "there") == score_folder(tmp_path / "here")
    there, here = (read_records(tmp_path / name) for name in ("there", "here"))
    assert {name: one.run.outcome.table for name, one in there.items()} == {
        name: one.run.outcome.table for name, one in here.items()
    }


def test_the_questions_of_a_killed_worker_are_asked_again_once(tmp_path: Path, dataset: Path, mini_home: Path):
    class Counting(Explorer):
        begun = 0

        def reply(self, asked: dict[str, Any]) -> Canned:
            if "tools" in asked and asked["messages"][-1]["role"] == "user":
                self.begun += 1
            return super().reply(asked)

    with Counting(held=1) as model, cluster() as build, ThreadPoolExecutor(1) as pool:
        settings = Settings(home=mini_home, kb="mini", language="en", **model.options())
        running = pool.submit(evaluate, plan(dataset, settings), tmp_path / "run", build=build)
        try:
            held = [model.holding.acquire(timeout=60) for _ in QUESTIONS]
            found = processes("ray::Worker")
            os.kill(found[0], signal.SIGKILL)
        finally:
            model.go_on.set()
        assert all(held)
        assert len(found) == 2
        assert running.result(240) == "done"
        assert model.begun == 6, "the two of the dead worker once more"
    records = read_records(tmp_path / "run")
    assert len(records) == 4
    assert not [one.error for one in records.values() if one.error]
    assert len((tmp_path / "run" / "questions.jsonl").read_text().splitlines()) == 4


def test_a_failure_in_a_worker_is_the_failure_that_it_was(tmp_path: Path, dataset: Path, mini_home: Path):
    class Refusing(Explorer):
        def reply(self, asked: object) -> Canned:
            return Canned(b'{"error": {"message": "no"}}', 500)

    with Refusing() as model, cluster() as build:
        settings = Settings(home=mini_home, kb="mini", language="en", model_retries=0, **model.options())
        assert evaluate(plan(dataset, settings), tmp_path / "run", build=build) == "done"
    assert {one.error for one in read_records(tmp_path / "run").values()} == {"ServiceError"}
