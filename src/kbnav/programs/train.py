"""A whole training: groups, the loop for each, and the frozen folder. Killed at any moment, the same call goes on.

The folder holds ``training.json`` (what is trained on, so that nothing else is gone on with), ``groups.json``,
``steps/GROUP.jsonl`` with a line for each step, and in the end what ``kbnav.programs.retriever`` describes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from kbnav.encoders.trained import question_digests
from kbnav.errors import DataError, Stopped, UsageError
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.questions import read
from kbnav.models.prices import cost_of, price_of
from kbnav.planning.training import LabelledQuestion, examples
from kbnav.programs.first_stage import FILE, FirstStage, Parts, TrainingQuery, bound_to, open_parts, weigh
from kbnav.programs.groups import (
    MOST,
    SMALLEST,
    Centroids,
    Group,
    common_words,
    groups_by_model,
    groups_by_words,
    one_group,
    telling_words,
)
from kbnav.programs.program import Problem, Program
from kbnav.programs.retriever import Description, GroupRecord, freeze
from kbnav.programs.standin_writer import StandInWriter
from kbnav.programs.steps import (
    RULE,
    SIGNIFICANCE,
    STAGES,
    History,
    Step,
    Trial,
    TrialRunner,
    means,
    race,
    scores_of,
    total_cost,
    total_usage,
)
from kbnav.programs.writer import (
    THRESHOLD,
    Advice,
    Brief,
    ContrastText,
    Draft,
    ModelWriter,
    Writer,
    asked_types,
    debug_of_worst,
    describe_setting,
    describe_trial,
    example_queries,
    names_in,
    next_action,
    split,
    without_names,
    write_program,
)
from kbnav.prompts import prompt_hashes
from kbnav.runs.journal import open_journal, read_journal, write_whole
from kbnav.runs.trace import Trace
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import OFFLINE, Price, Settings

if TYPE_CHECKING:
    from kbnav.programs.sandbox import Sandbox


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
class TrainingContext:
    """What the steps of a group are taken with.

    ``check`` gives what is wrong with a program before it is run, ``checks`` says what it looks at. ``label`` gives a
    node's name, ``kind`` its type, ``named`` what a query may name. ``spent`` and ``elapsed`` give the dollars and
    seconds of all groups so far, ``stopped`` whether a person asked to stop.
    """

    bench: TrialRunner
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


def train_group(
    task: Task, history: History, plan: Plan, context: TrainingContext, record: Callable[[Step], object]
) -> tuple[History, Ended]:
    """Take steps until an end is reached; each is recorded when it is done. Raises StopRun of a model's calls."""
    while (ended := why_ended(task, history, plan, context)) is None:
        step = take_step(task, history, plan, context)
        record(step)
        history += step
    return history, ended


def why_ended(task: Task, history: History, plan: Plan, context: TrainingContext) -> Ended | None:
    """Why no further step is taken; None: one is."""
    if len(history.steps) >= plan.steps:
        return "steps"
    if history.best is not None and not plan.strict:
        return "first program"
    if (history.best.validation if history.best else means(task.first))["mrr"] >= 1.0:
        return "perfect"
    if plan.cost is not None and context.spent() >= plan.cost:
        return "cost"
    if plan.seconds is not None and context.elapsed() >= plan.seconds:
        return "time"
    return "stopped" if context.stopped() else None


def take_step(task: Task, history: History, plan: Plan, context: TrainingContext) -> Step:
    """One step: a program is written, run on a batch, contrasted, and raced against the best so far."""
    began, trace = time.monotonic(), Trace()
    number = len(history.steps) + 1
    brief = _brief(task, history, plan, context, number)
    draft, program, rejected = write_program(brief, context.writer, context.check, context.checks, trace)
    step = Step(number, brief.action, draft.source, dict(draft.parameters), "")
    if program is None:
        step = replace(step, rejected=len(rejected) - 1, error=rejected[-1].error)
        return _finished(step, trace, (), context, began)
    batch = _batch(task, plan, number)
    trials = context.bench.run(program, draft.parameters, batch)
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
        before = _best_on(batch, history, context)
        step = replace(step, best_on_batch=means(before)["mrr"])
        if not plan.strict or step.metrics["mrr"] >= (step.best_on_batch or 0.0):
            step, raced = _raced(step, program, (before, trials), task, history, plan, context)
        if "contrast" not in plan.without:
            advice = _advice(brief, draft, trials, plan, context, trace)
            step = replace(step, instruction=advice.text, notes=advice.notes)
    return _finished(step, trace, (*trials, *raced), context, began)


