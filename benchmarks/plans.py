"""How often each planner's first path is right on made questions: ``python -m benchmarks.plans KBS QUESTIONS``.

KBS has ``NAME.skb`` and, where one was trained, the planner ``NAME.seq2seq``, which runs where torch is; QUESTIONS has
``NAME.jsonl`` and ``NAME-train.jsonl``, made by ``kbnav eval synthesize``. The ranker is trained here, with each
weighing.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from kbnav.agents.walking.options import open_planner
from kbnav.evaluation.datasets import find_dataset
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import Hop, PathSchema, Planner, PlanOptions, RelationPath, encoder_of
from kbnav.planning.ranker import Ranker
from kbnav.planning.training import Example, Gold, LabelledQuestion, Weighing, examples, made_from, possible
from kbnav.settings.model import Settings

FIRST = 3
"""Paths of a plan that its recall is taken of."""
Hops = tuple[Hop, ...]


@dataclass(frozen=True)
class Made(Example):
    """An example with the paths that its question was made from."""

    golds: tuple[Gold, ...] = ()


def right_paths(example: Example) -> tuple[Gold, ...]:
    """The paths that a question was made from, else each of its label."""
    return example.golds if isinstance(example, Made) else tuple((path,) for path in example.label)


def made(questions: Iterable[LabelledQuestion], skb: SKB, matcher: NodeMatcher) -> Iterator[Example]:
    """The questions as examples, whose labels are uniform over the paths that they were made from, where these are."""
    schema = PathSchema.of(skb)
    for question in questions:
        if golds := tuple(dict.fromkeys(possible(gold, schema) for gold in question.paths)):
            nodes = tuple(node.id for node in matcher.match(question.text))
            shares = ((path, 1 / (len(golds) * len(gold))) for gold in golds for path in gold)
            starts = frozenset(skb.type(skb.number(node)) for node in nodes)
            yield Made(question.text, nodes, starts, _summed(shares), golds)
        else:
            yield from examples([question], skb, matcher)


def _summed(shares: Iterable[tuple[RelationPath, float]]) -> dict[RelationPath, float]:
    found: defaultdict[RelationPath, float] = defaultdict(float)
    for path, share in shares:
        found[path] += share
    return dict(found)


@dataclass(frozen=True)
class PlanScores:
    """Means over questions: whether the first path is right, and the share of right paths among the first three.

    Paths that count as one, since they follow a symmetric relation this way and that, are one in the plan too. A
    question with more than three right paths has them all found where three are. ``planned`` is the share of questions
    for which there was a plan.
    """

    questions: int
    first: float
    first_three: float
    planned: float


@dataclass(frozen=True)
class Judged:
    """A planner's scores, and those of the path that is most often right among those possible from the matched nodes.

    That most frequent path is counted on the very questions that are asked, which is more than a planner can know.
    """

    planner: PlanScores
    most_frequent: PlanScores


def judge(planner: Planner, examples: Sequence[Example]) -> Judged:
    """Ask for a plan of every example, and compare its paths, without their types, with those of the label."""
    plans = [
        list(dict.fromkeys(path.hops for path, _ in planner.plan(one.question, one.nodes).paths)) for one in examples
    ]
    return Judged(_scores(plans, examples), _scores(list(_most_frequent(examples)), examples))


def _scores(plans: Sequence[Sequence[Hops]], examples: Sequence[Example]) -> PlanScores:
    rights = [_right(one) for one in examples]
    merged = [
        list(dict.fromkeys(right.get(hops, hops) for hops in plan)) for plan, right in zip(plans, rights, strict=True)
    ]
    golds = [set(right.values()) for right in rights]
    return PlanScores(
        questions=len(examples),
        first=_mean(bool(plan) and plan[0] in gold for plan, gold in zip(merged, golds, strict=True)),
        first_three=_mean(
            len({*plan[:FIRST]} & gold) / min(FIRST, len(gold)) for plan, gold in zip(merged, golds, strict=True)
        ),
        planned=_mean(map(bool, plans)),
    )


def _right(example: Example) -> dict[Hops, Hops]:
    found: dict[Hops, Hops] = {}
    for gold in right_paths(example):
        for path in gold:
            found.setdefault(path.hops, gold[0].hops)
    return found


def _most_frequent(examples: Sequence[Example]) -> Iterator[list[Hops]]:
    """For each example, the paths that are right most often, of those that begin at a type it matched."""
    shares: defaultdict[str, defaultdict[Hops, float]] = defaultdict(lambda: defaultdict(float))
    for one in examples:
        for gold in right_paths(one):
            shares[gold[0].start][gold[0].hops] += sum(one.label[path] for path in gold)
    for one in examples:
        total: defaultdict[Hops, float] = defaultdict(float)
        for start in ("", *one.starts):
            for hops, share in shares[start].items():
                total[hops] += share
        yield sorted(total, key=lambda hops: (-total[hops], hops))[:FIRST]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def planners(
    skb: SKB, folder: Path, training: list[LabelledQuestion], matcher: NodeMatcher
) -> Iterator[tuple[str, Planner]]:
    """Each planner with its name."""
    for weighing in get_args(Weighing):
        found = list(examples(training, skb, matcher, weighing=weighing))
        yield f"`ranker`, `{weighing}`", Ranker.train(skb, encoder_of(skb), found)
    if folder.exists() and find_spec("torch") is not None:
        yield "`seq2seq`", open_planner(PlanOptions(planner="seq2seq", trained=str(folder)), skb, Settings())


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
            found = list(made(asked(given.questions / f"{folder.stem}.jsonl"), skb, matcher))
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
