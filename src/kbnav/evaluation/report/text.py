"""Reports as Markdown and JSON, and the scores of one dataset's questions by what they are."""

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
from kbnav.evaluation.metrics.statistics import Interval
from kbnav.evaluation.records import SavedRun
from kbnav.evaluation.report.data import Bin, Report, RunReport, metric_name
from kbnav.evaluation.scoring import main_values

_NONE = "–"


def markdown_report(report: Report) -> str:
    """Scores, comparisons, distributions and classes as Markdown tables; scores in percent."""
    parts = ["## Scores\n\n" + _scores(report)]
    if report.against:
        parts.append(f"## Compared with {plain(report.runs[0].name)}\n\n" + _against(report))
    parts += [f"## {plain(run.name)}\n\n" + "\n".join(_distributions(run)) for run in report.runs]
    return "\n".join(parts)


def _scores(report: Report) -> str:
    rows, metrics = [], list(dict.fromkeys(metric for run in report.runs for metric in run.means))
    for run in report.runs:
        means = [_interval(run.means[metric]) if metric in run.means else _NONE for metric in metrics]
        cost = _NONE if run.cost is None else f"{run.cost:.2f}"
        counts = (run.scores.all.questions, run.scores.attempted.questions)
        what = (run.name, run.info.called, run.info.model, run.info.dataset)
        rows.append((*what, *counts, *means, run.seconds.text(), cost))
    head = ("Run", "System", "Model", "Dataset", "Questions", "Reached", *map(metric_name, metrics))
    notes = [f"- {plain(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
    made = table((*head, "Seconds", "Cost, $"), rows)
    return "\n".join([made, "".join(notes)]) if notes else made


def _against(report: Report) -> str:
    rows: list[tuple[object, ...]] = []
    for name, found in report.against.items():
        if isinstance(found, str):
            rows.append((name, _NONE, _NONE, found, _NONE))
            continue
        for one in found.metrics:
            what = (metric_name(one.metric), _interval(one.test.difference), f"{one.test.p:.4f}")
            rows.append((name, found.questions, *what))
    return table(("Run", "Questions", "Metric", "Difference", "p"), rows)


def _distributions(run: RunReport) -> Iterator[str]:
    yield _bins("Actions, rolled-back ones too", run.actions, run.metric)
    yield _bins("Actions on the path", run.path_actions, run.metric)
    yield _bins("Class", run.kinds, run.metric)
    if run.labels:
        total = sum(kinds.total() for kinds in run.labels.values())
        labels = [
            (
                label,
                kinds.total(),
                f"{kinds.total() / total:.1%}",
                ", ".join(f"{kind} {n}" for kind, n in kinds.items()),
            )
            for label, kinds in run.labels.items()
        ]
        yield table(("Label given by hand", "Questions", "Share", "Automatic classes"), labels)
    if run.tools:
        yield table(("Tool", "Calls", "Errors", "Rolled back", "Questions"), run.tools)
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


@dataclass(frozen=True)
class Breakdown:
    """The questions of one dataset by a key, the largest group first; ``metrics`` are the main ones, by run.

    Of each group: the ``value`` of the key, the number of ``questions`` with a gold answer, and each run's ``means``.
    """

    key: str
    groups: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, str]


def breakdown(runs: Mapping[str, SavedRun], dataset: Dataset, key: str) -> Breakdown:
    """The questions of one dataset by a field of ``meta``, with a dot between nested ones.

    Raises UsageError where a run is of another dataset, or no question has the key.
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
    groups: list[dict[str, Any]] = []
    for value, ids in members.items():
        known = {name: [values[one] for one in ids if one in values] for name, (_, values) in scored.items()}
        count = len({one for one in ids if any(one in values for _, values in scored.values())})
        means = {name: fmean(own) if own else None for name, own in known.items()}
        groups += [{"value": value, "questions": count, "means": means}] if count else []
    groups.sort(key=lambda one: (-one["questions"], one["value"]))
    return Breakdown(key, groups, {name: metric for name, (metric, _) in scored.items()})


def breakdown_markdown(found: Breakdown) -> str:
    """A row a group, a column a run."""
    head = [found.key, "Questions", *(f"{name} {metric_name(metric)}" for name, metric in found.metrics.items())]
    return table(
        head, [[one["value"], one["questions"], *map(_percent, one["means"].values())] for one in found.groups]
    )


def _value(question: Question, key: str) -> str:
    """What a question has for a key; empty where it has nothing."""
    found: Any = question.meta
    for part in key.removeprefix("meta.").split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)
