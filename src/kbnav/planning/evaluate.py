"""How often a planner's first path is right, beside that of always saying what is right most often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kbnav.planning.paths import Hop, Planner
from kbnav.planning.training import Example

FIRST = 3
"""Paths of a plan that its recall is taken of."""
Hops = tuple[Hop, ...]


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
    ``text_only`` are the planner's scores on the questions for which only ``text`` is right, ``with_relations`` those
    on the others.
    """

    planner: PlanScores
    most_frequent: PlanScores
    text_only: PlanScores
    with_relations: PlanScores


def judge(planner: Planner, examples: Sequence[Example]) -> Judged:
    """Ask for a plan of every example, and compare its paths, without their types, with those of the label."""
    plans = [list(dict.fromkeys(path.hops for path in planner.plan(one.question, one.nodes).paths)) for one in examples]
    apart: dict[bool, list[tuple[list[Hops], Example]]] = {True: [], False: []}
    for plan, one in zip(plans, examples, strict=True):
        apart[one.text_only].append((plan, one))
    text, relations = (_scores([plan for plan, _ in apart[by]], [one for _, one in apart[by]]) for by in (True, False))
    return Judged(_scores(plans, examples), _scores(list(_most_frequent(examples)), examples), text, relations)


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
    for gold in example.golds:
        for path in gold:
            found.setdefault(path.hops, gold[0].hops)
    return found


def _most_frequent(examples: Sequence[Example]) -> Iterator[list[Hops]]:
    """For each example, the paths that are right most often, of those that begin at a type it matched."""
    shares: defaultdict[str, defaultdict[Hops, float]] = defaultdict(lambda: defaultdict(float))
    for one in examples:
        for gold in one.golds:
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
