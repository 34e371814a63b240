"""How an SKB grows: made-up ones of several sizes, built, opened and searched, and the law that the figures follow.

    python -m benchmarks.scale [--sizes 10K 30K 100K] [--words 40] [--steps build use lance lance-use]
                               [--folder FOLDER] [--save FILE] [--keep]
    python -m benchmarks.scale --fit FILE
    python -m benchmarks.scale --arithmetic [FILE]

The graph has the proportions of STaRK's MAG with 20 edges a node; ends are drawn so that a few nodes have very many.
Words are drawn from 100,000 so that the commonest come as often as in English. Vectors of 384 numbers are made up too,
in groups, as those of texts are: no model is asked. Each step runs in a process of its own. With --save the figures are
kept, and what is in the file already is not measured again; the table has those that other work on the machine changes
little. Memory is the most that is not pages of mapped files, which the kernel takes back; 170 MiB of it are the made-up
words. The law of a figure is y = c n^p, fitted by least squares of the logarithms; "off" is the most that a measured
figure differs from it. --arithmetic works out from saved figures, and from the assumptions in
benchmarks/scale_assumptions.json, what larger knowledge bases need. Its tables are in benchmarks/results/scale.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks._scale_arithmetic import EDGES, print_arithmetic, print_laws
from benchmarks._timing import milliseconds, seconds, status
from benchmarks.skb_amazon import Words
from benchmarks.skb_graph import SIZES, Size, Synthetic
from benchmarks.skb_vectors import Clustered

from kbnav.encoders import Vectors
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.schema import Losses, NodeRecord
from kbnav.knowledge.skb.store import SKB

NAME = 3
"""Words of a node's name."""
SEED = 7
Figures = dict[str, float]


class MadeUp(Synthetic):
    """A knowledge base of so many nodes, each with a document of so many words."""

    def __init__(self, nodes: int, words: int) -> None:
        mag = SIZES["mag"]
        all_nodes, all_edges = sum(mag.nodes.values()), sum(edges for *_, edges in mag.edges)
        size = Size(
            {kind: max(1, round(nodes * count / all_nodes)) for kind, count in mag.nodes.items()},
            tuple((*ends, round(EDGES * nodes * count / all_edges)) for *ends, count in mag.edges),  # type: ignore[misc]
            words,
        )
        super().__init__(f"{nodes} nodes, {words} words", size)

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        """Nodes type by type."""
        words, kinds = Words(SEED), self._size.nodes.items()
        for number, kind in enumerate(chain.from_iterable(repeat(kind, count) for kind, count in kinds)):
            name = f"{words.text(NAME - 1)} {number}"
            yield NodeRecord(str(number), kind, name, {"abstract": words.text(self._size.words - NAME)})


class Numbered(Clustered):
    """Made-up vectors for texts."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """The same for the same texts."""
        seed = int.from_bytes(blake2b("\n".join(texts).encode(), digest_size=7).digest())
        return super().encode([str(seed)] * len(texts))


class Watch:
    """Time by the clock and of processors since the last look, and the most memory of this process ever."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._ended = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()
        self.lap()

    def _sample(self) -> None:
        while not self._ended.wait(0.1):
            self._peak = max(self._peak, status("RssAnon"))

    def lap(self) -> tuple[float, float]:
        """Seconds by the clock and of processors."""
        now = time.perf_counter(), time.process_time()
        took = tuple(a - b for a, b in zip(now, getattr(self, "_last", now), strict=True))
        self._last = now
        return took[0], took[1]

    def peak(self) -> float:
        """MiB, pages of mapped files left out."""
        return max(self._peak, status("RssAnon"))


def measure_build(folder: Path, nodes: int, words: int) -> Figures:
    """Build, stage by stage."""
    watch, stages, stage = Watch(), Figures(), "nodes"

    def progress(now: str, *_: int) -> None:
        nonlocal stage
        now = "text and names" if now in ("text", "names") else now  # of few names nothing is heard before their end
        if now != stage:
            stages[f"{stage} CPU s"] = stages.get(f"{stage} CPU s", 0.0) + watch.lap()[1]
            stage = now

    begin = time.perf_counter()
    source = MadeUp(nodes, words)
    options = Options(encoder=Numbered(nodes), sparql=False)
    meta = build(source, folder / "local.skb", options, progress=progress)
    progress("")
    parts: Figures = {}
    for name, file in meta.files.items():
        part = f"{name.split('/')[0]} MiB"
        parts[part] = parts.get(part, 0.0) + file.bytes / 2**20
    cpu = sum(stages.values())
    return {
        "nodes": meta.nodes, "edges": meta.edges, "words": meta.tokens or 0,
        "build s": time.perf_counter() - begin, "build CPU s": cpu, "nodes a CPU s": meta.nodes / cpu,
        "build memory MiB": watch.peak(), "disk MiB": sum(parts.values()), **stages, **parts,
    }  # fmt: skip


def measure_use(folder: Path, nodes: int, words: int) -> Figures:
    """Open and search the folder."""
    place = folder / "local.skb"
    opened = times("open", lambda _: SKB.open(place).close(), range(20))
    return {**opened, **searched(SKB.open(place), nodes, words)}


