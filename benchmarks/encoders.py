"""Documents a second of encoders on an SKB's own documents, and what a rougher one costs in retrieval.

    python -m benchmarks.encoders KB [--encoder minilm] [--encoder e5] [--documents 400] [--questions FILE]

Documents are taken at even distances. With questions, their
answers' documents are encoded too, and the table says how often the first document among all that were encoded is an
answer (Hit@1) and the mean reciprocal rank, and how near an encoder's vectors are to those of the first one named.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from kbnav.encoders import Vectors, encode_queries, load
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.store import SKB


def scores(documents: Vectors, questions: Vectors, answers: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Hit@1 and MRR, in percent."""
    best = []
    for row, right in zip(questions @ documents.T, answers, strict=True):
        best.append(1 + int((row > max(row[place] for place in right)).sum()))
    return 100 * fmean(rank == 1 for rank in best), 100 * fmean(1 / rank for rank in best)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--encoder", action="append")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--questions", type=Path)
    chosen = parser.parse_args()
    asked = [json.loads(line) for line in chosen.questions.read_text().splitlines()] if chosen.questions else []
    with SKB.open(chosen.kb) as skb:
        every = max(1, len(skb.nodes) // chosen.documents)
        wanted = set(range(0, len(skb.nodes), every)) | {skb.number(node) for one in asked for node in one["nodes"]}
        texts = {node.number: node.document for node in indexed_texts(skb) if node.number in wanted}
        places = {number: place for place, number in enumerate(texts)}
        answers = [[places[skb.number(node)] for node in one["nodes"]] for one in asked]
    columns = "load, s | documents a second | processor ms a document | a question, ms"
    print(f"| encoder | {columns} | nearness, mean, least | Hit@1, MRR |")
    print("|---|---:|---:|---:|---:|---|---|")
    first: Vectors | None = None
    for name in chosen.encoder or ["minilm", "e5"]:
        begun = time.perf_counter()
        encoder = load(name)
        loaded, cpu = time.perf_counter(), time.process_time()
        documents = encoder.encode(list(texts.values()))
        done, cpu = time.perf_counter(), time.process_time() - cpu
        questions = [encode_queries(encoder, [one["question"]]) for one in asked]
        asking = 1000 * (time.perf_counter() - done) / max(1, len(asked))
        first = documents if first is None else first
        near = (documents * first).sum(axis=1) if documents.shape == first.shape else np.zeros(1)
        found = "{:.1f}, {:.1f}".format(*scores(documents, np.concatenate(questions), answers)) if asked else "–"
        print(
            f"| `{name}` | {loaded - begun:.1f} | {len(texts) / (done - loaded):.0f} | {1000 * cpu / len(texts):.1f} "
            f"| {asking:.0f} "
            f"| {near.mean():.4f}, {near.min():.4f} | {found} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
