"""The journal of a training: one line a step, and what follows from the lines so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import fsum
from statistics import fmean
from typing import Literal, get_args

from kbnav.evaluation.metrics.ranking import STARK_METRICS, mean_scores, ranks_in_lists
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.program import Outcome, Program
from kbnav.retrieval.base import KEPT, followed
from kbnav.runs.trajectory import Usage


@dataclass(frozen=True)
class Trial:
    """One program on one query. ``error`` is why it failed; ranking and metrics are then the first stage's."""

    query: LabelledQuestion
    ranking: tuple[str, ...]
    scores: Mapping[str, float]
    """The program's own, of nodes in ``ranking``; empty where it failed."""
    metrics: Mapping[str, float]
    """``STARK_METRICS``."""
    error: str = ""
    debug: str = ""
    calls: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    candidates: Collection[str] = ()
    """What the first stage found."""

    @property
    def ranks(self) -> dict[str, int | None]:
        """Where each answer came, from 1; None where it did not."""
        places = {node: place for place, node in enumerate(self.ranking, 1)}
        return {node: places.get(node) for node in self.query.answers}


def ranked(outcome: Outcome, first: Sequence[str]) -> list[tuple[str, float]]:
    """Nodes by the program's scores, best first; behind them candidates in order, all where it failed."""
    return followed(list(outcome.scores.items()), [node for node in first if node not in outcome.scores])


SIDE_BY_SIDE = 4
"""Queries that a program is run on at once."""


class TrialRunner:
    """Runs programs on training queries. Candidates are found once a query; used by several threads at once."""

    def __init__(
        self,
        first: Callable[[str], Sequence[str]],
        run: Callable[[Program, str, Sequence[str]], Outcome],
        at_once: int = SIDE_BY_SIDE,
    ) -> None:
        """``first`` ranks candidates of a query, ``run`` runs a program on ``at_once`` queries side by side."""
        self.candidates: Callable[[str], Sequence[str]] = cache(first)
        """What the first stage finds for a query, best first."""
        self._run, self._at_once = run, at_once

    def baseline(self, queries: Sequence[LabelledQuestion]) -> list[Trial]:
        """The first stage by itself."""
        return [self._judged(query, self.candidates(query.text)[:KEPT], Outcome()) for query in queries]

    def run(self, program: Program, queries: Sequence[LabelledQuestion]) -> list[Trial]:
        """The program on each query, side by side in processes of the sandbox, in their order."""

        def trial(query: LabelledQuestion) -> Trial:
            candidates = self.candidates(query.text)
            outcome = self._run(program, query.text, candidates)
            return self._judged(query, [node for node, _ in ranked(outcome, candidates)][:KEPT], outcome)

        with ThreadPoolExecutor(self._at_once) as threads:
            return list(threads.map(lambda query: copy_context().run(trial, query), queries))

    def oracle(self, queries: Sequence[LabelledQuestion]) -> float:
        """The share of answers that are among the candidates, mean over queries: what reordering cannot pass."""
        shares = [len({*one.answers} & {*self.candidates(one.text)}) / max(1, len({*one.answers})) for one in queries]
        return fmean(shares) if shares else 0.0

    def _judged(self, query: LabelledQuestion, ranking: Sequence[str], outcome: Outcome) -> Trial:
        return Trial(
            query,
            tuple(ranking),
            {node: outcome.scores[node] for node in ranking if node in outcome.scores},
            mean_scores(ranks_in_lists([ranking], [query.answers])),
            "" if outcome.error is None else str(outcome.error),
            outcome.debug,
            outcome.calls,
            outcome.usage,
            self.candidates(query.text),
        )


def means(trials: Sequence[Trial]) -> dict[str, float]:
    """Each metric over all queries, rounded to six digits; 0 without any."""
    return {name: round(fmean(one.metrics[name] for one in trials), 6) if trials else 0.0 for name in STARK_METRICS}


SIGNIFICANCE = 0.1
"""The two-sided p-value that a better program needs."""
CEILING = 0.9
"""The MRR from which the best so far is near the ceiling, where few queries are left to win a test by."""
RULE = 4
"""Goes up where steps would be accepted otherwise: a training continues by the rule that it began with."""
_DIGITS = 6
"""As scores are kept in the journal: a score that was written and read again is the same."""
_SAME = 1e-9


@dataclass(frozen=True)
class Comparison:
    """MRR of a program and of the best so far over the same queries: their means, and the p-value of a paired test."""

    mean: float
    best: float
    p: float
    won: int = 0
    """Queries on which the new program is better."""
    lost: int = 0
    failed: int = 0
    """Queries on which it ended with an error, and has the first stage's score."""

    @property
    def accepted(self) -> bool:
        """Whether it is better, and that is not chance or, near the ceiling, costs no query."""
        return self.mean > self.best and (self.p <= SIGNIFICANCE or (not self.lost and self.best >= CEILING))


def compare(trials: Sequence[Trial], best: Sequence[float]) -> Comparison:
    """Compare the trials of a program with the scores of the best so far on the same queries."""
    new = scores_of(trials)
    differences = [after - before for before, after in zip(best, new, strict=True)]
    same = abs(fsum(differences)) <= _SAME
    mean = fmean(best)
    return Comparison(
        mean if same else fmean(new),
        mean,
        round(paired_test(best, new).p, _DIGITS),
        won=sum(one > 0 for one in differences),
        lost=sum(one < 0 for one in differences),
        failed=sum(bool(one.error) for one in trials),
    )


