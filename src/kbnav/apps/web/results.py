"""Tables and rankings as the page shows them: pages of cells in any order."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from kbnav.answers.language import fold
from kbnav.answers.tables import AnswerTable, Cell, Ranking, Term, node_term
from kbnav.errors import DataError
from kbnav.runs.journal import adapter
from kbnav.tools.show import short_iri

MOST_ROWS = 100_000
"""Rows of one result that are kept."""
PART = 200
"""Rows that are kept, read and sent together."""
_XSD = "http://www.w3.org/2001/XMLSchema#"
_WHOLE = re.compile(rf"{re.escape(_XSD)}\w*(integer|long|int|short|byte)", re.IGNORECASE)
_DATES = frozenset(_XSD + name for name in ("dateTime", "date", "gYear", "gYearMonth"))
_DATE = re.compile(r"(?P<year>[+-]?\d{1,12})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?")
URNS = "urn:kbnav:"
"""What IRIs of an SKB begin with."""
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
_POINT = re.compile(r"\s*POINT\s*\(\s*(-?\d+(?:\.\d+)?)\s+(-?\d+(?:\.\d+)?)\s*\)\s*", re.IGNORECASE)

_DAMAGED = "what the server's database has kept of this result was damaged"

Row = tuple[Cell, ...]
Link = Callable[[str], str]
"""The address of an entity's page by its id; empty where it has none."""


