"""One option of a system run through several values, and what came of each: scores, seconds, calls, dollars.

Calls answered from the cache of replies count as they did when they were made: what a value costs does not depend on
which value was run first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from kbnav.answers.tables import markdown_table
from kbnav.errors import UsageError
from kbnav.evaluation.metrics.statistics import Spread
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import score_run


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
    the mean of the runs' means, spread over the runs. ``replayed`` is how many calls were answered from the cache.
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

    def __str__(self) -> str:
        scores = ", ".join(f"{name} {spread.text(scale=100)}" for name, spread in self.scores.items())
        took = f"{self.seconds.text()} s, {self.calls.mean:.1f} calls a question"
        took += f", ${self.cost.text(4)}" if self.cost else ""
        took += f" ({self.replayed} replayed, counted as when they were made)" if self.replayed else ""
        return f"{self.variant.name:<14} {scores}, {took}"


def variants(vary: Sequence[str], fixed: Mapping[str, Any]) -> list[Variant]:
    """The values of each ``NAME=VALUE,VALUE…``, with the ``fixed`` options beside; ``+`` adds options of one value.

    As in ``planner=ranker+trained=my.planner``. Raises UsageError for what is no pair, and for a value given twice.
    """
    found: list[Variant] = []
    for given in vary:
        option, values = _pair(given, f"--vary takes name=value,value, not {given!r}")
        for value in filter(None, map(str.strip, values.split(","))):
            plain, *own = value.split("+")
            more = dict(_pair(one, f"behind + stands name=value, not {one!r}") for one in own)
            options = {**fixed, option: plain, **more}
            found.append(Variant(f"{option}={value}".replace("/", "_"), option, value, options))
    names = [one.name for one in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"--vary has {twice[0]} twice")
    return found


def _pair(text: str, problem: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value.strip(", "):
        raise UsageError(problem)
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
        seconds=_spread([[run.seconds for run in one] for one in asked]),
        calls=_spread([[run.whole_usage.calls for run in one] for one in asked]),
        tokens=_spread([[run.whole_usage.prompt + run.whole_usage.completion for run in one] for one in asked]),
        cost=_spread(costs) if all(len(some) == len(its) for some, its in zip(costs, asked, strict=True)) else None,
        replayed=sum(run.replayed.calls for one in asked for run in one),
    )


def _spread(values: Sequence[Sequence[float]]) -> Spread:
    return Spread.of(values[0]) if len(values) == 1 else Spread.of(fmean(one) for one in values)


def _metrics(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for one in rows for name in one.scores))


def markdown(rows: Sequence[Row]) -> str:
    """A table for a paper; scores in percent, the rest a question."""
    head = ("Value", "Runs", "Questions", *_metrics(rows), "Seconds", "Calls", "Tokens", "Cost, $")
    lines = []
    for one in rows:
        scores = [one.scores[name].text(scale=100) if name in one.scores else "–" for name in _metrics(rows)]
        took = (one.seconds.text(), one.calls.text(1), one.tokens.text(0), one.cost.text(4) if one.cost else "–")
        lines.append((one.variant.name, one.runs, one.questions, *scores, *took))
    return markdown_table(head, lines)


def to_csv(rows: Sequence[Row]) -> str:
    """A line a value: every mean, and its deviation as ``_sd``, empty where there is none."""
    columns = [*_metrics(rows), "seconds", "calls", "tokens", "cost"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["option", "value", "runs", "questions", *(part for name in columns for part in (name, f"{name}_sd"))]
    writer.writerow([*head, "calls_replayed"])
    for one in rows:
        spreads = [*(one.scores.get(name) for name in _metrics(rows)), one.seconds, one.calls, one.tokens, one.cost]
        numbers = ["" if part is None else part for spread in spreads for part in (spread or ("", ""))]
        start = [one.variant.option, one.variant.value, one.runs, one.questions]
        writer.writerow([*start, *numbers, one.replayed])
    return out.getvalue()
