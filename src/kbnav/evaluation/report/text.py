"""Reports as Markdown and JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from kbnav.answers.tables import markdown_table as table
from kbnav.answers.tables import markdown_text as plain
from kbnav.evaluation.metrics.statistics import Interval
from kbnav.evaluation.report.data import Bin, Report, RunReport, metric_name

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
        what = (run.name, run.info.display_name, run.info.model, run.info.dataset)
        rows.append((*what, *counts, *means, run.seconds.text(), cost))
    head = ("Run", "System", "Model", "Dataset", "Questions", "Reached", *map(metric_name, metrics))
    notes = [f"- {plain(run.name)}: {note}\n" for run in report.runs for note in run.scores.notes()]
    made = table((*head, "Seconds", "Cost, $"), rows)
    return "\n".join([made, "".join(notes)]) if notes else made


def scores_table(report: Report, form: str) -> str:
    """One row a run and one column a metric, in percent, as ``markdown``, ``latex`` (booktabs) or ``csv``.

    The best mean of a column is bold, and ``*`` marks a mean that differs from the first run's with p < 0.05 (paired
    randomisation test); CSV has the bare means.
    """
    metrics = list(dict.fromkeys(metric for run in report.runs for metric in run.means))
    best = {one: max(f"{100 * run.means[one].mean:6.1f}" for run in report.runs if one in run.means) for one in metrics}
    rows = [("Run", "System", *map(metric_name, metrics))]
    for run in report.runs:
        found = report.against.get(run.name)
        tested = {} if found is None or isinstance(found, str) else {one.metric: one.test.p for one in found.metrics}
        cells = []
        for one in metrics:
            mean = f"{100 * run.means[one].mean:6.1f}" if one in run.means else ""
            mark = {"markdown": r"\*", "latex": "*"}.get(form, "") if tested.get(one, 1) < 0.05 else ""
            bold = {"markdown": "**{}**", "latex": r"\textbf{{{}}}"}.get(form, "{}") if mean == best[one] else "{}"
            cells.append(bold.format(mean.strip()) + mark if mean else "")
        rows.append((run.name, run.info.display_name, *cells))
    if form == "markdown":
        lines = [*([plain(cell) for cell in row[:2]] + list(row[2:]) for row in rows)]
        lines.insert(1, ["---"] * len(rows[0]))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
    if form == "latex":
        body = [" & ".join(one.replace("_", r"\_").replace("%", r"\%") for one in row) + r" \\" for row in rows]
        head = rf"\begin{{tabular}}{{ll{'r' * len(metrics)}}}"
        return "\n".join([head, r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}", ""])
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


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
            "system": run.info.display_name,
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
