"""How fast the subgraphs of ``qagnn`` are built over the memory-mapped graph, by one process and by several.

    python -m benchmarks.subgraphs SKB QUESTIONS

The candidates are the first 50 of ``bm25``, found beforehand. With torch installed, also how fast a usual network
learns from them on this machine: what is built must come faster than that.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks._timing import show

from kbnav.evaluation.datasets import load_file
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.cross_candidates import PER_SYSTEM, Candidates, Found
from kbnav.retrieval.subgraph import Builder, Subgraph, together
from kbnav.settings import Settings


def main() -> None:
    """Print milliseconds a subgraph, and their sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skb", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--limit", type=int, default=100)
    given = parser.parse_args()
    with SKB.open(given.skb) as skb:
        index = skb.vectors
        assert index is not None, "an SKB with vectors"
        candidates = Candidates.open(SkbKB(skb), Settings(), ("bm25",), given.candidates, {})
        texts = [one.text() for one in load_file("jsonl", given.questions).questions[: given.limit]]
        asked = [(text, candidates.find(text)) for text in texts]
        builder = Builder(skb, index)
        for text, _ in asked:
            index.embed(text)  # the encoder's time is not the graph's
        made: list[Subgraph] = []

        def build(one: tuple[str, Found]) -> None:
            made.append(builder.build(*one))

        print(f"{skb.meta.name}: {skb.meta.nodes:,} nodes, {skb.meta.edges:,} edges")
        show("a subgraph", build, asked)
        nodes, edges = (np.mean([len(getattr(one, name)) for one in made]) for name in ("nodes", "sources"))
        print(f"  {nodes:.0f} nodes and {edges:.0f} edges on the average")
        parts = [made[first : first + 16] for first in range(0, len(made) - 15, 16)]
        show("16 put together", lambda part: together(part, index.vectors, len(skb.meta.relations)), parts)
        if find_spec("torch") is not None:
            _learn(skb, index.vectors, parts)


def _learn(skb: SKB, vectors: np.ndarray, parts: list[list[Subgraph]]) -> None:
    import torch

    from kbnav.retrieval.qagnn import tensors
    from kbnav.retrieval.qagnn_model import Network, Sizes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = Sizes(vectors.shape[1], len(skb.meta.types), len(skb.meta.relations), PER_SYSTEM)
    network = Network(sizes).to(device)
    batches = [together(part, vectors, len(skb.meta.relations)) for part in parts]
    begin = cpu = 0.0
    for number, batch in enumerate(batches):
        if number == 1:
            begin, cpu = time.perf_counter(), time.process_time()
        given = {name: values.to(device) for name, values in tensors(batch).items()}
        network(**given)["scores"].square().mean().backward()
    if device == "cuda":
        torch.cuda.synchronize()
    count = 16 * (len(batches) - 1)
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    print(f"  learning on {device}: {1e3 * took / count:.2f} ms a subgraph; CPU {1e3 * used / count:.2f} ms")


if __name__ == "__main__":
    main()
