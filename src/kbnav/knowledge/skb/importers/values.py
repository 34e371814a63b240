"""Cells of tables as values: numbers and dates as countries write them, units, and texts without HTML.

What a column holds is told from its first rows, because one cell does not tell: ``1,234`` is either of two numbers, and
``03/04/2024`` either of two days. A column that stays unclear stays text, as codes do that begin with a zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from html.parser import HTMLParser
from typing import Any, Literal

_NUMBER = re.compile(
    r"(?P<sign>[+\-\u2212]?)(?P<before>[$€£¥]?)\s?(?P<digits>\d+|\d{1,3}(?P<mark>[.,'\u2019\s])\d{3}(?:(?P=mark)\d{3})*)"
    r"(?:(?P<point>[.,])(?P<rest>\d+))?(?:\s?(?P<unit>%|[$€£¥]|[^\W\d_]{1,5}[²³]?))?"
)
_DATES = (
    (re.compile(r"(\d{4})-(\d\d?)-(\d\d?)"), ("ymd",)),
    (re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})"), ("dmy",)),
    (re.compile(r"(\d\d?)/(\d\d?)/(\d{4})"), ("dmy", "mdy")),
)
_NONE = frozenset({"", "-", "–", "n/a", "na", "null", "none"})
_BLOCKS = "blockquote|br|div|h[1-6]|hr|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"
_HTML = re.compile(
    rf"</?(?:{_BLOCKS}|a|abbr|b|code|em|i|img|s|script|small|span|strong|style|sub|sup|u)(?:\s[^<>]*)?/?>"
    r"|&(?:#x?[\da-f]+|[a-z]{2,8});",
    re.IGNORECASE,
)
Kind = Literal["text", "number", "date"]


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self._hidden += tag in ("script", "style")
        self.parts.append("\n" if re.fullmatch(_BLOCKS, tag) else "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")
        self.parts.append("\n" if re.fullmatch(_BLOCKS, tag) else "")

    def handle_data(self, data: str) -> None:
        self.parts.append("" if self._hidden > 0 else data)


def plain(value: Any) -> Any:
    """A text without the tags and character references of HTML, a line for each block; anything else as it is."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, str) or not _HTML.search(value):
        return value
    parser = _Text()
    parser.feed(value)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).split("\n"))
    return "\n".join(line for line in lines if line)


@dataclass(frozen=True)
class Column:
    """What a column is called in documents, and how its cells are read: a number's decimal mark, a date's order."""

    name: str
    kind: Kind = "text"
    style: str = ""

    def value(self, cell: Any) -> Any:
        """A cell as an int, a float or a date as ISO 8601 writes it; as it is where it is none of these."""
        text = cell.strip() if isinstance(cell, str) else ""
        if self.kind == "date" and (found := _day(text, self.style)):
            return found
        if self.kind == "number" and (match := _NUMBER.fullmatch(text)):
            whole, rest = _split(match, self.style)
            number = f"{'' if match['sign'] in ('', '+') else '-'}{whole}"
            return float(f"{number}.{rest}") if rest else int(number)
        return plain(cell)

    @property
    def says(self) -> str:
        """The kind for people, with what tells it from others."""
        details = {",": "decimal comma", "dmy": "day first", "mdy": "month first"}
        return f"{self.kind} ({details[self.style]})" if self.style in details else self.kind


def column_of(name: str, cells: Sequence[Any]) -> Column:
    """What a column holds, from cells of its first rows; empty ones and such as ``n/a`` say nothing."""
    texts = [one.strip() for one in cells if isinstance(one, str) and one.strip().casefold() not in _NONE]
    if not texts:
        return Column(name)
    for pattern, orders in _DATES:
        if all(map(pattern.fullmatch, texts)):
            fitting = [order for order in orders if all(_day(text, order) for text in texts)]
            return Column(name, "date", fitting[0]) if len(fitting) == 1 else Column(name)
    found = [match for match in map(_NUMBER.fullmatch, texts) if match]
    if len(found) < len(texts) or any(re.match(r"0\d", match["digits"]) for match in found):
        return Column(name)
    units = {match["unit"] or match["before"] or "" for match in found}
    point = _point(found)
    if point is None or len(units) > 1:
        return Column(name)
    unit = units.pop()
    return Column(f"{name} ({unit})" if unit and unit not in name else name, "number", point)


def _point(found: Sequence[re.Match[str]]) -> str | None:
    """The decimal mark of a column's numbers; ``.`` where none has one, None where that is unclear."""
    marks, groups, unclear = set[str](), set[str](), set[str]()
    for match in found:
        mark, point, rest = match["mark"], match["point"], match["rest"]
        if mark:
            # one group of three digits may as well be three decimals, unless another mark follows
            several = point or len(match["digits"]) > 7
            (groups if several or mark not in ".," else unclear).add(mark)
        if point:
            (unclear if len(rest) == 3 and not mark and len(match["digits"]) <= 3 else marks).add(point)
    if marks & groups or len(marks) > 1:
        return None
    if marks:
        return marks.pop()
    if groups & {".", ","}:
        return "," if "." in groups else "."
    return None if "," in unclear else "."


def _split(match: re.Match[str], point: str) -> tuple[str, str]:
    digits, rest = match["digits"], match["rest"] or ""
    if match["point"] and match["point"] != point:
        digits, rest = digits + rest, ""  # a group of three
    elif match["mark"] == point:
        digits, _, rest = digits.partition(point)
    return re.sub(r"\D", "", digits), rest


def _day(text: str, order: str) -> str:
    match = next((found for pattern, orders in _DATES if order in orders and (found := pattern.fullmatch(text))), None)
    if match:
        part = dict(zip(order, map(int, match.groups()), strict=True))
        with suppress(ValueError):
            return date(part["y"], part["m"], part["d"]).isoformat()
    return ""
