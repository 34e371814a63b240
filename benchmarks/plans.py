"""How often each planner's first path is right on made questions: ``python -m benchmarks.plans KBS QUESTIONS``.

KBS has ``NAME.skb`` and, where one was trained, the planner ``NAME.seq2seq``, which runs where torch is; QUESTIONS has
``NAME.jsonl`` and ``NAME-train.jsonl``, made by ``kbnav eval synthesize``. The ranker is trained here, with each
weighing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from kbnav.evaluation.evaluate import find_dataset
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.evaluate import PlanScores, judge
from kbnav.planning.paths import Planner
from kbnav.planning.planners import encoder_of, open_planner
from kbnav.planning.ranker import Ranker
from kbnav.planning.training import LabelledQuestion, Weighing, examples, made_from


def planners(
    skb: SKB, folder: Path, training: list[LabelledQuestion], matcher: NodeMatcher
) -> Iterator[tuple[str, Planner]]:
    """Each planner with its name."""
    for weighing in get_args(Weighing):
        found = list(examples(training, skb, matcher, weighing=weighing))
        yield f"`ranker`, `{weighing}`", Ranker.train(skb, encoder_of(skb), found)
    if folder.exists() and find_spec("torch") is not None:
        yield "`seq2seq`", open_planner("seq2seq", skb, trained=folder)


def asked(questions: Path) -> list[LabelledQuestion]:
    """The questions of a file with what they were made from."""
    dataset = find_dataset(str(questions), Path())
    return [LabelledQuestion(one.text(), one.nodes, made_from(one.meta)) for one in dataset.questions]


def main() -> None:
    """Print a table for each SKB."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kbs", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of SKBs")
    given = parser.parse_args()
    for folder in sorted(given.kbs.glob("*.skb")):
        if given.only and folder.stem not in given.only:
            continue
        training = asked(given.questions / f"{folder.stem}-train.jsonl")
        with SKB.open(folder) as skb:
            matcher = NodeMatcher(skb, "exact")
            found = list(examples(asked(given.questions / f"{folder.stem}.jsonl"), skb, matcher, known=True))
            print(
                f"\n{folder.stem}, {len(found)} questions\n\n| planner | first | three | ms a plan |\n|---|---|---|---|"
            )
            for place, (name, planner) in enumerate(planners(skb, folder.with_suffix(".seq2seq"), training, matcher)):
                start = time.perf_counter()
                judged = judge(planner, found)
                took = 1000 * (time.perf_counter() - start) / len(found)
                if not place:
                    print(line("most frequent possible path, in hindsight", judged.most_frequent))
                print(line(name, judged.planner, f"{took:.0f}"), flush=True)


def line(name: str, scores: PlanScores, took: str = "–") -> str:
    """A row of the table."""
    return f"| {name} | {scores.first:.3f} | {scores.first_three:.3f} | {took} |"


if __name__ == "__main__":
    main()
