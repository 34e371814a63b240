"""Other published metrics of answers, under their own names: GERBIL's macro F1 for QALD, and GRASP's F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable
from kbnav.evaluation.metrics.rows import Answer, bindings, cell_key, match_rows


@dataclass(frozen=True)
class QaldMacro:
    """Means over questions, as GERBIL reports them.

    ``f1`` is the mean of the questions' F1. ``qald_f1`` is the harmonic mean of ``qald_precision`` and ``recall``,
    where ``qald_precision`` counts a question that was left unanswered as precision 1.
    """

    precision: float
    recall: float
    f1: float
    qald_precision: float
    qald_f1: float


def qald_macro(pairs: Iterable[tuple[Answer, Answer]]) -> QaldMacro:
    """GERBIL's macro scores of (predicted, gold) pairs; all 0 without any.

    Answers are sets of values, without order, columns or types; a boolean is the value ``true`` or ``false``, and no
    prediction is an empty set. Where both sets are empty all three scores are 1; where one is empty they are 0, but for
    ``qald_precision``, which is 1 where only the prediction is.
    """
    scores = [_set_scores(_values(predicted), _values(gold)) for predicted, gold in pairs]
    if not scores:
        return QaldMacro(0.0, 0.0, 0.0, 0.0, 0.0)
    precision, recall, f1, qald_precision = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return QaldMacro(precision, recall, f1, qald_precision, _harmonic(qald_precision, recall))


def _set_scores(predicted: frozenset[str], gold: frozenset[str]) -> tuple[float, float, float, float]:
    if not predicted and not gold:
        return 1.0, 1.0, 1.0, 1.0
    common = len(predicted & gold)
    precision = common / len(predicted) if predicted else 0.0
    recall = common / len(gold) if gold else 0.0
    return precision, recall, _harmonic(precision, recall), precision if predicted else 1.0


def _values(answer: Answer) -> frozenset[str]:
    boolean = answer.boolean if isinstance(answer, AnswerTable) else answer
    if isinstance(boolean, bool):
        return frozenset(["true" if boolean else "false"])
    return frozenset(cell["value"] for row in bindings(answer) for cell in row.values())


def _harmonic(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0


def grasp_f1(predicted: Answer, gold: Answer, *, exact_above: int = 1024) -> float:
    """F1 as GRASP computes it: row-major up to ``exact_above`` rows on both sides, whole equal rows above.

    It differs from ``row_major`` in more than that switch: label columns count; a pair without recall is a false
    negative but no false positive; a table predicted for a boolean is read as true where it has rows. Above the switch
    rows are equal where they have the same cells in the same order of columns.
    """
    gold_boolean = _truth(gold)
    if isinstance(gold_boolean, bool):
        return float(predicted is not None and (_truth(predicted) or bool(bindings(predicted))) == gold_boolean)
    if predicted is None or _truth(predicted) is not None:
        return 0.0
    predicted_rows, gold_rows = bindings(predicted), bindings(gold)
    if not predicted_rows or not gold_rows:
        return float(not predicted_rows and not gold_rows)
    size, gold_size = len(predicted_rows), len(gold_rows)
    if max(size, gold_size) <= exact_above:
        tp = match_rows(predicted_rows, gold_rows).recall
        return 2 * tp / (tp + gold_size + max(0, size - gold_size))
    rows, gold_counts = (Counter(tuple(map(cell_key, row.values())) for row in r) for r in (predicted_rows, gold_rows))
    return 2 * (rows & gold_counts).total() / (size + gold_size)


def _truth(answer: Answer) -> bool | None:
    boolean = answer.boolean if isinstance(answer, AnswerTable) else answer
    return boolean if isinstance(boolean, bool) else None
