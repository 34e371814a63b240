"""Evaluations and builds of SKBs on a Ray cluster of two workers, one of which is killed; and one whose driver is."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbnav.encoders import load
from kbnav.errors import ServiceError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.records import read_records
from kbnav.evaluation.runner import on_ray
from kbnav.knowledge.ray_cluster import connected
from kbnav.knowledge.ray_cluster import on_ray as builds_on_ray
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import WINDOW
from kbnav.settings.model import Settings
from tests.apps.web.parts import MARIE, Explorer
from tests.encoders.endpoint import Server, embeddings
from tests.ending import started, until
from tests.knowledge.skb.sources import small
from tests.models.stub import Canned

WORKER = "ray::Worker"
"""The title of a worker's process."""


def test_a_cluster_gives_the_scores_of_one_machine(cluster, tmp_path, dataset, mini_home):
    settings = Settings(home=mini_home, kb="mini", language="en")
    assert evaluate(plan(dataset, settings), tmp_path / "here") == "done"
    with on_ray(4, workers=2) as build:
        assert evaluate(plan(dataset, settings, jobs=4), tmp_path / "there", build=build) == "done"
    assert score_folder(tmp_path / "there") == score_folder(tmp_path / "here")
    there, here = (read_records(tmp_path / name) for name in ("there", "here"))
    assert {name: one.run.outcome.table for name, one in there.items()} == {
        name: one.run.outcome.table for name, one in here.items()
    }


def test_the_questions_of_a_killed_worker_are_asked_again_once_and_the_journal_has_all(
    cluster, tmp_path, dataset, mini_home
):
    class Counting(Explorer):
        begun = 0

        def reply(self, asked: dict[str, Any]) -> Canned:
            if "tools" in asked and asked["messages"][-1]["role"] == "user":
                self.begun += 1
            return super().reply(asked)

    out = tmp_path / "run"
    with Counting(held=1) as model, on_ray(4, workers=2) as build, ThreadPoolExecutor(1) as pool:
        settings = Settings(home=mini_home, kb="mini", language="en", **model.options())
        running = pool.submit(evaluate, plan(dataset, settings, jobs=4), out, build=build)
        try:
            assert all(model.holding.acquire(timeout=60) for _ in range(4))
            kill_one_of_two(WORKER)
        finally:
            model.go_on.set()
        assert running.result(240) == "done"
        assert model.begun == 6, "the two of the dead worker once more"
        records = read_records(out)
        assert len(records) == 4
        assert not [one.error for one in records.values() if one.error]
        assert len((out / "questions.jsonl").read_text().splitlines()) == 4
        assert evaluate(plan(dataset, settings), out) == "done"
        assert model.begun == 6, "the journal had them"


def test_a_question_of_which_its_worker_dies_twice_fails_and_the_others_are_answered(
    cluster, tmp_path, dataset, mini_home
):
    class Deadly(Explorer):
        killed = 0

        def reply(self, asked: dict[str, Any]) -> Canned:
            if any("radium?" in str(said["content"]) for said in asked["messages"]):
                for worker in processes(WORKER):
                    os.kill(worker, signal.SIGKILL)
                    self.killed += 1
            return super().reply(asked)

    with Deadly() as model, on_ray(1, workers=1) as build:
        settings = Settings(home=mini_home, kb="mini", language="en", **model.options())
        assert evaluate(plan(dataset, settings), tmp_path / "run", build=build) == "done"
    assert model.killed == 2, "once, and once more"
    errors = {name: one.error for name, one in read_records(tmp_path / "run").items()}
    assert {name: bool(error) for name, error in errors.items()} == {"q0": False, "q1": False, "q2": True, "q3": False}
    assert errors["q2"] in ("ActorDiedError", "ActorUnavailableError")


def test_a_failure_in_a_worker_is_the_failure_that_it_was(cluster, tmp_path, dataset, mini_home):
    class Refusing(Explorer):
        def reply(self, asked: object) -> Canned:
            return Canned(b'{"error": {"message": "no"}}', 500)

    with Refusing() as model, on_ray(4, workers=2) as build:
        settings = Settings(home=mini_home, kb="mini", language="en", model_retries=0, **model.options())
        assert evaluate(plan(dataset, settings, jobs=4), tmp_path / "run", build=build) == "done"
    assert {one.error for one in read_records(tmp_path / "run").values()} == {"ServiceError"}


NODES = 3 * WINDOW - 10
ENCODER = "openai:lengths"
ENCODES = "ray::MapWorker(Map(Encoding))"
"""The title of a worker's process."""
of_ray_data = pytest.mark.filterwarnings("default::DeprecationWarning")
"""It warns of its own settings."""


class Endpoint(Server):
    """Embeds by the length of a text; from some request on, replies wait until it may go on."""

    def __init__(self, held_from: int = 10**6, *, deadly: bool = False) -> None:
        """``deadly``: who asks is killed."""
        super().__init__(self._answer)
        self.held_from, self._deadly, self.killed = held_from, deadly, 0
        self.held, self.go_on = threading.Semaphore(0), threading.Event()

    def _answer(self, body: dict[str, Any], number: int) -> tuple[int, Any]:
        for worker in processes(ENCODES) if self._deadly else ():
            os.kill(worker, signal.SIGKILL)
            self.killed += 1
        if number >= self.held_from:
            self.held.release()
            self.go_on.wait(300)
        return embeddings(body)

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        super().__exit__(*_)

    @property
    def texts(self) -> int:
        return sum(len(body["input"]) for body in self.requests)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """What this process builds alone."""
    with Endpoint() as server:
        encoder = load(ENCODER, base_url=server.base_url, api_key="k")
        build(small(tmp_path, NODES), tmp_path / "here.skb", Options(sparql=False, encoder=encoder))
    return tmp_path / "here.skb"


