"""Builds of an SKB on a Ray cluster of two workers, one of which is killed; and one whose driver is killed."""

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
from kbnav.knowledge.ray_cluster import connected
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.on_ray import on_ray
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import WINDOW
from tests.deploy.evaluations import kill_one_of_two, processes
from tests.encoders.endpoint import Server, embeddings
from tests.ending import started, until
from tests.knowledge.skb.sources import small

NODES = 3 * WINDOW - 10
ENCODER = "openai:lengths"
ENCODES = "ray::MapWorker(Map(Encoding))"
"""The title of a worker's process."""
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")
"""Ray Data warns of its own settings."""


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


def test_one_of_two_workers_is_killed_and_the_skb_is_the_same(cluster, here, tmp_path):
    with (
        Endpoint(held_from=3) as server,
        on_ray(workers=2, base_url=server.base_url, api_key="k") as workers,
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
        assert one.text is not None
        assert other.text is not None
        assert other.text.search("node 7 first") == one.text.search("node 7 first")
        assert other.meta.tokens == one.meta.tokens


def test_a_worker_that_dies_of_a_text_again_and_again_ends_the_build_with_one_line(cluster, tmp_path):
    with (
        Endpoint(deadly=True) as server,
        on_ray(workers=1, base_url=server.base_url, api_key="k") as workers,
    ):
        options = Options(sparql=False, encoder=load(ENCODER, base_url=server.base_url, api_key="k"), workers=workers)
        with pytest.raises(ServiceError, match=r"^a worker of the Ray cluster failed more than 3 times: .+$") as raised:
            build(small(tmp_path, 20), tmp_path / "never.skb", options)
    assert server.killed == 4
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "never.skb").exists() or not (tmp_path / "never.skb" / "meta.json").exists()


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
    with pytest.raises(ServiceError, match="has 2 GPUs, and each worker is to have 4"), on_ray(gpus=4):
        pass


def test_an_address_without_a_cluster_is_told_at_once(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ServiceError, match=r"^no Ray cluster at RAY_ADDRESS=127.0.0.1:9: .*refused$"), connected("it"):
        pass
