"""The scores of the TEXT2SPARQL challenge, as its client works them out (text2sparql-client, 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable
from kbnav.evaluation.metrics.rows import Answer, bindings


@dataclass(frozen=True)
class Text2Sparql:
    """Means over the questions whose gold answer is not empty.

    ``f1_ndcg`` takes the nDCG in place of F1 for the questions whose order counts, ``ndcg`` is its mean over these.
    """

    precision: float
    recall: float
    f1: float
    ndcg: float
    f1_ndcg: float


def text2sparql_scores(answers: Iterable[tuple[Answer, Answer, bool]]) -> Text2Sparql:
    """The challenge's scores of (predicted, gold, whether the order counts); all 0 without any.

    Answers are sets of values over all columns, as text: without rows, types and languages. A gold ``true`` is found by
    any boolean, and to a gold ``false`` nothing is right: the client has no relevant value then. Questions whose gold
    answer has no rows do not count. nDCG is of the values as trec_eval orders equals, from the last by the alphabet to
    the first: the client gives all of them the same weight.
    """
    scores = [
        (*_set_scores(_values(predicted), _relevant(gold)), ordered)
        for predicted, gold, ordered in answers
        if _values(gold)
    ]
    if not scores:
        return Text2Sparql(0.0, 0.0, 0.0, 0.0, 0.0)
    precision, recall, f1 = (sum(score[place] for score in scores) / len(scores) for place in range(3))
    sorted_only = [ndcg for *_, ndcg, ordered in scores if ordered]
    mixed = [ndcg if ordered else own for _, _, own, ndcg, ordered in scores]
    ndcg = sum(sorted_only) / len(sorted_only) if sorted_only else 0.0
    return Text2Sparql(precision, recall, f1, ndcg, sum(mixed) / len(mixed))


def _set_scores(predicted: frozenset[str], relevant: frozenset[str]) -> tuple[float, float, float, float]:
    """Precision, recall, F1 and nDCG."""
    common = len(predicted & relevant)
    if not common:
        return 0.0, 0.0, 0.0, 0.0
    precision, recall = common / len(predicted), common / len(relevant)
    gains = (1 / math.log2(rank + 1) for rank, one in enumerate(sorted(predicted, reverse=True), 1) if one in relevant)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, len(relevant) + 1))
    return precision, recall, 2 * precision * recall / (precision + recall), sum(gains) / ideal


def _boolean(answer: Answer) -> bool | None:
    found = answer.boolean if isinstance(answer, AnswerTable) else answer
    return found if isinstance(found, bool) else None


def _values(answer: Answer) -> frozenset[str]:
    if _boolean(answer) is not None:
        return frozenset(["true"])
    return frozenset(cell["value"] for row in bindings(answer) for cell in row.values())


def _relevant(gold: Answer) -> frozenset[str]:
    return frozenset() if _boolean(gold) is False else _values(gold)
