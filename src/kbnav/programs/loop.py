"""The loop that improves the program of one group: write, run, contrast, race, accept; a journal line for each step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kbnav.models.prices import cost_of
from kbnav.programs.acceptance import SIGNIFICANCE, STAGES, race, scores_of
from kbnav.programs.briefing import asked_types, examples, next_action, written
from kbnav.programs.contrast import THRESHOLD, debug_of_worst, described, names_in, split, without_names
from kbnav.programs.program import Problem, Program
from kbnav.programs.steps import History, Step
from kbnav.programs.trials import Bench, TrainingQuery, Trial, means, spent
from kbnav.programs.writer import Advice, Brief, Draft, Shown, Writer
from kbnav.runs.trace import Trace
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Price

Part = Literal["contrast", "memory", "groups", "model-functions", "relations", "improvement"]
"""What an ablation leaves out: see ``PARTS``."""
PARTS: dict[Part, str] = {
    "contrast": "no contrast of what went well and badly, so no instructions",
    "memory": "the writer sees the last program alone",
    "groups": "one program for all queries",
    "model-functions": "programs ask no model",
    "relations": "programs see no relations",
    "improvement": "the first program that runs is frozen, whatever it scores",
}
Ended = Literal["steps", "perfect", "cost", "time", "stopped", "first program"]


@dataclass(frozen=True)
class Plan:
    """How long, on how many queries, and how strict. ``cost`` is in US dollars, of the whole training."""

    steps: int = 20
    batch: int = 25
    patience: int = 10
    """Steps without gain before the writer starts anew."""
    threshold: float = THRESHOLD
    stages: tuple[int, ...] = STAGES
    significance: float = SIGNIFICANCE
    seed: int = 0
    cost: float | None = None
    seconds: float | None = None
    without: frozenset[Part] = frozenset()

    @property
    def strict(self) -> bool:
        """Whether a program must be better than what there was; without improvement the first one is taken."""
        return "improvement" not in self.without


@dataclass(frozen=True)
class Prices:
    """Of the writer's model and of the one that programs ask; None: free, or not known."""

    writer: Price | None = None
    api: Price | None = None


@dataclass(frozen=True)
class Workshop:
    """What the steps of a group are taken with.

    ``check`` gives what is wrong with a program before it is run, ``checks`` says what it looks at. ``label`` gives a
    node's name, ``kind`` its type, ``named`` what a query may name. ``spent`` and ``elapsed`` give the dollars and
    seconds of all groups so far, ``stopped`` whether a person asked to stop.
    """

    bench: Bench
    writer: Writer
    check: Callable[[Program], Sequence[Problem]]
    label: Callable[[str], str]
    named: Callable[[str], Sequence[str]]
    kind: Callable[[str], str] = lambda node: ""  # noqa: ARG005
    checks: str = "type check"
    prices: Prices = Prices()
    spent: Callable[[], float] = lambda: 0.0
    elapsed: Callable[[], float] = lambda: 0.0
    stopped: Callable[[], object] = lambda: False


@dataclass(frozen=True)
class Task:
    """One group with its queries; ``first`` are the first stage's trials on the validation queries."""

    id: str
    pattern: str
    training: Sequence[TrainingQuery]
    validation: Sequence[TrainingQuery]
    first: Sequence[Trial]


def improve(
    task: Task, history: History, plan: Plan, shop: Workshop, record: Callable[[Step], object]
) -> tuple[History, Ended]:
    """Take steps until an end is reached; each is recorded when it is done. Raises StopRun of a model's calls."""
    while (ended := why_ended(task, history, plan, shop)) is None:
        step = take_step(task, history, plan, shop)
        record(step)
        history += step
    return history, ended


def why_ended(task: Task, history: History, plan: Plan, shop: Workshop) -> Ended | None:
    """Why no further step is taken; None: one is."""
    if len(history.steps) >= plan.steps:
        return "steps"
    if history.best is not None and not plan.strict:
        return "first program"
    if (history.best.validation if history.best else means(task.first))["mrr"] >= 1.0:
        return "perfect"
    if plan.cost is not None and shop.spent() >= plan.cost:
        return "cost"
    if plan.seconds is not None and shop.elapsed() >= plan.seconds:
        return "time"
    return "stopped" if shop.stopped() else None


