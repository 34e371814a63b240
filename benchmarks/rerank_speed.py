"""How long a cross-encoder takes to rank candidates again, as it is served. Needs the extra ``train``.

    python -m benchmarks.rerank_speed SKB QUESTIONS --base minilm --layers 2

The base is not trained for it: weights do not change the time. Texts are those that ``cross`` shows.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._timing import show

from kbnav.evaluation.datasets import load_file
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.build import build_retriever
from kbnav.retrieval.common import numbers
from kbnav.retrieval.cross import shown
from kbnav.retrieval.cross_model import Exported
from kbnav.settings import Settings
from kbnav.trained import MODEL
from kbnav.training.course import quiet
from kbnav.training.models import cross_encoder
from kbnav.training.onnx import export


def main() -> None:
    """Print the times, with weights as bytes and as floats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skb", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--base", default="minilm")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--limit", type=int, default=20)
    given = parser.parse_args()
    quiet()
    model = cross_encoder(given.base, "cpu", layers=given.layers, longest=given.longest, seed=0)
    with SKB.open(given.skb) as skb, tempfile.TemporaryDirectory() as place:
        bm25 = build_retriever("bm25", SkbKB(skb), Settings(), {})
        asked: list[Any] = []
        for one in load_file("jsonl", given.questions).questions[: given.limit]:
            nodes = numbers(skb, bm25.retrieve(one.text(), given.candidates))
            asked.append((one.text(), [shown(skb, node, given.longest) for node in nodes]))
        print(f"{given.base}, {given.layers} layers, {given.longest} tokens, {given.candidates} candidates of bm25")
        for what, int8 in (("bytes", True), ("floats", False)):
            folder = Path(place) / what / MODEL
            folder.mkdir(parents=True)
            model.save_pretrained(str(folder), create_model_card=False)
            scorer = Exported(export(model, folder, int8=int8).parent, given.longest)
            show(what, lambda pair, scorer=scorer: scorer.score(*pair), asked)


if __name__ == "__main__":
    main()
