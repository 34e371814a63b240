"""Reports as one table, and as JSON."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from kbnav.answers.tables import markdown_text as plain
from kbnav.evaluation.report.data import Report, RunReport, metric_name

_LATEX = str.maketrans(
    {char: rf"\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def scores_table(report: Report, form: str) -> str:
    """One row a run and one column a metric, in percent, as ``markdown``, ``latex`` (booktabs) or ``csv``.

    A table for each set of questions, ``n`` of which are scored. The best mean of several is bold, equal ones too, and
    ``*`` marks a mean that differs from the table's first with p < 0.05 (paired randomisation test). CSV is one table
    of bare means.
    """
    tables: dict[object, list[RunReport]] = {}
    for run in report.runs:
        asked = (run.info.dataset_sha256, frozenset(run.info.questions))
        tables.setdefault("" if form == "csv" else asked, []).append(run)
    return "\n".join(_table(report, runs, form) for runs in tables.values())


def _table(report: Report, runs: Sequence[RunReport], form: str) -> str:
    metrics = list(dict.fromkeys(metric for run in runs for metric in run.means))
    means = {one: [f"{100 * run.means[one].mean:6.1f}" for run in runs if one in run.means] for one in metrics}
    best = {one: max(found) for one, found in means.items() if len(found) > 1}
    rows = [("Run", "System", "Model", "Dataset", "n", *map(metric_name, metrics))]
    for run in runs:
        found = report.against.get(run.name)
        tested = {} if found is None or isinstance(found, str) else {one.metric: one.test.p for one in found.metrics}
        cells = []
        for one in metrics:
            mean = f"{100 * run.means[one].mean:6.1f}" if one in run.means else ""
            mark = {"markdown": r"\*", "latex": "*"}.get(form, "") if tested.get(one, 1) < 0.05 else ""
            bold = {"markdown": "**{}**", "latex": r"\textbf{{{}}}"}.get(form, "{}") if mean == best.get(one) else "{}"
            cells.append(bold.format(mean.strip()) + mark if mean else "")
        about = (run.name, run.info.display_name, run.info.model, run.info.dataset)
        escape = {"markdown": plain, "latex": lambda text: text.translate(_LATEX)}.get(form, str)
        rows.append((*map(escape, about), str(run.scores.all.questions), *cells))
    if form == "markdown":
        rows.insert(1, ("---",) * len(rows[0]))
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)
    if form == "latex":
        body = [" & ".join(row) + r" \\" for row in rows]
        head = rf"\begin{{tabular}}{{llll{'r' * (1 + len(metrics))}}}"
        return "\n".join([head, r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}", ""])
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


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