def take_step(task: Task, history: History, plan: Plan, shop: Workshop) -> Step:
    """One step: a program is written, run on a batch, contrasted, and raced against the best so far."""
    began, trace = time.monotonic(), Trace()
    number = len(history.steps) + 1
    brief = _brief(task, history, plan, shop, number)
    draft, program, rejected = written(brief, shop.writer, shop.check, shop.checks, trace)
    step = Step(number, brief.action, draft.source, dict(draft.parameters), "")
    if program is None:
        step = replace(step, rejected=len(rejected) - 1, error=rejected[-1].error)
        return _finished(step, trace, (), shop, began)
    batch = _batch(task, plan, number)
    trials = shop.bench.run(program, draft.parameters, batch)
    failures = [one for one in trials if one.error]
    step = replace(
        step,
        sha256=program.sha256,
        rejected=len(rejected),
        batch=tuple(one.id for one in batch),
        metrics=means(trials),
        failed=len(failures),
        error=failures[0].error if failures else "",
        debug=debug_of_worst(trials),
    )
    raced: Sequence[Trial] = ()
    if not step.broken:
        before = _best_on(batch, history, shop)
        step = replace(step, best_on_batch=means(before)["mrr"])
        if not plan.strict or step.metrics["mrr"] >= (step.best_on_batch or 0.0):
            step, raced = _raced(step, program, (before, trials), task, history, plan, shop)
        if "contrast" not in plan.without:
            advice = _advice(brief, draft, trials, plan, shop, trace)
            step = replace(step, instruction=advice.text, notes=advice.notes)
    return _finished(step, trace, (*trials, *raced), shop, began)


def _brief(task: Task, history: History, plan: Plan, shop: Workshop, number: int) -> Brief:
    return Brief(
        next_action(history, plan.patience),
        number,
        task.pattern,
        examples(task.training, shop.kind, f"{plan.seed}:{task.id}:examples"),
        means(task.first),
        history,
        memory="memory" not in plan.without,
        asked=asked_types(task.training, shop.kind),
    )


def _best_on(batch: Sequence[TrainingQuery], history: History, shop: Workshop) -> Sequence[Trial]:
    """The best so far on a batch: what is worse there is not raced."""
    if history.best is None:
        return shop.bench.baseline(batch)
    return shop.bench.run(Program.read(history.best.source), history.best.parameters, batch)


def _raced(
    step: Step,
    program: Program,
    batch: tuple[Sequence[Trial], Sequence[Trial]],
    task: Task,
    history: History,
    plan: Plan,
    shop: Workshop,
) -> tuple[Step, Sequence[Trial]]:
    """The step with its race against the best so far, which at first is the first stage.

    ``batch`` has the trials of the best and of this program on the step's batch. A program that is only as good as the
    first stage is not taken in its place, whatever the batch says.
    """
    scores = history.best.validated if history.best else scores_of(task.first)
    found = race(
        lambda queries: shop.bench.run(program, step.parameters, queries),
        task.validation,
        {query.id: score for query, score in zip(task.validation, scores, strict=True)},
        stages=plan.stages if plan.strict else (),
        significance=plan.significance,
        batch=(scores_of(batch[0]), scores_of(batch[1])) if history.best else None,
    )
    step = replace(step, heats=found.heats, accepted=found.ground is not None or not plan.strict, ground=found.ground)
    if found.whole:
        step = replace(step, validation=means(found.trials), validated=found.scores)
    return step, found.trials


def _advice(brief: Brief, draft: Draft, trials: Sequence[Trial], plan: Plan, shop: Workshop, trace: Trace) -> Advice:
    """The writer's, without the names of the examples."""
    contrast = split(trials, threshold=plan.threshold)
    shown = Shown(
        [described(one, shop.label) for one in contrast.well],
        [described(one, shop.label) for one in contrast.badly],
        means(trials),
        trials,
    )
    said = shop.writer.reflect(brief, draft, contrast, shown, trace)
    return replace(said, text=without_names(said.text, names_in(contrast, shop.label, shop.named)))


def _batch(task: Task, plan: Plan, number: int) -> list[TrainingQuery]:
    """The queries of a step: parts of one shuffled round after another, so that each query has its turn."""
    order = list(task.training)
    random.Random(f"{plan.seed}:{task.id}:batches").shuffle(order)
    size = min(plan.batch, len(order))
    start = (number - 1) * size
    return [order[place % len(order)] for place in range(start, start + size)]


def _finished(step: Step, trace: Trace, trials: Sequence[Trial], shop: Workshop, began: float) -> Step:
    """The step with what it cost."""
    api = spent(trials)
    cost = (cost_of(trace.usage, shop.prices.writer) or 0.0) + (cost_of(api.paid, shop.prices.api) or 0.0)
    return replace(
        step,
        paid=trace.usage,
        replayed=trace.replayed,
        api_paid=api.paid,
        api_replayed=api.replayed or Usage(),
        cost=cost,
        seconds=round(time.monotonic() - began, 3),
    )
