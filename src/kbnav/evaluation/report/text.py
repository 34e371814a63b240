"""A report as Markdown and CSV, for papers and spreadsheets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kbnav.answers.tables import AnswerTable, markdown_table, markdown_text
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset, Question
from kbnav.evaluation.metrics.statistics import Interval, Spread
from kbnav.evaluation.records import GoldAnswer, SavedRun
from kbnav.evaluation.report.data import Bin, Case, HandLabel, Report, RunReport, metric_name
from kbnav.evaluation.scoring import main_metric, score_run

META = "meta."
MADE = ("shape", "template", "answer_type", "hops")
"""Keys that made questions have; any other is a field of ``meta``."""
_NONE = "–"


@dataclass(frozen=True)
class Cell:
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


Systems = Mapping[str, Mapping[str, Cell]]
"""Cells by system and dataset."""


def systems_by_dataset(runs: Mapping[str, SavedRun]) -> Systems:
    """Runs, given by name, in a table. Raises UsageError where two are of one system, model and dataset."""
    found: dict[str, dict[str, Cell]] = {}
    for name, run in runs.items():
        model = f" ({run.info.model})" if run.info.model else ""
        row = found.setdefault(f"{run.info.called}{model}", {})
        if run.info.dataset in row:
            raise UsageError(f"{row[run.info.dataset].run} and {name} are of one system and dataset: name one of them")
        row[run.info.dataset] = _cell(name, run)
    return found


def systems_markdown(systems: Systems) -> str:
    """Scores as in SPINACH's Table 2 and STaRK's Table 7, and what they took (STaRK, Table 9)."""
    datasets = list(dict.fromkeys(dataset for row in systems.values() for dataset in row))
    metrics = {
        dataset: list(dict.fromkeys(name for row in systems.values() if dataset in row for name in row[dataset].means))
        for dataset in datasets
    }
    head = ["System", *(f"{dataset} {metric_name(name)}" for dataset in datasets for name in metrics[dataset])]
    rows = [
        [
            system,
            *(
                _percent(row[dataset].means.get(name)) if dataset in row else _NONE
                for dataset in datasets
                for name in metrics[dataset]
            ),
        ]
        for system, row in systems.items()
    ]
    took = [
        [
            system,
            dataset,
            cell.questions,
            cell.seconds.text() if cell.seconds else _NONE,
            _NONE if cell.dollars is None else f"{cell.dollars:.4f}",
            metric_name(cell.metric),
            _points(cell.per(cell.dollars)),
            _points(cell.per(cell.seconds.mean if cell.seconds else None)),
        ]
        for system, row in systems.items()
        for dataset, cell in row.items()
    ]
    cost = ["System", "Dataset", "Questions", "Seconds", "$ a question", "Metric", "Points a $", "Points a second"]
    return markdown_table(head, rows) + "\n" + markdown_table(cost, took)


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
            "points_a_second": cell.per(cell.seconds.mean if cell.seconds else None),
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
    """The questions of one dataset by a key; ``metrics`` are the runs' main ones, by the names of the runs."""

    key: str
    groups: Sequence[Group]
    metrics: Mapping[str, str]


def grouped(runs: Mapping[str, SavedRun], dataset: Dataset, key: str) -> Grouped:
    """As ``by_key``, with what is needed to show it. Raises as that."""
    metrics = {name: main_metric(score_run(run).metrics) for name, run in runs.items()}
    return Grouped(key, by_key(runs, dataset, key), metrics)


def by_key(runs: Mapping[str, SavedRun], dataset: Dataset, key: str) -> list[Group]:
    """The questions of one dataset by a key, the largest group first.

    ``key`` is ``meta.`` and a field, a dot between nested ones, or one of ``MADE``. Raises UsageError where a run is of
    another dataset, or no question has the key.
    """
    for name, run in runs.items():
        if run.info.dataset_sha256 != dataset.sha256:
            raise UsageError(
                f"{name} is of another {run.info.dataset} than {dataset.name}: name its dataset by --dataset"
            )
    first = next(iter(runs.values()))
    values = {one.id: value_of(one, first.gold.get(one.id), key) for one in dataset.questions}
    if not any(values.values()):
        fields = sorted({name for one in dataset.questions for name in one.meta})
        raise UsageError(f"no question of {dataset.name} has {key}; in meta there are: {', '.join(fields) or 'none'}")
    members: dict[str, list[str]] = {}
    for question, value in values.items():
        members.setdefault(value or _NONE, []).append(question)
    scored = {name: _main_values(run) for name, run in runs.items()}
    groups = [
        Group(value, len({one for one in ids if any(one in found for found in scored.values())}), {
            name: fmean(have) if (have := [found[one] for one in ids if one in found]) else None
            for name, found in scored.items()
        })
        for value, ids in members.items()
    ]  # fmt: skip
    return sorted((one for one in groups if one.questions), key=lambda one: (-one.questions, one.value))


