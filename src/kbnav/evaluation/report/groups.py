"""Runs of ``agent-retriever`` by group of queries, and the question where a program gains most over another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kbnav.evaluation.records import GoldAnswer, QuestionRecord
from kbnav.runs.trajectory import Run

ROUTE, PROGRAM = "route", "program"
_SHOWN = 5


@dataclass(frozen=True)
class GroupMeans:
    """One group of a run: its questions that have a gold answer, and the means of their metrics.

    On ``failed`` of them its program failed, so that the first stage's ranking stands.
    """

    group: str
    questions: int
    failed: int
    means: Mapping[str, float]


def by_group(results: Sequence[tuple[QuestionRecord, Mapping[str, float]]]) -> tuple[GroupMeans, ...]:
    """Records with their metrics by the group that a query was put into; nothing for systems without groups."""
    groups: dict[str, list[tuple[Run, Mapping[str, float]]]] = {}
    for record, values in results:
        if (name := group_of(record.run)) is not None:
            groups.setdefault(name, []).append((record.run, values))
    return tuple(
        GroupMeans(
            name,
            len(found),
            sum(_failed(run) for run, _ in found),
            {metric: fmean(values[metric] for _, values in found) for metric in found[0][1]},
        )
        for name, found in sorted(groups.items())
    )


def group_of(run: Run) -> str | None:
    """The group that a query was put into, with its pattern."""
    return next((step.observation for step in run.path if step.call.tool == ROUTE), None)


def _failed(run: Run) -> bool:
    return any(step.call.tool == PROGRAM and not step.ok for step in run.path)


@dataclass(frozen=True)
class Case:
    """A question as a case study (Agent Retriever, Figure 5): what two runs rank first, right nodes marked."""

    id: str
    question: str
    other: str
    name: str
    first: tuple[str, ...]
    """What the other run ranks first, a line a node; right ones begin with *."""
    second: tuple[str, ...]
    did: tuple[str, ...]
    """The steps of routing and of the program."""


def case(
    gold: GoldAnswer, other: tuple[str, QuestionRecord], programs: tuple[str, QuestionRecord], question: str
) -> Case:
    """One question in two runs, each with its name."""
    steps = [step for step in programs[1].run.path if step.call.tool in (ROUTE, PROGRAM)]
    return Case(
        gold.id,
        question,
        other[0],
        programs[0],
        _lines(other[1], gold.nodes),
        _lines(programs[1], gold.nodes),
        tuple(f"{step.call.tool}: {line}" for step in steps for line in step.observation.splitlines()),
    )


def _lines(record: QuestionRecord, right: Sequence[str]) -> tuple[str, ...]:
    ranking = record.run.outcome.ranking
    return tuple(
        f"{'*' if node.id in right else ' '} {place}. {node.label} ({node.id})"
        for place, node in enumerate(ranking.nodes[:_SHOWN] if ranking else (), 1)
    )
