"""An SKB on LanceDB beside the same SKB in its folder: the same answers or the recall, times and memory, in one run.

    python -m benchmarks.skb_lance [--skb demo] [--s3 s3://bucket/name] [--questions 100] [--dataset FILE]
        [--systems bm25,vss,…]

The SKB (any that is built; Hetionet's of records is what docs/benchmarks.md shows) is copied into tables in a folder
and with --s3 into a bucket too, which is made if it is not there; the environment says where and how, as everywhere.
Questions are made of edges:
"Which Gene Compound–downregulates–Gene Aspirin?"; or the first of a dataset, as kbnav eval synthesize writes it. Every
search, and every system with the offline policy, is asked of the folder and of each place of tables; order counts
within ties of score only. Each place is asked by a process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import requests
from benchmarks._timing import seconds, status

from kbnav.agents.common.agent import Agent
from kbnav.knowledge.open import bundled_skb, open_skb
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.lance import s3_endpoint, write
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import Retriever
from kbnav.sessions.session import attempt
from kbnav.settings import systems
from kbnav.settings.model import Settings

SYSTEMS = ("bm25", "vss", "multi-vss", "rerank", "graph-rank", "prf", "skb")
TOP = 20
SHARE = 0.03
"""Of all nodes that a filter keeps: the type nearest to it is taken."""
TIE = 1e-5
"""Scores as near as this, relative to the first, are equal."""

Hits = list[tuple[Any, float]]


def main() -> None:
    """Copy, ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skb", default="demo")
    parser.add_argument("--s3", default="")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="of all searches, after which memory is measured")
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        options.out.write_text(json.dumps(_asked(options)))
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.skb == "demo":
            options.skb = str(bundled_skb(folder))
        _compare(options, folder)


def _compare(options: argparse.Namespace, folder: Path) -> None:
    places = [str(folder / "tables")] + ([options.s3.rstrip("/")] if options.s3 else [])
    if options.s3:
        requests.put(f"{s3_endpoint()}/{options.s3.split('/')[2]}", timeout=60).raise_for_status()
    local = _in_a_process(options, options.skb, folder)
    with SKB.open(options.skb) as skb:
        print(f"{skb.meta.name}: {skb.meta.nodes:,} nodes, {skb.meta.edges:,} edges, vectors of {skb.meta.encoder}")
        print(f"in its folder: {_figures(local)}", flush=True)
        for place in places:
            took = seconds(partial(write, skb, place))
            print(f"{'S3' if '://' in place else 'folder'}, written in {took:.0f} s; ", end="")
            found = _in_a_process(options, place, folder)
            print(f"{_figures(found)}")
            _print_likeness(local, found)


def _in_a_process(options: argparse.Namespace, place: str, folder: Path) -> dict[str, Any]:
    """What one process found at one place, and what it took."""
    out = folder / "found.json"
    given = ["--ask", place, "--out", str(out), "--questions", str(options.questions), "--skb", options.skb]
    given += ["--dataset", str(options.dataset)] if options.dataset else []
    command = [sys.executable, "-m", "benchmarks.skb_lance", *given, "--systems", options.systems]
    command += ["--rounds", str(options.rounds)]
    subprocess.run(command, check=True, env={**os.environ, "KBNAV_HOME": str(folder / "home")})
    return dict(json.loads(out.read_text()))


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    home = Path(os.environ["KBNAV_HOME"])
    with SKB.open(options.skb) as skb:
        questions = _questions(skb, options.questions)
        if options.dataset:
            lines = options.dataset.read_text(encoding="utf-8").splitlines()
            questions = [json.loads(line)["question"] for line in lines[: options.questions]]
        within = min(pairwise(skb.meta.type_start), key=lambda one: abs(one[1] - one[0] - SHARE * skb.meta.nodes))
    before = status("VmRSS")
    found: dict[str, Any] = {"hits": {}, "ms": {}}
    with closing(SkbKB(open_skb(options.ask, home))) as kb:
        skb = kb.skb
        assert skb.text is not None
        assert skb.vectors is not None
        vectors = [skb.vectors.embed(question) for question in questions]
        text, nearest = skb.text.search, skb.vectors.search
        searches: dict[str, Callable[[int], Hits]] = {
            "vectors": lambda place: nearest(vectors[place], limit=TOP),
            "vectors within a type": lambda place: nearest(vectors[place], limit=TOP, ranges=[within]),
            "text": lambda place: text(questions[place], limit=TOP),
            "text within a type": lambda place: text(questions[place], limit=TOP, ranges=[within]),
        }
        for name, search in searches.items():
            found["ms"][f"{name}, first"] = 1e3 * seconds(lambda ask=search: ask(0))
            found["hits"][name], times = _timed(search, len(questions))
            found["ms"][name] = float(np.median(times))
        found["memory"] = [before, status("VmRSS")]
        for _ in range(options.rounds):
            for search in searches.values():
                _timed(search, len(questions))
            found["memory"].append(status("VmRSS"))
        settings = Settings(home=home, model="offline")
        for name in filter(None, options.systems.split(",")):
            system = systems.build(name, kb, settings)
            found["hits"][f"system {name}"] = [_ranked(system, question) for question in questions]
    return found


