"""Reports as Markdown and CSV, and runs side by side: systems by datasets, one dataset's questions by what they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from kbnav.answers.tables import markdown_table as table
from kbnav.answers.tables import markdown_text as plain
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset, Question
from kbnav.evaluation.metrics.statistics import Interval, Spread
from kbnav.evaluation.records import SavedRun
from kbnav.evaluation.report.data import Bin, Report, RunReport, metric_name
from kbnav.evaluation.scoring import main_values, score_run

_NONE = "–"


def markdown_report(report: Report) -> str:
    """Scores, comparisons, distributions and classes as Markdown tables; scores in percent."""
    parts = ["## Scores\n\n" + _scores(report)]
    if report.against:
        parts.append(f"## Compared with {plain(report.runs[0].name)}\n\n" + _against(report))
    parts += [f"## {plain(run.name)}\n\n" + "\n".join(_distributions(run)) for run in report.runs]
    return "\n".join(parts)


def _metrics(report: Report) -> list[str]:
    return list(dict.fromkeys(metric for run in report.runs for metric in run.means))


def _scores(report: Report) -> str:
    rows = []
    for run in report.runs:
        means = [_interval(run.means[metric]) if metric in run.means else _NONE for metric in _metrics(report)]
        cost = _NONE if run.cost is None else f"{run.cost:.2f}"
        counts = (run.scores.all.questions, run.scores.attempted.questions)
        what = (run.name, run.info.called, run.info.model, run.info.dataset)
        rows.append((*what, *counts, *means, run.seconds.text(), cost))
    head = ("Run", "System", "Model", "Dataset", "Questions", "Reached", *map(metric_name, _metrics(report)))
    notes = [f"- {plain(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
    made = table((*head, "Seconds", "Cost, $"), rows)
    return "\n".join([made, "".join(notes)]) if notes else made


def _against(report: Report) -> str:
    rows: list[tuple[object, ...]] = []
    for one in report.against:
        if one.comparison is None:
            rows.append((one.name, _NONE, _NONE, one.note, _NONE))
            continue
        for metric in one.comparison.metrics:
            found = (metric_name(metric.metric), _interval(metric.test.difference), f"{metric.test.p:.4f}")
            rows.append((one.name, one.comparison.questions, *found))
    return table(("Run", "Questions", "Metric", "Difference", "p"), rows)


def _distributions(run: RunReport) -> Iterator[str]:
    yield _bins("Actions, rolled-back ones too", run.actions, run.metric)
    yield _bins("Actions on the path", run.path_actions, run.metric)
    yield _bins("Class", run.kinds, run.metric)
    if run.labels:
        kinds = (sorted(one.kinds.items(), key=lambda pair: (-pair[1], pair[0])) for one in run.labels)
        texts = (", ".join(f"{kind} {count}" for kind, count in some) for some in kinds)
        labels = [(one.label, one.count, f"{one.share:.1%}", text) for one, text in zip(run.labels, texts, strict=True)]
        yield table(("Label given by hand", "Questions", "Share", "Automatic classes"), labels)
    if run.tools:
        rows = [(use.tool, use.calls, use.errors, use.dropped, use.questions) for use in run.tools]
        yield table(("Tool", "Calls", "Errors", "Rolled back", "Questions"), rows)
    if run.prompt_tokens:
        yield _bins("Tokens in", run.prompt_tokens, run.metric)
        yield _bins("Tokens out", run.completion_tokens, run.metric)


def _bins(head: str, bins: Sequence[Bin], metric: str) -> str:
    rows = [(one.label, one.count, f"{one.share:.1%}", _percent(one.score)) for one in bins]
    return table((head, "Questions", "Share", metric_name(metric)), rows)


def _interval(interval: Interval) -> str:
    return f"{100 * interval.mean:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f}"


def run_records(report: Report) -> list[dict[str, Any]]:
    """The scores of each run and what it took, for programs."""
    return [
        {
            "run": run.name,
            "system": run.info.called,
            "model": run.info.model,
            "dataset": run.info.dataset,
            "questions": len(run.results),
            "reached": run.reached,
            "means": {metric: asdict(mean) for metric, mean in run.means.items()},
            "actions": run.mean_actions,
            "tokens": asdict(run.usage),
            "cost": run.cost,
            "seconds": run.seconds._asdict(),
        }
        for run in report.runs
    ]


def systems_records(runs: Mapping[str, SavedRun]) -> list[dict[str, Any]]:
    """Runs, given by name, side by side: scores, seconds and dollars a question.

    Raises UsageError where two are of one system, model and dataset.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, run in runs.items():
        system = f"{run.info.called}{f' ({run.info.model})' if run.info.model else ''}"
        if other := found.get((system, run.info.dataset)):
            raise UsageError(f"{other['run']} and {name} are of one system and dataset: name one of them")
        scores, asked = score_run(run).all, [record.run for record in run.records.values()]
        costs = [one.cost for one in asked if one.cost is not None]
        seconds = Spread.of(one.seconds for one in asked) if any(one.seconds for one in asked) else None
        found[system, run.info.dataset] = {
            "system": system,
            "dataset": run.info.dataset,
            "run": name,
            "questions": scores.questions,
            "scores": dict(scores.values),
            "seconds": seconds and seconds.mean,
            "seconds_sd": seconds and seconds.deviation,
            "dollars_a_question": sum(costs) / len(asked) if costs else None,
        }
    return list(found.values())


