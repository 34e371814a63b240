"""The loop that improves the program of one group: write, run, contrast, race, accept; a journal line for each step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kbnav.models.chat import cost_of
from kbnav.programs.acceptance import SIGNIFICANCE, STAGES, race
from kbnav.programs.contrast import THRESHOLD, described, names_in, split, without_names
from kbnav.programs.program import BadProgram, Problem, Program
from kbnav.programs.steps import Action, History, Step
from kbnav.programs.trials import Bench, TrainingQuery, Trial, means, spent
from kbnav.programs.writer import EXAMPLES, Advice, Brief, Draft, Shown, Writer
from kbnav.settings import Price
from kbnav.trace import Trace
from kbnav.trajectory import Usage

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
_REPAIRS = 3
"""In a row; then the best program is gone on with."""
_MOST_FAILED = 0.2
"""The share of a batch on which a program may fail and still be raced."""


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

    ``check`` gives what is wrong with a program before it is run. ``label`` gives a node's name, ``named`` what a
    query may name. ``spent`` and ``elapsed`` give the dollars and seconds of all groups so far, ``stopped`` whether a
    person asked to stop.
    """

    bench: Bench
    writer: Writer
    check: Callable[[Program], Sequence[Problem]]
    label: Callable[[str], str]
    named: Callable[[str], Sequence[str]]
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
    while (ended := why_ended(history, plan, shop)) is None:
        step = take_step(task, history, plan, shop)
        record(step)
        history += step
    return history, ended


def why_ended(history: History, plan: Plan, shop: Workshop) -> Ended | None:
    """Why no further step is taken; None: one is."""
    if len(history.steps) >= plan.steps:
        return "steps"
    if history.best is not None and not plan.strict:
        return "first program"
    if history.best is not None and history.best.validation["mrr"] >= 1.0:
        return "perfect"
    if plan.cost is not None and shop.spent() >= plan.cost:
        return "cost"
    if plan.seconds is not None and shop.elapsed() >= plan.seconds:
        return "time"
    return "stopped" if shop.stopped() else None


def next_action(history: History, plan: Plan) -> Action:
    """What the writer is asked for next."""
    if history.last is None:
        return "write"
    tried = [step.action for step in history.steps[-_REPAIRS:]]
    if broken(history.last) and tried != ["repair"] * _REPAIRS:
        return "repair"
    return "anew" if history.without_gain >= plan.patience else "improve"


def broken(step: Step) -> bool:
    """Whether a program did not run, or failed on so many queries of its batch that it is not raced."""
    return not step.batch or step.failed > _MOST_FAILED * len(step.batch)


def take_step(task: Task, history: History, plan: Plan, shop: Workshop) -> Step:
    """One step: a program is written, run on a batch, contrasted, and raced against the best so far."""
    began, trace = time.monotonic(), Trace()
    number = len(history.steps) + 1
    brief = _brief(task, history, plan, number)
    draft = shop.writer.write(brief, trace)
    step = Step(number, brief.action, draft.source, dict(draft.parameters), "")
    try:
        program = Program.read(draft.source)
        program.with_defaults(draft.parameters)
        if problems := shop.check(program):
            raise BadProgram(problems)
    except BadProgram as error:
        step = replace(step, error=str(error))
        return _finished(step, trace, (), shop, began)
    step = replace(step, sha256=program.sha256)
    batch = _batch(task, plan, number)
    trials = shop.bench.run(program, draft.parameters, batch)
    failures = [one for one in trials if one.error]
    step = replace(
        step,
        batch=tuple(one.id for one in batch),
        metrics=means(trials),
        failed=len(failures),
        error=failures[0].error if failures else "",
        debug=(failures or trials)[0].debug,
    )
    raced: Sequence[Trial] = ()
    if not broken(step):
        step = replace(step, best_on_batch=_best_on(batch, history, shop))
        if not plan.strict or step.metrics["mrr"] >= (step.best_on_batch or 0.0):
            step, raced = _raced(step, program, task, history, plan, shop)
        if "contrast" not in plan.without:
            advice = _advice(brief, draft, trials, plan, shop, trace)
            step = replace(step, instruction=advice.text, notes=advice.notes)
    return _finished(step, trace, (*trials, *raced), shop, began)


def _brief(task: Task, history: History, plan: Plan, number: int) -> Brief:
    return Brief(
        next_action(history, plan),
        number,
        task.pattern,
        _drawn(task.training, EXAMPLES, f"{plan.seed}:{task.id}:examples"),
        means(task.first),
        history,
        memory="memory" not in plan.without,
    )


def _best_on(batch: Sequence[TrainingQuery], history: History, shop: Workshop) -> float:
    """MRR of the best so far over a batch: what is worse there is not raced."""
    if history.best is None:
        return means(shop.bench.baseline(batch))["mrr"]
    best = Program.read(history.best.source)
    return means(shop.bench.run(best, history.best.parameters, batch))["mrr"]


def _raced(
    step: Step, program: Program, task: Task, history: History, plan: Plan, shop: Workshop
) -> tuple[Step, Sequence[Trial]]:
    """The step with its race against the best so far, which at first is the first stage."""
    scores = history.best.validated if history.best else [one.metrics["mrr"] for one in task.first]
    best = {query.id: score for query, score in zip(task.validation, scores, strict=False)}
    found = race(
        lambda queries: shop.bench.run(program, step.parameters, queries),
        task.validation,
        best if plan.strict else dict.fromkeys(best, -1.0),
        stages=plan.stages,
        significance=plan.significance if plan.strict else 1.0,
    )
    step = replace(step, heats=found.heats, accepted=found.accepted)
    if found.whole:
        validated = tuple(round(one.metrics["mrr"], 6) for one in found.trials)
        step = replace(step, validation=means(found.trials), validated=validated)
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
    order = _drawn(task.training, len(task.training), f"{plan.seed}:{task.id}:batches", shuffled=True)
    size = min(plan.batch, len(order))
    start = (number - 1) * size
    return [order[place % len(order)] for place in range(start, start + size)]


def _drawn(queries: Sequence[TrainingQuery], most: int, seed: str, *, shuffled: bool = False) -> list[TrainingQuery]:
    """So many queries at random, in their order unless ``shuffled``; the same for the same seed."""
    places = random.Random(seed).sample(range(len(queries)), min(most, len(queries)))
    return [queries[place] for place in (places if shuffled else sorted(places))]


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
