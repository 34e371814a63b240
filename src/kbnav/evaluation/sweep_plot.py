"""A sweep as plots: the score and the seconds by the values of each option (PASemiQA, Figures 3 to 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.evaluation.metrics.statistics import Spread
from kbnav.evaluation.report.data import metric_name
from kbnav.evaluation.report.plots import COLORS, save_figure
from kbnav.evaluation.sweep import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_sweep_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """``OPTION.png`` for every option: one panel of scores, one of seconds; bars are standard deviations.

    Values that are numbers are placed by size, others side by side. Raises UsageError without matplotlib, or where the
    folder cannot be written.
    """
    options = dict.fromkeys(row.variant.option for row in rows)
    return [
        save_figure(folder / f"{option}.png", 2, lambda axes, own=option: _draw(axes, rows, own))  # type: ignore[misc]
        for option in options
    ]


def _draw(axes: Sequence[Axes], rows: Sequence[Row], option: str) -> None:
    own = [row for row in rows if row.variant.option == option]
    values = [row.variant.value for row in own]
    numbers = [_number(value) for value in values]
    places = [float(place) for place in range(len(own))]
    if all(number is not None for number in numbers):
        places = [number or 0.0 for number in numbers]
        order = sorted(range(len(own)), key=lambda place: places[place])
        own, places = [own[place] for place in order], [places[place] for place in order]
        values = [row.variant.value for row in own]
    metric = next(name for name in ("f1", "hit@1", *own[0].scores) if name in own[0].scores)
    _line(axes[0], places, [row.scores[metric] for row in own], 100, COLORS[0])
    _line(axes[1], places, [row.seconds for row in own], 1, COLORS[1])
    for one, label in zip(axes, (f"{metric_name(metric)}, %", "seconds a question"), strict=True):
        one.set_xticks(places, values)
        one.set(xlabel=option, ylabel=label)
        one.set_ylim(bottom=0)


def _line(axes: Axes, places: Sequence[float], spreads: Sequence[Spread], scale: float, color: str) -> None:
    means = [scale * one.mean for one in spreads]
    deviations = [scale * (one.deviation or 0.0) for one in spreads]
    axes.errorbar(places, means, yerr=deviations, fmt="o-", capsize=3, color=color)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
