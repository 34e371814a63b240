"""How much each system of the first stage counts: chosen on questions, for the worse ones outvote the best.

Fused with equal weights, an untrained planner's paths and vectors by ``lsa`` put what two of them find by chance before
what ``bm25`` finds first, and push answers that it alone has beyond the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kbnav.errors import DataError
from kbnav.evaluation.metrics.ranking import ranking_scores, ranks_in_lists
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.programs.candidates import FirstStage, oracle_recall
from kbnav.programs.trials import KEPT, TrainingQuery
from kbnav.runs.journal import write_whole

FILE = "first-stage.json"
WEIGHTS = (1.0, 0.5, 0.25, 0.125, 0.0)
"""What a system may count, the best of them 1. One of weight 0 still fills up what the others leave empty."""
QUESTIONS = 200
"""Of each split, from the first on."""


class Weighting(BaseModel):
    """``first-stage.json``: the weights of the systems, and what the fusion scores on the validation questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: tuple[str, ...]
    weights: tuple[float, ...]
    mrr: float
    best_member: float
    """The MRR of the best of its systems by itself."""
    equal: float
    """The MRR with equal weights."""


@dataclass(frozen=True)
class Rankings:
    """What each system of a first stage finds for some questions, and the questions' answers."""

    found: Sequence[Sequence[Sequence[str]]]
    """By question, then by system: ids, best first."""
    answers: Sequence[Sequence[str]]
    size: int
    """Candidates that are kept."""

    @classmethod
    def of(cls, stage: FirstStage, queries: Sequence[TrainingQuery]) -> Rankings:
        """Asks every system. Raises as they do."""
        asked = queries[:QUESTIONS]
        found = [[ranking.ids for ranking in stage.rankings(query.text)] for query in asked]
        return cls(found, [query.answers for query in asked], stage.options.size)

    def fused(self, weights: Sequence[float]) -> list[list[str]]:
        """The candidates of each question."""
        return [
            [node for node, _ in reciprocal_rank_fusion(lists, weights=weights, limit=self.size)]
            for lists in self.found
        ]

    def mrr(self, weights: Sequence[float]) -> float:
        """Of the fusion."""
        return self._mrr(self.fused(weights))

    def members(self) -> list[float]:
        """MRR of each system by itself."""
        return [self._mrr(list(lists)) for lists in zip(*self.found, strict=True)]

    def worth(self, weights: Sequence[float]) -> float:
        """MRR, and the share of questions with an answer among the candidates, which no program can pass."""
        fused = self.fused(weights)
        return self._mrr(fused) + oracle_recall(list(zip(fused, self.answers, strict=True))).any

    def _mrr(self, lists: Sequence[Sequence[str]]) -> float:
        cut = [list(one[:KEPT]) for one in lists]
        return float(ranking_scores(ranks_in_lists(cut, self.answers)).means()["mrr"])


def choose_weights(of: Sequence[str], training: Rankings, validation: Rankings) -> Weighting:
    """The weights worth most on the training questions, of those no worse in MRR than the best system on validation.

    That system by itself is one of them. Of equal ones the first stands, which is nearest to equal weights.
    """
    ways = sorted((one for one in product(WEIGHTS, repeat=len(of)) if max(one) == 1), key=lambda one: -sum(one))
    scores = {way: validation.mrr(way) for way in ways}
    members = validation.members()
    best = max(members)
    alone = tuple(float(place == members.index(best)) for place in range(len(of)))
    allowed = [way for way in ways if scores[way] >= best] or [alone]
    chosen = max(allowed, key=training.worth)
    return Weighting(of=tuple(of), weights=chosen, mrr=scores[chosen], best_member=best, equal=scores[ways[0]])


def weigh(
    stage: FirstStage, training: Sequence[TrainingQuery], validation: Sequence[TrainingQuery], folder: Path
) -> Weighting:
    """The weights that ``folder`` holds already, or those that are chosen now and kept there. Raises DataError."""
    path = folder / FILE
    try:
        return Weighting.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        found = choose_weights(stage.of, Rankings.of(stage, training), Rankings.of(stage, validation))
    except (OSError, ValidationError) as error:
        raise DataError(f"{path}: not the weights of a first stage: {error}") from error
    write_whole(path, found.model_dump_json(indent=1) + "\n")
    return found
