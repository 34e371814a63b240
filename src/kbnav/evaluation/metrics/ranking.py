"""Metrics of rankings: hit@k, recall@k, MRR, nDCG@k and MAP, from the ranks at which the answers came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kbnav.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Mode = Literal["standard", "stark-compat"]
"""``stark-compat`` follows STaRK's published evaluation where that differs; the functions below say how."""

STARK_METRICS = ("hit@1", "hit@5", "recall@20", "mrr")


SET_METRIC = "f1"
"""Of the nodes that a system names as the answer, whatever their order; only agents name any."""


def set_f1(chosen: Collection[str], answers: Collection[str]) -> float:
    """The harmonic mean of precision and recall of a set of nodes.

    Its mean over questions is the macro F1 of PASemiQA (appendix C). 0 where nothing was chosen.
    """
    found = len(set(chosen) & set(answers))
    return 2 * found / (len(set(chosen)) + len(set(answers))) if found else 0.0


@dataclass(frozen=True)
class AnswerRanks:
    """Where the answers of each question came.

    ``question`` [n] and ``rank`` [n] give each answer that was ranked, by question and then by rank, counted from 1.
    ``answers`` [q] is the number of answers that a question is scored on, and ``outside`` [q] how many of its answers
    are not among the candidates.
    """

    question: NDArray[np.int64]
    rank: NDArray[np.int64]
    answers: NDArray[np.int64]
    outside: NDArray[np.int64]


@dataclass(frozen=True)
class RankingScores:
    """Scores of each question, [q] for each metric; ``outside`` counts the answers that no system could have found."""

    values: Mapping[str, NDArray[np.float64]]
    outside: int

    def means(self) -> dict[str, float]:
        """The mean of each metric over all questions."""
        return {name: float(values.mean()) for name, values in self.values.items()}


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
    _check_answers(lists, answers)
    places = None if candidates is None else {node: place for place, node in enumerate(candidates)}
    if places is None and mode == "stark-compat":
        raise UsageError("stark-compat ranks every candidate: give the candidates")
    ranks, outside = [], []
    for nodes, wanted in zip(lists, answers, strict=True):
        wanted = set(wanted)
        outside.append(0 if places is None else sum(node not in places for node in wanted))
        if places is None or mode == "standard":
            position = {node: number for number, node in enumerate(dict.fromkeys(nodes), 1)}
            ranks.append([position[node] for node in wanted if node in position])
        else:
            ranks.append(_completed_ranks(nodes, wanted, places))
    return _collect(ranks, [len(set(wanted)) for wanted in answers], outside, mode)


def _completed_ranks(nodes: Sequence[str], wanted: set[str], places: Mapping[str, int]) -> list[int]:
    listed = [node for node in dict.fromkeys(nodes) if node in places]
    position = {node: number for number, node in enumerate(listed, 1)}
    taken = [places[node] for node in listed]
    return [
        position.get(node) or 1 + len(listed) + places[node] - sum(place < places[node] for place in taken)
        for node in wanted
        if node in places
    ]


def ranks_in_scores(
    scores: NDArray[np.floating[Any]], answers: Sequence[Collection[int]], *, mode: Mode = "standard"
) -> AnswerRanks:
    """Ranks of the answers by the scores of all candidates, [q, c]; ``answers`` are columns, others are outside.

    Higher is better, whatever the sign. NaN and minus infinity stand for candidates that a system did not list: such
    an answer has no rank. An answer comes after every other candidate of equal score, so that scoring all alike gains
    nothing. In ``stark-compat`` equal scores rank in the order of the columns, candidates that were not listed come
    last in that order, and answers outside are dropped. Raises UsageError.
    """
    import numpy as np

    _check_answers(scores, answers)
    ranks, outside = [], []
    for row, wanted in zip(scores, answers, strict=True):
        columns = np.array(sorted({column for column in wanted if 0 <= column < len(row)}), dtype=np.int64)
        outside.append(len(set(wanted)) - len(columns))
        ranks.append(_in_column_order(row, columns) if mode == "stark-compat" else _after_equals(row, columns))
    return _collect(ranks, [len(set(wanted)) for wanted in answers], outside, mode)


def _after_equals(row: NDArray[np.floating[Any]], columns: NDArray[np.int64]) -> list[int]:
    import numpy as np

    own = np.sort(row[columns])[::-1]
    own = own[own > -np.inf]
    return [
        number + int(np.count_nonzero(row >= score)) - int(np.count_nonzero(own >= score))
        for number, score in enumerate(own, 1)
    ]


def _in_column_order(row: NDArray[np.floating[Any]], columns: NDArray[np.int64]) -> list[int]:
    import numpy as np

    row = np.where(np.isnan(row), -np.inf, row)
    return [
        1 + int(np.count_nonzero(row > row[column])) + int(np.count_nonzero(row[:column] == row[column]))
        for column in columns
    ]


def _check_answers(questions: Sequence[Any] | NDArray[Any], answers: Sequence[Collection[Any]]) -> None:
    if len(questions) != len(answers):
        raise UsageError(f"{len(questions)} rankings for the answers of {len(answers)} questions")
    for number, wanted in enumerate(answers, 1):
        if not wanted:
            raise UsageError(f"question {number} has no answers to rank")


def _collect(ranks: Sequence[Sequence[int]], wanted: Sequence[int], outside: Sequence[int], mode: Mode) -> AnswerRanks:
    import numpy as np

    missing = np.array(outside, dtype=np.int64)
    counted = np.array(wanted, dtype=np.int64) - (missing if mode == "stark-compat" else 0)
    flat = np.array([rank for of_question in ranks for rank in sorted(of_question)], dtype=np.int64)
    return AnswerRanks(np.repeat(np.arange(len(ranks)), [len(r) for r in ranks]), flat, counted, missing)


def ranking_scores(ranks: AnswerRanks, metrics: Sequence[str] = STARK_METRICS) -> RankingScores:
    """Score every question by ``hit@k``, ``recall@k``, ``ndcg@k``, ``mrr`` and ``map``.

    recall@k, nDCG@k and MAP are relative to all answers the question is scored on; nDCG has gain 1 for an answer and
    the best possible order of at most k answers as its ideal. A question that is left without answers (possible in
    ``stark-compat`` only) scores 0. Raises UsageError for a metric of another name.
    """
    return RankingScores({name: _metric(ranks, name) for name in metrics}, int(ranks.outside.sum()))


def _metric(ranks: AnswerRanks, name: str) -> NDArray[np.float64]:
    import numpy as np

    questions = len(ranks.answers)
    total = np.maximum(ranks.answers, 1)

    def summed(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(ranks.question, weights=values, minlength=questions).astype(np.float64)

    starts = np.searchsorted(ranks.question, np.arange(questions))
    number = np.arange(len(ranks.rank)) - starts[ranks.question] + 1
    kind, _, digits = name.partition("@")
    k = int(digits) if digits.isdecimal() else 0
    if name == "mrr":
        return summed((number == 1) / ranks.rank)
    if name == "map":
        return summed(number / ranks.rank) / total
    if kind not in ("hit", "recall", "ndcg") or k < 1:
        raise UsageError(f"no metric {name!r}; known: hit@k, recall@k, ndcg@k, mrr, map")
    within = ranks.rank <= k
    if kind == "hit":
        return (summed(within) > 0).astype(float)
    if kind == "recall":
        return summed(within) / total
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    gain: NDArray[np.float64] = summed(within / np.log2(ranks.rank + 1)) / ideal[np.minimum(total, k) - 1]
    return gain