def measure_lance(folder: Path, nodes: int, words: int) -> Figures:  # noqa: ARG001
    """Write the built SKB into tables in a folder."""
    from kbnav.knowledge.skb.lance import write

    watch, first = Watch(), 0.0

    def progress(*_: object) -> None:
        nonlocal first
        first += watch.lap()[1]

    begin = time.perf_counter()
    with SKB.open(folder / "local.skb", Numbered(nodes)) as skb:
        write(skb, str(folder / "lance"), progress=progress)
    indexed = watch.lap()[1]
    return {
        "write s": time.perf_counter() - begin, "write CPU s": first + indexed, "rows CPU s": first,
        "indexes CPU s": indexed, "write memory MiB": watch.peak(), "disk MiB": size_of(folder / "lance"),
    }  # fmt: skip


def measure_lance_use(folder: Path, nodes: int, words: int) -> Figures:
    """Open and search the tables, on a machine that has fetched nothing yet."""
    from kbnav.knowledge.skb.lance import open_tables

    with tempfile.TemporaryDirectory(dir=folder) as cache:
        first = seconds(lambda: open_tables(str(folder / "lance"), Path(cache)))
        again = times("open", lambda _: open_tables(str(folder / "lance"), Path(cache)), range(10))
        skb = open_tables(str(folder / "lance"), Path(cache))
        return {"open, first time s": first, **again, **searched(skb, nodes, words)}


def searched(skb: SKB, nodes: int, words: int) -> Figures:  # noqa: ARG001
    """Neighbours, documents, texts and vectors of an SKB; medians by the clock."""
    encoder, draw = Numbered(nodes), np.random.default_rng(SEED)
    before = status("RssAnon")
    skb.encoder = encoder
    chosen = draw.integers(0, len(skb.nodes), 1_000).tolist()
    source, target = (skb.type_range(kind) for kind in ("paper", "field_of_study"))
    papers = draw.integers(*source, 300).tolist()
    queries = list(encoder.encode([f"query {number}" for number in range(12)]))
    asked, texts = Words(SEED + 1), skb.text
    index = skb.vectors
    assert texts is not None
    assert index is not None
    hops = [Hop(within=target), Hop(within=source)]
    questions = [asked.text(8) for _ in range(25)]
    found = {
        **times("neighbours", skb.graph.neighbors, chosen),
        **times("two hops", lambda node: skb.graph.ends(node, hops, 10_000), papers),
        **times("document", lambda node: skb.documents[node], chosen[:200]),
        **times("text", texts.search, questions),
        **times("text in a type of 3 %", lambda one: texts.search(one, ranges=[target]), questions),
        **times("vectors, exact", lambda one: index.search(one), queries),
        **times("vectors in a type of 3 %", lambda one: index.search(one, ranges=[target]), queries),
    }
    return {**found, "memory MiB": status("RssAnon") - before}


def times(what: str, call: Callable[[Any], object], items: Sequence[Any]) -> Figures:
    """Milliseconds: the quickest tenth by the clock, which other work disturbs least, and the median of processors."""
    clock, cpu = milliseconds(call, items)
    return {f"{what} ms": float(np.percentile(clock, 10)), f"{what} CPU ms": statistics.median(cpu)}


def size_of(folder: Path) -> float:
    """MiB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


STEPS: Mapping[str, Callable[[Path, int, int], Figures]] = {
    "build": measure_build,
    "use": measure_use,
    "lance": measure_lance,
    "lance-use": measure_lance_use,
}


def number(said: str) -> int:
    """5M is five million."""
    factor = {"K": 1_000, "M": 1_000_000}.get(said[-1:].upper(), 1)
    return round(float(said[:-1] if factor > 1 else said) * factor)


def main() -> None:
    """Measure what is wanted, print the table and the laws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=number, nargs="+", default=[10_000, 30_000, 100_000], help="such as 5M")
    parser.add_argument("--words", type=int, default=40, help="of a node's text, its name included")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--folder", type=Path, help="where the SKBs are made; by default a temporary one")
    parser.add_argument("--save", type=Path, help="a file for the figures")
    parser.add_argument("--keep", action="store_true", help="leave the SKBs there")
    parser.add_argument("--fit", type=Path, metavar="FILE", help="print saved figures and their laws")
    parser.add_argument("--arithmetic", type=Path, nargs="?", const=HERE / "scale_measured.json", metavar="FILE")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arithmetic:
        print_arithmetic(json.loads(options.arithmetic.read_text()))
    elif options.fit:
        print_laws(json.loads(options.fit.read_text()))
    elif options.step:
        figures = STEPS[options.step](options.folder, options.sizes[0], options.words)
        print(json.dumps({name: float(f"{value:.6g}") for name, value in figures.items()}))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print_laws(measure(options, options.folder or Path(temporary)))


HERE = Path(__file__).resolve().parent


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All steps of all sizes, each in a process of its own; of ``options.save`` those that are there already."""
    kept = json.loads(options.save.read_text()) if options.save and options.save.exists() else []
    for nodes in options.sizes:
        here = folder / f"{nodes}-{options.words}"
        for step in options.steps:
            key = {"nodes": nodes, "words": options.words, "step": step}
            if any(key.items() <= one.items() for one in kept):
                continue
            here.mkdir(parents=True, exist_ok=True)
            command = [
                sys.executable,
                "-m",
                "benchmarks.scale",
                "--sizes",
                str(nodes),
                "--words",
                str(options.words),
                "--step",
                step,
            ]
            command += ["--folder", str(here)]
            figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            kept.append({**key, "figures": figures})
            said = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
            print(f"{nodes:,} nodes of {options.words} words, {step}: {said}", flush=True)
            if options.save:
                options.save.write_text(json.dumps(kept, indent=1) + "\n")
        if not options.keep:
            shutil.rmtree(here, ignore_errors=True)
    return list(kept)


if __name__ == "__main__":
    main()
