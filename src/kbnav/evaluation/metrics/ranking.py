"""Metrics of rankings: hit@k, recall@k, nDCG@k, MRR and MAP, from the ranks at which the answers came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import log2
from operator import mul
from statistics import fmean
from typing import NamedTuple

from kbnav.errors import UsageError

STARK_METRICS = ("hit@1", "hit@5", "recall@20", "mrr")
SET_METRIC = "f1"
"""Of the nodes that a system names as the answer, whatever their order; only agents name any."""
TRAIL_METRIC = "trail@20"
"""Share of the answers among the first 20 nodes when those that an agent only saw on the way follow its answer."""


def set_f1(chosen: Collection[str], answers: Collection[str]) -> float:
    """F1 of a set of nodes, 0 where none was chosen; its mean is PASemiQA's macro F1 (appendix C)."""
    found = len(set(chosen) & set(answers))
    return 2 * found / (len(set(chosen)) + len(set(answers))) if found else 0.0


class AnswerRanks(NamedTuple):
    """The grades of a question's answers by their rising ranks, from 1, and those of all answers, the highest first."""

    ranks: Mapping[int, float]
    best: Sequence[float]


def ranks_in_lists(
    lists: Sequence[Sequence[str]],
    answers: Sequence[Collection[str] | Mapping[str, float]],
    candidates: Sequence[str] = (),
) -> list[AnswerRanks]:
    """Ranks of answers in lists of node ids, best first; a node that is listed again keeps its first place.

    An answer that is not listed has no rank; its grade is 1 where ``answers`` does not map it to another. With
    ``candidates`` it is as in STaRK's published evaluation: nodes that are none of them are taken out of the lists,
    candidates that are not listed follow in their own order, and answers that are no candidates are dropped. Raises
    UsageError.
    """
    if len(lists) != len(answers):
        raise UsageError(f"{len(lists)} rankings for the answers of {len(answers)} questions")
    places = {node: place for place, node in enumerate(candidates)}
    found = []
    for number, (nodes, wanted) in enumerate(zip(lists, answers, strict=True), 1):
        if not wanted:
            raise UsageError(f"question {number} has no answers to rank")
        grades = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted, 1)
        kept = [node for node in grades if node in places] if places else [*grades]
        listed = [node for node in dict.fromkeys(nodes) if not places or node in places]
        position = {node: rank for rank, node in enumerate(listed, 1)}
        own = {position[node]: grades[node] for node in kept if node in position}
        if places:
            taken = [places[node] for node in listed]
            behind = {places[node]: grades[node] for node in kept if node not in position}
            own |= {1 + len(listed) + at - sum(one < at for one in taken): grade for at, grade in behind.items()}
        best = sorted((grades[node] for node in kept), reverse=True)
        found.append(AnswerRanks(dict(sorted(own.items())), best))
    return found


def ranking_scores(ranks: Sequence[AnswerRanks], metrics: Sequence[str] = STARK_METRICS) -> dict[str, list[float]]:
    """Each question's ``hit@k``, ``recall@k``, ``ndcg@k`` (of the answers' grades), ``mrr`` and ``map``, by metric.

    recall@k and map are relative to all answers the question is scored on. A question that is left without
    answers (with candidates only) scores 0. Raises UsageError for a metric of another name.
    """
    return {name: _metric(ranks, name) for name in metrics}


def mean_scores(ranks: Sequence[AnswerRanks], metrics: Sequence[str] = STARK_METRICS) -> dict[str, float]:
    """The means of ``ranking_scores`` over the questions."""
    return {name: fmean(values) for name, values in ranking_scores(ranks, metrics).items()}


def _metric(ranks: Sequence[AnswerRanks], name: str) -> list[float]:
    if name == "mrr":
        return [1 / min(own) if own else 0.0 for own, _ in ranks]
    if name == "map":
        return [sum(at / rank for at, rank in enumerate(own, 1)) / max(len(best), 1) for own, best in ranks]
    kind, _, digits = name.partition("@")
    k = int(digits) if digits.isdecimal() else 0
    if kind not in ("hit", "recall", "ndcg") or k < 1:
        raise UsageError(f"no metric {name!r}; known: hit@k, recall@k, ndcg@k, mrr, map")
    if kind == "ndcg":
        gain = [1 / log2(rank + 1) for rank in range(1, k + 1)]
        return [
            sum(gain[rank - 1] * grade for rank, grade in own.items() if rank <= k) / (sum(map(mul, gain, best)) or 1)
            for own, best in ranks
        ]
    found = [sum(rank <= k for rank in own) for own, _ in ranks]
    if kind == "hit":
        return [float(one > 0) for one in found]
    return [one / max(len(best), 1) for one, (_, best) in zip(found, ranks, strict=True)]
