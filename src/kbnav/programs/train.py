"""A whole training: groups, the loop for each, and the frozen folder. Killed at any moment, the same call goes on.

The folder holds ``training.json`` (what is trained on; a training with other data is refused), ``groups.json``,
``steps/GROUP.jsonl`` with a line for each step, and in the end what ``kbnav.programs.retriever`` describes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

from pydantic import Field

from kbnav.answers.tables import csv_text
from kbnav.encoders.trained import Question, question_digests
from kbnav.errors import DataError, Stopped, UsageError
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import read
from kbnav.models.calls import open_calls
from kbnav.models.prices import cost_of, price_of
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.groups import MOST, SMALLEST, Centroids, Group, groups_by_model
from kbnav.programs.program import Problem, Program
from kbnav.programs.retriever import Description, GroupRecord, freeze, read_frozen
from kbnav.programs.sandbox import Sandbox, Where, bound_to, on_ray, open_parts
from kbnav.programs.steps import (
    RULE,
    History,
    Step,
    Trial,
    TrialRunner,
    compare,
    curve,
    means,
    scores_of,
)
from kbnav.programs.writer import (
    Brief,
    ModelWriter,
    debug_of_worst,
    describe_setting,
    example_queries,
    names_in,
    next_action,
    split,
    without_names,
    write_program,
)
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.expansion import document_line
from kbnav.runs.journal import open_journal, read_document, read_journal, write_whole
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import OFFLINE, Price, Settings
from kbnav.settings.systems import Options

TRAINING = "training.json"
GROUPS = "groups.json"
STEPS = "steps"
STOPPED = "the training was stopped; the same command continues it"
_FREE = frozenset({"steps", "cost", "seconds", "limit", "at_once", "on", "workers"})
"""Options that may change between the parts of a training."""
Ended = Literal["steps", "perfect", "cost", "time", "stopped"]
Listener = Callable[[Group, Step], object]


class ProgramsOptions(Options):
    """How programs are trained."""

    steps: int = Field(default=20, ge=1)
    """Steps of each group; the paper has 100."""
    batch: int = Field(default=25, ge=1)
    """Training queries of a step."""
    patience: int = Field(default=10, ge=1)
    """Steps without gain before the writer starts anew."""
    most: int = Field(default=MOST, ge=1)
    """Groups; the paper has 12."""
    smallest: int = Field(default=SMALLEST, ge=1)
    """Validation queries that a group needs; one with fewer joins the nearest."""
    api_model: str = ""
    """The model that programs ask; empty: they ask none."""
    cost: float | None = Field(default=None, ge=0)
    """US dollars of the whole training."""
    seconds: float | None = Field(default=None, ge=0)
    """Seconds of the whole training."""
    limit: int | None = Field(default=None, ge=1)
    """The first questions of --dataset that are learned from; without it, all."""
    seed: int = 0
    """Of all that is drawn."""
    at_once: int = Field(default=1, ge=1)
    """Groups that are trained side by side."""
    on: Where = "here"
    """Where programs run: here, or on the ray cluster of RAY_ADDRESS."""
    workers: int | None = Field(default=None, ge=1)
    """Of the cluster; without it, as many as it has processors."""


@dataclass(frozen=True)
class TrainingContext:
    """What the steps of a group are taken with.

    ``check`` gives what is wrong with a program before it is run. ``label`` gives a node's name, ``document`` its
    text, ``named`` what a query may name. ``spent`` and ``elapsed`` give the dollars and seconds of all groups so far,
    ``stopped`` whether a person asked to stop.
    """

    bench: TrialRunner
    writer: ModelWriter
    check: Callable[[Program], Sequence[Problem]]
    label: Callable[[str], str]
    named: Callable[[str], Sequence[str]]
    document: Callable[[str], str]
    price: Price | None = None
    """Of the writer's model; None: free, or not known."""
    api_price: Price | None = None
    """Of the model that programs ask."""
    spent: Callable[[], float] = lambda: 0.0
    elapsed: Callable[[], float] = lambda: 0.0
    stopped: Callable[[], object] = lambda: False


@dataclass(frozen=True)
class Task:
    """One group with its queries; ``first`` are the first stage's trials on the validation queries."""

    id: str
    pattern: str
    training: Sequence[LabelledQuestion]
    validation: Sequence[LabelledQuestion]
    first: Sequence[Trial]


