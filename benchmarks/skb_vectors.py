"""Quality of the encoders on real text, and speed of the vector index at the sizes of STaRK's knowledge bases.

    python -m benchmarks.skb_vectors [--data ../shared/data] [--large] [--speed]

Quality: nodes are WordNet synsets (data/wn18rr) with name and definition, questions are their example sentences, which
the nodes do not have; only synsets that have one take part, so that the slow encoder is done in minutes. Speed: made-up
vectors of 384 numbers in groups, 129,000 and with --large 1.9 million; a type of 3 % lies together, as in an SKB. The
search is compared with NumPy; the NumPy encoder with torch where transformers is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks._timing import built, seconds, show

from kbnav.encoders import Encoder, Vectors, load, normalised
from kbnav.encoders.lsa import LSA
from kbnav.encoders.minilm import find_files
from kbnav.knowledge.skb import text, vectors
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.search import reciprocal_rank_fusion

EXAMPLE = re.compile(r'"([^"]+)"')
NODES, QUESTIONS, WIDTH = 4_000, 1_000, 384


def main() -> None:
    """Run all parts and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder that holds wn18rr")
    parser.add_argument("--large", action="store_true", help="also 1.9 million vectors")
    parser.add_argument("--speed", action="store_true", help="leave quality out")
    arguments = parser.parse_args()
    for count in (129_000, 1_900_000) if arguments.large else (129_000,):
        with tempfile.TemporaryDirectory() as folder:
            speed(count, Path(folder))
    if arguments.speed:
        return
    with gzip.open(arguments.data / "wn18rr" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if EXAMPLE.search(row["description"])]
    chosen = [rows[n] for n in np.random.default_rng(0).choice(len(rows), NODES, replace=False)]
    quality(chosen)
    against_torch([row["description"] for row in chosen[:200]])


class Clustered:
    """An encoder of numbers: vectors that lie in groups, and groups in larger ones, as those of real texts do.

    Some of their numbers are spread wider than others. The numbers of a call follow one another.
    """

    name = "clustered"

    def __init__(self, count: int) -> None:
        random = np.random.default_rng(0)
        self._spread = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
        large = random.standard_normal((64, WIDTH), dtype=np.float32)
        small = random.standard_normal((max(64, count // 200), WIDTH), dtype=np.float32)
        self._groups = large[random.integers(64, size=len(small))] + 0.9 * small

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Equal for an equal first number."""
        random = np.random.default_rng(int(texts[0]))
        groups = self._groups[random.integers(len(self._groups), size=len(texts))]
        noise = random.standard_normal((len(texts), WIDTH), dtype=np.float32)
        return normalised((groups + np.float32(0.8) * noise) * self._spread)


def speed(count: int, folder: Path) -> None:
    """Build, open and search with vectors that need no model; NumPy beside."""
    encoder, exact = Clustered(count), folder / "exact"
    exact.mkdir()
    print(f"{count:,} vectors:")
    nodes = (NodeText(n, 0, str(n), (), "") for n in range(count))
    built("vectors, ready", lambda: vectors.build(lambda: nodes, exact, type_start=[0, count], encoder=encoder), exact)
    print(f"  open {1e3 * seconds(lambda: vectors.open(exact)):.1f} ms")
    index = vectors.open(exact, encoder)
    queries = list(encoder.encode([str(count + n) for n in range(200)]))
    few = (count // 2, count // 2 + count // 33)
    among = np.random.default_rng(0).choice(count, 1000, replace=False).tolist()
    show("top 20, exact", lambda query: index.search(query), queries[:50])
    show("the same in a type of 3 %", lambda query: index.search(query, ranges=[few]), queries)
    show("the same among 1,000 nodes", lambda query: index.search(query, among=among), queries)
    best = [{n for n, _ in index.search(query)} for query in queries]
    full = np.asarray(index.vectors)
    sorted_out = [set(np.argsort(-(full @ query), kind="stable")[:20].tolist()) for query in queries[:10]]
    print(f"  recall@20 against a full sort: {recall(best[:10], sorted_out):.4f}")
    show("peer: NumPy, product and argpartition", lambda query: np.argpartition(full @ query, -20)[-20:], queries[:50])


def recall(found: Sequence[set[int]], wanted: Sequence[set[int]]) -> float:
    """The share of what is wanted that was found."""
    return sum(len(one & other) for one, other in zip(found, wanted, strict=True)) / sum(map(len, wanted))


def quality(rows: Sequence[dict[str, str]]) -> None:
    """Recall@20 and MRR of BM25, of each encoder, and of both fused."""
    nodes = [NodeText(n, 0, row["name"], (), EXAMPLE.sub("", row["description"])) for n, row in enumerate(rows)]
    questions = [EXAMPLE.findall(row["description"])[0] for row in rows[:QUESTIONS]]
    print(f"{QUESTIONS:,} example sentences to {len(nodes):,} synsets (recall@20, MRR):")
    with tempfile.TemporaryDirectory() as folder:
        text.build(nodes, Path(folder), type_start=[0, len(nodes)])
        words = text.open(Path(folder), [0, len(nodes)])
    by_words = [[n for n, _ in words.search(question, limit=100)] for question in questions]
    report("BM25", by_words)
    for encoder in (LSA.fit(node.document for node in nodes), load("minilm")):
        by_meaning = rankings(encoder, nodes, questions)
        report(encoder.name, by_meaning)
        both = list(zip(by_words, by_meaning, strict=True))
        for weight in (1.0, 0.3, 0.1):
            fused = [[n for n, _ in reciprocal_rank_fusion(pair, weights=(1.0, weight))] for pair in both]
            report(f"BM25 and {weight} {encoder.name}", fused)


def rankings(encoder: Encoder, nodes: Sequence[NodeText], questions: Sequence[str]) -> list[list[int]]:
    """The best 100 of each question; prints how fast texts were encoded."""
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        vectors.build(lambda: nodes, Path(folder), type_start=[0, len(nodes)], encoder=encoder)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"  {encoder.name}: {len(nodes) / wall:.0f} texts a second, {len(nodes) / cpu:.0f} a second of CPU")
        index = vectors.open(Path(folder), encoder)
        return [[n for n, _ in index.search(question, limit=100)] for question in questions]


def report(what: str, found: Sequence[Sequence[int]]) -> None:
    """Question n is about node n."""
    places = [ranking[:20].index(n) + 1 if n in ranking[:20] else 0 for n, ranking in enumerate(found)]
    recall, mrr = np.mean([place > 0 for place in places]), np.mean([1 / place if place else 0 for place in places])
    print(f"  {what}: {recall:.3f}, {mrr:.3f}")


def against_torch(texts: Sequence[str]) -> None:
    """The same texts by transformers on torch, one at a time, if both are installed."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        print("torch and transformers are not installed: no comparison with them")
        return
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = find_files()[0].parent
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    start, means = time.perf_counter(), []
    with torch.no_grad():
        for one in texts:
            tokens = tokenizer([one], truncation=True, max_length=256, return_tensors="pt")
            means.append(model(**tokens).last_hidden_state[0].mean(0).numpy())
    by_torch = time.perf_counter() - start
    encoder = load("minilm")
    start = time.perf_counter()
    ours = encoder.encode(texts)
    by_numpy = time.perf_counter() - start
    cosines = np.sum(normalised(np.stack(means)) * ours, axis=1)
    print(
        f"minilm, {len(texts)} texts: lowest cosine to torch {cosines.min():.7f};"
        f" {len(texts) / by_torch:.0f} texts a second by torch one at a time, {len(texts) / by_numpy:.0f} by NumPy"
    )


if __name__ == "__main__":
    main()
