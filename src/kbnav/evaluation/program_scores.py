"""Frozen programs beside their first stage on questions that no training saw: over all, and by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from kbnav.errors import UsageError
from kbnav.programs.candidates import oracle_recall
from kbnav.programs.retriever import AgentRetriever
from kbnav.programs.trials import KEPT, TrainingQuery
from kbnav.ranking_metrics import STARK_METRICS, ranking_scores, ranks_in_lists
from kbnav.statistics import paired_test
from kbnav.trace import Trace


@dataclass(frozen=True)
class GroupScores:
    """Means of the programs and of the first stage over the same questions; ``oracle`` is what reordering can reach."""

    group: str
    questions: int
    failed: int
    programs: Mapping[str, float]
    first: Mapping[str, float]
    difference: float
    p: float
    oracle: float
    """The share of questions with an answer among the candidates."""

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def line(self) -> str:
        """For a terminal."""
        values = ", ".join(f"{name} {self.programs[name]:.3f} ({self.first[name]:.3f})" for name in STARK_METRICS)
        failed = f"; {self.failed} failed" if self.failed else ""
        return (
            f"{self.group}: {self.questions} questions, first stage in brackets: {values}; MRR {self.difference:+.3f}, "
            f"p {self.p:.4f}; an answer is among the candidates of {self.oracle:.1%}{failed}"
        )


@dataclass(frozen=True)
class _One:
    group: str
    programs: Mapping[str, float]
    first: Mapping[str, float]
    failed: bool
    candidates: frozenset[str]
    answers: tuple[str, ...]


def score_programs(retriever: AgentRetriever, questions: Sequence[TrainingQuery]) -> list[GroupScores]:
    """Scores over all, then of each group that has questions. Raises UsageError for questions of the training."""
    if not questions:
        raise UsageError("there are no questions with gold nodes to score on")
    retriever.refuse_seen([(one.id, one.text) for one in questions])
    found = [_scored(retriever, one) for one in questions]
    groups = sorted({one.group for one in found})
    parts = [_means(group, [one for one in found if one.group == group]) for group in groups]
    return [_means("all", found), *(parts if len(parts) > 1 else [])]


def _scored(retriever: AgentRetriever, question: TrainingQuery) -> _One:
    trace = Trace()
    ranking = retriever.retrieve(question.text, KEPT, trace).ids
    candidates = retriever.first(question.text)
    group = next(step.observation.partition(":")[0] for step in trace.steps if step.call.tool == "route")
    failed = any(step.call.tool == "program" and not step.ok for step in trace.steps)
    lists = [list(ranking), list(candidates)[:KEPT]]
    found = ranking_scores(ranks_in_lists(lists, [question.answers] * 2)).values
    programs, first = ({name: float(values[place]) for name, values in found.items()} for place in (0, 1))
    return _One(group, programs, first, failed, frozenset(candidates), question.answers)


def _means(group: str, found: Sequence[_One]) -> GroupScores:
    old, new = [one.first["mrr"] for one in found], [one.programs["mrr"] for one in found]
    return GroupScores(
        group,
        len(found),
        sum(one.failed for one in found),
        {name: fmean(one.programs[name] for one in found) for name in STARK_METRICS},
        {name: fmean(one.first[name] for one in found) for name in STARK_METRICS},
        fmean(new) - fmean(old),
        paired_test(old, new).p,
        oracle_recall([(one.candidates, one.answers) for one in found]).any,
    )