def train_group(
    task: Task, history: History, options: ProgramsOptions, context: TrainingContext, record: Callable[[Step], object]
) -> tuple[History, Ended]:
    """Take steps until an end is reached; each is recorded when it is done. Raises StopRun of a model's calls."""
    while (ended := why_ended(task, history, options, context)) is None:
        step = take_step(task, history, options, context)
        record(step)
        history += step
    return history, ended


def why_ended(task: Task, history: History, options: ProgramsOptions, context: TrainingContext) -> Ended | None:
    """Why no further step is taken; None: one is."""
    if len(history.steps) >= options.steps:
        return "steps"
    if (history.best.validation if history.best else means(task.first))["mrr"] >= 1.0:
        return "perfect"
    if options.cost is not None and context.spent() >= options.cost:
        return "cost"
    if options.seconds is not None and context.elapsed() >= options.seconds:
        return "time"
    return "stopped" if context.stopped() else None


def take_step(task: Task, history: History, options: ProgramsOptions, context: TrainingContext) -> Step:
    """One step: a program is written, run on a batch, contrasted, and compared with the best so far."""
    began, trace, api = time.monotonic(), Trace(), Trace()
    step = _tried(task, history, options, context, trace, api)
    cost = (cost_of(trace.usage, context.price) or 0.0) + (cost_of(api.usage, context.api_price) or 0.0)
    seconds = round(time.monotonic() - began, 3)
    return replace(step, usage=trace.usage, api_usage=api.usage, cost=cost, seconds=seconds)


def _tried(
    task: Task, history: History, options: ProgramsOptions, context: TrainingContext, trace: Trace, api: Trace
) -> Step:
    """The step, with what the writer spends in ``trace`` and what programs do in ``api``."""
    number = len(history.steps) + 1
    brief = Brief(
        next_action(history, options.patience),
        number,
        task.pattern,
        example_queries(task.training, f"{options.seed}:{task.id}:examples"),
        means(task.first),
        history,
        reachable=context.bench.oracle([one.query for one in task.first]),
    )
    source, program, rejected = write_program(brief, context.writer, context.check, trace)
    step = Step(number, brief.action, source, "")
    if program is None:
        return replace(step, rejected=len(rejected) - 1, error=rejected[-1].error)

    def run(queries: Sequence[LabelledQuestion]) -> list[Trial]:
        trials = context.bench.run(program, queries)
        api.spend(sum((one.usage for one in trials), Usage()))
        return trials

    batch = _batch(task, options, number)
    trials = run(batch)
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
    if step.broken:
        return step
    contrast = split(trials)
    advice = context.writer.reflect(brief, source, contrast, context.label, context.document, trace)
    advice = without_names(advice, names_in(contrast, context.label, context.named))
    best = Program.read(history.best.source) if history.best else None
    before = means(context.bench.run(best, batch) if best else context.bench.baseline(batch))["mrr"]
    step = replace(step, best_on_batch=before, instruction=advice)
    if step.metrics["mrr"] < before:
        return step
    held = run(task.validation)
    compared = compare(held, history.best.validated if history.best else scores_of(task.first))
    return replace(
        step, compared=compared, accepted=compared.accepted, validation=means(held), validated=scores_of(held)
    )


def _batch(task: Task, options: ProgramsOptions, number: int) -> list[LabelledQuestion]:
    order = list(task.training)
    random.Random(f"{options.seed}:{task.id}:batches").shuffle(order)
    size = min(options.batch, len(order))
    start = (number - 1) * size
    return [order[place % len(order)] for place in range(start, start + size)]


@dataclass(frozen=True)
class GroupsFound:
    """The groups, and what finding them cost."""

    groups: tuple[Group, ...]
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    format: int = 1


@dataclass(frozen=True)
class Order:
    """What is trained on; ``bound``: all that must be the same in use; ``models``: the writer's, the programs'."""

    skb: str
    training: Sequence[LabelledQuestion]
    validation: Sequence[LabelledQuestion]
    options: ProgramsOptions
    bound: Mapping[str, Any]
    models: Mapping[str, str]
    prompts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def seen(self) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
        """The questions of both parts, as a folder keeps them."""
        learned, apart = ([(one.id, one.text) for one in part] for part in (self.training, self.validation))
        return question_digests(learned), question_digests(apart)


@dataclass(frozen=True)
class Trained:
    """What became of a training: why each group ended, and the dollars of all."""

    ended: Mapping[str, str]
    cost: float