def groups_markdown(found: Grouped) -> str:
    """A row a group, a column a run."""
    head = [found.key, "Questions", *(f"{name} {metric_name(metric)}" for name, metric in found.metrics.items())]
    return markdown_table(
        head, [[one.value, one.questions, *map(_percent, one.means.values())] for one in found.groups]
    )


def value_of(question: Question, gold: GoldAnswer | None, key: str) -> str:
    """What a question has for a key; empty where it has nothing."""
    if key == "hops" and not question.meta.get("hops"):
        steps = [int(number) for number in re.findall(r"\d+", str(question.meta.get("shape", "")))]
        return str(max(steps)) if steps else ""
    if key == "answer_type" and not question.meta.get("answer_type"):
        return _answer_type(gold)
    found: Any = question.meta
    for part in key.removeprefix(META).split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)


def _answer_type(gold: GoldAnswer | None) -> str:
    """Of a gold table: yes or no, an entity, a number, a date or a text, or that it has several columns."""
    table_: AnswerTable | None = gold.table if gold else None
    if table_ is None:
        return ""
    if table_.boolean is not None:
        return "yes or no"
    cells = [cell for row in table_.rows for cell in row if cell]
    if not cells:
        return "nothing"
    if len(table_.columns) > 1:
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


def _cell(name: str, run: SavedRun) -> Cell:
    scores = score_run(run)
    asked = [record.run for record in run.records.values()]
    costs = [one.whole_cost for one in asked if one.whole_cost is not None]
    seconds = Spread.of(one.whole_seconds for one in asked) if any(one.whole_seconds for one in asked) else None
    return Cell(
        name,
        scores.all.questions,
        main_metric(scores.metrics),
        scores.all.values,
        seconds,
        sum(costs) / len(asked) if costs else None,
    )


def _main_values(run: SavedRun) -> dict[str, float]:
    scores = score_run(run)
    metric = main_metric(scores.metrics)
    return {one.id: one.values[metric] for one in scores.questions}


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f}"


def _points(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.1f}"


def markdown_report(report: Report, by: Sequence[Grouped] = ()) -> str:
    """Scores, comparisons, ``by`` groups, distributions and classes as Markdown tables; scores in percent."""
    parts = ["## Scores\n\n" + _scores(report)]
    if report.against:
        parts.append(f"## Compared with {markdown_text(report.runs[0].name)}\n\n" + _against(report))
    parts += [f"## By {markdown_text(one.key)}\n\n{groups_markdown(one)}" for one in by]
    parts += [_case(one) for one in report.cases]
    for run in report.runs:
        parts.append(f"## {markdown_text(run.name)}\n\n" + "\n".join(_distributions(run)))
    return "\n".join(parts)


def summary_csv(report: Report) -> str:
    """One row a run: every metric with its interval, and what it took. Runs are ranked and tables scored apart."""
    metrics = list(dict.fromkeys(metric for run in report.runs for metric in run.means))
    header = ["run", "system", "model", "dataset", "questions", "reached"]
    header += [f"{metric}{part}" for metric in metrics for part in ("", "_low", "_high")]
    header += ["actions", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "points_a_dollar"]
    header += ["seconds", "seconds_sd"]
    return _csv(header, (_summary_row(run, metrics) for run in report.runs))


def questions_csv(report: Report) -> str:
    """One row a run and question; metrics are empty where there is no gold answer."""
    metrics = list(dict.fromkeys(metric for run in report.runs for metric in run.means))
    header = ["run", "id", "question", "status", "class", *metrics]
    header += ["actions", "prompt_tokens", "completion_tokens", "cost", "seconds"]
    return _csv(header, (row for run in report.runs for row in _question_rows(report, run, metrics)))


