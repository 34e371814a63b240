"""Wikidata's values as text to read: dates to their precision, numbers with units, coordinates, and RDF terms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from kbnav.answers.tables import Term
from kbnav.knowledge.base import Value
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Vocabulary

ENTITY_ID = re.compile(r"[QPL][1-9][0-9]*(?:-[FS][1-9][0-9]*)?")
EARTH = "Q2"
_JULIAN = "Q1985786"
_DAY = 11
_TIME = re.compile(r"(?P<sign>[+-]?)(?P<year>\d{1,16})-(?P<month>\d\d)-(?P<day>\d\d)(?:T(?P<clock>\d\d:\d\d:\d\d)Z?)?")
_POINT = re.compile(r"(?:<(?P<globe>[^>]+)>\s*)?Point\((?P<east>\S+) (?P<north>\S+)\)", re.IGNORECASE)
_PREFIX = {"item": "Q", "property": "P", "lexeme": "L"}
_XSD = "http://www.w3.org/2001/XMLSchema#"

Name = Callable[[str], str]
"""From an entity id to its label, or to the id itself where there is none."""


def referenced(value: Any) -> str:
    """The id that a ``wikibase-entityid`` value names; old documents have only its number."""
    if value.get("id"):
        return str(value["id"])
    return f"{_PREFIX[value['entity-type']]}{int(value['numeric-id'])}"


def snak_value(snak: Mapping[str, Any], name: Name) -> Value:
    """The value of a snak. Raises KeyError, TypeError, ValueError or AttributeError where it is not one."""
    kind = snak["snaktype"]
    datatype = str(snak.get("datatype") or "")
    if kind == "somevalue":
        return Value("unknown value", datatype=datatype, special="unknown")
    if kind == "novalue":
        return Value("no value", datatype=datatype, special="none")
    data = snak["datavalue"]
    value = data["value"]
    match data["type"]:
        case "wikibase-entityid":
            entity = referenced(value)
            return Value(
                name(entity), id=entity, datatype=datatype or "wikibase-" + str(value.get("entity-type", "item"))
            )
        case "time":
            julian = str(value.get("calendarmodel", "")).endswith(_JULIAN)
            text = time_text(value["time"], int(value.get("precision", _DAY)), julian=julian)
        case "quantity":
            text = quantity_text(value, name)
        case "globecoordinate":
            text = coordinate_text(value["latitude"], value["longitude"], value.get("precision"))
            globe = str(value.get("globe") or EARTH).rpartition("/")[2]
            text += "" if globe == EARTH else f" on {name(globe)}"
        case "monolingualtext":
            text = f"{value['text']} ({value['language']})"
        case _:
            text = str(value)
    return Value(text, datatype=datatype or str(data["type"]))


def time_text(time: str, precision: int, *, julian: bool = False) -> str:
    """A date as precise as it is known: ``1952-03-11``, ``1952``, ``1950s``, ``19th century``, ``44-03-15 BCE``."""
    parts = _TIME.fullmatch(time)
    if parts is None:
        return time
    year = int(parts["year"])
    era = " BCE" if parts["sign"] == "-" else ""
    match precision:
        case 14 | 13 | 12 if parts["clock"]:
            text = f"{year}-{parts['month']}-{parts['day']} {parts['clock']}"
        case 14 | 13 | 12 | 11:
            text = f"{year}-{parts['month']}-{parts['day']}"
        case 10:
            text = f"{year}-{parts['month']}"
        case 9:
            text = str(year)
        case 8:
            text = f"{year // 10 * 10}s"
        case 7:
            text = f"{_ordinal(math.ceil(year / 100))} century"
        case 6:
            text = f"{_ordinal(math.ceil(year / 1000))} millennium"
        case _:
            text = f"about {year:,} years" if era else f"about the year {year:,}"
    return text + era + (" (Julian)" if julian and precision >= 9 else "")


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def quantity_text(value: Mapping[str, Any], name: Name) -> str:
    """``12.5 ± 0.5 kilogram``; bounds that are not symmetric as ``12 [11, 14]``. Raises InvalidOperation."""
    amount = _number(value["amount"])
    unit = str(value.get("unit") or "1").rpartition("/")[2]
    text = amount
    if "lowerBound" in value and "upperBound" in value:
        text += _bounds(amount, _number(value["lowerBound"]), _number(value["upperBound"]))
    return text if unit == "1" else f"{text} {name(unit)}"


def _number(written: Any) -> str:
    """A decimal as it is written, without its plus sign."""
    return f"{Decimal(str(written)):f}"


def _bounds(amount: str, lower: str, upper: str) -> str:
    below, above = Decimal(amount) - Decimal(lower), Decimal(upper) - Decimal(amount)
    if below == above:
        return f" ± {below.normalize():f}" if below else ""
    return f" [{lower}, {upper}]"


def coordinate_text(latitude: float, longitude: float, precision: float | None = None) -> str:
    """``48.8566, 2.3522``: degrees north and east, as many digits as the precision (in degrees) supports."""
    digits = 6 if not precision else max(0, min(8, math.ceil(-math.log10(abs(precision)))))
    return f"{float(latitude):.{digits}f}, {float(longitude):.{digits}f}"


def term_value(term: Term, name: Name, words: Vocabulary = WIKIDATA_VOCABULARY) -> Value:
    """An RDF term of the query service as a value: entities by label, dates and points as people write them."""
    if term.type == "bnode" or "/.well-known/genid/" in term.value:
        return Value("unknown value", special="unknown")
    if term.type == "uri":
        entity = words.entity_id(term.value) if term.value.startswith(words.concept_base) else ""
        return Value(name(entity), id=entity) if entity else Value(term.value)
    datatype = (term.datatype or "").removeprefix(_XSD)
    if datatype == "dateTime" and (parts := _TIME.match(term.value)):
        return Value(_rdf_date(parts), datatype="time")
    if point := _POINT.fullmatch(term.value):
        return Value(f"{point['north']}, {point['east']}", datatype="globe-coordinate")
    return Value(f"{term.value} ({term.language})" if term.language else term.value)


def _rdf_date(parts: re.Match[str]) -> str:
    """RDF counts years as astronomers do (0 is 1 BCE) and says no precision: 1 January stands for the year."""
    year = int(parts["year"])
    before = parts["sign"] == "-" or year == 0
    text = str(year + 1 if before else year)
    if (parts["month"], parts["day"]) != ("01", "01"):
        text += f"-{parts['month']}-{parts['day']}"
    return text + (" BCE" if before else "")
