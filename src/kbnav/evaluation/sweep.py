"""One option of a system run through several values, and what came of each: scores, seconds, calls, dollars.

Calls that were answered from the replies kept from before count as they did when they were made: what a value costs
does not depend on which value was run first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from kbnav.errors import UsageError
from kbnav.evaluation.markdown import table
from kbnav.evaluation.metrics.statistics import Spread
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.report.data import metric_name
from kbnav.evaluation.report.plots import COLORS, save_figure
from kbnav.evaluation.scoring import score_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ALSO = "+"
"""Between a value and the options that only it takes: ``planner=ranker+trained=my.planner``."""
FEATURES = ("seconds", "calls", "tokens", "cost")


class Variant(NamedTuple):
    """One value of one option: its name, which is that of its folder, and the options of its run."""

    name: str
    option: str
    value: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What came of one value.

    With one run, ``seconds`` are spread over its questions and scores have no deviation; with several, every number is
    the mean of the runs' means, spread over the runs. ``replayed`` is how many calls were answered from kept replies.
    """

    variant: Variant
    runs: int
    questions: int
    scores: Mapping[str, Spread]
    seconds: Spread
    calls: Spread
    tokens: Spread
    cost: Spread | None
    replayed: int


def variants(vary: Sequence[str], fixed: Mapping[str, Any]) -> list[Variant]:
    """The values of each ``NAME=VALUE,VALUE…``, with the ``fixed`` options beside; ``+`` adds options of one value.

    Raises UsageError for what is no pair, and for a value given twice.
    """
    found: list[Variant] = []
    for given in vary:
        option, equals, values = (part.strip() for part in given.partition("="))
        if not equals or not option or not values.strip(", "):
            raise UsageError(f"--vary takes name=value,value, not {given!r}")
        for value in filter(None, map(str.strip, values.split(","))):
            plain, *own = value.split(ALSO)
            options = {**fixed, option: plain, **dict(_pair(one) for one in own)}
            found.append(Variant(f"{option}={value}".replace("/", "_"), option, value, options))
    names = [one.name for one in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"--vary has {twice[0]} twice")
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UsageError(f"behind {ALSO} stands name=value, not {text!r}")
    return name, value


def folders(out: Path, name: str, repeat: int) -> list[Path]:
    """Where the runs of a value are; the first has the value's name, the others a number behind it."""
    return [out / (name if number == 1 else f"{name}.{number}") for number in range(1, repeat + 1)]


def row(variant: Variant, runs: Sequence[Path]) -> Row:
    """Read what came of a value. Raises UsageError, DataError."""
    saved = [read_saved_run(folder) for folder in runs]
    scores = [score_run(one).all for one in saved]
    asked = [[record.run for record in one.records.values()] for one in saved]
    costs = [[run.whole_cost for run in one if run.whole_cost is not None] for one in asked]
    return Row(
        variant,
        runs=len(saved),
        questions=scores[0].questions,
        scores={name: Spread.of(one.values[name] for one in scores) for name in scores[0].values},
        seconds=_spread([[run.whole_seconds for run in one] for one in asked]),
        calls=_spread([[run.whole_usage.calls for run in one] for one in asked]),
        tokens=_spread([[run.whole_usage.prompt + run.whole_usage.completion for run in one] for one in asked]),
        cost=_spread(costs) if all(len(some) == len(its) for some, its in zip(costs, asked, strict=True)) else None,
        replayed=sum(run.replayed.calls for one in asked for run in one),
    )


def _spread(values: Sequence[Sequence[float]]) -> Spread:
    return Spread.of(values[0]) if len(values) == 1 else Spread.of(fmean(one) for one in values)


def line(one: Row) -> str:
    """A row for a terminal; scores in percent."""
    scores = ", ".join(f"{name} {spread.text(scale=100)}" for name, spread in one.scores.items())
    cost = f", ${one.cost.text(4)}" if one.cost else ""
    again = f" ({one.replayed} replayed, counted as when they were made)" if one.replayed else ""
    return (
        f"{one.variant.name:<14} {scores}, {one.seconds.text()} s, {one.calls.mean:.1f} calls a question{cost}{again}"
    )


def markdown(rows: Sequence[Row]) -> str:
    """A table for a paper; scores in percent, the rest a question."""
    metrics = list(dict.fromkeys(name for one in rows for name in one.scores))
    head = ("Value", "Runs", "Questions", *metrics, "Seconds", "Calls", "Tokens", "Cost, $")
    lines = [
        (
            one.variant.name,
            one.runs,
            one.questions,
            *(one.scores[name].text(scale=100) if name in one.scores else "–" for name in metrics),
            one.seconds.text(),
            one.calls.text(1),
            one.tokens.text(0),
            one.cost.text(4) if one.cost else "–",
        )
        for one in rows
    ]
    return table(head, lines)


def to_csv(rows: Sequence[Row]) -> str:
    """A line a value: every mean, and its deviation as ``_sd``, empty where there is none."""
    metrics = list(dict.fromkeys(name for one in rows for name in one.scores))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [*metrics, *FEATURES]
    head = ["option", "value", "runs", "questions", *(part for name in columns for part in (name, f"{name}_sd"))]
    writer.writerow([*head, "calls_replayed"])
    for one in rows:
        spreads = [*(one.scores.get(name) for name in metrics), one.seconds, one.calls, one.tokens, one.cost]
        numbers = [part for spread in spreads for part in (spread or ("", ""))]
        start = [one.variant.option, one.variant.value, one.runs, one.questions]
        writer.writerow([*start, *("" if part is None else part for part in numbers), one.replayed])
    return out.getvalue()


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
