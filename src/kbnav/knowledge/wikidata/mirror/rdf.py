"""Entity documents and values of statements, from Wikibase's JSON form to the RDF of its export, and values back.

A value is one simple term and, for times, quantities and coordinates, a value node that holds what the term cannot: a
precision, a calendar, a unit, bounds, a globe. Decoding takes the node where there is one and says what can be said
without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import quote, unquote

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v

GREGORIAN = f"{WIKIDATA}Q1985727"
JULIAN = f"{WIKIDATA}Q1985786"
EARTH = f"{WIKIDATA}Q2"
UNITLESS = f"{WIKIDATA}Q199"
WKT = NamedNode("http://www.opengis.net/ont/geosparql#wktLiteral")
_DATE_TIME = NamedNode(f"{v.XSD}dateTime")
_INTEGER = NamedNode(f"{v.XSD}integer")
_DECIMAL = NamedNode(f"{v.XSD}decimal")
_DOUBLE = NamedNode(f"{v.XSD}double")
_NUMBERS = frozenset(f"{v.XSD}{name}" for name in ("integer", "decimal", "double", "float", "int", "long"))
_DAY, _MONTH, _YEAR = 11, 10, 9
_TIME = re.compile(r"([+-]?)(\d{1,16})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)Z")
_POINT = re.compile(r"\s*(?:<([^>]*)>\s*)?Point\(\s*(\S+)\s+(\S+)\s*\)\s*", re.IGNORECASE)

Term = NamedNode | BlankNode | Literal | Triple
Node = Mapping[str, Term]
"""The triples of a value node, by the local name of the predicate (``timePrecision``)."""


class BadValue(ValueError):
    """A value that is not in the form its datatype promises."""


@dataclass(frozen=True)
class Encoded:
    """A value in RDF: its simple term, and the type and triples of its value node where it has one."""

    term: NamedNode | Literal
    node_type: str = ""
    node: tuple[tuple[str, NamedNode | Literal], ...] = ()


def encode(datatype: str, value: Any) -> Encoded:
    """The RDF form of the ``value`` in a ``datavalue``. Raises BadValue where it is not what the datatype promises."""
    try:
        if isinstance(value, str):
            return Encoded(_encode_string(datatype, value))
        if "time" in value:
            return _encode_time(value)
        if "amount" in value:
            return _encode_quantity(value)
        if "latitude" in value:
            return _encode_coordinate(value)
        if "language" in value:
            return Encoded(_text(value["text"], value["language"]))
        return Encoded(NamedNode(WIKIDATA + entity_id(value)))
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"not a value of datatype {datatype or 'unknown'}: {value!r}") from error


def entity_id(value: Mapping[str, Any]) -> str:
    """The id of an entity value; old revisions have only ``numeric-id``. Raises BadValue where it has neither."""
    prefix = {"item": "Q", "property": "P", "lexeme": "L"}.get(value.get("entity-type", ""), "")
    found = str(value.get("id") or f"{prefix}{value.get('numeric-id')}")
    if not v.is_entity_id(found):
        raise BadValue(f"not an entity: {value!r}")
    return found


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


def _encode_string(datatype: str, value: str) -> NamedNode | Literal:
    if datatype == "commonsMedia":
        return NamedNode(v.COMMONS_FILE + quote(value.replace("_", " "), safe="-_.~"))
    if datatype in {"geo-shape", "tabular-data"}:
        return NamedNode(v.COMMONS_DATA + quote(value.replace(" ", "_"), safe="-_.~:/"))
    if datatype == "url":
        try:
            return NamedNode(value)
        except ValueError:  # spaces and the like, which an IRI may not hold
            return NamedNode(quote(value, safe=":/?#[]@!$&'()*+,;=%~"))
    return Literal(value)


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


def _text(text: str, language: str) -> Literal:
    try:
        return Literal(text, language=language)
    except ValueError:  # a code that is not a language tag
        return Literal(text, language=v.LANGUAGE_CODES.get(language, "und"))


def _encode_time(value: Mapping[str, Any]) -> Encoded:
    precision, calendar = int(value["precision"]), str(value["calendarmodel"]).replace("https://", "http://")
    term = Literal(_standard_time(str(value["time"]), precision, calendar), datatype=_DATE_TIME)
    node = (
        ("timeValue", term),
        ("timePrecision", Literal(str(precision), datatype=_INTEGER)),
        ("timeTimezone", Literal(str(int(value.get("timezone", 0))), datatype=_INTEGER)),
        ("timeCalendarModel", NamedNode(calendar)),
    )
    return Encoded(term, "TimeValue", node)


def _standard_time(time: str, precision: int, calendar: str) -> str:
    """A time as xsd:dateTime of XSD 1.1 (a year 0 exists), in the Gregorian calendar where the day is known."""
    match = _TIME.fullmatch(time)
    if match is None:
        raise BadValue(f"not a time: {time!r}")
    year, month, day = int(match[1] + match[2]), int(match[3]), int(match[4])
    year += 1 if match[1] == "-" and year < 0 else 0
    month = 1 if precision <= _YEAR else min(max(month, 1), 12)
    day = 1 if precision <= _MONTH else min(max(day, 1), 31)
    if calendar == JULIAN and precision >= _DAY:
        year, month, day = _gregorian_from_days(_days_from_julian(year, month, day))
    return f"{_year(year)}-{month:02}-{day:02}T{match[5]}Z"


def _year(year: int) -> str:
    return f"{'-' if year < 0 else ''}{abs(year):04}"


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
        year, month, day = _julian_from_days(_days_from_gregorian(year, month, day))
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


def _encode_quantity(value: Mapping[str, Any]) -> Encoded:
    unit = str(value.get("unit", "1")).replace("https://", "http://")
    term = _decimal(value["amount"])
    node: list[tuple[str, NamedNode | Literal]] = [("quantityAmount", term)]
    for name in ("upperBound", "lowerBound"):
        if value.get(name) is not None:
            node.append((f"quantity{name[0].upper()}{name[1:]}", _decimal(value[name])))
    node.append(("quantityUnit", NamedNode(UNITLESS if unit in {"1", ""} else unit)))
    return Encoded(term, "QuantityValue", tuple(node))


def _decimal(text: Any) -> Literal:
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", str(text)) is None:
        raise BadValue(f"not a number: {text!r}")
    return Literal(str(text), datatype=_DECIMAL)


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


def _encode_coordinate(value: Mapping[str, Any]) -> Encoded:
    latitude, longitude = _number(value["latitude"]), _number(value["longitude"])
    globe = str(value.get("globe") or EARTH).replace("https://", "http://")
    start = "" if globe == EARTH else f"<{globe}> "
    node: list[tuple[str, NamedNode | Literal]] = [
        ("geoLatitude", Literal(latitude, datatype=_DOUBLE)),
        ("geoLongitude", Literal(longitude, datatype=_DOUBLE)),
    ]
    if value.get("precision") is not None:
        node.append(("geoPrecision", Literal(_number(value["precision"]), datatype=_DOUBLE)))
    node.append(("geoGlobe", NamedNode(globe)))
    return Encoded(Literal(f"{start}Point({longitude} {latitude})", datatype=WKT), "GlobecoordinateValue", tuple(node))


def _number(value: Any) -> str:
    """A coordinate with the 14 significant digits that Wikibase writes."""
    return f"{float(value):.14g}"


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


# Calendars: days are counted from the proleptic Gregorian 0001-01-01 = 1, years as in astronomy (0 is 1 BCE).


def _days_from_gregorian(year: int, month: int, day: int) -> int:
    cycles, year = divmod(year - 1, 400)
    return cycles * 146_097 + date(year + 1, month, 1).toordinal() + day - 1


def _gregorian_from_days(days: int) -> tuple[int, int, int]:
    cycles, days = divmod(days - 1, 146_097)
    found = date.fromordinal(days + 1)
    return found.year + cycles * 400, found.month, found.day


def _days_from_julian(year: int, month: int, day: int) -> int:
    a = (14 - month) // 12
    y, m = year + 4800 - a, month + 12 * a - 3
    return day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32_083 - 1_721_425


def _julian_from_days(days: int) -> tuple[int, int, int]:
    c = days + 1_721_425 + 32_082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


_SPECIAL_SITES = {
    "commonswiki": "commons.wikimedia.org",
    "specieswiki": "species.wikimedia.org",
    "metawiki": "meta.wikimedia.org",
    "wikidatawiki": "www.wikidata.org",
    "mediawikiwiki": "www.mediawiki.org",
    "sourceswiki": "wikisource.org",
    "wikimaniawiki": "wikimania.wikimedia.org",
    "incubatorwiki": "incubator.wikimedia.org",
    "outreachwiki": "outreach.wikimedia.org",
    "foundationwiki": "foundation.wikimedia.org",
    "wikifunctionswiki": "www.wikifunctions.org",
}
_SITE = re.compile(r"(.+?)wiki(|quote|news|source|books|versity|voyage)|(.+?)wiktionary")
_PREDICATES = {
    "directClaim": "wdt", "claim": "p", "statementProperty": "ps", "statementValue": "psv", "qualifier": "pq",
    "qualifierValue": "pqv", "reference": "pr", "referenceValue": "prv", "novalue": "wdno",
}  # fmt: skip
"""What a property's page says of its predicates, and the namespace of each."""


