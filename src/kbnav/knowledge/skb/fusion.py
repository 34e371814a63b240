"""Putting several rankings together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

Id = TypeVar("Id", bound=Hashable)

RANK_CONSTANT = 60
"""How slowly the weight of a place falls; the value of the method's authors."""


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Id]],
    *,
    weights: Sequence[float] | None = None,
    limit: int | None = None,
    constant: int = RANK_CONSTANT,
) -> list[tuple[Id, float]]:
    """Sum ``weight / (constant + rank)`` over rankings, ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).

    Weights are 1 unless given; rankings of very different quality need them, or the worse spoils the better. Each
    ranking lists ids, best first. Returns ids with their sums, best first; equal sums keep the order in which the ids
    were first seen, the first ranking's first.
    """
    sums: defaultdict[Id, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, item in enumerate(ranking, start=1):
            sums[item] += weight / (constant + rank)
    ordered = sorted(sums.items(), key=lambda pair: -pair[1])
    return ordered if limit is None else ordered[:limit]


def relative_score_fusion(
    rankings: Sequence[Sequence[tuple[Id, float]]],
    *,
    weights: Sequence[float],
    depth: int,
    limit: int | None = None,
) -> list[tuple[Id, float]]:
    """Sum the scores of rankings, each scaled so that its best counts its weight; the sum of the weights gives 1.

    Each ranking lists ids with scores, best first; scores of 0 and less count nothing. ``depth`` is how many were asked
    for: the last of a ranking so long counts 0, for what it cut off is about as good. How far ahead the first few are
    is kept, which ranks alone forget. Returns ids with scores from 0 to 1, best first; equal ones as they came.
    """
    sums: defaultdict[Id, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights, strict=True):
        scored = [(item, score) for item, score in ranking if score > 0]
        floor = scored[-1][1] if len(scored) >= depth else 0.0
        reach = scored[0][1] - floor if scored else 0.0
        for item, score in scored:
            sums[item] += weight * ((score - floor) / reach if reach else 1.0) / sum(weights)
    ordered = sorted(sums.items(), key=lambda pair: -pair[1])
    return ordered if limit is None else ordered[:limit]
