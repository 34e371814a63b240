"""The journal of a training: one line a step, and what follows from the lines so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from kbnav.programs.acceptance import Heat
from kbnav.programs.program import Parameter
from kbnav.trajectory import Usage

Action = Literal["write", "improve", "repair", "anew"]
"""What the writer was asked for: a first program, a better one, one without the error, or another way altogether."""
BEST = 3
"""Programs that the writer is shown with their numbers."""


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
    heats: tuple[Heat, ...] = ()
    accepted: bool = False
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
        """Steps since a program was accepted, or since the writer was last asked to start anew."""
        count = 0
        for step in reversed(self.steps):
            if step.accepted:
                break
            count += 1
            if step.action == "anew":
                break
        return count

    def leaders(self, most: int = BEST) -> list[Step]:
        """The best programs that ran on all validation queries, by their MRR there, each source and setting once."""
        found: dict[tuple[str, str], Step] = {}
        for step in self.steps:
            if step.validation:
                found.setdefault((step.sha256, repr(sorted(step.parameters.items()))), step)
        return sorted(found.values(), key=lambda step: (-step.validation["mrr"], step.number))[:most]

    def lessons(self) -> tuple[list[str], list[str]]:
        """Instructions that helped, and those that did not: whether the program written after each was accepted."""
        helped: dict[str, bool] = {}
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if before.instruction:
                helped[before.instruction] = helped.get(before.instruction, False) or after.accepted
        return [one for one, good in helped.items() if good], [one for one, good in helped.items() if not good]

    @property
    def cost(self) -> float:
        """US dollars of all steps."""
        return total_cost(self.steps)


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
