"""The laws of measured figures, and what knowledge bases that do not fit here need by them and by stated assumptions.

See ``scale.py --fit`` and ``--arithmetic``. A figure of another size lies on the line through the smallest and the
largest that were measured, or, where it grows faster than that (a power above 1.1), on the power law; more words a node
add what they added where the same size was measured with two lengths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Measured = Sequence[Mapping[str, Any]]
GIB = 1024.0
ASSUMED = Path(__file__).resolve().parent / "scale_assumptions.json"
RATES = (1, 100, 10_000)
"""Questions a minute."""
MONTH = 730
"""Hours."""
EDGES = 20
"""Of a made-up node."""
WIDTH = 384
"""Numbers of a vector."""
_SEARCHES = (
    "open CPU ms", "neighbours CPU ms", "two hops CPU ms", "text CPU ms", "text in a type of 3 % CPU ms",
    "vectors, exact CPU ms", "vectors in a type of 3 % CPU ms",
)  # fmt: skip
SHOWN: Mapping[str, Sequence[str]] = {
    "build": (
        "build CPU s", "build memory MiB", "disk MiB", "graph MiB", "documents MiB", "text MiB", "vectors MiB",
    ),
    "use": _SEARCHES,
    "lance": ("write CPU s", "write memory MiB", "disk MiB"),
    "lance-use": [name for name in _SEARCHES if not name.startswith("text")],  # those of a folder
}  # fmt: skip
"""What the table of laws has, by step: figures that other work on the machine changes little."""


def fitted(found: Mapping[int, float]) -> tuple[float, float, float]:
    """The c and p of y = c n^p, and the most that a figure is off, as a share."""
    sizes, values = np.log(list(found)), np.log(list(found.values()))
    power, start = np.polyfit(sizes, values, 1)
    return float(np.exp(start)), float(power), float(np.expm1(np.abs(values - power * sizes - start).max()))


class Law:
    """Figures by step and name, at any size."""

    def __init__(self, measured: Measured) -> None:
        self._found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
        for one in measured:
            for name, value in one["figures"].items():
                by_words = self._found.setdefault((one["step"], name), {})
                by_words.setdefault(one["words"], {})[one["nodes"]] = value
        counts = [len(sizes) for sizes in self._found["build", "disk MiB"].values()]
        self.words = list(self._found["build", "disk MiB"])[int(np.argmax(counts))]
        self.sizes = sorted(self._found["build", "disk MiB"][self.words])

    def at(self, step: str, name: str, nodes: float, words: float) -> float:
        """The figure of so many nodes of so many words each."""
        by_words = self._found[step, name]
        sizes = by_words[self.words]
        low, high = min(sizes), max(sizes)
        constant, power, _ = fitted(sizes)
        slope = (sizes[high] - sizes[low]) / (high - low)
        found = constant * nodes**power if power > 1.1 else sizes[high] + slope * (nodes - high)
        for other, longer in by_words.items():
            for size in longer.keys() & sizes.keys():
                if other != self.words:
                    a_word = (longer[size] - sizes[size]) / (other - self.words) / size
                    found += a_word * (words - self.words) * nodes
        return found


def print_laws(measured: Measured) -> None:
    """Markdown, a line a figure: its values by size, and the law of sizes with the usual number of words."""
    words = max({one["words"] for one in measured}, key=lambda n: sum(one["words"] == n for one in measured))
    ours = [one for one in measured if one["words"] == words]
    sizes = sorted({one["nodes"] for one in ours})
    print(f"{words} words a node, {EDGES} edges, vectors of {WIDTH} made-up numbers\n")
    print(f"| figure | {' | '.join(f'{size:,}' for size in sizes)} | law |\n|---{'|---:' * len(sizes)}|---|")
    for step, names in SHOWN.items():
        rows = {one["nodes"]: one["figures"] for one in ours if one["step"] == step}
        for name in names:
            found = {size: rows[size][name] for size in sizes if name in rows.get(size, {})}
            if found:
                values = " | ".join(_digits(found[size]) if size in found else "–" for size in sizes)
                print(f"| {step}: {name} | {values} | {law_in_words(found)} |")


def _digits(value: float) -> str:
    """Four of them, or as many as there are before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def law_in_words(found: Mapping[int, float]) -> str:
    """The power, what it means, and how far off it is; empty where one size was measured."""
    if len(found) < 2 or min(found.values()) <= 0:
        return ""
    _, power, off = fitted(found)
    kind = "linear" if 0.9 <= power <= 1.1 else "constant" if abs(power) <= 0.1 else "power"
    told = f", off {off:.0%}" if len(found) > 2 else ", two sizes"
    return f"n^{power:.2f} ({kind}){told}"


