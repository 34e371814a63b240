"""Build, open and walk an SKB's graph at STaRK's sizes, beside SciPy's sparse rows and NetworkX where installed.

    python -m benchmarks.skb_graph [--size prime] [--size mag] [--size amazon] [--folder FOLDER] [--indexes] [--peers]

Graphs are made up: node types, relations and counts are those of STaRK's Prime (129K nodes, 8.1M edges), MAG (1.9M,
39.8M) and, in their sums, Amazon (1.0M, 9.4M); ends are drawn so that a few nodes have very many edges, and every node
has a document of 40 words, of 570 in Amazon. With --indexes texts, names and triples are indexed as well, as in a
build without vectors. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks._timing import seconds, status

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.schema import EdgeArrays, Losses, NodeRecord
from kbnav.knowledge.skb.store import SKB

LOOKUPS = 10_000
CAP = 10_000
WORDS = ["alpha", "beta", "gamma", "delta", "graph", "node", "edge", "relation", "type", "paper", "gene", "drug"]
BLOCK = 4_000_000
SEED = 7


@dataclass(frozen=True)
class Size:
    """Nodes by type, and edges as (source type, relation, target type, count)."""

    nodes: dict[str, int]
    edges: tuple[tuple[str, str, str, int], ...]
    words: int = 40
    """Of a document."""


SIZES = {
    "prime": Size(
        {
            "disease": 17_080,
            "gene/protein": 27_671,
            "drug": 7_957,
            "process": 28_642,
            "effect": 15_311,
            "other": 32_714,
        },
        (
            ("gene/protein", "expression present", "other", 3_036_406),
            ("drug", "synergistic interaction", "drug", 2_672_628),
            ("gene/protein", "interacts with", "process", 686_550),
            ("gene/protein", "ppi", "gene/protein", 642_150),
            ("disease", "associated with", "gene/protein", 167_482),
            ("disease", "phenotype present", "effect", 300_634),
            ("process", "parent-child", "process", 281_744),
            ("drug", "side effect", "effect", 129_568),
            ("drug", "contraindication", "disease", 61_350),
            ("drug", "indication", "disease", 18_776),
            ("drug", "target", "gene/protein", 32_760),
            ("other", "linked to", "disease", 4_608),
            ("gene/protein", "expression absent", "other", 39_774),
        ),
    ),
    "mag": Size(
        {"author": 1_104_554, "institution": 9_000, "field_of_study": 58_000, "paper": 700_244},
        (
            ("author", "author___affiliated_with___institution", "institution", 1_000_000),
            ("paper", "paper___cites___paper", "paper", 19_000_000),
            ("paper", "paper___has_topic___field_of_study", "field_of_study", 13_000_000),
            ("author", "author___writes___paper", "paper", 6_802_116),
        ),
    ),
    "amazon": Size(
        {"product": 957_192, "brand": 76_000, "category": 1_500, "color": 800},
        (
            ("product", "also_buy", "product", 1_663_000),
            ("product", "also_view", "product", 4_600_000),
            ("product", "has_brand", "brand", 957_000),
            ("product", "has_category", "category", 1_500_000),
            ("product", "has_color", "color", 700_000),
        ),
        words=570,
    ),
}


class Synthetic:
    """A made-up graph of a size, as a source for a build."""

    style = "plain"
    alias_fields: Sequence[str] = ()

    def __init__(self, name: str, size: Size | None = None) -> None:
        self._size = size or SIZES[name]
        self.description = self.fingerprint = f"synthetic {name}"
        self.types = list(self._size.nodes)
        self.relations = [relation for _, relation, _, _ in self._size.edges]

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        """Nodes type by type."""
        number = 0
        for kind, count in self._size.nodes.items():
            for _ in range(count):
                words = [WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(self._size.words)]
                yield NodeRecord(str(number), kind, f"{words[0]} {words[3]} {number}", {"abstract": " ".join(words)})
                number += 1

    def edges(self, losses: Losses) -> Iterator[EdgeArrays]:  # noqa: ARG002
        """Edges with ends drawn at random: the square makes some of them hubs."""
        random = np.random.default_rng(SEED)
        first = dict(zip(self._size.nodes, np.cumsum([0, *self._size.nodes.values()])[:-1].tolist(), strict=True))
        for relation, (source, _, target, count) in enumerate(self._size.edges):
            for begin in range(0, count, BLOCK):
                size = min(BLOCK, count - begin)
                starts = first[source] + (random.random(size) * self._size.nodes[source]).astype(np.int64)
                ends = first[target] + (random.random(size) ** 2 * self._size.nodes[target]).astype(np.int64)
                yield EdgeArrays(starts, np.full(size, relation), ends)


def measure_build(name: str, path: Path, *, indexes: bool) -> dict[str, float]:
    """Seconds, of all processors and on the clock, and peak memory of a build."""
    begin = time.perf_counter()
    meta = build(Synthetic(name), path, Options(text=indexes, vectors=False, sparql=indexes))
    took, cpu = time.perf_counter() - begin, time.process_time()
    size = sum(file.bytes for file in meta.files.values()) / 2**20
    return {
        "nodes": meta.nodes,
        "edges": meta.edges,
        "s": took,
        "CPU s": cpu,
        "peak MiB": status("VmHWM"),
        "disk MiB": size,
    }


def measure_use(path: Path) -> dict[str, float]:
    """Opening, looking up, walking; times are medians."""
    before = status("VmRSS")
    opened = [seconds(lambda: SKB.open(path).close()) for _ in range(20)]
    skb = SKB.open(path)
    random = np.random.default_rng(SEED)
    nodes = random.integers(0, len(skb.nodes), LOOKUPS).tolist()
    relations = random.integers(0, len(skb.relation_names), LOOKUPS).tolist()
    graph = skb.graph
    found = {"open ms": 1e3 * statistics.median(opened)}
    # Reading a row touches its pages; the kernel maps 16 at a time, shared by all processes and dropped at need.
    found["neighbours, out us"] = per_call(lambda place: graph.neighbors(nodes[place], direction="out"))
    found["RSS after 10,000 MiB"] = status("VmRSS") - before
    found["neighbours, both ways us"] = per_call(lambda place: graph.neighbors(nodes[place]))
    found["RSS after 10,000 more MiB"] = status("VmRSS") - before
    found["of all RSS anonymous MiB"] = status("RssAnon")
    found["one relation us"] = per_call(lambda place: graph.row(nodes[place], "out", relations[place]))
    _, targets, _ = graph.arrays("out")
    ends = np.cumsum(graph.degrees("out"))
    walks = []
    for edge in random.integers(0, graph.edges, 500).tolist():
        # From the source of an edge, so that hubs come as often as they have edges: to the target's type, and back.
        source = int(np.searchsorted(ends, edge, "right"))
        there, back = (skb.type_range(skb.type(node)) for node in (int(targets[edge]), source))
        path = [Hop(within=there), Hop(within=back)]
        walks.append(seconds(lambda node=source, path=path: graph.ends(node, path, CAP)))
    found["2 hops, capped ms"] = 1e3 * statistics.median(walks)
    found["2 hops, capped, 95 % ms"] = 1e3 * statistics.quantiles(walks, n=20)[-1]
    found["document us"] = per_call(lambda place: skb.documents[nodes[place]])
    found["id to number us"] = per_call(lambda place: skb.number(str(nodes[place])))
    return found


def measure_peer(peer: str, path: Path) -> dict[str, float]:
    """The same rows from the same edges in a peer's structure, all relations in one graph."""
    skb = SKB.open(path)
    _, targets, relations = skb.graph.arrays("out")
    sources = np.repeat(np.arange(len(skb.nodes)), skb.graph.degrees("out"))
    nodes = np.random.default_rng(SEED).integers(0, len(skb.nodes), LOOKUPS).tolist()
    begin = time.perf_counter()
    if peer == "scipy":
        from scipy.sparse import csr_array

        shape = (len(skb.nodes), len(skb.nodes))
        rows = csr_array((relations.astype(np.int16), (sources, targets)), shape=shape)
        took = time.perf_counter() - begin
        us = per_call(lambda place: rows[[nodes[place]]].indices)
    else:
        from networkx import MultiDiGraph

        graph = MultiDiGraph()
        graph.add_edges_from(zip(sources.tolist(), targets.tolist(), relations.tolist(), strict=True))
        took = time.perf_counter() - begin
        us = per_call(lambda place: list(graph.adj.get(nodes[place], ())))
    return {"load s": took, "row us": us, "peak MiB": status("VmHWM")}