@dataclass(frozen=True)
class Result:
    """A table without rows, and ``count`` rows, which ``read`` gives by the number of a part.

    ``total`` counts those that there were before ``MOST_ROWS`` were kept; ``ranking`` is what it was made of, if any.
    """

    head: AnswerTable
    count: int
    read: Callable[[int], Sequence[Row]]
    total: int
    ranking: Ranking | None = None

    @classmethod
    def of(cls, table: AnswerTable, total: int = 0, ranking: Ranking | None = None) -> Result:
        """A table that is in memory; without a ``total`` its own rows are all."""
        rows, head = table.rows, replace(table, rows=())
        return cls(head, len(rows), lambda part: rows[part * PART : (part + 1) * PART], total or len(rows), ranking)

    def to_document(self) -> dict[str, Any]:
        """Plain data, without the rows of a table, that ``stored_result`` reads."""
        if self.ranking is not None:
            return {"ranking": adapter(Ranking).dump_python(self.ranking, mode="json")}
        return {"head": adapter(AnswerTable).dump_python(self.head, mode="json"), "total": self.total}

    def parts(self) -> Iterator[str]:
        """The rows of a table, ``PART`` at a time, each as ``read_part`` reads it; a ranking has none."""
        for part in range(-(-self.count // PART) if self.ranking is None else 0):
            yield json.dumps(self.read(part), ensure_ascii=False, separators=(",", ":"))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.head.columns

    def rows(self, start: int = 0, count: int | None = None) -> Iterator[Row]:
        """Rows from ``start`` on; as many as are wanted, or all."""
        end = self.count if count is None else min(self.count, start + count)
        for part in range(start // PART, -(-end // PART)):
            first = part * PART
            yield from self.read(part)[max(0, start - first) : end - first]

    def at(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these numbers, in their order."""
        parts = {part: self.read(part) for part in {number // PART for number in numbers}}
        return [parts[number // PART][number % PART] for number in numbers]

    def table(self, rows: Iterable[Row]) -> AnswerTable:
        """Some of the rows as a table."""
        return replace(self.head, rows=tuple(rows))


def stored_result(
    document: Mapping[str, Any], parts: int, read: Callable[[int], str | None], last: int = PART
) -> Result:
    """A document's result, ``parts`` parts with ``last`` rows in the last, given by ``read``. Raises DataError."""
    try:
        if "ranking" in document:
            ranking: Ranking = adapter(Ranking).validate_python(document["ranking"])
            return Result.of(_as_table(ranking), ranking=ranking)
        head: AnswerTable = adapter(AnswerTable).validate_python(document["head"])
    except (ValidationError, LookupError) as error:
        raise DataError(f"{_DAMAGED}: no table") from error
    count = (parts - 1) * PART + last if parts else 0
    return Result(head, count, lambda part: read_part(read(part) or "[]"), document.get("total", count))


def read_part(text: str) -> list[Row]:
    """Some rows of ``Result.parts``. Raises DataError where they are something else."""
    try:
        rows = json.loads(text)
        if not all(type(one) is str or one is None for row in rows for cell in row if cell for one in cell):
            raise DataError(f"{_DAMAGED}: no cells")
        return [tuple(cell and Term(*cell) for cell in row) for row in rows]
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{_DAMAGED}: no rows") from error


def table_result(table: AnswerTable) -> Result:
    """What a query gave; the answer of an ASK becomes a table of one cell."""
    if table.boolean is not None:
        cell = Term("literal", str(table.boolean).lower(), _XSD + "boolean")
        return Result.of(replace(table, columns=("boolean",), rows=((cell,),), boolean=None))
    return Result.of(replace(table, rows=table.rows[:MOST_ROWS]), len(table))


def result_of(table: AnswerTable | None, ranking: Ranking | None) -> Result | None:
    """What an outcome has; None for neither."""
    if table is not None:
        return table_result(table)
    return Result.of(_as_table(ranking), ranking=ranking) if ranking is not None and ranking.nodes else None


def _as_table(ranking: Ranking) -> AnswerTable:
    """Rank, node and type; score and why a node is there, where these say more; what a query gave with them."""
    found = ranking.found or AnswerTable(rows=((),) * len(ranking.nodes))
    based = any(node.basis for node in ranking.nodes)
    rows = tuple(
        (
            Term("literal", str(record["rank"]), _XSD + "integer"),
            node_term(record["id"]),
            Term("literal", str(record["type"])),
            *([Term("literal", format(record["score"], ".4g"), _XSD + "decimal")] if ranking.scored else []),
            *([Term("literal", record["basis"] or "answer")] if based else []),
            *row[1:],
        )
        for record, row in zip(ranking.records(), found.rows, strict=True)
    )
    more = {"score": ranking.scored, "basis": based}
    columns = ("rank", "node", "type", *(name for name, shown in more.items() if shown), *found.columns[1:])
    return AnswerTable(columns, rows, labels={**found.labels, **{node.id: node.label for node in ranking.nodes}})


def matching(result: Result, text: str) -> Sequence[int]:
    """The numbers of the rows of which a cell shows a text, or is the entity of that id; upper and lower case alike."""
    wanted, head = text.casefold(), result.head

    def has(cell: Cell) -> bool:
        return wanted in text_of(cell, head).casefold() or wanted == (head.entity(cell) or "").casefold()

    return array("L", [number for number, row in enumerate(result.rows()) if any(map(has, row))])


def sorted_rows(result: Result, column: str, descending: bool) -> Sequence[int]:
    """The numbers of the rows, sorted by a column: entities by label, points from the south; unbound come last."""
    place = result.columns.index(column)
    cells = [row[place] for row in result.rows()]
    keys = {number: _sort_key(cell, result.head) for number, cell in enumerate(cells) if cell}
    bound = sorted(keys, key=keys.__getitem__, reverse=descending)
    return array("L", [*bound, *(number for number, cell in enumerate(cells) if not cell)])


def _sort_key(cell: Term, table: AnswerTable) -> tuple[int, tuple[float, ...], str]:
    if (value := number(cell)) is not None:
        return (0, (value,), "")
    if day_or_point := date_of(cell) or point_of(cell):
        return (1, day_or_point, cell.value)
    return (2, (), fold(text_of(cell, table)))


def text_of(cell: Cell, table: AnswerTable) -> str:
    """What is shown of a cell of a table: an entity's label where it is known, else the value."""
    if cell is None:
        return ""
    if table.unknown(cell):
        return "unknown value"
    used = table.entity(cell)
    return table.labels.get(used) or used if used else cell.text


def number(cell: Cell) -> float | None:
    """The value of a finite number."""
    value = cell.python_value() if cell else None
    with suppress(OverflowError, ValueError):
        if cell and isinstance(value, str) and _WHOLE.fullmatch(cell.datatype or ""):  # as "5.0", which endpoints send
            value = float(cell.value)
        if isinstance(value, bool | str | None):
            return None
        return float(value) if math.isfinite(value) else None
    return None


def date_of(cell: Cell) -> tuple[float, ...]:
    """Year, month and day of a date; nothing for anything else."""
    found = _DATE.match(cell.value) if cell is not None and cell.datatype in _DATES else None
    return tuple(float(part or 1) for part in found.group("year", "month", "day")) if found else ()


def cell_data(cell: Cell, table: AnswerTable, link: Link) -> dict[str, str] | None:
    """A cell of a table for the page: ``text``, and where there is one ``id``, ``href`` and ``language``."""
    if cell is None:
        return None
    data = {"text": text_of(cell, table)}
    if entity := table.entity(cell):
        data["id"] = entity
        data["href"] = link(entity)
    elif table.unknown(cell):
        data["kind"] = "unknown"
    elif cell.type == "uri" and cell.value.startswith(("http://", "https://")):
        data["href"] = cell.value
        data["text"] = short_iri(cell, table) or cell.value
    elif cell.type == "uri" and cell.value.startswith(URNS):
        data["text"] = unquote(cell.value.rpartition("/")[2]).replace("_", " ")
    if cell.language:
        data["language"] = cell.language
    if number(cell) is not None:
        data["kind"] = "number"
    elif date_of(cell):
        data["kind"] = "date"
        data["text"] = cell.value.removesuffix("T00:00:00Z")
        if table.only_year(cell):
            data["precision"] = "9"  # a Wikibase writes a year so; who looks at the statement may know better
    elif point_of(cell):
        data["kind"] = "point"
    elif cell.datatype == _XSD + "boolean":
        data["kind"] = "truth"
    return data


def point_of(cell: Term) -> tuple[float, ...]:
    """Latitude and longitude of a WKT point on Earth; those on other globes carry an IRI in front."""
    found = _POINT.fullmatch(cell.value) if cell.datatype == WKT else None
    place = (float(found[2]), float(found[1])) if found else ()
    return place if place and abs(place[0]) <= 90 and abs(place[1]) <= 180 else ()
