"""Cells of tables as values: numbers and dates as countries write them, units, and texts without HTML.

What a column holds is told from its first rows, because one cell does not tell: ``1,234`` is either of two numbers, and
``03/04/2024`` either of two days. A column that stays unclear stays text, as codes do that begin with a zero.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

NUMBER, DATE, OTHER = "number", "date", "other"
_ISO, _CLEAR = "%Y-%m-%d", ("%Y-%m-%d", "%d.%m.%Y")
_DATES = {DATE: _CLEAR, "date, day first": (*_CLEAR, "%d/%m/%Y"), "date, month first": (*_CLEAR, "%m/%d/%Y")}
"""Ways in which a column may be written, as they are told, and the forms that its cells then have."""
_NUMBERS = {".": NUMBER, ",": "number, decimal comma"}
_CURRENCIES = {"EUR": "€", "USD": "$", "GBP": "£"}
_SIZES = (
    {"mg": 1, "g": 1000, "kg": 10**6, "t": 10**9},
    {"mm": 1, "cm": 10, "m": 1000, "km": 10**6},
    {"ml": 1, "cl": 10, "l": 1000},
)
"""Units that are multiples of each other."""
_TOLD = 3
"""Odd cells of a column that are told."""
_NONE = frozenset({"", "-", "–", "n/a", "na", "null", "none"})
_BLOCK = re.compile(r"</?(?:blockquote|br|div|h[1-6]|hr|li|ol|p|pre|table|tbody|td|th|thead|tr|ul)\b[^<>]*>", re.I)
_INLINE = re.compile(r"</?(?:a|abbr|b|code|em|i|img|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?/?>|<!--.*?-->", re.I)
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1>", re.IGNORECASE | re.DOTALL)
_REFERENCE = re.compile(r"&(?:#x?[\da-f]+|[a-z]{2,8});", re.IGNORECASE)


def plain(value: Any) -> Any:
    """A text without the tags and character references of HTML, a line for each block; anything else as it is."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, str) or not any(one.search(value) for one in (_BLOCK, _INLINE, _HIDDEN, _REFERENCE)):
        return value
    text = html.unescape(_INLINE.sub("", _BLOCK.sub("\n", _HIDDEN.sub("", value))))
    return "\n".join(tidy for line in text.split("\n") if (tidy := " ".join(line.split())))


class _Number(NamedTuple):
    value: float
    unit: str


def _number(text: str, point: str) -> _Number | None:
    """A number with this decimal mark, in which thousands may be parted by the other one."""
    match = re.fullmatch(
        rf"([+−-]?)\s?([$€£¥]|EUR|USD|GBP|)\s?([1-9]\d{{0,2}}(?:[{'.,'.replace(point, '')}'’\s]\d{{3}})+|0|[1-9]\d*)"
        rf"(?:{re.escape(point)}(\d+))?(?:\s?(%|[$€£¥]|[^\W\d_]{{1,5}}[²³]?))?",
        text,
    )
    if not match:
        return None
    digits = re.sub(r"\D", "", match[3])
    value = as_whole(float(f"{digits}.{match[4]}")) if match[4] else int(digits)
    unit = match[5] or match[2]
    return _Number(value if match[1] in ("", "+") else -value, _CURRENCIES.get(unit, unit))


def as_whole(value: float) -> float:
    """A number with nothing behind its decimal mark as an int, as a double has whole numbers; others as they are."""
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else value


def _day(text: str, *forms: str) -> str:
    for form in forms:
        with suppress(ValueError):
            return datetime.strptime(text, form).date().isoformat()
    return ""


@dataclass(frozen=True)
class Column:
    """What a column is called in documents, and how its cells are written; ``way`` empty: as text."""

    name: str
    way: str = ""
    why: str = ""
    """Why it stays text, where most of its cells are numbers or dates."""
    unit: str = ""
    """What its numbers are turned into, where its cells have several units."""
    kind: str = ""
    """What its values must be, ``NUMBER`` or ``DATE``; empty: anything."""

    def value(self, cell: Any) -> Any:
        """A cell as an int, a float or a date as ISO 8601 writes it; as it is where it is none of these."""
        text = cell.strip() if isinstance(cell, str) else ""
        if self.way in _NUMBERS and (number := _number(text, self.way)):
            if not self.unit or number.unit in ("", self.unit):
                return number.value
            if sizes := _sizes({self.unit, number.unit}):
                return as_whole(number.value * sizes[number.unit] / sizes[self.unit])
        return _day(text, *_DATES.get(self.way, ())) or plain(cell)

    def refuses(self, cell: Any) -> bool:
        """Whether a cell says something, and not what the values of the column must be."""
        kind = kind_of(self.value(cell))
        return bool(self.kind and kind) and kind != self.kind

    @property
    def says(self) -> str:
        """The kind for people; empty for text."""
        return _NUMBERS.get(self.way, self.way)


