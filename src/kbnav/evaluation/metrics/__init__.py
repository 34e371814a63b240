"""Metrics of answer tables and of rankings."""

from kbnav.evaluation.metrics.ranking import (
    SET_METRIC,
    STARK_METRICS,
    AnswerRanks,
    RankingScores,
    ranking_scores,
    ranks_in_lists,
    set_f1,
)
from kbnav.evaluation.metrics.tables import (
    Answer,
    RowMajor,
    Text2Sparql,
    row_major,
    text2sparql_scores,
)

__all__ = [
    "SET_METRIC",
    "STARK_METRICS",
    "Answer",
    "AnswerRanks",
    "RankingScores",
    "RowMajor",
    "Text2Sparql",
    "ranking_scores",
    "ranks_in_lists",
    "row_major",
    "set_f1",
    "text2sparql_scores",
]
