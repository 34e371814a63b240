"""Functions of Wikidata's query service that SPARQL does not have: distances, coordinates, unknown values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from urllib.parse import unquote

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from kbnav.knowledge.wikidata.mirror import vocabulary as v

DAYS = "urn:kbnav:days"
"""Days for a duration, anything else as it is: no function of the query service, but how a mirror subtracts dates."""
Term = NamedNode | BlankNode | Literal | Triple
Function = Callable[..., Term | None]

_GEOF = "http://www.opengis.net/def/geosparql/function/"
_EARTH_RADIUS = 6371.0088
"""Kilometres, the mean."""
_POINT = re.compile(r"\s*(?:<[^>]*>\s*)?Point\(\s*([-+.\dE]+)\s+([-+.\dE]+)\s*\)\s*", re.IGNORECASE)

_DURATIONS = f"{v.XSD}dayTimeDuration"
_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


def functions() -> dict[NamedNode, Function]:
    """The functions by their IRIs; each gives None, an error of SPARQL, where its arguments are not what it takes."""
    return {
        NamedNode(f"{_GEOF}distance"): _distance,
        NamedNode(f"{_GEOF}latitude"): lambda point: _coordinate(point, 1),
        NamedNode(f"{_GEOF}longitude"): lambda point: _coordinate(point, 0),
        NamedNode(f"{v.WIKIBASE}isSomeValue"): _is_some_value,
        NamedNode(f"{v.WIKIBASE}decodeUri"): _decode_uri,
        NamedNode(DAYS): _days,
    }


def _distance(one: Term, other: Term) -> Term | None:
    """Kilometres between two points, along a great circle."""
    a, b = _point(one), _point(other)
    if a is None or b is None:
        return None
    (east_a, north_a), (east_b, north_b) = ((math.radians(x), math.radians(y)) for x, y in (a, b))
    half = (
        math.sin((north_b - north_a) / 2) ** 2
        + math.cos(north_a) * math.cos(north_b) * math.sin((east_b - east_a) / 2) ** 2
    )
    return _double(2 * _EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half))))


def _coordinate(point: Term, index: int) -> Term | None:
    found = _point(point)
    return None if found is None else _double(found[index])


def _point(term: Term) -> tuple[float, float] | None:
    """Longitude and latitude of a point."""
    match = _POINT.fullmatch(term.value) if isinstance(term, Literal) else None
    try:
        return None if match is None else (float(match[1]), float(match[2]))
    except ValueError:
        return None


def _double(number: float) -> Literal:
    return Literal(str(number), datatype=NamedNode(f"{v.XSD}double"))


def _days(term: Term) -> Term | None:
    match = _DURATION.fullmatch(term.value) if isinstance(term, Literal) and term.datatype.value == _DURATIONS else None
    if match is None:
        return term
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
    length = days + (hours * 3600 + minutes * 60 + seconds) / 86_400
    return _double(-length if match[1] else length)


def _is_some_value(term: Term) -> Term:
    unknown = isinstance(term, BlankNode) or (isinstance(term, NamedNode) and v.GENID in term.value)
    return Literal("true" if unknown else "false", datatype=NamedNode(f"{v.XSD}boolean"))


def _decode_uri(term: Term) -> Term | None:
    return Literal(unquote(term.value)) if isinstance(term, Literal | NamedNode) else None
