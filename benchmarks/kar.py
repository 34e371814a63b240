"""What KAR itself takes on a graph of Prime's size: every stage but the model's two calls, and without the encoder.

    python -m benchmarks.kar [--folder FOLDER]

The SKB is that of skb_graph.py (129K nodes, 8.1M edges, hubs among them) with random vectors of 384 numbers. A query
names three nodes, drawn at random, or from the hundred with the most edges. The model answers at once; its calls are
taken off the total. How long an encoder takes for what KAR has it encode is told by itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.skb_graph import SEED, Synthetic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from kbnav.encoders import Vectors, load, normalised
from kbnav.errors import StopRun
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.documents import VSS, VSSOptions
from kbnav.retrieval.kar import KAR, KAROptions
from kbnav.runs.trajectory import Trace

WIDTH, QUERIES, NAMED, HUBS = 384, 40, 3, 100
STAGES = {"vss": "vss, twice", "linked_nodes": "linking", "document_triples": "neighbours and triples"}


class Ready:
    """Gives a text one of many random vectors, by its checksum."""

    name = "ready"

    def __init__(self) -> None:
        self._rows = normalised(np.random.default_rng(SEED).standard_normal((50_000, WIDTH)))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See ``Encoder``."""
        return self._rows[[zlib.crc32(text.encode()) % len(self._rows) for text in texts]]


class AtOnce(BaseChatModel):
    """Names the entities that stand in the query, and writes the same document always."""

    @property
    def _llm_type(self) -> str:
        return "at once"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        *_, query, cue = str(messages[-1].text).splitlines()
        named = [{"entity": {"name": name}} for name in query.removeprefix("Query: ").split(", ")]
        reply = json.dumps(named) if cue == "Entities:" else "alpha beta gamma " * 60
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])


def main() -> None:
    """Build the SKB where it is not there yet, and print medians and the slowest of twenty in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the SKB is kept; one that is there is not built again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = (options.folder or Path(temporary)) / "prime-vectors.skb"
        if not path.exists():
            began = time.perf_counter()
            build(Synthetic("prime"), path, Options(encoder=Ready(), sparql=False))
            print(f"build with random vectors: {time.perf_counter() - began:.0f} s", flush=True)
        measure(SkbKB(SKB.open(path, Ready())))
    encoding()


def measure(kb: SkbKB) -> None:
    """Whole queries, and their stages as the trace tells them."""
    skb = kb.skb
    vss, calls = VSS(kb, VSSOptions()), ModelCalls(AtOnce(), "at once")
    degrees = skb.graph.degrees("out") + skb.graph.degrees("in")
    random = np.random.default_rng(SEED)
    drawn = {
        "three random nodes": random.integers(0, len(skb.nodes), (QUERIES, NAMED)),
        "three hubs": random.choice(np.argsort(-degrees)[:HUBS], (QUERIES, NAMED)),
    }
    for without in ((), ("kg",)):
        options = KAROptions(without=without, paths="plain", with_neighbours=False)
        retriever = KAR(skb, vss, calls, options)
        for what, queries in drawn.items():
            took: dict[str, list[float]] = {}
            for nodes in [queries[0], *queries]:  # the first one twice: it maps what is read of the files
                for stage, seconds in one_query(retriever, ", ".join(skb.name(node) for node in nodes)).items():
                    took.setdefault(stage, []).append(1e3 * seconds)
            edges = int(np.median(degrees[queries]))
            print(f"{what} ({edges:,} edges){', without kg' if without else ''}:")
            for stage, times in took.items():
                slow = statistics.quantiles(times[1:], n=20)[-1]
                print(
                    f"  {stage:24} median {statistics.median(times[1:]):6.1f} ms, 95 % under {slow:6.1f} ms", flush=True
                )


def one_query(retriever: KAR, query: str) -> dict[str, float]:
    """Seconds by stage; the samples are written side by side, so that the slowest of them counts."""
    trace, began, worked = Trace(), time.perf_counter(), time.process_time()
    retriever.retrieve(query, 20, trace)
    total, worked = time.perf_counter() - began, time.process_time() - worked
    asked = [step.seconds for step in trace.steps if step.call.tool == "model"]
    found = {"all but the model": total - asked[0] - max(asked[1:])}
    for step in trace.steps:
        if step.call.tool in STAGES:
            found[STAGES[step.call.tool]] = found.get(STAGES[step.call.tool], 0.0) + step.seconds
    found["reading, writing prompts"] = found["all but the model"] - sum(list(found.values())[1:])
    return {**found, "CPU, all threads": worked}


def encoding() -> None:
    """What minilm takes for a query, twice, for three short entities, and for the expanded query."""
    try:
        encoder = load("minilm")
    except StopRun as error:
        print(f"no figure for an encoder: {error}")
        return
    query, expanded = "a query of about twenty words " * 3, "an expanded query of many words " * 60
    for what, texts in (("query", [query]), ("three entities", ["an entity"] * 3), ("expanded query", [expanded])):
        times = []
        for _ in range(11):
            began = time.perf_counter()
            encoder.encode(texts)
            times.append(1e3 * (time.perf_counter() - began))
        print(f"minilm, {what}: median {statistics.median(times[1:]):.1f} ms")


if __name__ == "__main__":
    main()