def _scores(report: Report) -> str:
    metrics = list(dict.fromkeys(metric for run in report.runs for metric in run.means))
    rows = []
    for run in report.runs:
        means = [_interval(run.means[metric]) if metric in run.means else "–" for metric in metrics]
        cost = "–" if run.cost is None else f"{run.cost:.2f}"
        counts = (run.scores.all.questions, run.scores.attempted.questions)
        points = "–" if run.per_dollar is None else f"{run.per_dollar:,.0f}"
        took = (run.seconds.text(), cost, points)
        rows.append((run.name, run.info.called, run.info.model, run.info.dataset, *counts, *means, *took))
    head = ("Run", "System", "Model", "Dataset", "Questions", "Reached")
    made = markdown_table((*head, *map(metric_name, metrics), "Seconds", "Cost, $", "Points a $"), rows)
    notes = [f"- {markdown_text(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
    return "\n".join([made, "".join(notes)]) if notes else made


def _against(report: Report) -> str:
    rows: list[tuple[object, ...]] = []
    for one in report.against:
        if one.comparison is None:
            rows.append((one.name, "–", "–", one.note, "–"))
            continue
        for metric in one.comparison.metrics:
            difference = _interval(metric.test.difference)
            rows.append(
                (one.name, one.comparison.questions, metric_name(metric.metric), difference, f"{metric.test.p:.4f}")
            )
    return markdown_table(("Run", "Questions", "Metric", "Difference", "p"), rows)


def _case(case: Case) -> str:
    """As a block of text, in which nothing is Markdown."""
    lines = [f"{case.id}: {case.question}", "", f"{case.other} ranks first:", *case.first]
    lines += ["", f"{case.name} ranks first:", *case.second, "", *case.did]
    shown = "\n".join("    " + " ".join(line.splitlines()) for line in lines)
    return f"## Where {markdown_text(case.name)} gains most over {markdown_text(case.other)}\n\n{shown}\n"


def _distributions(run: RunReport) -> Iterator[str]:
    yield _bins("Actions, rolled-back ones too", run.actions, run.metric)
    yield _bins("Actions on the path", run.path_actions, run.metric)
    yield _bins("Class", run.kinds, run.metric)
    if run.labels:
        labels = [(one.label, one.count, f"{one.share:.1%}", kinds_text(one)) for one in run.labels]
        yield markdown_table(("Label given by hand", "Questions", "Share", "Automatic classes"), labels)
    if run.groups:
        head = ("Group", "Questions", "Failed", *map(metric_name, run.groups[0].means))
        scores = [[f"{100 * value:.1f}" for value in one.means.values()] for one in run.groups]
        counts = [(one.group, one.questions, one.failed) for one in run.groups]
        yield markdown_table(head, [(*count, *values) for count, values in zip(counts, scores, strict=True)])
    if run.tools:
        rows = [(use.tool, use.calls, use.errors, use.dropped, use.questions) for use in run.tools]
        yield markdown_table(("Tool", "Calls", "Errors", "Rolled back", "Questions"), rows)
    if run.prompt_tokens:
        yield _bins("Tokens in", run.prompt_tokens, run.metric)
        yield _bins("Tokens out", run.completion_tokens, run.metric)


def kinds_text(label: HandLabel) -> str:
    """The automatic classes of the errors with a label, the most frequent first."""
    kinds = sorted(label.kinds.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{kind} {count}" for kind, count in kinds)


def _bins(head: str, bins: Sequence[Bin], metric: str) -> str:
    rows = [
        (one.label, one.count, f"{one.share:.1%}", "–" if one.score is None else f"{100 * one.score:.1f}")
        for one in bins
    ]
    return markdown_table((head, "Questions", "Share", metric_name(metric)), rows)


def _interval(interval: Interval) -> str:
    return f"{100 * interval.mean:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _summary_row(run: RunReport, metrics: Sequence[str]) -> Iterator[object]:
    yield from (run.name, run.info.called, run.info.model, run.info.dataset, len(run.results), run.reached)
    for metric in metrics:
        mean = run.means.get(metric)
        yield from (mean.mean, mean.low, mean.high) if mean else ("", "", "")
    yield from (run.mean_actions, run.usage.prompt, run.usage.cached, run.usage.completion)
    yield from (_blank(run.cost), _blank(run.per_dollar), run.seconds.mean, _blank(run.seconds.deviation))


def _question_rows(report: Report, run: RunReport, metrics: Sequence[str]) -> Iterator[list[object]]:
    for result in run.results.values():
        row: list[object] = [run.name, result.id, report.gold[result.id].question, result.status, result.kind]
        values = result.values or {}
        row += [values.get(metric, "") for metric in metrics]
        if result.record is None:
            yield [*row, "", "", "", "", ""]
            continue
        asked = result.record.run
        used = asked.whole_usage
        yield [*row, len(asked.steps), used.prompt, used.completion, _blank(asked.whole_cost), asked.whole_seconds]


def _blank(value: float | None) -> object:
    return "" if value is None else value


def _csv(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
