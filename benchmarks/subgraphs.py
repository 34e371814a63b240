"""How fast the subgraphs of ``qagnn`` are built over the memory-mapped graph, and how fast a training step eats them.

    python -m benchmarks.subgraphs SKB QUESTIONS

The candidates are the first 50 of ``bm25``, found beforehand. Batches of 16 are built by one process, then learned from
by a network of the usual size, forward, backward and the optimiser's step, where torch is installed. Both are told in
batches a second of processor time; the training keeps what was built, so that only its first epoch waits for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np
from benchmarks._timing import show

from kbnav.evaluation.datasets import load_file
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.qagnn import PER_SYSTEM, Batch, Builder, CandidateList, Candidates, Subgraph, together
from kbnav.settings.model import Settings

BATCH = 16
"""Questions of a step, as ``kbnav train qagnn`` takes by default."""
T = TypeVar("T")


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

        def build(one: tuple[str, CandidateList]) -> None:
            made.append(builder.build(*one))

        print(f"{skb.meta.name}: {skb.meta.nodes:,} nodes, {skb.meta.edges:,} edges")
        show("a subgraph", build, asked)
        nodes, edges = (np.mean([len(getattr(one, name)) for one in made]) for name in ("nodes", "sources"))
        print(f"  {nodes:.0f} nodes and {edges:.0f} edges on the average")

        def put(part: Sequence[Subgraph]) -> Batch:
            return together(part, index, len(skb.meta.relations))

        def batch(part: Sequence[tuple[str, CandidateList]]) -> Batch:
            return put([builder.build(*one) for one in part])

        built, kept = _each(batch, _parts(asked)), _each(put, _parts(made))
        print(f"  a batch of {BATCH} is built in {1e3 * built:.1f} ms of processor time: {1 / built:.1f} a second")
        print(f"  of subgraphs that were kept, put together in {1e3 * kept:.1f} ms: {1 / kept:.1f} a second")
        if find_spec("torch") is not None:
            _learn(skb, index.dimensions, [put(part) for part in _parts(made)], built)


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    """What ``items`` have of whole batches."""
    return [items[first : first + BATCH] for first in range(0, len(items) - BATCH + 1, BATCH)]


def _each(call: Callable[[T], object], items: Sequence[T], clock: Callable[[], float] = time.process_time) -> float:
    """The median of the seconds that a call takes, by default those of all processors, after one that warms up."""
    call(items[0])
    took = []
    for item in items:
        begin = clock()
        call(item)
        took.append(clock() - begin)
    return float(np.median(took))


def _learn(skb: SKB, dimensions: int, batches: Sequence[Batch], built: float) -> None:
    """Print how long a step of the training takes, and how it compares with ``built``, the seconds of a batch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from kbnav.retrieval.qagnn import tensors
    from kbnav.retrieval.qagnn_model import Network, Sizes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = Sizes(dimensions, len(skb.meta.types), len(skb.meta.relations), PER_SYSTEM)
    network = Network(sizes).to(device)
    optimiser = torch.optim.AdamW(network.parameters())

    def step(batch: Batch) -> None:
        given = {name: values.to(device) for name, values in tensors(batch).items()}
        optimiser.zero_grad()
        network(**given)["scores"].square().mean().backward()
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()

    with FlopCounterMode(display=False) as counter:
        step(batches[0])
    clock, of = (time.perf_counter, "") if device == "cuda" else (time.process_time, " of processor time")
    learned = _each(step, batches, clock)
    print(
        f"  a step on {device} takes {1e3 * learned:.1f} ms{of}: {1 / learned:.1f} a second; one process builds "
        f"{learned / built:.1f} times as fast; its products of matrices are {counter.get_total_flops() / 1e9:.0f} GFLOP"
    )


if __name__ == "__main__":
    main()
