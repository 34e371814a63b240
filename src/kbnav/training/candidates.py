"""The candidates of questions, kept while something that ranks them again is trained, and how well it ranks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.evaluation.metrics.ranking import STARK_METRICS, ranking_scores, ranks_in_lists
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
    """STaRK's metrics over questions, by the scores of their candidates; an answer that is none was not found.

    An answer comes after every other candidate of equal score, so that scoring all alike gains nothing.
    """
    ranked = []
    for one, given in zip(lists, scores, strict=True):
        order = sorted(zip(-np.asarray(given), one.right, one.nodes, strict=True))
        ranked.append([str(node) for _, _, node in order])
    answers = [[str(node) for node in one.example.answers] for one in lists]
    return ranking_scores(ranks_in_lists(ranked, answers), STARK_METRICS).means()