def systems_markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """Scores as in SPINACH's Table 2 and STaRK's Table 7, and what they took (STaRK, Table 9)."""
    columns = dict.fromkeys((one["dataset"], metric) for one in records for metric in one["scores"])
    order = list(dict.fromkeys(dataset for dataset, _ in columns))
    shown = sorted(columns, key=lambda column: order.index(column[0]))
    scores: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    took = []
    for one in records:
        scores[one["system"]] |= {(one["dataset"], metric): value for metric, value in one["scores"].items()}
        seconds, dollars = one["seconds"], one["dollars_a_question"]
        spent = (
            _NONE if seconds is None else Spread(seconds, one["seconds_sd"]).text(),
            _NONE if dollars is None else f"{dollars:.4f}",
        )
        took.append((one["system"], one["dataset"], one["questions"], *spent))
    rows = [[system, *(_percent(own.get(column)) for column in shown)] for system, own in scores.items()]
    head = ["System", *(f"{dataset} {metric_name(name)}" for dataset, name in shown)]
    return table(head, rows) + "\n" + table(["System", "Dataset", "Questions", "Seconds", "$ a question"], took)


@dataclass(frozen=True)
class Group:
    """Questions that have one value of a key: how many have a gold answer, and each run's mean of its main metric."""

    value: str
    questions: int
    means: Mapping[str, float | None]


@dataclass(frozen=True)
class Grouped:
    """The questions of one dataset by a key, the largest group first; ``metrics`` are the main ones, by run."""

    key: str
    groups: Sequence[Group]
    metrics: Mapping[str, str]


def grouped(runs: Mapping[str, SavedRun], dataset: Dataset, key: str) -> Grouped:
    """The questions of one dataset by a field of ``meta``, with a dot between nested ones.

    Raises UsageError where a run is of another dataset,
    or no question has the key.
    """
    for name, run in runs.items():
        if run.info.dataset_sha256 != dataset.sha256:
            raise UsageError(
                f"{name} is of another {run.info.dataset} than {dataset.name}: name its dataset by --dataset"
            )
    members: defaultdict[str, list[str]] = defaultdict(list)
    for one in dataset.questions:
        members[_value(one, key) or _NONE].append(one.id)
    if set(members) <= {_NONE}:
        fields = sorted({name for one in dataset.questions for name in one.meta})
        raise UsageError(f"no question of {dataset.name} has {key}; in meta there are: {', '.join(fields) or 'none'}")
    scored = {name: main_values(run) for name, run in runs.items()}
    groups = []
    for value, ids in members.items():
        known = {name: [values[one] for one in ids if one in values] for name, (_, values) in scored.items()}
        count = len({one for one in ids if any(one in values for _, values in scored.values())})
        groups.append(Group(value, count, {name: fmean(own) if own else None for name, own in known.items()}))
    found = sorted((one for one in groups if one.questions), key=lambda one: (-one.questions, one.value))
    return Grouped(key, found, {name: metric for name, (metric, _) in scored.items()})


def groups_markdown(found: Grouped) -> str:
    """A row a group, a column a run."""
    head = [found.key, "Questions", *(f"{name} {metric_name(metric)}" for name, metric in found.metrics.items())]
    return table(head, [[one.value, one.questions, *map(_percent, one.means.values())] for one in found.groups])


def _value(question: Question, key: str) -> str:
    """What a question has for a key; empty where it has nothing."""
    found: Any = question.meta
    for part in key.removeprefix("meta.").split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)
