"""Metrics of rankings: hit@k, recall@k, nDCG@k, MRR and MAP, from the ranks at which the answers came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean
from typing import Literal

from kbnav.errors import UsageError

Mode = Literal["standard", "stark-compat"]
"""``stark-compat`` follows STaRK's published evaluation where that differs, see ``ranks_in_lists``."""
STARK_METRICS = ("hit@1", "hit@5", "recall@20", "mrr")
SET_METRIC = "f1"
"""Of the nodes that a system names as the answer, whatever their order; only agents name any."""
TRAIL_METRIC = "trail@20"
"""Share of the answers among the first 20 nodes when those that an agent only saw on the way follow its answer."""


def set_f1(chosen: Collection[str], answers: Collection[str]) -> float:
    """F1 of a set of nodes, 0 where none was chosen; its mean is PASemiQA's macro F1 (appendix C)."""
    found = len(set(chosen) & set(answers))
    return 2 * found / (len(set(chosen)) + len(set(answers))) if found else 0.0


@dataclass(frozen=True)
class AnswerRanks:
    """Rising ranks, from 1, of each question's answers; ``answers``: how many count, ``outside``: no candidates."""

    ranks: Sequence[Sequence[int]]
    answers: Sequence[int]
    outside: Sequence[int]


@dataclass(frozen=True)
class RankingScores:
    """Scores of each question, by metric; ``outside`` counts the answers that no system could have found."""

    values: Mapping[str, Sequence[float]]
    outside: int

    def means(self) -> dict[str, float]:
        """The mean of each metric over all questions."""
        return {name: fmean(values) for name, values in self.values.items()}


def ranks_in_lists(
    lists: Sequence[Sequence[str]],
    answers: Sequence[Collection[str]],
    candidates: Sequence[str] | None = None,
    *,
    mode: Mode = "standard",
) -> AnswerRanks:
    """Ranks of the answers in lists of node ids, best first; a node that is listed again keeps its first place.

    An answer that is not listed has no rank. Answers that are not among the candidates count as missed.
    In ``stark-compat`` the candidates are needed: nodes that are none of them are taken out of the lists, the
    candidates that are not listed follow in their own order, and answers that are no candidates are dropped.
    Raises UsageError.
    """
    if len(lists) != len(answers):
        raise UsageError(f"{len(lists)} rankings for the answers of {len(answers)} questions")
    places = None if candidates is None else {node: place for place, node in enumerate(candidates)}
    if places is None and mode == "stark-compat":
        raise UsageError("stark-compat ranks every candidate: give the candidates")
    ranks, counted, outside = [], [], []
    for number, (nodes, wanted) in enumerate(zip(lists, map(set, answers), strict=True), 1):
        if not wanted:
            raise UsageError(f"question {number} has no answers to rank")
        outside.append(0 if places is None else sum(node not in places for node in wanted))
        if places is None or mode == "standard":
            position = {node: rank for rank, node in enumerate(dict.fromkeys(nodes), 1)}
            ranks.append(sorted(position[node] for node in wanted if node in position))
            counted.append(len(wanted))
        else:
            ranks.append(sorted(_completed_ranks(nodes, wanted, places)))
            counted.append(len(wanted) - outside[-1])
    return AnswerRanks(ranks, counted, outside)


def _completed_ranks(nodes: Sequence[str], wanted: set[str], places: Mapping[str, int]) -> list[int]:
    listed = [node for node in dict.fromkeys(nodes) if node in places]
    position = {node: rank for rank, node in enumerate(listed, 1)}
    taken = [places[node] for node in listed]
    return [
        position.get(node) or 1 + len(listed) + places[node] - sum(place < places[node] for place in taken)
        for node in wanted
        if node in places
    ]


def ranking_scores(ranks: AnswerRanks, metrics: Sequence[str] = STARK_METRICS) -> RankingScores:
    """Score every question by ``hit@k``, ``recall@k``, ``ndcg@k`` (answers are all worth 1), ``mrr`` and ``map``.

    recall@k and map are relative to all answers the question is scored on. A question that is left without
    answers (possible in ``stark-compat`` only) scores 0. Raises UsageError for a metric of another name.
    """
    return RankingScores({name: _metric(ranks, name) for name in metrics}, sum(ranks.outside))


def _metric(ranks: AnswerRanks, name: str) -> list[float]:
    if name == "mrr":
        return [1 / own[0] if own else 0.0 for own in ranks.ranks]
    pairs = list(zip(ranks.ranks, ranks.answers, strict=True))
    if name == "map":
        return [sum(place / rank for place, rank in enumerate(own, 1)) / max(total, 1) for own, total in pairs]
    kind, _, digits = name.partition("@")
    k = int(digits) if digits.isdecimal() else 0
    if kind not in ("hit", "recall", "ndcg") or k < 1:
        raise UsageError(f"no metric {name!r}; known: hit@k, recall@k, ndcg@k, mrr, map")
    if kind == "ndcg":
        gain = [1 / log2(rank + 1) for rank in range(1, k + 1)]
        return [sum(gain[rank - 1] for rank in own if rank <= k) / (sum(gain[:total]) or 1) for own, total in pairs]
    found = [sum(rank <= k for rank in own) for own in ranks.ranks]
    if kind == "hit":
        return [float(one > 0) for one in found]
    return [one / max(total, 1) for one, (_, total) in zip(found, pairs, strict=True)]
