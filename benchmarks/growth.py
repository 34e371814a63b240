"""How a mirror grows: build, disk, queries and search at sizes from 3.4 to 100 million triples.

    python -m benchmarks.growth --size 3.4 10 [30 100] [--seed 1] [--work FOLDER] [--keep]
    python -m benchmarks.growth --part --size 3.4 10
    python -m benchmarks.growth --tables

The triples are the slice of Wikidata in the shared data, grown by ``benchmarks/_grown.py``. A build runs in a process
of its own; its phases (triples, names, values) are measured one by one, the peak of memory too; the
store's files are merged beside the names. Queries go to a served mirror: idioms, the gold queries of
``benchmarks/mirror.py`` about the slice's own items, whose rows must be those of the slice alone, and eight readers at
once. Each size is saved as it ends, in ``benchmarks/results/growth.json``.
``--part`` measures only the build of a part, as ``kbnav mirror build --keep 'P31/P279*=Q5'`` cuts it from the same
triples, and adds it to what is saved of a size. ``--tables`` makes docs/images/growth.svg and the tables of
docs/scale.md and benchmarks/results/growth.md from that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import requests
from benchmarks._grown import Grown
from benchmarks.mirror import DATA, DATASETS, SLOW_MS, ask, gold_queries, rows_of

from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.wikidata.mirror.mirror import MIRROR, NAMES

SAVED = Path(__file__).parent / "results" / "growth.json"
MILLION = 1_000_000
SLICE = 3_400_000
PART = "P31/P279*=Q5"
UP = "SELECT ?x {{ wd:{} wdt:P19/wdt:P131* ?x }}"
PEOPLE = ("Q937", "Q7186", "Q1339", "Q254", "Q5879", "Q41688")
_ALONE = re.compile(r"\b(?:COUNT|SUM|AVG|MIN|MAX|SAMPLE|GROUP_CONCAT|LIMIT|OFFSET|MINUS|EXISTS|ASK)\b", re.IGNORECASE)
"""What makes the rows of a query depend on items that are not in them."""
_FRESH = re.compile(r"/Q2\d{9}|/statement/c\d{3}-|_\d{3}\"")
"""What the items, statements and pages of copies have."""
BUILD = """
import json, re, resource, sys, time
from pathlib import Path
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.chosen import parse_chosen
phases, state = {}, {"name": "triples"}
def begin(name):
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is measured from here on
    usage = resource.getrusage(resource.RUSAGE_SELF)
    state.update(name=name, wall=time.perf_counter(), cpu=usage.ru_utime + usage.ru_stime)
def end():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    phases[state["name"]] = {"seconds": time.perf_counter() - state["wall"],
        "cpu": usage.ru_utime + usage.ru_stime - state["cpu"], "mib": peak}
def say(line):
    print(line, file=sys.stderr, flush=True)
    for name in ("names", "values"):
        if line.endswith("indexing " + name):
            end(); begin(name)
begin("triples")
chosen = parse_chosen(sys.argv[3:], [], [])
info = build_mirror([Path(sys.argv[2])], Path(sys.argv[1]), chosen=chosen, progress=say)
end()
print(json.dumps({"triples": info.triples, "entities": info.entities, "names": info.names, "phases": phases}))
"""


def main() -> None:
    """Measure the sizes, or make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", nargs="*", type=float, default=[3.4, 10.0], help="millions of triples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for what is built; default: a temporary one")
    parser.add_argument("--keep", action="store_true", help="leave the mirrors there, and use those that are")
    parser.add_argument("--part", action="store_true", help="build a part alone")
    parser.add_argument("--tables", action="store_true", help="make the tables from what was saved")
    options = parser.parse_args()
    if options.tables:
        from benchmarks._growth_tables import write

        write(json.loads(SAVED.read_text()))
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        grown = cache(lambda: Grown(sorted((DATA / "wikidata-slice").glob("*.nt.gz")), options.seed))
        for size in sorted(options.size):
            triples = round(size * MILLION)
            if options.part:
                found = build(grown(), triples, work / f"part-{triples}", PART)
                save(next(one for one in json.loads(SAVED.read_text()) if one["asked"] == triples) | {"part": found})
                shutil.rmtree(work / f"part-{triples}")
            else:
                measure(grown, triples, work, options.keep, options.seed)