def kind_of(value: Any) -> str:
    """``NUMBER``, ``DATE`` or ``OTHER``; empty where a value says nothing."""
    if value is None or (isinstance(value, str) and value.strip().casefold() in _NONE):
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return NUMBER
    return DATE if isinstance(value, str) and _day(value, _ISO) else OTHER


def _sizes(units: Set[str]) -> dict[str, int]:
    """The sizes of units that are multiples of each other; empty where they are not."""
    return next((sizes for sizes in _SIZES if units <= sizes.keys()), {})


def _why_text(texts: Sequence[str]) -> str:
    """What keeps texts from being dates or numbers; empty where hardly half of them are."""
    odd = [("dates", [text for text in texts if not _day(text, *forms)]) for forms in _DATES.values()]
    odd += [("numbers", [text for text in texts if not _number(text, way)]) for way in _NUMBERS]
    what, cells = min(odd, key=lambda one: len(one[1]))
    if 2 * len(cells) >= len(texts) or cells[0].isdigit():  # a code that begins with 0
        return ""
    told = json.dumps(list(dict.fromkeys(cells))[:_TOLD], ensure_ascii=False)
    hint = f"in the TOML file, empty = {told} leaves them out"
    if all(any(_number(text, way) for way in _NUMBERS) for text in cells):
        hint = "their decimal marks are not those of the others: write them so"
    if what == "dates" and all(_day(text, "%d/%m/%Y", "%m/%d/%Y") for text in cells):
        hint = "their day and month stand the other way round: write them as the others"
    return f"{len(cells)} of {len(texts)} cells are no {what}: {told} ({hint})"


def column_of(name: str, cells: Sequence[Any]) -> Column:
    """What a column holds, from cells of its first rows; empty ones and such as ``n/a`` say nothing."""
    texts = [one.strip() for one in cells if isinstance(one, str) and one.strip().casefold() not in _NONE]
    read = {way: tuple(_day(text, *forms) for text in texts) for way, forms in _DATES.items() if texts}
    if days := {way: found for way, found in read.items() if all(found)}:
        if len({*days.values()}) == 1:
            return Column(name, next(iter(days)))
        told = json.dumps([text for text in dict.fromkeys(texts) if "/" in text][:_TOLD])
        return Column(name, why=f"whether the day or the month is first in {told} is not clear: write them 2024-12-31")
    name_words = re.findall(r"[^\W\d_]+", name)
    numbers = {way: [_number(text, way) for text in texts] for way in _NUMBERS}
    fitting = {way: [one for one in found if one] for way, found in numbers.items() if found and all(found)}
    units = {one.unit for found in fitting.values() for one in found}
    said = {one for one in units if one in map(_CURRENCIES.get, name_words, name_words)}
    said |= {one for one in units if one and not one.isalpha() and one in name}
    if said and said | {""} == units:  # cells without a unit are in that of the column's name
        units = said
    sizes = _sizes(units)
    if len(units) > 1 and not sizes:
        told = ", ".join(sorted(one or "none" for one in units))
        hint = f' (in the TOML file, rename = {{"{name}" = "{name} ({max(units)})"}} says that of cells without one)'
        return Column(name, why=f"its units differ: {told}{hint if len(units) == 2 and '' in units else ''}")
    if len({tuple(found) for found in fitting.values()}) != 1:
        return Column(name, why="" if fitting else _why_text(texts))
    unit = max(units, key=lambda one: sizes.get(one, 0))
    called = f"{name} ({unit})" if unit and unit not in said else name
    return Column(called, next(iter(fitting)), unit=unit if len(units) > 1 else "")


def column_as(name: str, cells: Sequence[Any], kinds: Mapping[str, str]) -> Column:
    """As ``column_of``; but one of ``kinds``, with or without its unit, in the way that reads most cells as such."""
    known = next((one for one in kinds if re.fullmatch(rf"{re.escape(name)}( \(\S+\))?", one)), "")
    if not known:
        return column_of(name, cells)
    unit = re.sub(r".* \((\S+)\)|.*", r"\1", known)
    ways, unclear = ([*_NUMBERS], "") if kinds[known] == NUMBER else ([*_DATES], DATE)
    read = {}
    for column in (Column(known, way, unit=_CURRENCIES.get(unit, unit), kind=kinds[known]) for way in ways):
        read[column] = [column.value(cell) for cell in cells if not column.refuses(cell)]
    most = max(map(len, read.values()))
    best = {column: values for column, values in read.items() if len(values) == most}
    column, values = next(iter(best.items()))
    return column if all(one == values for one in best.values()) else Column(known, unclear, kind=kinds[known])
