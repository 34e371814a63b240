"""Build rate, memory, opening time and query latency of a mirror, beside Oxigraph's own server where it is installed.

    python -m benchmarks.mirror [--sources FILE …] [--mirror FOLDER] [--rounds N]

The queries are the gold queries of four datasets that have rows on the slice of Wikidata in the shared data, and three
idioms (``?x wdt:P31/wdt:P279* wd:CLASS`` and its like). The peer is the ``oxigraph`` command, where it is installed
(``pip install oxigraph``), on the same store, with the same queries, in turn with the mirror; rows are compared where
no LIMIT cuts them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from kbnav.evaluation.datasets import load_dataset
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.wikidata.mirror.mirror import MIRROR, TRIPLES, read_info
from kbnav.knowledge.wikidata.mirror.pool import QueryLimits

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("KBNAV_TEST_DATA", ROOT.parent / "shared")) / "data"
QUERY_SECONDS = 60.0
SLOW_MS = 2_000
BUILD = """
import json, resource, sys, time
from pathlib import Path
from kbnav.knowledge.wikidata.mirror.build import build_mirror
begin = time.perf_counter()
info = build_mirror([Path(name) for name in sys.argv[2:]], Path(sys.argv[1]))
seconds = time.perf_counter() - begin
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"triples": info.triples, "seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime,
                  "mib": usage.ru_maxrss / 1024}))
"""


def main() -> None:
    """Build, if no mirror is given, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="*", type=Path, help="default: the slice in the shared data")
    parser.add_argument("--mirror", type=Path, help="a mirror that is there already; nothing is built then")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.mirror or Path(folder) / "mirror"
        if options.mirror is None:
            build(options.sources or sorted((DATA / "wikidata-slice").glob("*.nt.gz")), path)
        measure(path, gold_queries(), options.rounds)


