"""A whole training: groups, the loop for each, and the frozen folder. Killed at any moment, the same call goes on.

The folder holds ``training.json`` (what is trained on, so that nothing else is gone on with), ``groups.json``,
``steps/GROUP.jsonl`` with a line for each step, and in the end what ``kbnav.programs.frozen`` describes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kbnav.encoders.trained import kept
from kbnav.errors import DataError, Stopped, UsageError
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.programs.acceptance import RULE
from kbnav.programs.frozen import Description, GroupRecord, freeze
from kbnav.programs.groups import Centroids, Group
from kbnav.programs.loop import Plan, Task, Workshop, improve
from kbnav.programs.program import Program
from kbnav.programs.steps import History, Step, total_cost
from kbnav.programs.trials import TrainingQuery, means
from kbnav.runs.journal import open_journal, read_journal, write_whole
from kbnav.runs.trajectory import Usage

TRAINING = "training.json"
GROUPS = "groups.json"
STEPS = "steps"
_FREE = frozenset({"steps", "cost", "seconds"})
"""What of a plan may change between the parts of a training."""


@dataclass(frozen=True)
class Grouped:
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
    shop: Workshop,
    find_groups: Callable[[], Grouped],
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
    shop = replace(shop, spent=lambda: grouped.cost + sum(spent.values()), elapsed=lambda: time.monotonic() - began)
    ended: dict[str, str] = {}
    tasks = {group.id: _task(group, order, shop) for group in grouped.groups}
    for group in _chosen(grouped.groups, only):
        with open_journal(_journal(folder, group)) as journal:

            def record(step: Step, group: Group = group) -> None:
                journal.append(step)
                spent[group.id] += step.cost
                listener(group, step)

            histories[group.id], ended[group.id] = improve(
                tasks[group.id], histories[group.id], order.plan, shop, record
            )
        if ended[group.id] == "stopped":
            raise Stopped(STOPPED)
    _freeze(folder, order, grouped, tasks, histories, shop)
    steps = {name: history.steps for name, history in histories.items()}
    return Trained(grouped.groups, steps, ended, shop.spent())


def _chosen(groups: Sequence[Group], only: str) -> Sequence[Group]:
    found = [group for group in groups if only in ("", group.id)]
    if not found:
        raise UsageError(f"there is no group {only!r}; there are {', '.join(group.id for group in groups)}")
    return found


def read_groups(folder: Path) -> Grouped:
    """The groups of a training. Raises UsageError where it has none yet, DataError."""
    path = folder / GROUPS
    try:
        return TypeAdapter(Grouped).validate_json(path.read_bytes())
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
    held = {one.text for one in kept([(one.id, one.text) for one in order.validation])}
    both = [one.id for one in kept([(one.id, one.text) for one in order.training]) if one.text in held]
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
        "training": [one.model_dump() for one in kept([(one.id, one.text) for one in order.training])],
        "validation": [one.model_dump() for one in kept([(one.id, one.text) for one in order.validation])],
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


def _groups(folder: Path, find: Callable[[], Grouped]) -> Grouped:
    if not (folder / GROUPS).exists():
        text = json.dumps(asdict(find()), ensure_ascii=False, indent=1)
        write_whole(folder / GROUPS, text + "\n")
    return read_groups(folder)


def _journal(folder: Path, group: Group) -> Path:
    return folder / STEPS / f"{group.id}.jsonl"


def _history(folder: Path, group: Group) -> History:
    return History(read_steps(folder, group))


def _task(group: Group, order: Order, shop: Workshop) -> Task:
    training = {one.id: one for one in order.training}
    validation = {one.id: one for one in order.validation}
    held = [validation[one] for one in group.validation]
    random.Random(f"{order.plan.seed}:{group.id}:validation").shuffle(held)
    return Task(group.id, group.pattern, [training[one] for one in group.training], held, shop.bench.baseline(held))


def _freeze(
    folder: Path,
    order: Order,
    grouped: Grouped,
    tasks: Mapping[str, Task],
    histories: Mapping[str, History],
    shop: Workshop,
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
        training=kept([(one.id, one.text) for one in order.training]),
        validation=kept([(one.id, one.text) for one in order.validation]),
        oracle=round(shop.bench.oracle(order.validation), 6),
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
