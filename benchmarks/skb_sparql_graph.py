"""Walks of the agents on Hetionet, on the SKB's own graph and on Virtuoso: the same sets, and how long each takes.

    python -m benchmarks.skb_sparql_graph [--data ../shared/data/hetionet] [--questions 10] [--most 150]

Needs Debian's virtuoso-opensource. Hetionet is built to an SKB, written as Turtle and loaded. Questions are made by
rule and answered by every agent that walks along links, on the local graph, and each walk is noted. Each agent then
answers the same questions with its graph on Virtuoso. At the end up to --most of the different walks of each kind are
asked of both graphs again, with nothing kept, compared, and timed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.walkers import Entrant

from kbnav.agents.common.agent import build_agent
from kbnav.evaluation.runner import agent_system
from kbnav.evaluation.synthesis.sampling import Wanted, synthesize
from kbnav.evaluation.synthesis.wording import load_wording
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.build import build as build_skb
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.rdf import SparqlGraph, export_rdf
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.model import Settings
from tests.engines.engines import virtuoso

AGENTS = (
    Entrant("skb", "skb", {}),
    Entrant("pasemiqa, ranker", "pasemiqa", {"planner": "ranker"}),
)
WALKS = ("row", "neighbors", "degree", "has_edge", "expand", "ends", "paths")
FIRST = 200
"""Of the ways to follow a path, which may be very many, so many are compared."""


class Noted:
    """A graph whose walks are noted: which, and with which arguments."""

    def __init__(self, graph: Any, walks: dict[str, dict[str, tuple[Any, Any]]]) -> None:
        self._graph, self._walks = graph, walks

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._graph, name)
        if name not in WALKS:
            return found

        def walked(*given: Any, **named: Any) -> Any:
            kept = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in given)
            self._walks[name][repr((given, sorted(named.items())))] = (kept, named)
            return found(*given, **named)

        return walked


def main() -> None:
    """Build, load, ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/hetionet"))
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--most", type=int, default=150)
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = TableSource([options.data / "nodes.jsonl.gz"], [options.data / "edges.tsv.gz"])
        build_skb(source, folder / "hetionet.skb", Options(vectors=False, sparql=False))
        with SKB.open(folder / "hetionet.skb") as skb:
            questions = made(skb, options.questions, folder / "questions.jsonl")
            begin = time.perf_counter()
            written = export_rdf(skb, folder / "hetionet.ttl.gz")
            print(f"written: {written.nodes:,} nodes, {written.edges:,} edges, {written.bytes / 2**20:.1f} MiB packed")
            turtle = gzip.decompress((folder / "hetionet.ttl.gz").read_bytes()).decode()
            print(f"{time.perf_counter() - begin:.0f} s to write and unpack", flush=True)
        (folder / "engine").mkdir()
        begin = time.perf_counter()
        with virtuoso(folder / "engine", turtle, rows=1_000_000, seconds=60, buffers=60_000) as url:
            print(f"Virtuoso started and loaded: {time.perf_counter() - begin:.0f} s", flush=True)
            compare(folder, url, questions, options.most)


def made(skb: SKB, count: int, out: Path) -> list[str]:
    """Questions made by rule."""
    found, _ = synthesize(skb, Wanted(count), load_wording("hetionet"))
    out.write_text("".join(json.dumps(one.record()) + "\n" for one in found))
    return [one.question for one in found]


def compare(folder: Path, url: str, questions: list[str], most: int) -> None:
    """The agents' answers on both, then the walks on both."""
    local = Settings(kb=str(folder / "hetionet.skb"), home=folder / "home", language="en", cache_age=0)
    remote = local.model_copy(update={"skb_graph": url})
    walks: dict[str, dict[str, tuple[Any, Any]]] = {name: {} for name in WALKS}
    for entrant in AGENTS:
        own, seconds = answered(entrant, local, questions, walks)
        other, there = answered(entrant, remote, questions, None)
        same = sum(a == b for a, b in zip(own, other, strict=True))
        times = f"{np.median(seconds):.3f} s and {np.median(there):.3f} s a question"
        print(f"{entrant.label}: {same} of {len(own)} answered alike, with {times}", flush=True)
    with open_kb(local) as here, open_kb(remote) as elsewhere:
        print("\n| walk | different ones | compared | the same | own graph, median | Virtuoso, median | 95 % |")
        print("|---|---|---|---|---|---|---|")
        for name in WALKS:
            line(name, list(walks[name].values()), here.skb.graph, elsewhere.skb.graph, most)  # type: ignore[attr-defined]


def answered(
    entrant: Entrant, settings: Settings, questions: list[str], walks: dict[str, dict[str, tuple[Any, Any]]] | None
) -> tuple[list[Any], list[float]]:
    """What an agent did and answered, question by question, and the seconds; walks on the local graph are noted."""
    found, seconds = [], []
    chosen = settings.model_copy(update={"options": dict(entrant.options)})
    with open_kb(chosen) as kb:
        if walks is not None:
            kb.skb.graph = Noted(kb.skb.graph, walks)  # type: ignore[attr-defined]
        system = agent_system(build_agent(kb, chosen, entrant.system))
        for question in questions:
            begin = time.perf_counter()
            run = system.ask(question, {}).run
            seconds.append(time.perf_counter() - begin)
            ranking = run.outcome.ranking
            steps = [(step.call.tool, str(step.call.arguments), step.observation) for step in run.path]
            found.append((run.outcome.status, ranking.ids if ranking else (), steps))
    return found, seconds


def line(name: str, walks: list[tuple[Any, Any]], own: Any, there: SparqlGraph, most: int) -> None:
    """Compare and time the walks of one kind."""
    if not walks:
        print(f"| {name} | 0 | | | | | |")
        return
    chosen = random.Random(1).sample(walks, min(most, len(walks)))
    same, times = 0, defaultdict(list)
    for given, named in chosen:
        there._rows.cache_clear()
        results = []
        for which, graph in (("own", own), ("there", there)):
            begin = time.perf_counter()
            results.append(plain(getattr(graph, name)(*given, **named)))
            times[which].append(time.perf_counter() - begin)
        same += results[0] == results[1]
    middle = {which: 1e3 * np.median(found) for which, found in times.items()}
    late = 1e3 * np.quantile(times["there"], 0.95)
    print(
        f"| {name} | {len(walks):,} | {len(chosen)} | {same} | {middle['own']:.3f} ms | {middle['there']:.1f} ms | "
        f"{late:.1f} ms |",
        flush=True,
    )


def plain(found: Any) -> Any:
    """A result that can be compared."""
    if isinstance(found, Iterator):
        return list(islice(found, FIRST))
    if isinstance(found, tuple):
        return [part.tolist() for part in found]
    return found.tolist() if isinstance(found, np.ndarray) else found


if __name__ == "__main__":
    main()