def build(sources: Sequence[Path], path: Path) -> None:
    """Build in a process of its own, so that its peak of memory is its own."""
    command = [sys.executable, "-c", BUILD, str(path), *map(str, sources)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20
    print(f"build    {found['triples']:,} triples in {found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU):")
    print(f"         {found['triples'] / found['seconds']:,.0f} triples/s, peak {found['mib']:,.0f} MiB")
    print(f"on disk  {size:,.0f} MiB")


DATASETS = {
    "qald-10": "QALD-10",
    "qald-9-plus-train": "QALD-9-plus train",
    "wikiwebquestions-dev": "WikiWebQuestions dev",
    "wikiwebquestions-train": "WikiWebQuestions train",
    "spinach-dev": "SPINACH dev",
}
"""Names of datasets, and under what each stands in the list of questions with rows."""
IDIOMS = {
    "P31/P279*": ("P31/wdt:P279*", ("Q8502", "Q515", "Q35127", "Q571", "Q11344")),
    "P106/P279*": ("P106/wdt:P279*", ("Q36180", "Q33999", "Q10873124", "Q36834")),
    "P131*": ("P19/wdt:P131*", ("Q64", "Q1741", "Q183", "Q145")),
}


def gold_queries() -> dict[str, list[str]]:
    """Gold queries with rows on the slice by dataset, and the idioms, for a store that knows the standard only."""
    answerable = json.loads(gzip.decompress((DATA / "wikidata-slice" / "answerable.json.gz").read_bytes()))
    groups = {}
    for name, listed in DATASETS.items():
        wanted = {str(one["id"]) for one in answerable[listed]}
        questions = load_dataset(name, DATA / "benchmarks").questions
        groups[name] = [question.query for question in questions if question.id in wanted and question.query]
    for name, (path, classes) in IDIOMS.items():
        groups[name] = [f"SELECT ?x {{ ?x wdt:{path} wd:{one} }}" for one in classes]
    return {name: [prepare(query, MIRROR).text for query in queries] for name, queries in groups.items()}


def measure(path: Path, groups: Mapping[str, Sequence[str]], rounds: int) -> None:
    """Serve the mirror, and the same store by the peer, and compare."""
    info = read_info(path)
    queries = [query for group in groups.values() for query in group]
    print(f"mirror   {info.triples:,} triples, {info.names:,} names; {len(queries)} queries, {rounds} rounds")
    begin = time.perf_counter()
    with MirrorServer(path, limits=QueryLimits(QUERY_SECONDS)) as server:
        opened = time.perf_counter() - begin
        ask(server.endpoints.sparql, "ASK {}", requests.Session())
        first = time.perf_counter() - begin
        print(f"opening  {opened * 1000:.0f} ms; first answer after {first * 1000:.0f} ms")
        endpoints = {"mirror": server.endpoints.sparql}
        peer = shutil.which("oxigraph")
        if peer is None:
            print("peer     none: the oxigraph command is not on the path")
            report(groups, latencies(endpoints, queries, rounds))
            return
        with peer_server(peer, path / TRIPLES) as address:
            report(groups, latencies(endpoints | {"oxigraph": address}, queries, rounds))


@contextmanager
def peer_server(command: str, store: Path) -> Iterator[str]:
    """Oxigraph's own server on a store; gives the address of its SPARQL endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [command, "serve-read-only", "--location", str(store), "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}/query"
        for _ in range(100):
            try:
                ask(address, "ASK {}", requests.Session())
                break
            except requests.ConnectionError:
                time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


def ask(address: str, query: str, session: requests.Session) -> requests.Response:
    """The whole reply: reading its rows is the client's work, and not measured."""
    kind = {"Accept": "application/sparql-results+json"}
    return session.post(address, data={"query": query}, headers=kind, timeout=2 * QUERY_SECONDS)


def rows_of(reply: requests.Response) -> Counter[str] | None:
    """The rows with how often each comes, None where there was no answer."""
    if reply.status_code != 200:
        return None
    document = reply.json()
    if "boolean" in document:
        return Counter([str(document["boolean"])])
    return Counter(json.dumps(row, sort_keys=True) for row in document["results"]["bindings"])


def latencies(endpoints: dict[str, str], queries: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each query at each endpoint, the best of the rounds; the endpoints take turns."""
    best = {name: [float("inf")] * len(queries) for name in endpoints}
    session = requests.Session()
    same = compared = 0
    for turn in range(rounds):
        for number, query in enumerate(queries):
            rows = []
            for name, address in endpoints.items():
                # What takes seconds is asked once: its second time says the same.
                if turn and best[name][number] > SLOW_MS:
                    continue
                begin = time.perf_counter()
                reply = ask(address, query, session)
                best[name][number] = min(best[name][number], (time.perf_counter() - begin) * 1000)
                rows.append(rows_of(reply))
            if turn == 0 and len(rows) > 1 and None not in rows and "LIMIT" not in query.upper():
                compared += 1
                same += rows[0] == rows[1]
    if len(endpoints) > 1:
        print(f"check    {same} of {compared} queries without a LIMIT have the same rows at both")
    return best


def report(groups: Mapping[str, Sequence[str]], best: dict[str, list[float]]) -> None:
    """Print the figures of each group and of all gold queries, and how many queries the mirror is slower at."""
    slices, begin = {}, 0
    for name, group in groups.items():
        slices[name] = slice(begin, begin + len(group))
        begin += len(group)
    slices["all gold queries"] = slice(0, sum(len(groups[name]) for name in DATASETS))
    print(
        f"{'milliseconds':24}{'queries':>8}" + "".join(f"{name + ' p50':>15}{'p95':>11}{'most':>11}" for name in best)
    )
    for name, part in slices.items():
        cells = []
        for times in best.values():
            some = times[part]
            high = statistics.quantiles(some, n=20, method="inclusive")[18]
            cells.append(f"{statistics.median(some):15.2f}{high:11.1f}{max(some):11.1f}")
        print(f"{name:24}{part.stop - part.start:8}" + "".join(cells))
    if "oxigraph" in best:
        slower = [ours - theirs for ours, theirs in zip(best["mirror"], best["oxigraph"], strict=True)]
        count, most = sum(one > 5 for one in slower), max(slower)
        print(f"slower   at {count} of {len(slower)} queries by more than 5 ms, at most by {most:.1f} ms")


if __name__ == "__main__":
    main()