def measure(grown: Callable[[], Grown], triples: int, work: Path, keep: bool, seed: int) -> None:
    """Build, measure and save one size."""
    path = work / f"grown-{triples}"
    found: dict[str, Any] = {"asked": triples, "seed": seed, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    found["load_average"] = {"begin": os.getloadavg()[1]}
    built = work / f"grown-{triples}.json"
    if not (keep and path.exists()):
        built.write_text(json.dumps(build(grown(), triples, path)))
    found |= json.loads(built.read_text())
    found["disk_mib"] = {
        part: sum(file.stat().st_size for file in (path / part).rglob("*")) / 2**20
        if (path / part).is_dir()
        else (path / part).stat().st_size / 2**20
        for part in ("triples", "names.sqlite")
    }
    found |= queries(path, triples)
    found["load_average"]["end"] = os.getloadavg()[1]
    save(found)
    if not keep:
        shutil.rmtree(path)
        built.unlink()


def build(grown: Grown, triples: int, path: Path, *keep: str) -> dict[str, Any]:
    """Build in a process of its own, all or the items with a link of ``keep``."""
    source = path.with_suffix(".nt")
    with source.open("wb") as file:
        file.writelines(grown.blocks(triples))
    try:
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(path), str(source), *keep], check=True, stdout=subprocess.PIPE, text=True
        )
    finally:
        source.unlink()
    return json.loads(done.stdout)


def queries(path: Path, triples: int) -> dict[str, Any]:
    """Opening, latencies, rows and readers at once."""
    begin = time.perf_counter()
    with MirrorServer(path) as server:
        opened = time.perf_counter() - begin
        session = requests.Session()
        ask(server.endpoints.sparql, "ASK {}", session)
        first = time.perf_counter() - begin
        gold = gold_queries()
        gold["P131* up"] = [prepare(UP.format(person), MIRROR).text for person in PEOPLE]
        rows: dict[str, Counter[str] | None] = {}
        times = {}
        for name, group in gold.items():
            times[name] = [asked(server.endpoints.sparql, query, session, rows) for query in group]
            print(f"{triples:,}: {name}: {both(times[name])}", file=sys.stderr, flush=True)
        times["gold"] = [one for name in DATASETS for one in times[name]]
        about = [query for name in DATASETS for query in gold[name]]
        return {
            "open_ms": opened * 1000,
            "first_ms": first * 1000,
            "queries": {name: both(some) for name, some in times.items()},
            "rows": compared({query: rows[query] for query in about}, path.parent / "rows.json", triples),
            "search_ms": searches(path, server.endpoints.api, session),
            "readers": {str(count): at_once(server.endpoints.sparql, about[::4], count) for count in (1, 8)},
        }


def asked(
    address: str, query: str, session: requests.Session, rows: dict[str, Counter[str] | None]
) -> tuple[float, float]:
    """Milliseconds of a query, and of processors, the better of two; its rows are put into ``rows``.

    The server, its child with the store, and a client that takes the whole reply are counted, not the reading of the
    rows. Where other work shares the processors, their time says what a query costs.
    """
    best = (float("inf"), float("inf"))
    for _ in range(2):
        begin, used = time.perf_counter(), processors()
        reply = ask(address, query, session)
        best = min(best, ((time.perf_counter() - begin) * 1000, (processors() - used) * 1000), key=lambda one: one[1])
        rows[query] = rows_of(reply)
        if best[0] > SLOW_MS:  # its second time says the same
            break
    return best