def entity_quads(document: Mapping[str, Any], names: v.Namespaces = v.OF_WIKIDATA) -> Iterator[Quad]:
    """The triples of the document of an item or property; of another entity none. Raises BadValue where it is none."""
    try:
        found = str(document["id"])
        if not v.is_entity_id(found):
            raise BadValue(f"not an entity's id: {found!r}")
        if v.entity_kind(found) in v.ENTITY_TYPES:
            yield from _entity(found, document, names)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadValue(f"not an entity document: {error!r}") from error


def _map(value: Any) -> Mapping[str, Any]:
    """Empty maps come as empty lists, or not at all."""
    return value if isinstance(value, Mapping) else {}


def _entity(found: str, document: Mapping[str, Any], n: v.Namespaces) -> Iterator[Quad]:
    subject, kind = NamedNode(n.wd + found), v.entity_kind(found)
    yield Quad(subject, v.RDF_TYPE, NamedNode(v.WIKIBASE + v.ENTITY_TYPES[kind]))
    aliases = (alias for group in _map(document.get("aliases")).values() for alias in group)
    labels, descriptions = (_map(document.get(name)).values() for name in ("labels", "descriptions"))
    for predicate, texts in ((v.RDFS_LABEL, labels), (v.DESCRIPTION, descriptions), (v.ALT_LABEL, aliases)):
        for text in texts:
            yield Quad(subject, predicate, _text(text["value"], text["language"]))
    if kind == "property":
        if (datatype := str(document.get("datatype", ""))) in v.DATATYPES:
            yield Quad(subject, v.PROPERTY_TYPE, NamedNode(v.WIKIBASE + v.DATATYPES[datatype]))
        for name, namespace in _PREDICATES.items():
            yield Quad(subject, NamedNode(v.WIKIBASE + name), NamedNode(getattr(n, namespace) + found))
    links, claims = _map(document.get("sitelinks")), _map(document.get("claims"))
    for link in links.values():
        yield from _sitelink(subject, link)
    for prop, statements in claims.items():
        preferred = any(statement.get("rank") == "preferred" for statement in statements)
        for number, statement in enumerate(statements):
            yield from _statement(subject, prop, statement, number, n, best="preferred" if preferred else "normal")
    # Counts are on the entity itself, where the query service has them, and not on its page as in the export.
    stated = [statement for group in claims.values() for statement in group]
    identifiers = sum(statement["mainsnak"].get("datatype") == "external-id" for statement in stated)
    counts = {v.STATEMENTS: len(stated), v.IDENTIFIERS: identifiers}
    counts |= {v.SITELINKS: len(links)} if kind == "item" else {}
    counts |= {v.VERSION: int(document["lastrevid"])} if document.get("lastrevid") else {}
    for predicate, count in counts.items():
        yield Quad(subject, predicate, Literal(str(count), datatype=_INTEGER))
    if document.get("modified"):
        yield Quad(subject, v.DATE_MODIFIED, Literal(str(document["modified"]), datatype=_DATE_TIME))
    if redirects := _map(document.get("redirects")):
        yield Quad(NamedNode(n.wd + str(redirects["from"])), v.SAME_AS, subject)


