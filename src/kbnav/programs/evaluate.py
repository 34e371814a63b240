"""Validation MRR over the steps of a training (Agent Retriever, Figure 3), as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kbnav.errors import UsageError
from kbnav.evaluation.metrics.ranking import STARK_METRICS, ranking_scores, ranks_in_lists
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.first_stage import KEPT, TrainingQuery, oracle_recall
from kbnav.programs.retriever import AgentRetriever, read_frozen
from kbnav.programs.steps import curve
from kbnav.programs.train import read_groups, read_steps
from kbnav.retrieval.base import build_retriever
from kbnav.runs.journal import write_whole
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

COLUMNS = ("group", "step", "mrr", "best")
Row = tuple[str, int, float | None, float]
"""Group, step, MRR of its program on all validation queries where it ran on them, and that of the best so far."""


def rows(folder: Path) -> list[Row]:
    """Of every group of a training; step 0 is the first stage. Raises UsageError, DataError."""
    first = {one.id: one.first["mrr"] for one in read_frozen(folder).about.groups}
    return [
        (group.id, *point)
        for group in read_groups(folder).groups
        for point in curve(read_steps(folder, group), first[group.id])
    ]


def write_curve(folder: Path, path: Path) -> None:
    """As CSV. Raises UsageError, DataError."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([group, step, "" if mrr is None else mrr, best] for group, step, mrr, best in rows(folder))
    write_whole(path, out.getvalue())


_SHOWN = 5


def case_study(kb: SkbKB, settings: Settings, retriever: AgentRetriever, question: TrainingQuery) -> str:
    """The first nodes of ``vss`` (of ``bm25`` where there are no vectors) beside the program's, right ones marked."""
    other = "vss" if kb.skb.vectors is not None else "bm25"
    trace = Trace()
    lists = {
        other: build_retriever(other, kb, settings, {}).retrieve(question.text, _SHOWN).ids,
        retriever.name: retriever.retrieve(question.text, _SHOWN, trace).ids,
    }
    told = [f"{question.id}: {question.text}"]
    for name, ids in lists.items():
        told += ["", f"{name} ranks first:"]
        for place, node in enumerate(ids, 1):
            right = "*" if node in question.answers else " "
            told.append(f"{right} {place}. {kb.skb.name(kb.skb.number(node))} ({node})")
    for step in trace.steps:
        if step.call.tool in ("route", "program"):
            told += ["", f"{step.call.tool}: {step.observation}"]
    return "\n".join(told)


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
        oracle_recall([(one.candidates, one.answers) for one in found])[1],
    )