def processors() -> float:
    """Seconds of processors that this process and its children have used, those that have ended among them.

    The pool ends a child whose query took more than a second.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in Path("/proc/self/task").glob("*/children"):
        for process in child.read_text().split():
            for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
                with suppress(OSError):
                    used += int(thread.read_text().split()[0]) / 1e9
    return used


def both(times: Sequence[tuple[float, float]]) -> dict[str, dict[str, float]]:
    """Of milliseconds and of milliseconds of processors."""
    return {"ms": spread([one for one, _ in times]), "cpu_ms": spread([one for _, one in times])}


def spread(times: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and most."""
    high = statistics.quantiles(times, n=20, method="inclusive")[18]
    return {"queries": len(times), "p50": statistics.median(times), "p95": high, "most": max(times)}


def compared(rows: Mapping[str, Counter[str] | None], saved: Path, triples: int) -> dict[str, int]:
    """Compare with the rows on the slice itself, which the smallest size saves: each must be there.

    What is there more must name an item of a copy, or hold no item at all. Queries that ran out of time, or whose rows
    depend on items that are not in them, are left out. Raises AssertionError.
    """
    kept = {query: found for query, found in rows.items() if found is not None and not _ALONE.search(query)}
    if triples <= SLICE:
        saved.write_text(json.dumps(kept))
        return {"compared": 0, "more": 0, "unanswered": sum(found is None for found in rows.values())}
    before = {query: Counter(found) for query, found in json.loads(saved.read_text()).items() if query in kept}
    more = 0
    for query, old in before.items():
        new = kept[query]
        assert old <= new, f"rows of the slice are missing: {query}: {list(old - new)[:3]}"
        extra = [row for row in new - old if "/entity/" in row and not _FRESH.search(row)]
        assert not extra, f"rows that are not of a copy: {query}: {extra[:3]}"
        more += len(new) > len(old)
    return {"compared": len(before), "more": more, "unanswered": sum(found is None for found in rows.values())}


def searches(path: Path, address: str, session: requests.Session) -> dict[str, Any]:
    """Milliseconds of wbsearchentities for 200 names of the slice, whole and by their first four and two letters."""
    with closing(sqlite3.connect(path / NAMES)) as index:
        ids = "SELECT number FROM entity WHERE id NOT LIKE 'Q2_________' AND kind = 'item'"
        names = index.execute(f"SELECT text FROM name WHERE label = 1 AND language = 'en' AND entity IN ({ids})")
        every = sorted(row[0] for row in names if len(row[0]) > 4)
    some = every[:: max(1, len(every) // 200)][:200]
    found = {}
    for kind, length in (("name", None), ("four letters", 4), ("two letters", 2)):
        times = []
        for name in some:
            begin, used = time.perf_counter(), processors()
            params = {"action": "wbsearchentities", "search": name[:length], "language": "en", "format": "json"}
            session.get(address, params=params, timeout=60).raise_for_status()
            times.append(((time.perf_counter() - begin) * 1000, (processors() - used) * 1000))
        found[kind] = both(times)
    return found


def at_once(address: str, some: Sequence[str], readers: int) -> dict[str, float]:
    """Readers who each ask all these queries, each from a place of its own: queries a second, milliseconds."""

    def read(number: int) -> list[float]:
        session, times = requests.Session(), []
        first = number * len(some) // readers
        for query in [*some[first:], *some[:first]]:
            begin = time.perf_counter()
            ask(address, query, session)
            times.append((time.perf_counter() - begin) * 1000)
        return times

    begin = time.perf_counter()
    with ThreadPoolExecutor(readers) as threads:
        times = [one for many in threads.map(read, range(readers)) for one in many]
    return {"queries_s": len(times) / (time.perf_counter() - begin), **spread(times)}


def save(found: dict[str, Any]) -> None:
    """Put one size in the place of an older figure of it."""
    sizes = json.loads(SAVED.read_text()) if SAVED.exists() else []
    sizes = [one for one in sizes if one["asked"] != found["asked"]] + [found]
    SAVED.write_text(json.dumps(sorted(sizes, key=lambda one: one["asked"]), indent=1) + "\n")


if __name__ == "__main__":
    main()