def per_call(call: Callable[[int], object]) -> float:
    """Median microseconds of ``LOOKUPS`` calls."""
    return 1e6 * statistics.median(seconds(lambda place=place: call(place)) for place in range(LOOKUPS))


def main() -> None:
    """Run every step in a child process and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=list(SIZES))
    parser.add_argument("--folder", type=Path, help="where SKBs are kept; one that is there is not built again")
    parser.add_argument("--indexes", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.size or ["prime"]:
            path = folder / f"{name}.skb"
            if options.step:
                print(json.dumps(run_step(options.step, name, path, indexes=options.indexes)))
                continue
            peers = [peer for peer in ("scipy", "networkx") if options.peers and find_spec(peer)]
            if name == "mag" and "networkx" in peers:
                peers.remove("networkx")  # it would need some 20 GiB
            for step in (*([] if path.exists() else ["build"]), "use", *peers):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.skb_graph",
                    "--size",
                    name,
                    "--folder",
                    str(folder),
                    "--step",
                    step,
                ]
                command += ["--indexes"] if options.indexes else []
                result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(
                    f"{name:6} {step:9}", ", ".join(f"{key} {value:,.4g}" for key, value in result.items()), flush=True
                )


def run_step(step: str, name: str, path: Path, *, indexes: bool) -> dict[str, float]:
    """One measurement, in this process."""
    if step == "build":
        return measure_build(name, path, indexes=indexes)
    return measure_use(path) if step == "use" else measure_peer(step, path)


if __name__ == "__main__":
    main()
