"""One option of a system run through several values, and what came of each: scores, seconds, calls, dollars.

Calls answered from the cache of replies count as they did when they were made: what a value costs does not depend on
which value was run first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


_TOOK = ("seconds", "calls", "tokens", "cost")
"""What a question took, behind the scores in every row."""


def row(variant: Variant, runs: Sequence[Path]) -> dict[str, Any]:
    """What came of a value: every mean, and its deviation as ``_sd``, None where there is none.

    With one run, seconds, calls, tokens and cost are spread over its questions and scores have no deviation; with
    several, every number is the mean of the runs' means, spread over the runs. ``calls_replayed`` counts the calls that
    were answered from the cache. Raises UsageError, DataError.
    """
    saved = [read_saved_run(folder) for folder in runs]
    scores = [score_run(one).all for one in saved]
    asked = [[record.run for record in one.records.values()] for one in saved]
    costs = [[run.cost for run in one if run.cost is not None] for one in asked]
    known = all(len(some) == len(its) for some, its in zip(costs, asked, strict=True))
    spreads = {
        **{name: Spread.of(score.values[name] for score in scores) for name in scores[0].values},
        "seconds": _spread([[run.seconds for run in one] for one in asked]),
        "calls": _spread([[run.usage.calls for run in one] for one in asked]),
        "tokens": _spread([[run.usage.prompt + run.usage.completion for run in one] for one in asked]),
        "cost": _spread(costs) if known else (None, None),
    }
    return {
        "name": variant.name,
        "option": variant.option,
        "value": variant.value,
        "runs": len(saved),
        "questions": scores[0].questions,
        **{key: number for name, (mean, sd) in spreads.items() for key, number in ((name, mean), (f"{name}_sd", sd))},
        "calls_replayed": sum(run.usage.kept for one in asked for run in one),
    }


def _spread(values: Sequence[Sequence[float]]) -> Spread:
    return Spread.of(values[0]) if len(values) == 1 else Spread.of(fmean(value) for value in values)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table for a paper; scores in percent, the rest a question."""
    spread = (name.removesuffix("_sd") for row in rows for name in row if name.endswith("_sd"))
    names = [*dict.fromkeys(name for name in spread if name not in _TOOK), *_TOOK]
    digits = {"calls": 1, "tokens": 0, "cost": 4}

    def text(one: Mapping[str, Any], name: str) -> str:
        if one.get(name) is None:
            return "–"
        scale = 1 if name in _TOOK else 100
        return Spread(one[name], one[f"{name}_sd"]).text(digits.get(name, 2), scale)

    lines = [
        (row["name"], row["runs"], row["questions"], *(text(row, name) for name in names), row["calls_replayed"])
        for row in rows
    ]
    return markdown_table(("Value", "Runs", "Questions", *names, "Replayed calls"), lines)
