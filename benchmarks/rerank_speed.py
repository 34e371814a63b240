"""How long a cross-encoder takes to rank candidates again, as it is served. Needs the extra ``train``.

    python -m benchmarks.rerank_speed SKB QUESTIONS --base minilm --layers 2
    python -m benchmarks.rerank_speed SKB QUESTIONS --trained my.cross

A base is not trained for it: weights do not change the time. Texts are those that ``cross`` shows. Of what ``kbnav
train cross`` trained, the second form also says what weights as bytes cost: Hit@1 and MRR with them and with floats,
among the candidates of ``bm25``, by the cross-encoder's score alone, and how often both put the same node first.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks._timing import show

from kbnav.encoders.trained import MODEL, read_card
from kbnav.evaluation.datasets import load_file
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever, numbers
from kbnav.retrieval.cross import CrossScorer, Scores, document_text
from kbnav.settings.model import Settings
from kbnav.training.models import cross_encoder, export
from kbnav.training.task import quiet


class Asked(NamedTuple):
    """A question, the texts of its candidates, and which of them [candidates] answer it."""

    text: str
    documents: list[str]
    right: Any


def asked(skb: SKB, given: argparse.Namespace) -> list[Asked]:
    """The first questions with their candidates."""
    bm25, found = build_retriever("bm25", SkbKB(skb), Settings(), {}), []
    for one in load_file("jsonl", given.questions).questions[: given.limit]:
        nodes = numbers(skb, bm25.retrieve(one.text(), given.candidates))
        answers = [skb.nodes.ids.find(node) for node in one.nodes]
        texts = [document_text(skb, node, given.longest) for node in nodes]
        found.append(Asked(one.text(), texts, np.isin(nodes, answers)))
    return found


def quality(scores: list[Scores], questions: list[Asked]) -> str:
    """Hit@1 and MRR over the questions one of whose candidates is an answer, in percent."""
    ranks = [
        1 + int((given > given[one.right].max()).sum())
        for given, one in zip(scores, questions, strict=True)
        if one.right.any()
    ]
    hit, reciprocal = np.mean([rank == 1 for rank in ranks]), np.mean([1 / rank for rank in ranks])
    return f"Hit@1 {100 * hit:.1f}, MRR {100 * reciprocal:.1f} of {len(ranks)} questions"


def main() -> None:
    """Print the times, with weights as bytes and as floats, and of a trained model the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skb", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--base", default="minilm")
    parser.add_argument("--trained", type=Path)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--limit", type=int, default=20)
    given = parser.parse_args()
    quiet()
    if given.trained:
        card = read_card(given.trained, "cross")
        given.base, given.layers = str(given.trained / MODEL), 0
        given.longest = card.settings["longest"]
    model = cross_encoder(given.base, "cpu", layers=given.layers, longest=given.longest, seed=0)
    with SKB.open(given.skb) as skb, tempfile.TemporaryDirectory() as place:
        questions = asked(skb, given)
        print(f"{given.base}, {given.longest} tokens, {given.candidates} candidates of bm25")
        firsts = []
        for what, int8 in (("bytes", True), ("floats", False)):
            folder = Path(place) / what / MODEL
            folder.mkdir(parents=True)
            model.save_pretrained(str(folder), create_model_card=False)
            scorer = CrossScorer(export(model, folder, int8=int8).parent, given.longest)
            show(what, lambda one, scorer=scorer: scorer.score(one.text, one.documents), questions)
            if given.trained:
                scores = [scorer.score(one.text, one.documents) for one in questions]
                firsts.append([int(one.argmax()) for one in scores])
                print(f"  {what}: {quality(scores, questions)}")
        if firsts:
            print(f"  the same first: {np.mean(np.equal(*firsts)):.0%}")


if __name__ == "__main__":
    main()