def train(
    order: Order,
    folder: Path,
    context: TrainingContext,
    find_groups: Callable[[], GroupsFound],
    *,
    listener: Listener = lambda group, step: None,  # noqa: ARG005
) -> Trained:
    """Train, or go on with, what is in ``folder``, and freeze it. Raises UsageError where it holds another training.

    Groups know nothing of one another, so that it does not matter how many are trained at once, but for a limit of cost
    or time, which freezes what is best until then. Stopped is raised where a person stopped it.
    """
    check_questions(order)
    _begin(folder, order)
    if not (folder / GROUPS).exists():
        write_whole(folder / GROUPS, json.dumps(asdict(find_groups()), ensure_ascii=False, indent=1) + "\n")
    grouped = read_groups(folder)
    histories = {group.id: History(read_steps(folder, group)) for group in grouped.groups}
    spent = {group: sum(step.cost for step in history.steps) for group, history in histories.items()}
    began = time.monotonic()
    context = replace(
        context, spent=lambda: grouped.cost + sum(spent.values()), elapsed=lambda: time.monotonic() - began
    )
    ended: dict[str, str] = {}
    tasks = {group.id: _task(group, order, context) for group in grouped.groups}
    failed, lock, asked = Event(), Lock(), context.stopped
    together = replace(context, stopped=lambda: failed.is_set() or asked())

    def train_one(group: Group) -> None:
        def record(step: Step) -> None:
            journal.append(step)
            with lock:
                spent[group.id] += step.cost
                listener(group, step)

        try:
            with open_journal(_journal(folder, group)) as journal:
                found = train_group(tasks[group.id], histories[group.id], order.options, together, record)
                histories[group.id], ended[group.id] = found
        except BaseException:
            failed.set()  # the others end behind the step that they are at
            raise

    with ThreadPoolExecutor(order.options.at_once) as threads:
        running = [threads.submit(copy_context().run, train_one, group) for group in grouped.groups]
    for one in running:
        one.result()
    if "stopped" in ended.values():
        raise Stopped(STOPPED)
    _freeze(folder, order, grouped, tasks, histories, context)
    return Trained(ended, context.spent())


def read_groups(folder: Path) -> GroupsFound:
    """The groups of a training. Raises UsageError where it has none yet, DataError."""
    found: GroupsFound = read_document(folder / GROUPS, GroupsFound, f"{folder} holds no training: no {GROUPS}")
    return found


def read_steps(folder: Path, group: Group) -> tuple[Step, ...]:
    """The steps of a group so far. Raises DataError."""
    path = _journal(folder, group)
    return tuple(read_journal(path, Step)) if path.exists() else ()


def write_curve(folder: Path, path: Path) -> None:
    """Validation MRR over the steps of each group as CSV (Agent Retriever, Figure 3); step 0 is the first stage.

    ``mrr`` is that of the step's program on all validation queries, empty where it did not run on them, and ``best``
    that of the best so far. Raises UsageError, DataError.
    """
    first = {one.id: one.first["mrr"] for one in read_frozen(folder).about.groups}
    rows = [
        (group.id, step, "" if mrr is None else mrr, best)
        for group in read_groups(folder).groups
        for step, mrr, best in curve(read_steps(folder, group), first[group.id])
    ]
    write_whole(path, csv_text([("group", "step", "mrr", "best"), *rows]))


def check_questions(order: Order) -> None:
    """Raise UsageError where there is nothing to train or validate on, or a question is in both."""
    for name, queries in (("train", order.training), ("validate", order.validation)):
        if not queries:
            raise UsageError(f"there are no questions with gold nodes to {name} on")
        if len({one.id for one in queries}) < len(queries):
            raise UsageError(f"several questions to {name} on have the same id")
    training, validation = order.seen
    held = {key for one in validation for key in (one.id, one.text)}
    both = [one.id for one in training if not held.isdisjoint((one.id, one.text))]
    if both:
        raise UsageError(f"the question {both[0]!r} is both to train and to validate on")


def _begin(folder: Path, order: Order) -> None:
    training, validation = ([one.model_dump() for one in part] for part in order.seen)
    now = {
        "skb": order.skb,
        "options": order.options.model_dump(mode="json", exclude=set(_FREE)),
        "acceptance": RULE,
        "bound": order.bound,
        "models": order.models,
        "prompts": order.prompts,
        "training": training,
        "validation": validation,
    }
    text = json.dumps(now, ensure_ascii=False, indent=1) + "\n"
    path = folder / TRAINING
    try:
        before = json.loads(path.read_bytes())
    except FileNotFoundError:
        write_whole(path, text)
        return
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    changed = [name for name, value in json.loads(text).items() if before.get(name) != value]
    if changed:
        raise UsageError(f"{folder} holds a training with another {', '.join(changed)}; choose another folder")


