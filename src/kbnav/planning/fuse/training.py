"""Learning what ``plan-fuse`` knows: the planner of clauses, which words tell, and the weights of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

import numpy as np

from kbnav.encoders import Encoder
from kbnav.errors import UsageError
from kbnav.knowledge.skb.names import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import PlannedPath
from kbnav.planning.expansion import reached
from kbnav.planning.fuse.clauses import Clause, clauses, unnamed
from kbnav.planning.fuse.evidence import Gatherer, start
from kbnav.planning.fuse.reading import Reader
from kbnav.planning.fuse.telling import Telling
from kbnav.planning.fuse.weighing import Candidates, Weights, fit
from kbnav.planning.ranker import Ranker
from kbnav.planning.schema import TEXT_PATH, PathSchema, RelationPath
from kbnav.planning.scorer import Mask
from kbnav.planning.training import MOST_ANSWERS, Asked, Example, path_label, possible

MOST_DOCUMENTS = 5
"""Answers' documents of one question that its words are looked for in."""

Progress = Callable[[str, int, int], None]
Judged = tuple[Candidates, Mask]


@dataclass(frozen=True)
class Trained:
    """What was learned; ``before`` and ``after`` are scores on the validation questions, by the weights of each."""

    planner: Ranker
    telling: Telling
    weights: Weights
    before: dict[str, float]
    after: dict[str, float]
    readers: Sequence[Reader] = ()


def train(
    skb: SKB,
    encoder: Encoder,
    learned: Sequence[Sequence[Asked]],
    judged: Sequence[Sequence[Asked]],
    progress: Progress = lambda stage, done, total: None,  # noqa: ARG005
    *,
    readers: Sequence[Reader] = (),
) -> Trained:
    """Learn from sets of questions, and choose the weights on sets of others, those of what ``readers`` say among them.

    Where there are several sets of each, as many, those of one place are worded alike; then each validation question
    is ranked twice: by the planner that learned from all sets, and by one that has not met its wording. So the weights
    know how far a plan can be trusted when the words are new. Raises UsageError where no question names a node.
    """
    examples = [list(_examples(skb, questions)) for questions in learned]
    planner = Ranker.train(skb, encoder, list(chain(*examples)))
    apart = []
    if len(examples) == len(judged) > 1:
        for place in range(len(examples)):
            others = chain(*examples[:place], *examples[place + 1 :])
            apart.append(Ranker.train(skb, encoder, list(others)))
    telling = Telling.learn(_told(skb, question) for questions in learned for question in questions)
    total = sum(map(len, judged)) * (2 if apart else 1)
    known: list[Judged] = []
    for place, questions in enumerate(judged):
        for one in [planner, *apart[place : place + 1]]:
            gatherer = Gatherer(skb, one, telling, readers=readers)
            for question in questions:
                known.append(_judged(skb, gatherer, question))
                progress("weights", len(known), total)
    first = start(readers)
    weights = fit(known, first)
    return Trained(planner, telling, weights, _scores(known, first), _scores(known, weights), readers)


def _examples(skb: SKB, questions: Sequence[Asked]) -> Iterator[Example]:
    """The clauses of questions, with the paths that lead from their names to the answers."""
    schema, matcher = PathSchema.of(skb), NodeMatcher(skb, "exact")
    for question in questions:
        answers = _answers(skb, question)
        for clause in clauses(question.text, matcher, skb) if answers else ():
            ids = tuple(map(skb.id, clause.nodes))
            label = _label(skb, schema, question, clause, answers)
            yield Example(clause.text, ids, frozenset(map(skb.type_name, clause.nodes)), label)


def _label(
    skb: SKB, schema: PathSchema, question: Asked, clause: Clause, answers: Sequence[int]
) -> dict[RelationPath, float]:
    """The paths from a name to the answers: of those the question was made from, where it says so; ``text`` without."""
    if not question.paths:
        return path_label(skb, schema, clause.nodes, answers) or {TEXT_PATH: 1.0}
    ids = list(map(skb.id, clause.nodes))
    leading = [
        path
        for gold in question.paths
        for path in possible(gold, schema)
        if np.isin(answers, reached(skb, PlannedPath(path.hops, 1.0, path.start, path.types), ids)).any()
    ]
    return {path: 1 / len(leading) for path in leading} or {TEXT_PATH: 1.0}


def _answers(skb: SKB, question: Asked) -> list[int]:
    found = (skb.nodes.ids.find(answer) for answer in question.answers)
    return [number for number in found if number >= 0][:MOST_ANSWERS]


def _told(skb: SKB, question: Asked) -> tuple[set[str], list[set[str]]]:
    """The words of a question beside its names, and those of its answers' documents."""
    if skb.text is None:
        raise UsageError(f"{skb.meta.name} was built without an index of texts, which plan-fuse needs")
    rest = unnamed(question.text, clauses(question.text, NodeMatcher(skb, "exact"), skb))
    documents = [f"{skb.nodes.names[node]} {skb.nodes.text(node)}" for node in _answers(skb, question)[:MOST_DOCUMENTS]]
    return set(skb.text.words(rest)), [set(skb.text.words(document)) for document in documents]


def _judged(skb: SKB, gatherer: Gatherer, question: Asked) -> Judged:
    found = gatherer.gather(question.text, gatherer.plans(question.text))
    return found, np.isin(found.nodes, _answers(skb, question))


def _scores(judged: Sequence[Judged], weights: Weights) -> dict[str, float]:
    """Hit@1 and MRR; 0 where no candidate is an answer."""
    ranks = []
    for found, right in judged:
        scores = weights.scores(found)
        ranks.append(1 + int((scores > scores[right].max()).sum()) if right.any() else 0)
    return {
        "hit@1": round(fmean(rank == 1 for rank in ranks), 4) if ranks else 0.0,
        "mrr": round(fmean(1 / rank if rank else 0.0 for rank in ranks), 4) if ranks else 0.0,
    }