def _brief(task: Task, history: History, plan: Plan, context: TrainingContext, number: int) -> Brief:
    return Brief(
        next_action(history, plan.patience),
        number,
        task.pattern,
        example_queries(task.training, context.kind, f"{plan.seed}:{task.id}:examples"),
        means(task.first),
        history,
        memory="memory" not in plan.without,
        asked=asked_types(task.training, context.kind),
    )


def _best_on(batch: Sequence[TrainingQuery], history: History, context: TrainingContext) -> Sequence[Trial]:
    """The best so far on a batch: what is worse there is not raced."""
    if history.best is None:
        return context.bench.baseline(batch)
    return context.bench.run(Program.read(history.best.source), history.best.parameters, batch)


def _raced(
    step: Step,
    program: Program,
    batch: tuple[Sequence[Trial], Sequence[Trial]],
    task: Task,
    history: History,
    plan: Plan,
    context: TrainingContext,
) -> tuple[Step, Sequence[Trial]]:
    """The step with its race against the best so far, which at first is the first stage.

    ``batch`` has the trials of the best and of this program on the step's batch. A program that is only as good as the
    first stage is not taken in its place, whatever the batch says.
    """
    scores = history.best.validated if history.best else scores_of(task.first)
    found = race(
        lambda queries: context.bench.run(program, step.parameters, queries),
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


def _advice(
    brief: Brief, draft: Draft, trials: Sequence[Trial], plan: Plan, context: TrainingContext, trace: Trace
) -> Advice:
    """The writer's, without the names of the examples."""
    contrast = split(trials, threshold=plan.threshold)
    shown = ContrastText(
        [describe_trial(one, context.label) for one in contrast.well],
        [describe_trial(one, context.label) for one in contrast.badly],
        means(trials),
        trials,
    )
    said = context.writer.reflect(brief, draft, contrast, shown, trace)
    return replace(said, text=without_names(said.text, names_in(contrast, context.label, context.named)))


def _batch(task: Task, plan: Plan, number: int) -> list[TrainingQuery]:
    """The queries of a step: parts of one shuffled round after another, so that each query has its turn."""
    order = list(task.training)
    random.Random(f"{plan.seed}:{task.id}:batches").shuffle(order)
    size = min(plan.batch, len(order))
    start = (number - 1) * size
    return [order[place % len(order)] for place in range(start, start + size)]


def _finished(step: Step, trace: Trace, trials: Sequence[Trial], context: TrainingContext, began: float) -> Step:
    """The step with what it cost."""
    api = total_usage(trials)
    cost = (cost_of(trace.usage, context.prices.writer) or 0.0) + (cost_of(api.paid, context.prices.api) or 0.0)
    return replace(
        step,
        paid=trace.usage,
        replayed=trace.replayed,
        api_paid=api.paid,
        api_replayed=api.replayed or Usage(),
        cost=cost,
        seconds=round(time.monotonic() - began, 3),
    )


TRAINING = "training.json"
GROUPS = "groups.json"
STEPS = "steps"
_FREE = frozenset({"steps", "cost", "seconds"})
"""What of a plan may change between the parts of a training."""


@dataclass(frozen=True)
class GroupsFound:
    """The groups, and what finding them cost."""

    groups: tuple[Group, ...]
    words: tuple[str, ...] = ()
    """By which queries are routed without a model; none: those that many queries have."""
    paid: Usage = field(default_factory=Usage)
    replayed: Usage = field(default_factory=Usage)
    cost: float = 0.0


@dataclass(frozen=True)
class Order:
    """What is trained on, and what the programs will be bound to.

    ``bound`` is everything that must be the same where they are used, ``models`` names the writer's and the programs'.
    """

    skb: str
    training: Sequence[TrainingQuery]
    validation: Sequence[TrainingQuery]
    plan: Plan
    bound: Mapping[str, Any]
    models: Mapping[str, str]
    prompts: Mapping[str, str] = field(default_factory=dict)
    grouping: Mapping[str, Any] = field(default_factory=dict)
    """How groups are found: their number, their least size."""


@dataclass(frozen=True)
class Trained:
    """What became of a training: the steps of each group, and why each ended."""

    groups: tuple[Group, ...]
    steps: Mapping[str, Sequence[Step]]
    ended: Mapping[str, str]
    cost: float


STOPPED = "the training was stopped; the same command goes on"
Listener = Callable[[Group, Step], object]


def train(
    order: Order,
    folder: Path,
    context: TrainingContext,
    find_groups: Callable[[], GroupsFound],
    *,
    listener: Listener = lambda group, step: None,  # noqa: ARG005
    only: str = "",
) -> Trained:
    """Train, or go on with, what is in ``folder``, and freeze it. Raises UsageError where it holds another training.

    ``only`` is the id of the one group that is trained now; the others stay as they are.

    A limit of cost or time freezes what is best until then; Stopped is raised where a person stopped it.
    """
    check_questions(order)
    _begin(folder, order)
    grouped = _groups(folder, find_groups)
    histories = {group.id: _history(folder, group) for group in grouped.groups}
    spent = {group: total_cost(history.steps) for group, history in histories.items()}
    began = time.monotonic()
    context = replace(
        context, spent=lambda: grouped.cost + sum(spent.values()), elapsed=lambda: time.monotonic() - began
    )
    ended: dict[str, str] = {}
    tasks = {group.id: _task(group, order, context) for group in grouped.groups}
    for group in _chosen(grouped.groups, only):
        with open_journal(_journal(folder, group)) as journal:

            def record(step: Step, group: Group = group) -> None:
                journal.append(step)
                spent[group.id] += step.cost
                listener(group, step)

            histories[group.id], ended[group.id] = train_group(
                tasks[group.id], histories[group.id], order.plan, context, record
            )
        if ended[group.id] == "stopped":
            raise Stopped(STOPPED)
    _freeze(folder, order, grouped, tasks, histories, context)
    steps = {name: history.steps for name, history in histories.items()}
    return Trained(grouped.groups, steps, ended, context.spent())


def _chosen(groups: Sequence[Group], only: str) -> Sequence[Group]:
    found = [group for group in groups if only in ("", group.id)]
    if not found:
        raise UsageError(f"there is no group {only!r}; there are {', '.join(group.id for group in groups)}")
    return found


def read_groups(folder: Path) -> GroupsFound:
    """The groups of a training. Raises UsageError where it has none yet, DataError."""
    path = folder / GROUPS
    try:
        return TypeAdapter(GroupsFound).validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no training: no {GROUPS}") from error
    except (OSError, ValidationError) as error:
        raise DataError(f"{path}: not the groups of a training: {error}") from error


def read_steps(folder: Path, group: Group) -> tuple[Step, ...]:
    """The steps of a group so far. Raises DataError."""
    path = _journal(folder, group)
    return tuple(read_journal(path, Step)) if path.exists() else ()


def check_questions(order: Order) -> None:
    """Raise UsageError where there is nothing to train or validate on, or a question is in both."""
    for name, queries in (("train", order.training), ("validate", order.validation)):
        if not queries:
            raise UsageError(f"there are no questions with gold nodes to {name} on")
        if len({one.id for one in queries}) < len(queries):
            raise UsageError(f"several questions to {name} on have the same id")
    held = {one.text for one in question_digests([(one.id, one.text) for one in order.validation])}
    both = [one.id for one in question_digests([(one.id, one.text) for one in order.training]) if one.text in held]
    ids = {one.id for one in order.validation} & {one.id for one in order.training}
    if both or ids:
        raise UsageError(f"the question {(both or sorted(ids))[0]!r} is both to train and to validate on")


def _begin(folder: Path, order: Order) -> None:
    """Write what is trained, or check that it is the same."""
    plan = {name: value for name, value in asdict(order.plan).items() if name not in _FREE}
    plan["without"] = sorted(order.plan.without)
    now = {
        "skb": order.skb,
        "plan": plan,
        "acceptance": RULE,
        "bound": order.bound,
        "models": order.models,
        "prompts": order.prompts,
        "grouping": order.grouping,
        "training": [one.model_dump() for one in question_digests([(one.id, one.text) for one in order.training])],
        "validation": [one.model_dump() for one in question_digests([(one.id, one.text) for one in order.validation])],
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


def _groups(folder: Path, find: Callable[[], GroupsFound]) -> GroupsFound:
    if not (folder / GROUPS).exists():
        text = json.dumps(asdict(find()), ensure_ascii=False, indent=1)
        write_whole(folder / GROUPS, text + "\n")
    return read_groups(folder)


def _journal(folder: Path, group: Group) -> Path:
    return folder / STEPS / f"{group.id}.jsonl"


def _history(folder: Path, group: Group) -> History:
    return History(read_steps(folder, group))


def _task(group: Group, order: Order, context: TrainingContext) -> Task:
    training = {one.id: one for one in order.training}
    validation = {one.id: one for one in order.validation}
    held = [validation[one] for one in group.validation]
    random.Random(f"{order.plan.seed}:{group.id}:validation").shuffle(held)
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
    centroids = Centroids.of([[texts[one] for one in group.training] for group in grouped.groups], grouped.words)
    best = {name: history.best for name, history in histories.items()}
    about = Description(
        skb=order.skb,
        bound=json.loads(json.dumps(order.bound)),
        prompts=dict(order.prompts),
        models=dict(order.models),
        seed=order.plan.seed,
        without=tuple(sorted(order.plan.without)),
        training=question_digests([(one.id, one.text) for one in order.training]),
        validation=question_digests([(one.id, one.text) for one in order.validation]),
        oracle=round(context.bench.oracle(order.validation), 6),
        words=centroids.words,
        centroids=centroids.vectors,
        groups=tuple(_record(group, tasks[group.id], best[group.id]) for group in grouped.groups),
    )
    freeze(folder, about, {name: Program.read(step.source) for name, step in best.items() if step})


def _record(group: Group, task: Task, best: Step | None) -> GroupRecord:
    first = [one.metrics["mrr"] for one in task.first]
    record = GroupRecord(
        id=group.id,
        pattern=group.pattern,
        training=group.training,
        validation=group.validation,
        first=means(task.first),
        queries=len(first),
    )
    if best is None:
        return record
    found = {
        "program": f"{group.id}.py",
        "sha256": best.sha256,
        "parameters": dict(best.parameters),
        "step": best.number,
        "scores": dict(best.validation),
        "p": round(paired_test(first, best.validated).p, 6),
    }
    return record.model_copy(update=found)


Grouping = Literal["auto", "model", "paths", "words"]
"""By patterns that a model sees, by words that tell the paths to the answers, or by common words.

auto: by a model, or by paths where there is none.
"""


@dataclass(frozen=True)
class TrainingRequest:
    """What is to be trained. ``api_model`` is the model that programs ask; empty: they ask none."""

    training: Sequence[TrainingQuery]
    validation: Sequence[TrainingQuery]
    plan: Plan
    most: int = MOST
    smallest: int = SMALLEST
    sandbox: str = "monty"
    api_model: str = ""
    grouping: Grouping = "auto"
    weigh: bool = True
    """Whether the first stage's systems get weights that are chosen on the questions, or equal ones."""
    only: str = ""
    """The id of the one group that is trained now; empty: all."""


def train_programs(
    kb: SkbKB,
    settings: Settings,
    wanted: TrainingRequest,
    folder: Path,
    *,
    listener: Listener = lambda group, step: None,  # noqa: ARG005
    stopped: Callable[[], object] = lambda: False,
) -> Trained:
    """Train programs with the settings' model as the writer; a stand-in writes where there is none.

    Raises UsageError, CredentialsError, and what the model's calls raise; what was done until then is kept.
    """
    plan = wanted.plan
    parts = open_parts(
        kb,
        settings,
        sandbox=wanted.sandbox,
        api_model=wanted.api_model,
        without=plan.without,
        weights=_weights(kb, settings, wanted, folder),
    )
    most = 1 if "groups" in plan.without else wanted.most
    with parts.sandbox() as sandbox:
        writer = _writer(kb, settings, parts, sandbox)
        order = Order(
            kb.name,
            wanted.training,
            wanted.validation,
            plan,
            bound_to(kb, parts),
            {"writer": writer.name, "programs": wanted.api_model},
            {**(prompt_hashes("agent_retriever") if settings.model != OFFLINE else {}), **parts.prompts},
            {"most": most, "smallest": wanted.smallest, "by": wanted.grouping},
        )
        context = TrainingContext(
            TrialRunner(
                lambda query: parts.first(query, None),
                lambda program, query, nodes, given: sandbox.run(program, query, nodes, parts.api, parameters=given),
            ),
            writer,
            check=lambda program: sandbox.check(program, parts.api),
            checks=sandbox.checks,
            label=lambda node: kb.skb.nodes.label(kb.skb.number(node)),
            kind=lambda node: kb.skb.type_name(kb.skb.number(node)),
            named=lambda text: [mention.text for mention in read(text, kb.skb, "en").mentions],
            prices=Prices(price_of(settings, settings.model), price_of(settings, wanted.api_model)),
            stopped=stopped,
        )

        def grouped() -> GroupsFound:
            given = replace(wanted, most=most)
            return find_groups(kb, settings, given, plan.seed)

        return train(order, folder, context, grouped, listener=listener, only=wanted.only)


def _weights(kb: SkbKB, settings: Settings, wanted: TrainingRequest, folder: Path) -> Sequence[float]:
    """Of the first stage; a training of before that has none goes on without."""
    before = (folder / TRAINING).exists() and not (folder / FILE).exists()
    if not wanted.weigh or before:
        return ()
    return weigh(FirstStage(kb, settings), wanted.training, wanted.validation, folder).weights


def find_groups(kb: SkbKB, settings: Settings, wanted: TrainingRequest, seed: int) -> GroupsFound:
    """Groups by the settings' model, or without one by words. Raises as the model's calls do."""
    training, validation = wanted.training, wanted.validation
    most, smallest = wanted.most, wanted.smallest
    if most == 1:
        return GroupsFound(tuple(one_group(training, validation)))
    how = wanted.grouping
    if how in ("words", "paths") or (how == "auto" and settings.model == OFFLINE):
        texts = [one.text for one in training]
        words = common_words(texts) if how == "words" else telling_words(texts, paths_to_answers(kb, training))
        found = groups_by_words(training, validation, most=most, smallest=smallest, seed=seed, words=words)
        return GroupsFound(tuple(found), words)
    from kbnav.models.calls import open_calls

    calls, trace = open_calls(settings), Trace()
    found = groups_by_model(
        training,
        validation,
        lambda prompt, own, purpose: calls.ask(prompt, own, purpose=purpose),
        trace,
        most=most,
        smallest=smallest,
        seed=seed,
    )
    cost = cost_of(trace.usage, price_of(settings, settings.model)) or 0.0
    return GroupsFound(tuple(found), (), trace.usage, trace.replayed, cost)


def paths_to_answers(kb: SkbKB, queries: Sequence[TrainingQuery]) -> list[str]:
    """For each query the likeliest path of relations from what it names to its answers; empty where there is none."""
    matcher = NodeMatcher(kb.skb, "exact")
    found = []
    for query in queries:
        labels = [example.label for example in examples([LabelledQuestion(query.text, query.answers)], kb.skb, matcher)]
        found.append(max(labels[0].items(), key=lambda pair: (pair[1], str(pair[0])))[0] if labels else None)
    return [str(path) if path else "" for path in found]


def _writer(kb: SkbKB, settings: Settings, parts: Parts, sandbox: Sandbox) -> Writer:
    if settings.model == OFFLINE:
        return StandInWriter(parts.api.functions)
    from kbnav.models.calls import open_calls

    return ModelWriter(open_calls(settings), describe_setting(kb, parts, sandbox.language))