def _journal(folder: Path, group: Group) -> Path:
    return folder / STEPS / f"{group.id}.jsonl"


def _task(group: Group, order: Order, context: TrainingContext) -> Task:
    training = {one.id: one for one in order.training}
    validation = {one.id: one for one in order.validation}
    held = [validation[one] for one in group.validation]
    random.Random(f"{order.options.seed}:{group.id}:validation").shuffle(held)
    return Task(group.id, group.pattern, [training[one] for one in group.training], held, context.bench.baseline(held))


def _freeze(
    folder: Path,
    order: Order,
    grouped: GroupsFound,
    tasks: Mapping[str, Task],
    histories: Mapping[str, History],
    context: TrainingContext,
) -> None:
    texts = {one.id: one.text for one in (*order.training, *order.validation)}
    centroids = Centroids.of([[texts[one] for one in group.training] for group in grouped.groups])
    best = {name: history.best for name, history in histories.items()}
    about = Description(
        skb=order.skb,
        bound=json.loads(json.dumps(order.bound)),
        prompts=dict(order.prompts),
        models=dict(order.models),
        seed=order.options.seed,
        training=order.seen[0],
        validation=order.seen[1],
        oracle=round(context.bench.oracle(order.validation), 6),
        words=centroids.words,
        centroids=centroids.vectors,
        groups=tuple(_record(group, tasks[group.id], best[group.id]) for group in grouped.groups),
    )
    freeze(folder, about, {name: Program.read(step.source) for name, step in best.items() if step})


def _record(group: Group, task: Task, best: Step | None) -> GroupRecord:
    first = [one.metrics["mrr"] for one in task.first]
    found: dict[str, Any] = {}
    if best:
        found = {
            "program": f"{group.id}.py",
            "sha256": best.sha256,
            "step": best.number,
            "scores": dict(best.validation),
            "p": round(paired_test(first, best.validated).p, 6),
        }
    return GroupRecord(
        id=group.id,
        pattern=group.pattern,
        training=group.training,
        validation=group.validation,
        first=means(task.first),
        queries=len(first),
        **found,
    )


def train_programs(
    kb: SkbKB,
    settings: Settings,
    training: Sequence[LabelledQuestion],
    validation: Sequence[LabelledQuestion],
    options: ProgramsOptions,
    folder: Path,
    *,
    listener: Listener = lambda group, step: None,  # noqa: ARG005
    stopped: Callable[[], object] = lambda: False,
) -> Trained:
    """Train programs, the settings' model writing; work is kept. Raises UsageError, CredentialsError, as its calls."""
    if settings.model == OFFLINE:
        raise UsageError("kbnav train programs needs a model, which writes them: --model NAME")
    calls, parts = open_calls(settings), open_parts(kb, settings, api_model=options.api_model)
    price = price_of(settings, settings.model)
    order = Order(
        kb.name,
        training,
        validation,
        options,
        bound_to(kb),
        {"writer": calls.name, "programs": options.api_model},
        {**prompt_hashes("agent_retriever"), **parts.prompts},
    )

    def find_groups() -> GroupsFound:
        if options.most == 1:
            everything = (tuple(one.id for one in part) for part in (training, validation))
            return GroupsFound((Group("g1", "any query", *everything),))
        trace = Trace()
        found = groups_by_model(
            training,
            validation,
            calls.ask,
            trace,
            most=options.most,
            smallest=options.smallest,
            seed=options.seed,
            kinds=lambda node: kb.skb.type(kb.skb.number(node)),
        )
        return GroupsFound(tuple(found), trace.usage, cost_of(trace.usage, price) or 0.0)

    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox())
        bench = TrialRunner(lambda query: parts.first(query, None), partial(sandbox.run, api=parts.api))
        if options.on == "ray":
            bench = stack.enter_context(on_ray(settings, options.api_model, options.workers))
        context = TrainingContext(
            bench,
            ModelWriter(calls, describe_setting(kb, parts.api)),
            check=lambda program: sandbox.check(program, parts.api),
            label=lambda node: kb.skb.name(kb.skb.number(node)),
            document=lambda node: document_line(kb.skb, kb.skb.number(node)),
            named=lambda text: [mention.text for mention in read(text, kb.skb, "en").mentions],
            price=price,
            api_price=price_of(settings, options.api_model),
            stopped=stopped,
        )
        return train(order, folder, context, find_groups, listener=listener)