def print_arithmetic(measured: Measured) -> None:
    """All tables, as Markdown has them."""
    assumed = json.loads(ASSUMED.read_text())
    law = Law(measured)
    sizes = ", ".join(f"{size:,}" for size in law.sizes)
    print(f"From {sizes} nodes of {law.words} words. Prices: {assumed['as of']}.")
    _print_check(law, assumed["measured before"])
    _print_stores(law, assumed)
    _print_endpoint(assumed)
    _print_rates(assumed)
    print("\nAssumptions (benchmarks/scale_assumptions.json)")
    for part in ("prices", "embedding", "endpoint", "question", "limits"):
        for name, said in assumed[part].items():
            print(f"  {name}: {said}" if isinstance(said, dict) else f"  {name}: {said[0]:,} ({said[1]})")


def _row(what: str, values: Sequence[float], form: str = ",.0f") -> None:
    print(f"| {what} | {' | '.join(f'{value:{form}}' for value in values)} |")


def _head(what: str, names: Sequence[object]) -> None:
    print(f"\n| {what} | {' | '.join(map(str, names))} |\n|---{'|---:' * len(names)}|")


def _print_check(law: Law, known: Mapping[str, Any]) -> None:
    nodes, words = known["nodes"], known["words"]
    _head(f"the laws beside a build of {nodes:,} nodes that took no part", ["law", "measured"])
    cpu = sum(law.at("build", f"{stage} CPU s", nodes, words) for stage in ("nodes", "edges", "text and names"))
    _row("processor seconds, no vectors", [cpu, known["CPU s"]])
    _row("memory, GiB", [law.at("build", "build memory MiB", nodes, words) / GIB, known["memory GiB"]], ",.1f")


