"""Whether one reader, or a knowledge base that hangs, takes the page down: memory of downloads, latency of the rest.

    python benchmarks/serve_load.py [--rows 100000] [--downloads 20] [--pages 45] [--forms json csv]
        [--readers 50 200] [--seconds 30]

The server is a process of its own. One reader downloads the same result many times at once, while the server's memory
is looked at; then many pages of a knowledge base that never answers are asked for, and beside them what must answer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the tests' client and stub

from tests.apps.web.parts import Visit, served_process
from tests.attack.parts import HEAVY, POLONIUM, Hanging

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


def mixed(url: str, key: str, readers: int, seconds: float) -> None:
    """A simple question alone, and beside readers who ask, browse, run heavy queries and open pages that hang."""

    def p95(until: float) -> tuple[float, int]:
        visit, taken = Visit(url), []
        while not taken or time.perf_counter() < until:
            began = time.perf_counter()
            told = visit("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"})
            if told.status_code != 200 or told.json()["status"] != "answered":
                raise AssertionError(f"lost: {told.text[:200]}")
            taken.append(time.perf_counter() - began)
        return sorted(taken)[int(0.95 * len(taken))], len(taken)

    alone, _ = p95(time.perf_counter() + 5)
    over, done = threading.Event(), Counter[str]()

    def reader(number: int) -> None:
        visit = Visit(url)
        does = {
            "ask": lambda: visit("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"}),
            "browse": lambda: visit("GET", "/entry/mini/Q979"),
            "options": lambda: visit("GET", "/api/options"),
            "heavy": lambda: visit("POST", "/api/queries", {"query": HEAVY, "kb": "mini"}),
            "hanging": lambda: visit("GET", f"/entry/{key}/Q1"),
        }
        what = ("ask", "browse", "options", "browse", "options", "browse", "options", "browse", "heavy", "hanging")
        while not over.wait(5 * (number % 7 + 1) / 7):  # somebody reads, then goes on
            try:
                done[f"{what[number % 10]} {does[what[number % 10]]().status_code}"] += 1
            except OSError:
                done[f"{what[number % 10]} gave up"] += 1

    threads = [threading.Thread(target=reader, args=(number,), daemon=True) for number in range(readers)]
    for thread in threads:
        thread.start()
    loaded, many = p95(time.perf_counter() + seconds)
    over.set()
    times = f"{alone:.2f} s alone, {loaded:.2f} s ({many}) beside"
    print(f"{readers} readers: a simple question at the 95th percentile {times}")
    print("what they did:", dict(sorted(done.items())))


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--downloads", type=int, default=20)
    parser.add_argument("--pages", type=int, default=45)
    parser.add_argument("--readers", type=int, nargs="*", default=[50, 200])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--forms", nargs="+", default=["json", "csv"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Hanging() as stuck:
        kbs = ("--kb", "mini", "--kb", "demo", "--kb", stuck.url)
        with served_process(Path(home), *kbs, environment={"KBNAV_LANGUAGE": "en"}) as (url, process):
            # A pipe that nobody reads is full after some 900 requests, and the server then waits to write its log.
            threading.Thread(target=list, args=(process.stdout,), daemon=True).start()
            if given.downloads:
                downloads(Visit(url), process.pid, given.rows, given.downloads, given.forms)
            if given.pages:
                hanging(url, stuck.key, given.pages)
            for readers in given.readers:
                mixed(url, stuck.key, readers, given.seconds)


if __name__ == "__main__":
    main()