def site_host(site: str) -> str:
    """The host of a wiki by its site id (``enwiki``: ``en.wikipedia.org``); empty for one that is not known."""
    if site in _SPECIAL_SITES:
        return _SPECIAL_SITES[site]
    match = _SITE.fullmatch(site)
    if match is None:
        return ""
    family = "wiktionary" if match[3] else f"wiki{match[2] or 'pedia'}"
    language = (match[1] or match[3]).replace("_", "-")
    return f"{'be-tarask' if language == 'be-x-old' else language}.{family}.org"


def _sitelink(subject: NamedNode, link: Mapping[str, Any]) -> Iterator[Quad]:
    host, title = site_host(str(link["site"])), str(link["title"])
    if not host:
        return
    article = NamedNode(f"https://{host}/wiki/{quote(title.replace(' ', '_'), safe='-_.~:/!$()*,;@')}")
    code = "en" if str(link["site"]) in _SPECIAL_SITES else host.split(".")[0]
    language = v.LANGUAGE_CODES.get(code, code)
    yield Quad(article, v.RDF_TYPE, v.ARTICLE)
    yield Quad(article, v.ABOUT, subject)
    yield Quad(article, v.IN_LANGUAGE, Literal(language))
    yield Quad(article, v.IS_PART_OF, NamedNode(f"https://{host}/"))
    yield Quad(article, v.NAME, _text(title, language))