def _print_stores(law: Law, assumed: Mapping[str, Any]) -> None:
    kbs, prices = assumed["knowledge bases"], {name: said[0] for name, said in assumed["prices"].items()}
    all_of = list(kbs.values())

    def at(step: str, name: str) -> list[float]:
        return [law.at(step, name, kb["nodes"], kb["words"]) for kb in all_of]

    _head("a folder on one machine", list(kbs))
    for part in ("graph", "nodes", "names", "documents", "text", "vectors"):
        _row(f"{part}, GiB on disk", [mib / GIB for mib in at("build", f"{part} MiB")])
    disk, memory, cpu = (at("build", name) for name in ("disk MiB", "build memory MiB", "build CPU s"))
    _row("all, GiB on disk", [mib / GIB for mib in disk])
    _row("disk, dollars a month", [mib / GIB * 1.074 * prices["disk, GB month"] for mib in disk])
    _row("memory of the build, GiB", [mib / GIB for mib in memory])
    _row("processor hours of the build, vectors given", [seconds / 3600 for seconds in cpu])
    _row("its dollars", [seconds / 3600 * prices["vCPU hour"] for seconds in cpu], ",.2f")
    _row("most relations that the format holds", [(2**63 - 1) // kb["nodes"] ** 2 for kb in all_of])
    _row("relations of the knowledge base", [kb["relations"] for kb in all_of])
    for what in ("text", "vectors, exact"):
        _row(f"{what}, ms of one processor", at("use", f"{what} CPU ms"), ",.2f")
    _row("read by an exact vector search, GiB", [4 * WIDTH * kb["nodes"] / 2**30 for kb in all_of])

    _head("tables of LanceDB on an object store", list(kbs))
    disk, cpu = at("lance", "disk MiB"), at("lance", "write CPU s")
    _row("GiB", [mib / GIB for mib in disk])
    _row("dollars a month", [mib / GIB * 1.074 * prices["object store, GB month"] for mib in disk])
    _row("processor hours to write and index, after the folder", [seconds / 3600 for seconds in cpu])
    fetched = map(sum, zip(*(at("build", f"{part} MiB") for part in ("graph", "nodes", "names", "text")), strict=True))
    _row("fetched by each server (graph, ids, names, texts), GiB", [mib / GIB for mib in fetched])
    _row("read by an exact vector search, GiB", [4 * WIDTH * kb["nodes"] / 2**30 for kb in all_of])

    _head("embedding, and builds on Ray", list(kbs))
    embedding = {name: said[0] for name, said in assumed["embedding"].items()}
    hours = [kb["nodes"] / embedding["documents a vCPU second"] * max(kb["words"], 50) / 200 / 3600 for kb in all_of]
    tokens = [kb["nodes"] * kb["words"] * embedding["tokens a word"] for kb in all_of]
    _row("minilm on processors, hours of one", hours)
    _row("its dollars", [one * prices["vCPU hour"] for one in hours])
    _row("on 100 machines of 16, hours", [one / 1600 for one in hours], ",.1f")
    _row("an endpoint: dollars", [one / 1e6 * prices["embedding, million tokens"] for one in tokens])


def _print_endpoint(assumed: Mapping[str, Any]) -> None:
    kbs, given = assumed["knowledge bases"], {name: said[0] for name, said in assumed["endpoint"].items()}
    triples = [kb["triples"] for kb in kbs.values()]
    _head("a SPARQL endpoint with all of it", list(kbs))
    _row("triples, billions", [count / 1e9 for count in triples], ",.1f")
    _row("QLever, hours to build", [count / 1e9 * given["QLever hours a billion triples"] for count in triples], ",.1f")
    _row("its memory for that, GiB", [given["QLever memory GiB"] for _ in triples])
    _row("Virtuoso, hours to load", [count / given["Virtuoso triples a second"] / 3600 for count in triples], ",.1f")
    _row("Virtuoso, GiB on disk", [count * given["Virtuoso disk bytes a triple"] / 2**30 for count in triples])
    _row("a machine of 16 cores and 128 GiB, dollars a month", [given["machine, month"] for _ in triples])


def _print_rates(assumed: Mapping[str, Any]) -> None:
    asked = {name: said[0] for name, said in assumed["question"].items() if not isinstance(said, dict)}
    limits = {name: said[0] for name, said in assumed["limits"].items()}
    prices = {name: said[0] for name, said in assumed["prices"].items()}
    took = asked["model calls"] * asked["seconds of a model call"]
    took += asked["SPARQL queries"] * asked["seconds of a query, Wikidata"]
    _head("questions a minute", RATES)
    _row("prompt tokens a second", [rate / 60 * asked["prompt tokens"] for rate in RATES])
    _row("of them not cached", [rate / 60 * (asked["prompt tokens"] - asked["of them cached"]) for rate in RATES])
    _row("completion tokens a second", [rate / 60 * asked["completion tokens"] for rate in RATES])
    _row("calls of the model a minute", [rate * asked["model calls"] for rate in RATES])
    for model, dollars in assumed["question"]["dollars"].items():
        _row(f"{model}, dollars an hour", [60 * rate * dollars for rate in RATES], ",.2f")
    at_once = [rate / 60 * took for rate in RATES]
    _row(f"questions at work at once, {took:.0f} s each", at_once, ",.1f")
    _row(
        "processes of kbnav serve, by their questions at once",
        [_up(n / limits["questions a process"]) for n in at_once],
    )
    page = [rate / 60 * asked["processor seconds of the server"] for rate in RATES]
    _row("processors of the servers", page, ",.2f")
    _row(
        "their dollars a month, three quarters used at most",
        [_up(n / 0.75) * MONTH * prices["vCPU hour"] for n in page],
    )
    _row(
        "PostgreSQL: GiB a day, checkpoints and answers",
        [rate * 1440 * asked["KiB kept"] / 2**20 for rate in RATES],
        ",.1f",
    )
    queries = [rate * asked["SPARQL queries"] for rate in RATES]
    _row("SPARQL queries a minute", queries)
    wanted = [n * asked["seconds of a query, Wikidata"] for n in queries]
    _row(
        "of Wikidata's query service, times the limit of one client",
        [n / limits["query seconds a minute"] for n in wanted],
        ",.2f",
    )
    cores = [n / 60 * asked["core seconds of a query, own endpoint"] for n in queries]
    _row("endpoints of one's own with 16 cores", [_up(n / 0.75 / assumed["endpoint"]["cores"][0]) for n in cores])
    one = (
        0.75
        * assumed["endpoint"]["cores"][0]
        * 60
        / asked["SPARQL queries"]
        / asked["core seconds of a query, own endpoint"]
    )
    print(f"\nOne endpoint of one's own, three quarters used, answers {one:,.0f} questions a minute.")
    most = limits["query seconds a minute"] / asked["SPARQL queries"] / asked["seconds of a query, Wikidata"]
    print(f"Wikidata's query service lets one client ask {most:.0f} questions a minute.")


def _up(value: float) -> int:
    return math.ceil(value)
