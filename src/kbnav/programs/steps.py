"""The journal of a training: one line a step, and what follows from the lines so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from kbnav.programs.acceptance import Ground, Heat
from kbnav.programs.program import Parameter
from kbnav.runs.trajectory import Usage

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
"""The share of a batch on which a program may fail and still be raced."""


@dataclass(frozen=True)
class Step:
    """One program written, run, raced; numbers are of this program and no other."""

    number: int
    action: Action
    source: str
    parameters: Mapping[str, Parameter]
    sha256: str
    """Of the source."""
    instruction: str = ""
    """What this step's own run taught, for the next one; names of the examples are not in it."""
    notes: str = ""
    """What a writer without a model keeps for itself."""
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
    heats: tuple[Heat, ...] = ()
    accepted: bool = False
    ground: Ground | None = None
    """Why; None where it was not accepted, or whatever it scores."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """Means over all validation queries, where it was run on all."""
    validated: tuple[float, ...] = ()
    """MRR on each of them, in their order."""
    paid: Usage = field(default_factory=Usage)
    """The writer's model."""
    replayed: Usage = field(default_factory=Usage)
    api_paid: Usage = field(default_factory=Usage)
    """The model that programs ask."""
    api_replayed: Usage = field(default_factory=Usage)
    cost: float = 0.0
    """US dollars that were paid."""
    seconds: float = 0.0

    @property
    def broken(self) -> bool:
        """Whether the program did not run, or failed on so many queries of its batch that it is not raced."""
        return not self.batch or self.failed > MOST_FAILED * len(self.batch)

    @property
    def verdict(self) -> Verdict:
        """What came of the program."""
        if self.accepted:
            return "better"
        if self.broken:
            return "failed"
        if not self.heats or self.heats[-1].mean < self.heats[-1].best:
            return "worse"
        return "chance" if self.heats[-1].mean > self.heats[-1].best else "tie"


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
            if step.accepted and step.ground != "batch":
                break
            count += 1
            if step.action == "anew":
                break
        return count

    def leaders(self, most: int = BEST) -> list[Step]:
        """The best programs that ran on all validation queries, by their MRR there, each source and setting once.

        Of equal ones the best of the history comes first, then the earliest.
        """
        found: dict[tuple[str, str], Step] = {}
        for step in self.steps:
            if step.validation:
                found.setdefault((step.sha256, repr(sorted(step.parameters.items()))), step)
        order = sorted(found.values(), key=lambda step: (-step.validation["mrr"], step is not self.best, step.number))
        return order[:most]

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
            verdict = _after_repairs(self.steps[place + 1 :]).verdict
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

    @property
    def cost(self) -> float:
        """US dollars of all steps."""
        return total_cost(self.steps)


def _after_repairs(steps: Sequence[Step]) -> Step:
    """The first of some steps, or the last repair of its program."""
    found = steps[0]
    for step in steps[1:]:
        if not found.broken or step.action != "repair":
            break
        found = step
    return found


def total_cost(steps: Iterable[Step]) -> float:
    """US dollars of some steps."""
    return sum(step.cost for step in steps)


def curve(steps: Sequence[Step], first: float) -> list[tuple[int, float | None, float]]:
    """For each step its number, its validation MRR where it has one, and the best so far; ``first`` is before any."""
    best = first
    found: list[tuple[int, float | None, float]] = [(0, first, first)]
    for step in steps:
        mrr = step.validation.get("mrr")
        best = mrr if step.accepted and mrr is not None else best
        found.append((step.number, mrr, best))
    return found
