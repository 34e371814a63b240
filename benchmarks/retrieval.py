"""What a query costs the retrieval systems that ask no model, on an SKB of Prime's size, and NumPy beside.

    python -m benchmarks.retrieval [--folder FOLDER]

The SKB is that of kar.py: 129K nodes, 8.1M edges, random vectors of 384 numbers, and an encoder that costs nothing, so
that what is timed is the search and what is made of it. A query is the name of a node with a few words.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from benchmarks._timing import show
from benchmarks.kar import Ready
from benchmarks.skb_graph import SEED, Synthetic

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Settings

QUERIES, TOP = 100, 20
SYSTEMS = ("vss", "bm25", "multi-vss", "graph-rank")


def main() -> None:
    """Build the SKB where it is not there yet, and print a line a system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the SKB is kept; one that is there is not built again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = (options.folder or Path(temporary)) / "prime-vectors.skb"
        if not path.exists():
            build(Synthetic("prime"), path, Options(encoder=Ready(), sparql=False))
        measure(SkbKB(SKB.open(path, Ready())), Settings(home=Path(temporary)))


def measure(kb: SkbKB, settings: Settings) -> None:
    """Time every system over the same queries."""
    skb = kb.skb
    nodes = np.random.default_rng(SEED).integers(0, len(skb.nodes), QUERIES).tolist()
    queries = [f"What is linked to {skb.name(node)} and has to do with alpha?" for node in nodes]
    for name in SYSTEMS:
        system = build_retriever(name, kb, settings, {})
        if name == "multi-vss":  # what is timed is a query whose chunks were met before
            for query in queries:
                system.retrieve(query, TOP)
        show(name, lambda query, system=system: system.retrieve(query, TOP), queries)
    peer(skb, queries)


def peer(skb: SKB, queries: list[str]) -> None:
    """The plain product of matrix and vector with a partial sort, in memory."""
    encoder = Ready()
    vectors = np.array(skb.vectors.vectors)

    def search(query: str) -> np.ndarray:
        scores = vectors @ encoder.encode([query])[0]
        best = np.argpartition(-scores, TOP)[:TOP]
        return best[np.argsort(-scores[best])]

    show("NumPy, the vectors in memory", search, queries)


if __name__ == "__main__":
    main()
