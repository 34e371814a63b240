"""A report as Markdown and CSV, for papers and spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from kbnav.evaluation.markdown import plain, table
from kbnav.evaluation.metrics.statistics import Interval
from kbnav.evaluation.report.data import Bin, HandLabel, Report, RunReport, metric_name
from kbnav.evaluation.report.groups import Case
from kbnav.evaluation.report.side_by_side import Grouped, groups_markdown


def markdown_report(report: Report, by: Sequence[Grouped] = ()) -> str:
    """Scores, comparisons, ``by`` groups, distributions and classes as Markdown tables; scores in percent."""
    parts = ["## Scores\n\n" + _scores(report)]
    if report.against:
        parts.append(f"## Compared with {plain(report.runs[0].name)}\n\n" + _against(report))
    parts += [f"## By {plain(one.key)}\n\n{groups_markdown(one)}" for one in by]
    parts += [_case(one) for one in report.cases]
    for run in report.runs:
        parts.append(f"## {plain(run.name)}\n\n" + "\n".join(_distributions(run)))
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
    made = table((*head, *map(metric_name, metrics), "Seconds", "Cost, $", "Points a $"), rows)
    notes = [f"- {plain(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
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
    return table(("Run", "Questions", "Metric", "Difference", "p"), rows)


def _case(case: Case) -> str:
    """As a block of text, in which nothing is Markdown."""
    lines = [f"{case.id}: {case.question}", "", f"{case.other} ranks first:", *case.first]
    lines += ["", f"{case.name} ranks first:", *case.second, "", *case.did]
    shown = "\n".join("    " + " ".join(line.splitlines()) for line in lines)
    return f"## Where {plain(case.name)} gains most over {plain(case.other)}\n\n{shown}\n"


def _distributions(run: RunReport) -> Iterator[str]:
    yield _bins("Actions, rolled-back ones too", run.actions, run.metric)
    yield _bins("Actions on the path", run.path_actions, run.metric)
    yield _bins("Class", run.kinds, run.metric)
    if run.labels:
        labels = [(one.label, one.count, f"{one.share:.1%}", kinds_text(one)) for one in run.labels]
        yield table(("Label given by hand", "Questions", "Share", "Automatic classes"), labels)
    if run.groups:
        head = ("Group", "Questions", "Failed", *map(metric_name, run.groups[0].means))
        scores = [[f"{100 * value:.1f}" for value in one.means.values()] for one in run.groups]
        counts = [(one.group, one.questions, one.failed) for one in run.groups]
        yield table(head, [(*count, *values) for count, values in zip(counts, scores, strict=True)])
    if run.tools:
        rows = [(use.tool, use.calls, use.errors, use.dropped, use.questions) for use in run.tools]
        yield table(("Tool", "Calls", "Errors", "Rolled back", "Questions"), rows)
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
    return table((head, "Questions", "Share", metric_name(metric)), rows)


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