def same_files(one: Path, other: Path, *parts: str) -> bool:
    found = [{f"{file.parent.name}/{file.name}": file.read_bytes() for part in parts for file in skb.glob(
        f"data-*/{part}/*"
    )} for skb in (one, other)]  # fmt: skip
    return bool(found[0]) and found[0] == found[1]


@of_ray_data
def test_one_of_two_workers_is_killed_and_the_skb_is_the_same(cluster, here, tmp_path):
    with (
        Endpoint(held_from=3) as server,
        builds_on_ray(workers=2, base_url=server.base_url, api_key="k") as workers,
        ThreadPoolExecutor(1) as pool,
    ):
        encoder = load(ENCODER, base_url=server.base_url, api_key="k")
        options = Options(sparql=False, encoder=encoder, workers=workers)
        building = pool.submit(build, small(tmp_path, NODES), tmp_path / "there.skb", options)
        try:
            assert all(server.held.acquire(timeout=120) for _ in range(2))
            kill_one_of_two(ENCODES)
        finally:
            server.go_on.set()
        assert building.result(240).nodes == NODES
        assert NODES < server.texts < NODES + WINDOW, "what the dead one had of its window is asked for once more"
    assert same_files(tmp_path / "there.skb", here, "vectors", "documents", "nodes", "graph")
    with SKB.open(here) as one, SKB.open(tmp_path / "there.skb") as other:
        assert other.text.search("node 7 first") == one.text.search("node 7 first")
        assert other.meta.tokens == one.meta.tokens


@of_ray_data
def test_a_worker_that_dies_of_a_text_again_and_again_ends_the_build_with_one_line(cluster, tmp_path):
    with (
        Endpoint(deadly=True) as server,
        builds_on_ray(workers=1, base_url=server.base_url, api_key="k") as workers,
    ):
        options = Options(sparql=False, encoder=load(ENCODER, base_url=server.base_url, api_key="k"), workers=workers)
        with pytest.raises(ServiceError, match=r"^a worker of the Ray cluster failed more than 3 times: .+$") as raised:
            build(small(tmp_path, 20), tmp_path / "never.skb", options)
    assert server.killed == 4
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "never.skb").exists() or not (tmp_path / "never.skb" / "meta.json").exists()


@of_ray_data
def test_a_build_whose_driver_is_killed_goes_on_where_it_was(cluster, here, tmp_path):
    out = tmp_path / "there.skb"
    command = [sys.executable, "-m", "kbnav", "skb", "build", "--on", "ray", "--workers", "2", "--out", str(out)]
    command += ["--nodes", f"{tmp_path}/n.jsonl", "--edges", f"{tmp_path}/e.jsonl", "--encoder", ENCODER, "--no-text"]
    command += ["--no-sparql"]
    environment = {**os.environ, "RAY_ADDRESS": cluster, "OPENAI_API_KEY": "k"}
    with Endpoint(held_from=21) as server:  # of 24; a window takes 8
        driver = started([*command, "--base-url", server.base_url], env=environment, stderr=subprocess.DEVNULL)
        with driver:
            assert server.held.acquire(timeout=240)
            until(lambda: written(out) >= WINDOW, seconds=60)
        kept = written(out)
    with Endpoint() as server:
        again = [*command, "--base-url", server.base_url, "--gpus", "1"]
        ended = subprocess.run(again, env=environment, capture_output=True, text=True, timeout=280)
        assert ended.returncode == 0, ended.stderr
        assert server.texts == NODES - kept
    assert same_files(out, here, "vectors")


def written(out: Path) -> int:
    """How many vectors an unfinished build has."""
    try:
        return int((np.load(out / "build" / "vectors" / "hashes.npy") != b"").sum())
    except (OSError, ValueError):
        return 0


def test_more_gpus_than_the_cluster_has_are_refused(cluster):
    with pytest.raises(ServiceError, match="has 2 GPUs, and each worker is to have 4"), builds_on_ray(gpus=4):
        pass


def test_an_address_without_a_cluster_is_told_at_once(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ServiceError, match=r"^no Ray cluster at RAY_ADDRESS=127.0.0.1:9: .*refused$"), connected("it"):
        pass


QUESTIONS = [
    (MARIE, "SELECT ?e { ?e wdt:P61 wd:Q7186 }"),
    ("Who discovered polonium?", "SELECT ?e { wd:Q979 wdt:P61 ?e }"),
    ("Who discovered radium?", "SELECT ?e { wd:Q1128 wdt:P61 ?e }"),
    ("When was Marie Curie born?", "SELECT ?e { wd:Q7186 wdt:P569 ?e }"),
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """The questions with gold queries, as one's own file."""
    file = tmp_path / "questions.jsonl"
    lines = [{"id": f"q{number}", "question": text, "sparql": query} for number, (text, query) in enumerate(QUESTIONS)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def plan(dataset: Path, settings: Settings, **more: Any) -> EvaluationPlan:
    """What is asked of the usual agent."""
    return EvaluationPlan("spinach", find_dataset(str(dataset)), settings, **more)


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


def kill_one_of_two(named: str) -> None:
    """Kill a worker, as the kernel does that lacks memory."""
    first, _ = processes(named)
    os.kill(first, signal.SIGKILL)