def scores_of(trials: Sequence[Trial]) -> tuple[float, ...]:
    """MRR of each, as it is kept and compared."""
    return tuple(round(one.metrics["mrr"], _DIGITS) for one in trials)


Action = Literal["write", "improve", "repair", "anew"]
"""What the writer was asked for: a first program, a better one, one without the error, or another way altogether."""
Verdict = Literal["better", "chance", "tie", "worse", "failed"]
"""What came of a step's program.

better: accepted. chance: its mean is higher, and that may be chance. tie: its mean is the same. worse: on its training
queries or in validation. failed: it did not run, or on too few queries to be judged.
"""
BEST = 3
"""Programs that the writer is shown with their numbers."""
MOST_FAILED = 0.2
"""The share of a batch on which a program may fail and still be validated."""


@dataclass(frozen=True)
class Step:
    """One program written, run, compared; numbers are of this program and no other."""

    number: int
    action: Action
    source: str
    sha256: str
    """Of the source."""
    instruction: str = ""
    """What this step's own run taught, for the next one; names of the examples are not in it."""
    rejected: int = 0
    """Sources of this step before this one that were found wrong before they ran."""
    batch: tuple[str, ...] = ()
    """Ids of the training queries it was run on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Over the batch."""
    best_on_batch: float | None = None
    """MRR of the best program so far, or of the first stage, over the same queries."""
    failed: int = 0
    """Queries of the batch on which it failed."""
    error: str = ""
    """The first failure, or what is wrong with the source."""
    debug: str = ""
    """What it told by ``debug`` on the queries of the batch that failed, or else on the worst."""
    compared: Comparison | None = None
    """With the best so far over the validation queries; None where it was worse on its batch already."""
    accepted: bool = False
    validation: Mapping[str, float] = field(default_factory=dict)
    """Means over all validation queries, where it was run on them."""
    validated: tuple[float, ...] = ()
    """MRR on each of them, in their order."""
    usage: Usage = field(default_factory=Usage)
    """The writer's model."""
    api_usage: Usage = field(default_factory=Usage)
    """The model that programs ask."""
    cost: float = 0.0
    """US dollars."""
    seconds: float = 0.0

    @property
    def broken(self) -> bool:
        """Whether the program did not run, or failed on so many queries of its batch that it is not validated."""
        return not self.batch or self.failed > MOST_FAILED * len(self.batch)

    @property
    def verdict(self) -> Verdict:
        """What came of the program."""
        if self.accepted:
            return "better"
        if self.broken:
            return "failed"
        if self.compared is None or self.compared.mean < self.compared.best:
            return "worse"
        return "chance" if self.compared.mean > self.compared.best else "tie"


@dataclass(frozen=True)
class History:
    """The steps of one group so far; everything else follows from them, so that a killed training goes on alike."""

    steps: tuple[Step, ...] = ()

    def __add__(self, step: Step) -> History:
        return History((*self.steps, step))

    @cached_property
    def best(self) -> Step | None:
        """The last that was accepted; None while nothing is better than the first stage."""
        return next((step for step in reversed(self.steps) if step.accepted), None)

    @property
    def last(self) -> Step | None:
        """The step before the next one."""
        return self.steps[-1] if self.steps else None

    @property
    def without_gain(self) -> int:
        """Steps since a program did better in validation, or since the writer was last asked to start anew."""
        count = 0
        for step in reversed(self.steps):
            if step.accepted:
                break
            count += 1
            if step.action == "anew":
                break
        return count

    def leaders(self) -> list[Step]:
        """The best programs by MRR on all validation queries, each source once; of equals the history's best."""
        found: dict[str, Step] = {}
        for step in self.steps:
            if step.validation:
                found.setdefault(step.sha256, step)
        order = sorted(found.values(), key=lambda step: (-step.validation["mrr"], step is not self.best, step.number))
        return order[:BEST]

    def lessons(self) -> dict[str, Verdict]:
        """What each instruction led to, in their order; of one that was given again, the best.

        It is what became of the program that was written next, repairs of it included; one behind which the writer
        started anew led to nothing.
        """
        found: dict[str, Verdict] = {}
        for place, step in enumerate(self.steps):
            after = self.steps[place + 1 : place + 2]
            if not step.instruction or not after or after[0].action == "anew":
                continue
            result = after[0]
            for repair in self.steps[place + 2 :]:
                if not result.broken or repair.action != "repair":
                    break
                result = repair
            verdict = result.verdict
            before = found.get(step.instruction, verdict)
            found[step.instruction] = min(before, verdict, key=get_args(Verdict).index)
        return found

    @property
    def pending(self) -> str:
        """The instruction that the next program is to follow: the last step's, or that which a broken one was to."""
        for step in reversed(self.steps):
            if step.instruction or not step.broken:
                return step.instruction
            if step.action == "anew":
                break
        return ""


def curve(steps: Sequence[Step], first: float) -> list[tuple[int, float | None, float]]:
    """For each step its number, its validation MRR where it has one, and the best so far; ``first`` is before any."""
    best = first
    found: list[tuple[int, float | None, float]] = [(0, first, first)]
    for step in steps:
        mrr = step.validation.get("mrr")
        best = mrr if step.accepted and mrr is not None else best
        found.append((step.number, mrr, best))
    return found
