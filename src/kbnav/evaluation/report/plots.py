"""A report's charts as PNG files; needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.errors import UsageError
from kbnav.evaluation.report.data import CLASSES, Bin, Report, RunReport, metric_name
from kbnav.settings.plugins import needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#2563b0", "#b3531a", "#1f7a53", "#8a4fa3", "#a0342f", "#5b6570")
"""The page's, in its light form."""


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Write ``cost.png``, ``actions.png``, ``classes.png`` and, where models were used, ``tokens.png``.

    Raises UsageError without matplotlib, or where the folder cannot be written.
    """
    plots: dict[str, tuple[int, Callable[[Sequence[Axes], Report], None]]] = {
        "cost.png": (1, _cost),
        "actions.png": (1, _actions),
        "classes.png": (1, _classes),
    }
    if any(run.prompt_tokens for run in report.runs):
        plots["tokens.png"] = (2, _tokens)
    return [
        save_figure(folder / name, width, lambda axes, drawn=draw: drawn(axes, report))  # type: ignore[misc]
        for name, (width, draw) in plots.items()
    ]


def save_figure(path: Path, width: int, draw: Callable[[Sequence[Axes]], None]) -> Path:
    """Write a figure of ``width`` panels side by side. Raises UsageError as ``write_plots`` does."""
    with needs("plot", "a chart"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(6.4 * width, 4.0), layout="constrained")
    axes = figure.subplots(1, width, squeeze=False)[0]
    draw(list(axes))
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Software": None})
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _name(run: RunReport) -> str:
    """As plain text: matplotlib reads what stands between dollars as a formula."""
    return run.name.replace("$", r"\$")


def _cost(axes: Sequence[Axes], report: Report) -> None:
    (one,) = axes
    for index, (run, effort) in enumerate(zip(report.runs, report.effort.values, strict=True)):
        mean = run.means[run.metric]
        ends = [[100 * (mean.mean - mean.low)], [100 * (mean.high - mean.mean)]]
        one.errorbar([effort], [100 * mean.mean], yerr=ends, fmt="o", capsize=3, color=_color(index), label=_name(run))
    one.set(xlabel=report.effort.unit, ylabel=f"{metric_name(report.runs[0].metric)}, %", ylim=(0, 100))
    one.set_xlim(0, 1.15 * max(report.effort.values) or 1.0)
    one.legend(frameon=False)


def _actions(axes: Sequence[Axes], report: Report) -> None:
    longest = max((run.actions for run in report.runs), key=len)
    _bars(axes[0], report, [one.label for one in longest], [run.actions for run in report.runs])
    axes[0].set(xlabel="actions a question", ylabel="questions, %")


def _classes(axes: Sequence[Axes], report: Report) -> None:
    labels = [kind for kind in CLASSES if any(kind == one.label for run in report.runs for one in run.kinds)]
    _bars(axes[0], report, labels, [run.kinds for run in report.runs])
    axes[0].tick_params(axis="x", rotation=45)
    axes[0].set(ylabel="questions, %")


def _tokens(axes: Sequence[Axes], report: Report) -> None:
    """Twenty bins, the same for every run."""
    for one, name in zip(axes, ("prompt", "completion"), strict=True):
        spent = [
            [getattr(result.record.run.whole_usage, name) for result in run.results.values() if result.record]
            for run in report.runs
        ]
        largest = max(max(amounts, default=0) for amounts in spent)
        for index, (run, amounts) in enumerate(zip(report.runs, spent, strict=True)):
            used = [amount for amount in amounts if amount]
            one.hist(used, bins=20, range=(0, largest), histtype="step", color=_color(index), label=_name(run))
        one.set(xlabel=f"{name} tokens a question", ylabel="questions")
        one.legend(frameon=False)


def _bars(axes: Axes, report: Report, labels: Sequence[str], bins: Sequence[Sequence[Bin]]) -> None:
    """Shares of questions, a group of bars a label and a bar a run."""
    width = 0.8 / len(report.runs)
    for index, (run, items) in enumerate(zip(report.runs, bins, strict=True)):
        shares = {one.label: 100 * one.share for one in items}
        places = [place + (index - (len(report.runs) - 1) / 2) * width for place in range(len(labels))]
        axes.bar(places, [shares.get(label, 0.0) for label in labels], width, color=_color(index), label=_name(run))
    axes.set_xticks(range(len(labels)), labels)
    axes.legend(frameon=False)
