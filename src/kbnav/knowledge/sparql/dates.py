"""Dates as Wikidata's query service counts with them, for an engine that follows the standard.

There the difference of two dates is a number of days, not a duration, and a date without a time of day, or without a
time zone, is one at midnight UTC, which can be compared with every other.
"""

from __future__ import annotations

import re
from collections import defaultdict

from kbnav.knowledge.sparql.blocks import Parsed, parsed
from kbnav.knowledge.sparql.dialects import Dialect
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES

_XSD = STANDARD_PREFIXES["xsd"]
_DAY = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")
_TIME = re.compile(r"[+-]?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
_ENDS = frozenset([",", ";", "=", "!=", "<", ">", "<=", ">=", "&&", "||", "!"])
_OPERANDS = ("variable", "number", "string", "language", "name", "iri")


def rewrite_dates(text: str, dialect: Dialect) -> str:
    """The query with differences through the engine's function for days, and dates as times; else as it is."""
    return _differences(_midnights(text), dialect.days) if dialect.days else text


def _midnights(text: str) -> str:
    """``"2000-01-01"^^xsd:date`` and its like as times at midnight UTC."""
    query = parsed(text)
    for index in range(len(query.tokens) - 3, -1, -1):
        token, sign, kind = query.tokens[index : index + 3]
        if (
            token.kind != "string"
            or sign.text != "^^"
            or query.iri(index + 2) not in (_XSD + "date", _XSD + "dateTime")
        ):
            continue
        written = token.text.strip("\"'").removesuffix("Z")
        if _DAY.fullmatch(written):
            written += "T00:00:00"
        if _TIME.fullmatch(written):
            text = f'{text[: token.start]}"{written}Z"^^<{_XSD}dateTime>{text[kind.end :]}'
    return text


def _differences(text: str, function: str) -> str:
    """Every difference of two operands, the second no number, as an argument of ``function``."""
    query = parsed(text)
    put: defaultdict[int, str] = defaultdict(str)
    for index, token in enumerate(query.tokens):
        if token.text == "-" and (place := _operands(query, index)):
            put[place[0]] += f"<{function}>("
            put[place[1]] += ")"
    for offset in sorted(put, reverse=True):
        text = text[:offset] + put[offset] + text[offset:]
    return text


def _operands(query: Parsed, minus: int) -> tuple[int, int] | None:
    """From where to where the operands of a minus sign are, as offsets; None where it is no such difference."""
    tokens, bracket = query.tokens, query.nested.parent[minus]
    if bracket < 0 or tokens[bracket].text != "(" or not 0 < minus < len(tokens) - 1:
        return None
    before = tokens[minus - 1]
    if before.text != ")" and before.kind not in _OPERANDS:
        return None
    end = query.nested.close[bracket]
    level = [index for index in range(bracket + 1, end) if query.nested.parent[index] == bracket]
    at = level.index(minus)
    first = next((one for one in reversed(range(at)) if _is_end(query, level[one])), -1) + 1
    last = next((one for one in range(at + 1, len(level)) if _stops(query, level, one, at)), len(level)) - 1
    right = [tokens[index] for index in level[at + 1 : last + 1]]
    if first >= at or not right or all(token.kind == "number" or token.text in "+-" for token in right):
        return None
    return tokens[level[first]].start, tokens[level[last]].end


def _is_end(query: Parsed, index: int) -> bool:
    """Whether a sum cannot go on over this token: a comparison, a comma, a word that is no function."""
    token = query.tokens[index]
    if token.kind == "word":
        return query.tokens[index + 1].text != "(" or token.is_word("IN", "DISTINCT", "AS", "NOT")
    return token.kind == "symbol" and token.text in _ENDS


def _stops(query: Parsed, level: list[int], place: int, minus: int) -> bool:
    """Whether the second operand ends before this token: at the end of the sum, or its next sign."""
    if _is_end(query, level[place]):
        return True
    return query.tokens[level[place]].text in ("+", "-") and place > minus + 1