def _ranked(system: Agent | Retriever, question: str) -> Hits:
    if isinstance(system, Agent):
        ranking = attempt(system, question).run.outcome.ranking
    else:
        ranking = system.retrieve(question, TOP)
    return [(one.id, one.score) for one in ranking.nodes[:TOP]] if ranking else []


def _timed(search: Callable[[int], Hits], count: int) -> tuple[list[Hits], list[float]]:
    found, times = [], []
    for place in range(count):
        begin = time.perf_counter()
        found.append(search(place))
        times.append(1e3 * (time.perf_counter() - begin))
    return found, times


def _questions(skb: SKB, count: int) -> list[str]:
    """Questions after one end of an edge, of different relations in turn."""
    chance, made = random.Random(5), []
    starts, targets, relations = skb.graph.arrays("out")
    for _ in range(count):
        place = chance.randrange(skb.meta.edges)
        source = int(np.searchsorted(starts, place, "right")) - 1
        relation = skb.relation_names[int(relations[place])]
        made.append(f"Which {skb.type(source)} {relation} {skb.name(int(targets[place]))}?")
    return made


def _figures(found: dict[str, Any]) -> str:
    times = "; ".join(f"{name} {ms:.1f} ms" for name, ms in found["ms"].items())
    memory = ", ".join(f"{one:.0f}" for one in found["memory"])
    return f"{times}; memory before and after each round {memory} MiB"


def _print_likeness(local: dict[str, Any], found: dict[str, Any]) -> None:
    for name, wanted in local["hits"].items():
        its = found["hits"][name]
        same = sum(_alike(mine, other) for mine, other in zip(wanted, its, strict=True))
        shares = [_recall(mine, other) for mine, other in zip(wanted, its, strict=True) if mine]
        print(f"  {name}: the same for {same} of {len(wanted)}, recall {np.mean(shares):.4f}", flush=True)


def _recall(mine: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> float:
    """The share of the best that is among the others; any of a tie at the end counts."""
    least = mine[-1][1] - TIE * max(abs(score) for _, score in mine)
    return sum(score >= least for _, score in other) / len(mine)


def _alike(mine: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> bool:
    """Whether two rankings are equal but for the order within ties, and which of a tie at the end are in."""
    if len(mine) != len(other):
        return False
    near = TIE * max((abs(score) for _, score in mine), default=0.0)
    if any(abs(one[1] - its[1]) > near for one, its in zip(mine, other, strict=True)):
        return False
    last = mine[-1][1] + near if mine else 0.0
    scores = dict(other)
    return all(abs(scores.get(node, last) - score) <= near or score <= last for node, score in mine)


if __name__ == "__main__":
    main()
