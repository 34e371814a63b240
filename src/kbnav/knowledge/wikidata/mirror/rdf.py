"""Values of statements: from Wikibase's RDF to the JSON of its action API.

A term may come with a value node that holds what the term cannot: a precision, a calendar, a unit, bounds, a globe.
Decoding takes the node where there is one and says what can be said without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import unquote

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v

GREGORIAN = f"{WIKIDATA}Q1985727"
JULIAN = f"{WIKIDATA}Q1985786"
EARTH = f"{WIKIDATA}Q2"
UNITLESS = f"{WIKIDATA}Q199"
WKT = NamedNode("http://www.opengis.net/ont/geosparql#wktLiteral")
_DATE_TIME = NamedNode(f"{v.XSD}dateTime")
_NUMBERS = frozenset(f"{v.XSD}{name}" for name in ("integer", "decimal", "double", "float", "int", "long"))
_DAY, _MONTH, _YEAR = 11, 10, 9
_TIME = re.compile(r"([+-]?)(\d{1,16})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)Z")
_POINT = re.compile(r"\s*(?:<([^>]*)>\s*)?Point\(\s*(\S+)\s+(\S+)\s*\)\s*", re.IGNORECASE)

Term = NamedNode | BlankNode | Literal | Triple
Node = Mapping[str, Term]
"""The triples of a value node, by the local name of the predicate (``timePrecision``)."""


class BadValue(ValueError):
    """A value that is not in the form its datatype promises."""


def decode(
    datatype: str, term: Term, node: Node | None = None, names: v.Namespaces = v.OF_WIKIDATA
) -> tuple[str, dict[str, Any]]:
    """The datatype and the ``datavalue`` of a term; ``datatype`` empty or unfit for the term: guessed from it."""
    fitting = datatype if datatype and _fits(datatype, term, names) else guess_datatype(term, names)
    if isinstance(term, NamedNode):
        return fitting, _decode_iri(fitting, term.value, names)
    if not isinstance(term, Literal):
        raise BadValue(f"not a value: {term}")
    if fitting == "monolingualtext":
        return fitting, {"value": {"text": term.value, "language": term.language or "und"}, "type": fitting}
    if fitting == "time":
        return fitting, {"value": _decode_time(term.value, node or {}), "type": "time"}
    if fitting == "quantity":
        return fitting, {"value": _decode_quantity(term.value, node or {}), "type": "quantity"}
    if fitting == "globe-coordinate":
        return fitting, {"value": _decode_coordinate(term.value, node or {}), "type": "globecoordinate"}
    return fitting, {"value": term.value, "type": "string"}


def guess_datatype(term: Term, names: v.Namespaces = v.OF_WIKIDATA) -> str:
    """The most likely datatype of a term whose property is not described in the store."""
    if isinstance(term, NamedNode):
        found = names.local_id(term.value)
        if found:
            kind = v.entity_kind(found)
            return kind if kind == "entity-schema" else f"wikibase-{kind}"
        if term.value.startswith(v.COMMONS_FILE):
            return "commonsMedia"
        if term.value.startswith(v.COMMONS_DATA):
            return "tabular-data" if term.value.endswith(".tab") else "geo-shape"
        return "url"
    if not isinstance(term, Literal):
        return "string"
    if term.language:
        return "monolingualtext"
    if term.datatype == _DATE_TIME and _TIME.fullmatch(term.value):
        return "time"
    if term.datatype == WKT and _POINT.fullmatch(term.value):
        return "globe-coordinate"
    return "quantity" if term.datatype.value in _NUMBERS else "string"


def _fits(datatype: str, term: Term, names: v.Namespaces) -> bool:
    guess = guess_datatype(term, names)
    if datatype == guess:
        return True
    if guess == "string":  # a plain text; the datatypes below are written as one
        return datatype in {"external-id", "math", "musical-notation"}
    return datatype == "geo-shape" and guess == "tabular-data"


def _decode_iri(datatype: str, iri: str, names: v.Namespaces) -> dict[str, Any]:
    found = names.local_id(iri)
    if found and datatype != "url":
        kind = v.entity_kind(found)
        value: dict[str, Any] = {"entity-type": kind, "id": found}
        if found[1:].isdigit():
            value = {"entity-type": kind, "numeric-id": int(found[1:]), "id": found}
        return {"value": value, "type": "wikibase-entityid"}
    for start in (v.COMMONS_FILE, v.COMMONS_DATA):
        if datatype != "url" and iri.startswith(start):
            return {"value": unquote(iri[len(start) :]).replace("_", " "), "type": "string"}
    return {"value": iri, "type": "string"}


def _decode_time(lexical: str, node: Node) -> dict[str, Any]:
    match = _TIME.fullmatch(lexical)
    if match is None:
        raise BadValue(f"not a time: {lexical!r}")
    year, month, day = int(match[1] + match[2]), int(match[3]), int(match[4])
    calendar = _value(node, "timeCalendarModel") or GREGORIAN
    # Without a value node, the first of January at midnight most often stands for the whole year.
    whole_year = (month, day, match[5]) == (1, 1, "00:00:00")
    precision = int(_value(node, "timePrecision") or (_YEAR if whole_year else _DAY))
    if calendar == JULIAN and precision >= _DAY:
        cycles, year = divmod(year - 1, 400)
        year, month, day = _julian_from_days(cycles * 146_097 + date(year + 1, month, 1).toordinal() + day - 1)
    month, day = month if precision > _YEAR else 0, day if precision > _MONTH else 0
    sign, year = ("+", year) if year > 0 else ("-", 1 - year)
    return {
        "time": f"{sign}{year:04}-{month:02}-{day:02}T{match[5]}Z",
        "timezone": int(_value(node, "timeTimezone") or 0),
        "before": 0,
        "after": 0,
        "precision": precision,
        "calendarmodel": calendar,
    }


def _decode_quantity(lexical: str, node: Node) -> dict[str, Any]:
    unit = _value(node, "quantityUnit")
    value = {"amount": _signed(lexical), "unit": "1" if unit in {"", UNITLESS} else unit}
    for name in ("upperBound", "lowerBound"):
        bound = _value(node, f"quantity{name[0].upper()}{name[1:]}")
        if bound:
            value[name] = _signed(bound)
    return value


def _signed(number: str) -> str:
    return number if number.startswith(("-", "+")) else f"+{number}"


def _decode_coordinate(lexical: str, node: Node) -> dict[str, Any]:
    match = _POINT.fullmatch(lexical)
    if match is None:
        raise BadValue(f"not a point: {lexical!r}")
    precision = _value(node, "geoPrecision")
    return {
        "latitude": float(match[3]),
        "longitude": float(match[2]),
        "altitude": None,
        "precision": float(precision) if precision else None,
        "globe": _value(node, "geoGlobe") or match[1] or EARTH,
    }


def _value(node: Node, name: str) -> str:
    term = node.get(name)
    return term.value if isinstance(term, NamedNode | Literal) else ""


def _julian_from_days(days: int) -> tuple[int, int, int]:
    c = days + 1_721_425 + 32_082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1
