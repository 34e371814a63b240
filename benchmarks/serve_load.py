"""Whether one reader, a knowledge base that hangs, or many readers take the page down: memory, and latency of the rest.

    python -m benchmarks.serve_load [--rows 100000] [--downloads 20] [--pages 45] [--forms json csv]
        [--readers 50 200 1000] [--seconds 60] [--think 60] [--varied] [--ask] [--workers 2]

The server is a process of its own. One reader downloads the same result many times at once, while the server's memory
is looked at; then many pages of a knowledge base that never answers are asked for, and beside them what must answer.
Last, a simple question is asked once a second, alone and beside many readers (``_readers.py``), who think ``--think``
seconds on average between two things that they do. ``--varied``: not six questions again and again, but some 270
different ones (``_varied.py``); of those that are timed each is new to the server. ``--ask``: readers do
nothing but ask, and nobody asks beside them: who asks once a second would come behind all. ``--workers``: so
many processes serve, with PostgreSQL, whose processes count as the machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks._readers import PATIENCE
from benchmarks._varied import varied

from tests.apps.web.parts import Visit, served_process
from tests.attack.parts import POLONIUM, hangs
from tests.services import postgresql

QUERY = "SELECT ?a ?b ?c {{ ?a ?b ?c . ?d ?e ?f }} LIMIT {rows}"


class Memory:
    """The most memory that a process has had, in MiB, while it is watched."""

    def __init__(self, process: int) -> None:
        self._status = Path(f"/proc/{process}/status")
        self._over = threading.Event()
        self.peak = self.now()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def now(self) -> float:
        """What it has now."""
        for line in self._status.read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self.now())


def downloads(visit: Visit, process: int, rows: int, many: int, forms: list[str]) -> None:
    """Memory of many downloads at once, above what the server had before the query was run."""
    visit("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"})
    idle = Memory(process).now()
    told = visit("POST", "/api/queries", {"query": QUERY.format(rows=rows), "kb": "demo"}).json()
    result, after = told["result"], Memory(process).now()
    print(f"{result['rows']} rows: {idle:.0f} MiB before the query, {after:.0f} after")
    for form in forms:

        def load(_: int, form: str = form) -> int:
            path = f"{visit.url}/api/results/{result['id']}/{form}"
            with visit.http.get(path, stream=True, timeout=600) as response:
                response.raise_for_status()
                return sum(map(len, response.iter_content(1 << 16)))

        began = time.perf_counter()
        with Memory(process) as memory, ThreadPoolExecutor(many) as pool:
            sizes = list(pool.map(load, range(many)))
        wall = time.perf_counter() - began
        print(f"{many} {form} of {sizes[0] >> 20} MiB: {wall:.1f} s, at most {memory.peak - idle:.0f} MiB above idle")


def hanging(url: str, key: str, many: int) -> None:
    """Latency of what must answer while pages of a knowledge base that hangs are asked for."""
    visits = [Visit(url) for _ in range(5)]
    with ThreadPoolExecutor(many) as pool:
        pages = [pool.submit(visits[n % 5], "GET", f"/entry/{key}/Q{n + 1}") for n in range(many)]
        time.sleep(1)
        times: dict[str, list[float]] = {}
        for path in ("/health", "/ready", "/", "/api/options") * 10:
            began = time.perf_counter()
            visits[0]("GET", path).raise_for_status()
            times.setdefault(path, []).append(1e3 * (time.perf_counter() - began))
        for path, taken in times.items():
            print(f"{path:14} median {statistics.median(taken):.0f} ms, slowest {max(taken):.0f} ms")
        print("the pages' answers:", dict(Counter(page.result().status_code for page in pages)))


ELEMENTS = ("polonium", "radium", "oxygen", "chlorine", "tungsten", "titanium")
"""The bundled mirror knows who discovered them."""


def answers(url: str) -> dict[str, str]:
    """Simple questions with their answers; the first time that each is asked."""
    visit, found = Visit(url), {}
    for element in ELEMENTS:
        question = f"Who discovered {element}?"
        told = visit("POST", "/api/ask", {"question": question, "kb": "mini"}).json()
        if told["status"] != "answered":
            raise AssertionError(f"no answer to begin with: {told}")
        found[question] = told["text"]
    return found


def simple(url: str, asked: Iterator[tuple[str, str]], seconds: float) -> list[float]:
    """What simple questions took, asked one a second. Raises AssertionError for one that is not answered as before."""
    visit, taken, until = Visit(url), list[float](), time.perf_counter() + seconds
    for question, answer in asked:
        began = time.perf_counter()
        if began > until:
            return sorted(taken)
        told = visit("POST", "/api/ask", {"question": question, "kb": "mini"}, timeout=PATIENCE)
        if told.status_code != 200 or told.json()["text"] != answer:
            raise AssertionError(f"lost: {told.text[:200]}")
        taken.append(time.perf_counter() - began)
        time.sleep(max(0.0, began + 1 - time.perf_counter()))
    return taken


ALONE = 30.0
"""Seconds for which simple questions are asked before the readers come."""


def mixed(
    url: str,
    process: int,
    key: str,
    readers: int,
    seconds: float,
    think: float,
    questions: dict[str, str],
    only: list[str],
) -> None:
    """Simple questions alone, and beside readers; where the processors' time went, and the memory minute by minute.

    Where readers do ``only`` some things, nothing is asked beside them.
    Without ``questions``, six are asked again and again; else the first of these are timed, and readers ask the rest.
    """
    if questions:
        pairs = list(questions.items())
        timed, asked = pairs[: len(pairs) // 2], dict(pairs[len(pairs) // 2 :])
        answers(url)  # whatever has to be loaded for the first question is
    else:
        asked = answers(url)
        timed = list(asked.items())
    probes = cycle(timed)
    alone = [] if only else simple(url, probes, ALONE)
    command = [sys.executable, "-m", "benchmarks._readers", url, key, str(readers), str(think), *only]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    used, began, memory = Used(process), time.perf_counter(), list[str]()
    with subprocess.Popen(command, **pipes) as load:
        load.stdin.write(json.dumps(asked) + "\n")  # type: ignore[union-attr]
        load.stdin.flush()  # type: ignore[union-attr]
        beside = []
        while (left := began + seconds - time.perf_counter()) > 0:
            if only:
                time.sleep(min(60.0, left))
            else:
                beside += simple(url, probes, min(60.0, left))
            memory.append(f"{Memory(process).now():.0f}")
        wall = time.perf_counter() - began
        told = json.loads(load.communicate()[0])
    print(f"{readers} readers, {sum(told['done'].values()) / wall:.1f} things a second, {wall:.0f} s")
    if beside:
        low, high = (sorted(taken)[int(0.95 * len(taken))] for taken in (alone, beside))
        middle = statistics.median(alone), statistics.median(beside)
        print(f"  a simple question, median: {middle[0]:.3f} s alone, {middle[1]:.3f} beside ({len(beside)} asked)")
        print(f"  at the 95th percentile: {low:.3f} s alone, {high:.3f} beside, {high / low:.1f} times")
    print("  done:", told["done"], "lost:", told["lost"])
    print("  at the 95th percentile:", {what: f"{taken:.2f} s" for what, taken in told["p95"].items()})
    print(f"  processors: {used.since(wall)}, readers {told['cpu'] / wall:.0%}; MiB by the minute: {', '.join(memory)}")


class Used:
    """Processors' time since it was made, of a process, of its children, and of the whole machine."""

    def __init__(self, process: int) -> None:
        self._process, self._before = process, self._now(process)

    def since(self, wall: float) -> str:
        """In shares of one processor."""
        own, children, machine = (
            (now - before) / wall for now, before in zip(self._now(self._process), self._before, strict=True)
        )
        return f"server {own:.0%}, its children {children:.0%}, the machine {machine:.0%} of {os.cpu_count()}00%"

    @staticmethod
    def _now(process: int) -> tuple[float, float, float]:
        tick = os.sysconf("SC_CLK_TCK")
        stats = {
            int(path.parent.name): path.read_text().rpartition(")")[2].split()
            for path in Path("/proc").glob("[0-9]*/stat")
        }
        children = sum(int(one[11]) + int(one[12]) for one in stats.values() if int(one[1]) == process)
        own = [int(value) for value in stats[process][11:15]]
        user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        busy = user + nice + system + irq + soft
        return (own[0] + own[1]) / tick, (own[2] + own[3] + children) / tick, busy / tick


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--downloads", type=int, default=20)
    parser.add_argument("--pages", type=int, default=45)
    parser.add_argument("--readers", type=int, nargs="*", default=[50, 200, 1000])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=60.0)
    parser.add_argument("--varied", action="store_true")
    parser.add_argument("--ask", action="store_const", const=["ask"], default=[])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--forms", nargs="+", default=["json", "csv"])
    given = parser.parse_args()
    questions = varied() if given.varied else {}
    with tempfile.TemporaryDirectory() as home, hangs() as stuck, ExitStack() as opened:
        kbs = ["--kb", "mini", "--kb", "demo", "--kb", stuck.url, "--set", f"web.workers={given.workers}"]
        environment = {"KBNAV_LANGUAGE": "en"}
        if given.workers > 1:
            environment["KBNAV_DATABASE"] = opened.enter_context(postgresql())
        with served_process(Path(home), *kbs, environment=environment) as (url, process):
            # A pipe that nobody reads is full after some 900 requests, and the server then waits to write its log.
            threading.Thread(target=list, args=(process.stdout,), daemon=True).start()
            if given.downloads:
                downloads(Visit(url), process.pid, given.rows, given.downloads, given.forms)
            if given.pages:
                hanging(url, stuck.url[7:], given.pages)
            for readers in given.readers:
                mixed(url, process.pid, stuck.url[7:], readers, given.seconds, given.think, questions, given.ask)


if __name__ == "__main__":
    main()