def _statement(
    subject: NamedNode, prop: str, statement: Mapping[str, Any], number: int, n: v.Namespaces, *, best: str
) -> Iterator[Quad]:
    main, rank = statement["mainsnak"], statement.get("rank", "normal")
    name = str(statement.get("id") or f"{subject.value.removeprefix(n.wd)}${_digest([prop, number, main])}")
    node = NamedNode(n.wds + name.replace("$", "-", 1))
    yield Quad(subject, NamedNode(n.p + prop), node)
    yield Quad(node, v.RDF_TYPE, v.STATEMENT)
    yield Quad(node, v.RANK, v.RANKS[rank])
    yield from _snak(node, prop, main, n.ps, n.psv, n)
    if rank == best:
        yield Quad(node, v.RDF_TYPE, v.BEST_RANK)
        yield from _snak(subject, prop, main, n.wdt, "", n)
    for group in _map(statement.get("qualifiers")).values():
        for snak in group:
            yield from _snak(node, str(snak["property"]), snak, n.pq, n.pqv, n)
    for reference in statement.get("references") or ():
        snaks = [snak for group in _map(reference["snaks"]).values() for snak in group]
        source = NamedNode(n.wdref + str(reference.get("hash") or _digest(snaks)))
        yield Quad(node, v.DERIVED_FROM, source)
        yield Quad(source, v.RDF_TYPE, v.REFERENCE)
        for snak in snaks:
            yield from _snak(source, str(snak["property"]), snak, n.pr, n.prv, n)


def _snak(
    subject: NamedNode, prop: str, snak: Mapping[str, Any], simple: str, full: str, n: v.Namespaces
) -> Iterator[Quad]:
    """One snak as the simple triple and, where its value has a node and ``full`` a name, the triple to that too."""
    if snak["snaktype"] == "somevalue":
        yield Quad(subject, NamedNode(simple + prop), BlankNode())
        return
    if snak["snaktype"] == "novalue":
        yield Quad(subject, v.RDF_TYPE, NamedNode(n.wdno + prop))
        return
    value = snak["datavalue"]["value"]
    if isinstance(value, Mapping) and "entity-type" in value:
        yield Quad(subject, NamedNode(simple + prop), NamedNode(n.wd + entity_id(value)))
        return
    encoded = encode(str(snak.get("datatype", "")), value)
    yield Quad(subject, NamedNode(simple + prop), encoded.term)
    if encoded.node and full:
        node = NamedNode(n.wdv + _digest([[name, str(term)] for name, term in encoded.node]))
        yield Quad(subject, NamedNode(full + prop), node)
        yield Quad(node, v.RDF_TYPE, NamedNode(v.WIKIBASE + encoded.node_type))
        for name, term in encoded.node:
            yield Quad(node, NamedNode(v.WIKIBASE + name), term)


def _digest(value: Any) -> str:
    return hashlib.md5(json.dumps(value, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
