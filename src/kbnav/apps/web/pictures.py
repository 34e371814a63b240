"""What of a result can be drawn: charts, places on a map, a timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.apps.web.results import WKT, Result, date_of, number, position, text_of

MOST_BARS = 40
MOST_POINTS = 2_000
MOST_EVENTS = 200
_YEARS = ("year", "jahr", "annee", "année", "ano", "año", "anio", "年")
"""What a column of whole numbers that are years may be called, or end with."""


def charts(result: Result) -> list[dict[str, Any]]:
    """Every chart that fits, the likeliest first: a line over time, bars by name, dots by two numbers.

    Each has ``kind``, ``x`` and ``y`` (names of columns) and ``points``. Of bars, those of one name are one, as long as
    their mean; ``of`` says of how many.
    """
    table = result.table
    if result.ranking is not None or len(table.rows) < 2:
        return []
    dated = _column(table, lambda cell: bool(date_of(cell)))
    if dated is None:
        dated = _years(table)
    measures = [place for place in _columns(table, lambda cell: number(cell) is not None) if place != dated]
    if not measures:
        return []
    named = _name_column(table)
    found = [
        _line(table, dated, measures[0], named) if dated is not None else None,
        _bars(table, named, measures[0]) if named is not None else None,
        _dots(table, measures[0], measures[1], named) if len(measures) > 1 else None,
    ]
    return [one for one in found if one is not None and len(one["points"]) > 1]


def points(result: Result) -> list[dict[str, Any]]:
    """Latitude, longitude and name of the rows that are somewhere on Earth."""
    table = result.table
    for place in range(len(table.columns)):
        found = [(position(row[place]), row) for row in table.rows[:MOST_POINTS]]
        if any(where for where, _ in found):
            return [
                {"lat": where[0], "lon": where[1], "text": _name(row, place, table)} for where, row in found if where
            ]
    return []


def events(result: Result) -> list[dict[str, Any]]:
    """Names with a date, or with a first and a last one, in their order; empty where there are numbers to draw."""
    table = result.table
    named, dated = _name_column(table), _columns(table, lambda cell: bool(date_of(cell)))
    if named is None or not dated or charts(result):
        return []
    found = [
        {"text": text_of(row[named], table), "from": _time(row[dated[0]]), "to": _time(row[dated[-1]])}
        for row in table.rows[:MOST_EVENTS]
        if row[named] is not None and row[dated[0]] is not None
    ]
    return sorted(found, key=lambda one: one["from"])


def _line(table: AnswerTable, dated: int, measured: int, named: int | None) -> dict[str, Any]:
    rows = [row for row in table.rows if row[dated] and row[measured]]
    line = [
        {
            "x": _time(row[dated]),
            "y": number(row[measured]),
            "text": row[dated].value,  # type: ignore[union-attr]
            **({"series": text_of(row[named], table)} if named is not None else {}),
        }
        for row in sorted(rows, key=lambda row: _time(row[dated]) or 0.0)
    ]
    return {"kind": "line", "x": table.columns[dated], "y": table.columns[measured], "points": line[:MOST_POINTS]}


def _bars(table: AnswerTable, named: int, measured: int) -> dict[str, Any]:
    groups: dict[str, list[float]] = {}
    for row in table.rows:
        if row[named] is not None and (value := number(row[measured])) is not None:
            groups.setdefault(text_of(row[named], table), []).append(value)
    bars = [
        {"text": text, "y": fmean(values), **({"of": len(values)} if len(values) > 1 else {})}
        for text, values in list(groups.items())[:MOST_BARS]
    ]
    return {
        "kind": "bars", "x": table.columns[named], "y": table.columns[measured], "points": bars, "total": len(groups)
    }  # fmt: skip


def _dots(table: AnswerTable, across: int, up: int, named: int | None) -> dict[str, Any]:
    dots = [
        {
            "x": number(row[across]),
            "y": number(row[up]),
            "text": text_of(row[named], table) if named is not None else "",
        }
        for row in table.rows[:MOST_POINTS]
        if row[across] and row[up]
    ]
    return {"kind": "dots", "x": table.columns[across], "y": table.columns[up], "points": dots}


def _time(cell: Cell) -> float | None:
    """Years, with the month and the day as a fraction."""
    day = date_of(cell)
    return day[0] + (day[1] - 1) / 12 + (day[2] - 1) / 365 if day else number(cell)


def _years(table: AnswerTable) -> int | None:
    """The column of whole numbers that are years, by its name."""
    for place in _columns(table, lambda cell: number(cell) is not None):
        values = [number(row[place]) for row in table.rows if row[place] is not None]
        called = table.columns[place].casefold()
        if called.endswith(_YEARS) and all(value is not None and value % 1 == 0 for value in values):
            return place
    return None


def _name_column(table: AnswerTable) -> int | None:
    return _column(
        table,
        lambda cell: cell is not None and number(cell) is None and not date_of(cell) and cell.datatype != WKT,
    )


def _columns(table: AnswerTable, fits: Callable[[Cell], bool]) -> list[int]:
    """The columns all of whose bound cells fit, if two are."""
    found = []
    for place in range(len(table.columns)):
        bound = [row[place] for row in table.rows if row[place] is not None]
        if len(bound) > 1 and all(fits(cell) for cell in bound):
            found.append(place)
    return found


def _column(table: AnswerTable, fits: Callable[[Cell], bool]) -> int | None:
    return next(iter(_columns(table, fits)), None)


def _name(row: Sequence[Cell], place: int, table: AnswerTable) -> str:
    return next((text for at, cell in enumerate(row) if at != place and (text := text_of(cell, table))), "")
