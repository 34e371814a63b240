"""Reports as Markdown and CSV, and runs side by side: systems by datasets, one dataset's questions by what they are."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kbnav.answers.tables import markdown_table as table
from kbnav.answers.tables import markdown_text as plain
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset, Question
from kbnav.evaluation.metrics.statistics import Interval, Spread
from kbnav.evaluation.records import GoldAnswer, SavedRun
from kbnav.evaluation.report.data import Bin, Report, RunReport, metric_name
from kbnav.evaluation.scoring import main_metric, main_values, score_run

_NONE = "–"


def markdown_report(report: Report, by: Sequence[Grouped] = ()) -> str:
    """Scores, comparisons, ``by`` groups, distributions and classes as Markdown tables; scores in percent."""
    parts = ["## Scores\n\n" + _scores(report)]
    if report.against:
        parts.append(f"## Compared with {plain(report.runs[0].name)}\n\n" + _against(report))
    parts += [f"## By {plain(one.key)}\n\n{groups_markdown(one)}" for one in by]
    parts += [f"## {plain(run.name)}\n\n" + "\n".join(_distributions(run)) for run in report.runs]
    return "\n".join(parts)


def _metrics(report: Report) -> list[str]:
    return list(dict.fromkeys(metric for run in report.runs for metric in run.means))


def _scores(report: Report) -> str:
    rows = []
    for run in report.runs:
        means = [_interval(run.means[metric]) if metric in run.means else _NONE for metric in _metrics(report)]
        cost = _NONE if run.cost is None else f"{run.cost:.2f}"
        points = _NONE if run.per_dollar is None else f"{run.per_dollar:,.0f}"
        counts = (run.scores.all.questions, run.scores.attempted.questions)
        what = (run.name, run.info.called, run.info.model, run.info.dataset)
        rows.append((*what, *counts, *means, run.seconds.text(), cost, points))
    head = ("Run", "System", "Model", "Dataset", "Questions", "Reached", *map(metric_name, _metrics(report)))
    notes = [f"- {plain(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
    made = table((*head, "Seconds", "Cost, $", "Points a $"), rows)
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
    if run.groups:
        head = ("Group", "Questions", "Failed", *map(metric_name, run.groups[0].means))
        yield table(
            head, [(one.group, one.questions, one.failed, *map(_percent, one.means.values())) for one in run.groups]
        )
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


def summary_csv(report: Report) -> str:
    """One row a run: every metric with its interval, and what it took. Runs are ranked and tables scored apart."""
    header = ["run", "system", "model", "dataset", "questions", "reached"]
    header += [f"{metric}{part}" for metric in _metrics(report) for part in ("", "_low", "_high")]
    header += ["actions", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "points_a_dollar"]
    rows = []
    for run in report.runs:
        row: list[object] = [run.name, run.info.called, run.info.model, run.info.dataset, len(run.results), run.reached]
        for metric in _metrics(report):
            mean = run.means.get(metric)
            row += (mean.mean, mean.low, mean.high) if mean else (None, None, None)
        row += (run.mean_actions, run.usage.prompt, run.usage.cached, run.usage.completion)
        rows.append((*row, run.cost, run.per_dollar, run.seconds.mean, run.seconds.deviation))
    return _csv([*header, "seconds", "seconds_sd"], rows)


def questions_csv(report: Report) -> str:
    """One row a run and question; metrics are empty where there is no gold answer."""
    header = ["run", "id", "question", "status", "class", *_metrics(report)]
    header += ["actions", "prompt_tokens", "completion_tokens", "cost", "seconds"]
    rows = []
    for run in report.runs:
        for result in run.results.values():
            values = [(result.values or {}).get(metric) for metric in _metrics(report)]
            took: list[object] = [None] * 5
            if result.record:
                asked, used = result.record.run, result.record.run.whole_usage
                took = [len(asked.steps), used.prompt, used.completion, asked.whole_cost, asked.whole_seconds]
            text = report.gold[result.id].question
            rows.append((run.name, result.id, text, result.status, result.kind, *values, *took))
    return _csv(header, rows)


def _csv(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


@dataclass(frozen=True)
class SystemScore:
    """One system on one dataset. ``seconds`` and ``dollars`` are of a question, replayed replies as when made."""

    run: str
    questions: int
    metric: str
    """The one that runs are told apart by."""
    means: Mapping[str, float]
    seconds: Spread | None
    dollars: float | None

    @property
    def main(self) -> float:
        """The mean of that metric."""
        return self.means[self.metric]

    def per(self, amount: float | None) -> float | None:
        """Points of the main metric for one dollar or second, or None where nothing was spent or it is not known."""
        return 100 * self.main / amount if amount else None

    @property
    def per_second(self) -> float | None:
        """Points of the main metric for one second."""
        return self.per(self.seconds.mean if self.seconds else None)


Systems = Mapping[str, Mapping[str, SystemScore]]
"""Scores by system and dataset."""


def systems_by_dataset(runs: Mapping[str, SavedRun]) -> Systems:
    """Runs, given by name, in a table. Raises UsageError where two are of one system, model and dataset."""
    found: defaultdict[str, dict[str, SystemScore]] = defaultdict(dict)
    for name, run in runs.items():
        row = found[f"{run.info.called}{f' ({run.info.model})' if run.info.model else ''}"]
        if run.info.dataset in row:
            raise UsageError(f"{row[run.info.dataset].run} and {name} are of one system and dataset: name one of them")
        scores, asked = score_run(run), [record.run for record in run.records.values()]
        costs = [one.whole_cost for one in asked if one.whole_cost is not None]
        row[run.info.dataset] = SystemScore(
            name,
            scores.all.questions,
            main_metric(scores.metrics),
            scores.all.values,
            seconds=Spread.of(one.whole_seconds for one in asked) if any(one.whole_seconds for one in asked) else None,
            dollars=sum(costs) / len(asked) if costs else None,
        )
    return dict(found)


def systems_markdown(systems: Systems) -> str:
    """Scores as in SPINACH's Table 2 and STaRK's Table 7, and what they took (STaRK, Table 9)."""
    cells = {(system, dataset): cell for system, row in systems.items() for dataset, cell in row.items()}
    columns = dict.fromkeys((dataset, name) for (_, dataset), cell in cells.items() for name in cell.means)
    order = list(dict.fromkeys(dataset for dataset, _ in columns))
    shown = sorted(columns, key=lambda column: order.index(column[0]))
    rows = [
        [system, *(_percent(row[dataset].means.get(name)) if dataset in row else _NONE for dataset, name in shown)]
        for system, row in systems.items()
    ]
    took = []
    for (system, dataset), cell in cells.items():
        spent = (
            cell.seconds.text() if cell.seconds else _NONE,
            _NONE if cell.dollars is None else f"{cell.dollars:.4f}",
        )
        points = [_NONE if one is None else f"{one:,.1f}" for one in (cell.per(cell.dollars), cell.per_second)]
        took.append((system, dataset, cell.questions, *spent, metric_name(cell.metric), *points))
    head = ["System", *(f"{dataset} {metric_name(name)}" for dataset, name in shown)]
    cost = ["System", "Dataset", "Questions", "Seconds", "$ a question", "Metric", "Points a $", "Points a second"]
    return table(head, rows) + "\n" + table(cost, took)


def systems_records(systems: Systems) -> list[dict[str, Any]]:
    """The same for programs, a record a run."""
    return [
        {
            "system": system,
            "dataset": dataset,
            "run": cell.run,
            "questions": cell.questions,
            **cell.means,
            "seconds": cell.seconds.mean if cell.seconds else None,
            "seconds_sd": cell.seconds.deviation if cell.seconds else None,
            "dollars_a_question": cell.dollars,
            "metric": cell.metric,
            "points_a_dollar": cell.per(cell.dollars),
            "points_a_second": cell.per_second,
        }
        for system, row in systems.items()
        for dataset, cell in row.items()
    ]


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
    """The questions of one dataset by a key: ``meta.`` and a field, a dot between nested ones, or what made ones have.

    That is ``shape``, ``template``, ``answer_type`` and ``hops``. Raises UsageError where a run is of another dataset,
    or no question has the key.
    """
    for name, run in runs.items():
        if run.info.dataset_sha256 != dataset.sha256:
            raise UsageError(
                f"{name} is of another {run.info.dataset} than {dataset.name}: name its dataset by --dataset"
            )
    first = next(iter(runs.values()))
    members: defaultdict[str, list[str]] = defaultdict(list)
    for one in dataset.questions:
        members[_value(one, first.gold.get(one.id), key) or _NONE].append(one.id)
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


def _value(question: Question, gold: GoldAnswer | None, key: str) -> str:
    """What a question has for a key; empty where it has nothing."""
    if key == "hops" and not question.meta.get("hops"):
        steps = [int(number) for number in re.findall(r"\d+", str(question.meta.get("shape", "")))]
        return str(max(steps)) if steps else ""
    if key == "answer_type" and not question.meta.get("answer_type"):
        return _answer_type(gold)
    found: Any = question.meta
    for part in key.removeprefix("meta.").split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)


def _answer_type(gold: GoldAnswer | None) -> str:
    """Of a gold table: yes or no, an entity, a number, a date or a text, or that it has several columns."""
    answer = gold.table if gold else None
    if answer is None:
        return ""
    if answer.boolean is not None:
        return "yes or no"
    cells = [cell for row in answer.rows for cell in row if cell]
    if not cells:
        return "nothing"
    if len(answer.columns) > 1:
        return "several columns"
    kinds = {_kind(cell.datatype or "", cell.type) for cell in cells}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _kind(datatype: str, kind: str) -> str:
    name = datatype.rpartition("#")[2].lower()
    if kind != "literal":
        return "entity"
    if name.startswith(("date", "gyear", "time")):
        return "date"
    return "number" if name in ("integer", "decimal", "double", "float", "int", "long") else "text"
