"""The weights of the evidence for a node, which depend on how sure the plan is: learned by a softmax over candidates.

A node's score is ``Σ (a_i + b_i c) x_i`` over its evidence ``x``, with ``c`` the plan's confidence less a half. The
weights are those under which the answers of the validation questions are likeliest (the negative logarithm of the
answers' share in a softmax over each question's candidates, as in ListNet, Cao et al., 2007), held near weights that
were set by hand: a few dozen questions are enough for so few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Floats = npt.NDArray[np.float64]

_PULL = 0.01
"""How strongly weights are held near those they begin with."""


class Candidates(NamedTuple):
    """The nodes of a question, by number, with their evidence [nodes, kinds], and the confidence of its plan."""

    nodes: npt.NDArray[np.int64]
    evidence: Floats
    confidence: float


@dataclass(frozen=True)
class Weights:
    """``plain`` and ``sure``, [kinds] each: a and b of the module's formula."""

    plain: tuple[float, ...]
    sure: tuple[float, ...]

    def scores(self, found: Candidates) -> Floats:
        """One a node, shape [nodes]."""
        return np.asarray(_design(found) @ np.array([*self.plain, *self.sure]))


def fit(questions: Sequence[tuple[Candidates, npt.NDArray[np.bool_]]], start: Weights) -> Weights:
    """The weights under which the answers, which are marked among the candidates, are likeliest.

    A question of which no candidate is an answer teaches nothing and is passed over; without any other, ``start`` is
    given.
    """
    told = [(_design(found), right) for found, right in questions if right.any()]
    first = np.array([*start.plain, *start.sure])
    if not told:
        return start

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, gradient = 0.0, np.zeros_like(weights)
        for design, right in told:
            scores = design @ weights
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            answers = shares[right].sum() + 1e-12
            total -= np.log(answers)
            gradient += design.T @ shares - design[right].T @ (shares[right] / answers)
        away = weights - first
        return total / len(told) + _PULL * (away @ away) / 2, gradient / len(told) + _PULL * away

    found = minimize(loss, first, jac=True, method="L-BFGS-B").x
    half = len(found) // 2
    return Weights(tuple(map(float, found[:half])), tuple(map(float, found[half:])))


def _design(found: Candidates) -> Floats:
    return np.hstack([found.evidence, found.evidence * (found.confidence - 0.5)])
