"""How many sessions the chat page's server holds at once, and what they wait for.

    python -m benchmarks.serve [--sessions 50] [--delay 0.2]

The server runs in a process of its own on the bundled mirror, with a scripted model over HTTP that takes ``--delay``
seconds for each reply, of which a question needs four. Each session asks one question and follows its events. Beside
them: the same questions one after another, which is what a session alone waits. At the end what a database of servers
has grown by: sessions, answers, and the whole runs, which are files here and are counted as they would be kept there.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.apps.web.parts import Explorer, Visit, served_process
from tests.models.stub import Canned


class SlowModel(Explorer):
    """Takes its time for every reply."""

    delay = 0.0

    def reply(self, asked: dict[str, Any]) -> Canned:
        """As ``Explorer``, later."""
        time.sleep(self.delay)
        return super().reply(asked)


def ask(url: str, number: int) -> tuple[float, float]:
    """Seconds to the first action and to the answer of a new session's question. Raises AssertionError without one."""
    visit = Visit(url)
    session = visit.session()
    began, first = time.perf_counter(), 0.0
    run = visit.ask(session, f"Question {number}: which elements did she discover?")
    answered = False
    for event in visit.events(run["id"]):
        first = first or (time.perf_counter() - began) * (event["kind"] == "call")
        answered = answered or event.get("status") == "done"
    if not answered:
        raise AssertionError(f"question {number} was lost")
    return first, time.perf_counter() - began


def main() -> None:
    """Print medians, the slowest, and questions a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--delay", type=float, default=0.2)
    given = parser.parse_args()
    limits = {"KBNAV_WEB__RUNS": str(given.sessions), "KBNAV_LANGUAGE": "en"}
    with tempfile.TemporaryDirectory() as home, SlowModel() as model:
        model.delay = given.delay
        options = ("--model", "stub", "--base-url", model.base_url)
        with served_process(Path(home), *options, environment=limits) as (url, _):
            ask(url, 0)
            before = kept(Path(home))
            alone = [ask(url, number) for number in range(5)]
            show("one after another", alone, sum(whole for _, whole in alone))
            began = time.perf_counter()
            with ThreadPoolExecutor(given.sessions) as pool:
                together = list(pool.map(lambda number: ask(url, number), range(given.sessions)))
            show(f"{given.sessions} at once, none lost", together, time.perf_counter() - began)
            grown = (kept(Path(home)) - before) / (len(alone) + len(together)) / 1024
            print(f"kept in the databases: {grown:.0f} KiB a question of four replies")


def kept(home: Path) -> int:
    """Bytes of sessions, answers and compressed runs."""
    found = 0
    for name in ("web.sqlite", "sessions.sqlite"):
        with closing(sqlite3.connect(home / name)) as database:
            found += database.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()[0]
    return found + sum(len(zlib.compress(file.read_bytes())) for file in (home / "runs").glob("*.json"))


def show(what: str, times: list[tuple[float, float]], wall: float) -> None:
    """One line."""
    first, whole = zip(*times, strict=True)
    print(
        f"{what:28} first action {statistics.median(first):5.2f} s, answer {statistics.median(whole):5.2f} s, "
        f"slowest {max(whole):5.2f} s, {len(times) / wall:5.1f} questions/s"
    )


if __name__ == "__main__":
    main()
