"""A program on queries whose answers are known: its rankings, scored as every system's are, failures included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from kbnav.evaluation.metrics.ranking import STARK_METRICS, ranking_scores, ranks_in_lists
from kbnav.programs.candidates import oracle_recall
from kbnav.programs.program import Outcome, Parameter, Program
from kbnav.runs.trajectory import Usage

KEPT = 100
"""Nodes of a ranking that are scored, as many as a run keeps."""


@dataclass(frozen=True)
class TrainingQuery:
    """A question with its answers, node ids. ``template`` is what it was made from, empty where that is not known."""

    id: str
    text: str
    answers: tuple[str, ...]
    template: str = ""


@dataclass(frozen=True)
class Trial:
    """One program on one query. ``error`` is why it failed; ranking and metrics are then the first stage's."""

    query: TrainingQuery
    ranking: tuple[str, ...]
    scores: Mapping[str, float]
    """The program's own, of nodes in ``ranking``; empty where it failed."""
    metrics: Mapping[str, float]
    """``STARK_METRICS``."""
    error: str = ""
    debug: str = ""
    calls: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    @property
    def ranks(self) -> dict[str, int | None]:
        """Where each answer came, from 1; None where it did not."""
        places = {node: place for place, node in enumerate(self.ranking, 1)}
        return {node: places.get(node) for node in self.query.answers}


def ranked(outcome: Outcome, first: Sequence[str]) -> list[tuple[str, float]]:
    """Nodes with their scores, best first: the program's, and behind them, in their order, candidates not scored.

    A program that failed scored none, so that the first stage's ranking stands: no query is without one.
    """
    scored = list(outcome.scores.items())
    lowest = min(outcome.scores.values(), default=0.0)
    others = [node for node in first if node not in outcome.scores]
    return [*scored, *((node, lowest - place) for place, node in enumerate(others, 1))]


class Bench:
    """Runs programs on training queries. Candidates are found once a query; used by several threads at once."""

    def __init__(
        self,
        first: Callable[[str], Sequence[str]],
        run: Callable[[Program, str, Sequence[str], Mapping[str, Parameter]], Outcome],
    ) -> None:
        """``first`` gives the candidates of a query, ids, best first; ``run`` runs a program in a sandbox."""
        self._first, self._run = first, run
        self._found: dict[str, Sequence[str]] = {}
        self._lock = threading.Lock()

    def candidates(self, query: str) -> Sequence[str]:
        """What the first stage finds for a query, best first."""
        with self._lock:
            found = self._found.get(query)
        if found is None:
            found = self._first(query)
            with self._lock:
                self._found[query] = found
        return found

    def baseline(self, queries: Sequence[TrainingQuery]) -> list[Trial]:
        """The first stage by itself."""
        return [self._judged(query, self.candidates(query.text)[:KEPT], Outcome()) for query in queries]

    def run(
        self, program: Program, parameters: Mapping[str, Parameter], queries: Sequence[TrainingQuery]
    ) -> list[Trial]:
        """The program on each query, in their order; a query whose answers are no candidates is scored as any other."""
        return [self._trial(program, parameters, query) for query in queries]

    def oracle(self, queries: Sequence[TrainingQuery]) -> float:
        """The share of answers that are among the candidates, mean over queries: what reordering cannot pass."""
        return oracle_recall([(self.candidates(query.text), query.answers) for query in queries]).mean

    def _trial(self, program: Program, parameters: Mapping[str, Parameter], query: TrainingQuery) -> Trial:
        candidates = self.candidates(query.text)
        outcome = self._run(program, query.text, candidates, parameters)
        return self._judged(query, [node for node, _ in ranked(outcome, candidates)][:KEPT], outcome)

    def _judged(self, query: TrainingQuery, ranking: Sequence[str], outcome: Outcome) -> Trial:
        found = ranking_scores(ranks_in_lists([ranking], [query.answers]))
        return Trial(
            query,
            tuple(ranking),
            {node: outcome.scores[node] for node in ranking if node in outcome.scores},
            found.means(),
            "" if outcome.error is None else str(outcome.error),
            outcome.debug,
            outcome.calls,
            outcome.usage,
        )


def means(trials: Sequence[Trial]) -> dict[str, float]:
    """Each metric over all queries, rounded to six digits; 0 without any."""
    return {name: round(fmean(one.metrics[name] for one in trials), 6) if trials else 0.0 for name in STARK_METRICS}


def spent(trials: Sequence[Trial]) -> Usage:
    """What the programs' own calls of a model cost."""
    return sum((one.usage for one in trials), Usage())
