"""Node matching against 1.9 million names, and following a plan in a graph of Prime's size.

    python -m benchmarks.matching --data ../shared/data [--names 1900000] [--folder FOLDER] [--prime prime.skb]

Names are made up of WordNet's words as in ``skb_text.py``: persons of the form "Given N. Surname", and titles. Each
question has two of them among other words. Beside it, where they are installed, the same questions by Aho-Corasick
automata (ahocorasick_rs), which hold all names in memory and find them inside of words as well, and by
rapidfuzz's ``partial_ratio``, on 10,000 of the names. ``--folder`` keeps the index of names. ``--prime`` is an SKB that
``skb_graph.py --size prime --folder …`` has built; each plan has three paths of one or two hops, drawn at random.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from benchmarks._timing import built, show, status
from benchmarks.skb_text import Words
from rapidfuzz import fuzz, process

from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import PathSchema, Plan, PlannedPath, reached

FUZZY = 10_000
QUESTIONS = 200


def main() -> None:
    """Run both parts and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--names", type=int, default=1_900_000)
    parser.add_argument("--folder", type=Path, help="where the index of names is kept")
    parser.add_argument("--prime", type=Path, help="an SKB of Prime's size")
    arguments = parser.parse_args()
    if arguments.prime:
        expansion(arguments.prime)
    with gzip.open(arguments.data / "wn18rr" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        words = Words([json.loads(line) for line in file])
    nodes = list(words.names(arguments.names))
    with tempfile.TemporaryDirectory() as temporary:
        matching(nodes, words, arguments.folder or Path(temporary))


def matching(nodes: Sequence[NodeText], words: Words, folder: Path) -> None:
    """Match names in questions, beside the peers."""
    print(f"node matching, {len(nodes):,} names:")
    if not (folder / "holders.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        built("the index of names", lambda: text.build_names(nodes, folder, type_start=[0, len(nodes)]), folder)
    matcher = NodeMatcher(names_only(nodes, text.open_names(folder)), "exact")
    questions = list(asked(nodes, words))
    memory = status("VmRSS")
    show("NodeMatcher", lambda pair: matcher.match(pair[0]), questions)
    found = [
        sum(name in {node.name for node in matcher.match(text)} for name in planted) for text, planted in questions
    ]
    lengths = [len(text.split()) for text, _ in questions]
    print(f"  questions of {min(lengths)} to {max(lengths)} words; {sum(found)} of {2 * len(questions)} names found")
    print(f"  memory that matching added: {status('VmRSS') - memory:.0f} MiB")
    peers([node.name for node in nodes], [text for text, _ in questions])


def names_only(nodes: Sequence[NodeText], index: text.NameIndex) -> SKB:
    """As much of an SKB as node matching by name looks at: building all of it would take longer than it tells."""
    held = Held([node.name for node in nodes])
    graph = SimpleNamespace(degree=lambda _: 1)
    return SimpleNamespace(  # type: ignore[return-value]
        names=index,
        text=None,
        vectors=None,
        type_names=("node",),
        nodes=held,
        graph=graph,
        id=str,
        type_name=lambda _: "node",
    )


class Held:
    """The names by node number."""

    def __init__(self, every: Sequence[str]) -> None:
        self.names, self.label = every, every.__getitem__

    def __len__(self) -> int:
        return len(self.names)

    def aliases(self, node: int) -> tuple[str, ...]:  # noqa: ARG002
        """None has one."""
        return ()


def asked(nodes: Sequence[NodeText], words: Words) -> Iterator[tuple[str, tuple[str, str]]]:
    """Questions that name two nodes."""
    random = np.random.default_rng(3)
    for first, second in random.integers(len(nodes), size=(QUESTIONS, 2)):
        pair = nodes[first].name, nodes[second].name
        yield f"Which works on {words.title(6)} by {pair[0]} cite {pair[1]} and {words.title(4)}?", pair


def peers(every: Sequence[str], questions: Sequence[str]) -> None:
    """The same by packages for it."""
    lowered = [name.lower() for name in every]
    if find_spec("ahocorasick_rs"):
        import ahocorasick_rs

        memory, start = status("VmRSS"), time.perf_counter()
        automaton = ahocorasick_rs.AhoCorasick(lowered, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)
        print(f"  ahocorasick_rs: built in {time.perf_counter() - start:.0f} s, {status('VmRSS') - memory:.0f} MiB")
        show("ahocorasick_rs", lambda text: automaton.find_matches_as_indexes(text.lower()), questions)
    few = lowered[:: max(1, len(lowered) // FUZZY)]
    show(
        f"rapidfuzz partial_ratio, {len(few):,} of the names",
        lambda text: process.extract(text.lower(), few, scorer=fuzz.partial_ratio, score_cutoff=95, limit=5),
        questions[:20],
    )


def expansion(folder: Path) -> None:
    """Follow plans of three paths from two nodes each."""
    with SKB.open(folder) as skb:
        print(f"following plans, {skb.meta.nodes:,} nodes, {skb.meta.edges:,} edges:")
        random = np.random.default_rng(5)
        schema = PathSchema.of(skb)
        paths = [path for path in schema.paths(2) if path.hops]
        plans = []
        for _ in range(QUESTIONS):
            one = paths[int(random.integers(len(paths)))]
            same = [path for path in paths if path.start == one.start]
            chosen = [one, *(same[int(place)] for place in random.integers(len(same), size=2))]
            first, end = skb.type_range(one.start)
            nodes = [skb.id(int(node)) for node in random.integers(first, end, size=2)]
            plans.append((Plan(tuple(PlannedPath(p, 1 / 3) for p in chosen)), nodes))
        show(
            "a plan of three paths from two nodes",
            lambda pair: [reached(skb, path, pair[1]) for path, _ in pair[0].paths],
            plans,
        )


if __name__ == "__main__":
    main()
