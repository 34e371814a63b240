"""The candidates of questions, kept while something that ranks them again is trained, and how well it ranks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.evaluation.metrics.ranking import STARK_METRICS, ranking_scores, ranks_in_scores
from kbnav.retrieval.cross_model import Features, Scores
from kbnav.training.data import Example


@dataclass(frozen=True, eq=False)
class Listed:
    """The candidates of a question, with the features [c, f] of where they came from."""

    example: Example
    nodes: tuple[int, ...]
    features: Features

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        """Which of them [c] answer it."""
        return np.isin(self.nodes, self.example.answers)


def read_lists(plain: Sequence[Mapping[str, Any]], examples: Sequence[Example]) -> list[Listed]:
    """Candidates from plain data, ``nodes`` and ``features`` of each question."""
    width = max((len(row) for kept in plain for row in kept["features"][:1]), default=0)
    return [
        Listed(one, tuple(kept["nodes"]), np.array(kept["features"], np.float32).reshape(len(kept["nodes"]), width))
        for kept, one in zip(plain, examples, strict=True)
    ]


def means(lists: Sequence[Listed], scores: Sequence[Scores]) -> dict[str, float]:
    """STaRK's metrics over questions, by the scores of their candidates; an answer that is none was not found."""
    width = max(len(one.nodes) for one in lists)
    most = max(len(one.example.answers) for one in lists)
    table = np.full((len(lists), width + most), -np.inf)
    answers = []
    for row, (one, given) in enumerate(zip(lists, scores, strict=True)):
        table[row, : len(given)] = given
        places = np.flatnonzero(one.right).tolist()
        missed = len(one.example.answers) - len(places)
        answers.append({*places, *range(width, width + missed)})
    return ranking_scores(ranks_in_scores(table, answers), STARK_METRICS).means()
