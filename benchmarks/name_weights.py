"""What a match in a name should count for BM25, and how to weigh BM25 against vectors, on validation questions.

    python -m benchmarks.name_weights FOLDER

``FOLDER`` is what ``benchmarks.question_sets`` made. For each SKB and setting: Hit@1, MRR, and how often a node that
the question starts from comes first, which is never an answer; in percent.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.datasets.records import Question
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import Retriever, build_retriever
from kbnav.settings.model import Settings

SETTINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{f"bm25, name_weight {weight}": ("bm25", {"relations": False, "name_weight": weight}) for weight in (0, 1, 2)},
    **{
        f"bm25 with relations, name_weight {weight}": ("bm25", {"relations": True, "name_weight": weight})
        for weight in (0, 2)
    },
    "vss": ("vss", {"relations": False}),
}


def measured(retriever: Retriever, questions: Sequence[Question]) -> str:
    """Hit@1, MRR, and the share of questions for which a node they start from comes first."""
    hits = ranks = starts = 0.0
    for one in questions:
        ids = retriever.retrieve(one.texts["en"], 100).ids
        place = next((place for place, node in enumerate(ids, 1) if node in one.nodes), 0)
        hits += place == 1
        ranks += 1 / place if place else 0
        starts += bool(ids) and ids[0] in {path["start"] for path in one.meta["paths"]}
    return " | ".join(f"{100 * value / len(questions):.1f}" for value in (hits, ranks, starts))


def main() -> None:
    """Print a table for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for path in sorted(folder.glob("*.skb")):
        questions = load_file("jsonl", folder / "questions" / f"{path.stem}-val.jsonl", name=path.stem).questions
        print(f"\n{path.stem}\n\n| | Hit@1 | MRR | a start first |\n|---|---:|---:|---:|")
        with tempfile.TemporaryDirectory() as home, SKB.open(path) as skb:
            kb, settings = SkbKB(skb), Settings(home=Path(home))
            for name, (system, options) in SETTINGS.items():
                print(f"| {name} | {measured(build_retriever(system, kb, settings, options), questions)} |", flush=True)


if __name__ == "__main__":
    main()
