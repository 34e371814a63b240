"""The client-side twin of a service's limits."""

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from kbnav.errors import UsageError
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def throttle(path: Path, clock: Clock) -> Throttle:
    return Throttle(path / "limits.sqlite", clock=clock, sleep=clock.sleep)


def test_sixty_seconds_of_queries_fit_into_a_minute_and_no_more(tmp_path):
    clock = Clock()
    limits = throttle(tmp_path, clock)
    rules = Rules(seconds=60)
    started = []
    for _ in range(4):
        with limits.slot("sparql", rules):
            started.append(clock.now - 1000)
            clock.now += 25
    # 25 + 25 + 25 s run back to back (after 50 s there was still room); then 75 - 60 s, all of the window, are used.
    assert started[:3] == [0, 25, 50]
    assert started[3] == pytest.approx(75, abs=0.5)
    with limits.slot("sparql", Rules(seconds=30)):
        # The last 60 s hold 60 s of queries; 30 s of them must pass out of the window first.
        assert clock.now - 1000 == pytest.approx(130, abs=0.5)


def test_requests_and_errors_are_counted_apart_and_by_service(tmp_path):
    clock = Clock()
    limits = throttle(tmp_path, clock)
    for _ in range(3):
        with limits.slot("a", Rules(requests=3)):
            pass
    with limits.slot("a", Rules(errors=1)), limits.slot("b", Rules(requests=3)):
        assert clock.now == 1000
    with limits.slot("a", Rules(requests=3)):
        assert clock.now >= 1060


def _use(path: str, times: int) -> None:
    limits = Throttle(Path(path))
    for _ in range(times):
        with limits.slot("a", Rules(requests=10_000)):
            pass


def test_processes_count_into_one_file(tmp_path):
    path = tmp_path / "limits.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_use, args=(str(path), 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*), count(ended) FROM request").fetchone() == (40, 40)
    database.close()


def test_a_request_whose_process_died_is_forgotten(tmp_path):
    clock = Clock()
    limits = throttle(tmp_path, clock)
    dead = limits.slot("a", Rules(), longest=70)
    dead.__enter__()
    clock.now += 65
    with limits.slot("a", Rules(seconds=60)):
        # It counts until 1070; from then on less than 60 s of it are within the last minute.
        assert clock.now == pytest.approx(1070, abs=0.5)
    clock.now = 1131
    with limits.slot("a", Rules(seconds=0.1)):
        assert clock.now == 1131
    dead.__exit__(None, None, None)


@pytest.mark.parametrize("make", [Throttle, lambda path: HttpCache(path, age=1)])
def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path, make):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="KBNAV_HOME"):
        make(tmp_path / "file" / "state.sqlite")
    (tmp_path / "rubbish").write_bytes(b"not a database" * 100)
    with pytest.raises(UsageError, match="rubbish"):
        make(tmp_path / "rubbish")


def test_the_cache_keeps_its_size_by_dropping_the_oldest(tmp_path):
    now = [0.0]
    cache = HttpCache(tmp_path / "cache.sqlite", age=1e9, max_bytes=20_000, clock=lambda: now[0])
    body = bytes(range(256)) * 4  # compresses to a few hundred bytes
    for number in range(256):
        now[0] += 1
        cache.put(str(number), "text/plain", number.to_bytes(2, "big") + body)
    database = sqlite3.connect(tmp_path / "cache.sqlite")
    size, count = database.execute("SELECT sum(size), count(*) FROM answer").fetchone()
    database.close()
    assert size <= 20_000
    assert 0 < count < 256
    assert cache.get("255") == ("text/plain", (255).to_bytes(2, "big") + body)
    assert cache.get("0") is None
