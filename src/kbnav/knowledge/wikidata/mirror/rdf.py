"""Wikibase's JSON from its RDF, and its RDF from its JSON.

Values of statements become the JSON of the action API. A term may come with a value node that holds what the term
cannot: a precision, a calendar, a unit, bounds, a globe. Decoding takes the node where there is one and says what can
be said without it.

Entities of JSON dumps become the triples that the query service has of them. The mapping is
https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format. As there, an entity's counts are on itself and not on
its page, and a label is ``rdfs:label`` alone. Value nodes are named by a hash of their own. ``wdtn:`` and its kind,
which need the page of another entity, are left out, and normalised quantities (``psn:``), for which Wikidata has a list
of conversions that no dump holds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
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
_NUMBERS = frozenset(f"{v.XSD}{name}" for name in ("integer", "decimal", "double", "float", "int", "long"))
_DAY, _MONTH, _YEAR = 11, 10, 9
_TIME = re.compile(r"([+-]?)(\d{1,16})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)Z")
_POINT = re.compile(r"\s*(?:<([^>]*)>\s*)?Point\(\s*(\S+)\s+(\S+)\s*\)\s*", re.IGNORECASE)

_SITE = re.compile(r"(.+?)(wiki(?:quote|news|source|books|versity|voyage)?|wiktionary)")
_SITES = {"sources": "wikisource", **{name: f"{name}.wikimedia" for name in (
    "commons", "species", "meta", "wikimania", "incubator", "outreach", "foundation")},
    **{name: f"www.{name}" for name in ("wikidata", "mediawiki", "wikifunctions")}}  # fmt: skip
_LANGUAGES = {"als": "gsw", "bat-smg": "sgs", "fiu-vro": "vro", "no": "nb", "roa-rup": "rup", "simple": "en-simple",
    "zh-classical": "lzh", "zh-min-nan": "nan", "zh-yue": "yue", "be-x-old": "be-tarask"}  # fmt: skip
"""Codes of the JSON form and of hosts that RDF writes as the standard tag."""
_PREDICATES = {"directClaim": "wdt", "claim": "p", "statementProperty": "ps", "statementValue": "psv",
    "qualifier": "pq", "qualifierValue": "pqv", "reference": "pr", "referenceValue": "prv",
    "novalue": "wdno"}  # fmt: skip
"""What a property's page says of its predicates, and the namespace of each."""
_ONTOLEX = "http://www.w3.org/ns/lemon/ontolex#"
_CATEGORY = "lexicalCategory"
_PARTS = (
    ("forms", "Form", "Form", "lexicalForm", "representations", f"{_ONTOLEX}representation"),
    ("senses", "Sense", "LexicalSense", "sense", "glosses", "http://www.w3.org/2004/02/skos/core#definition"),
)
"""Of a lexeme: where its parts are, their two types, what points at them, where their texts are and what has these."""
_NOT_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")
_FILE, _DATA, _TITLE = "-_.~", "-_.~:/", "-_.~:/!$()*,;@"
"""Characters that an IRI of a file, of data and of a page has as they are."""

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
    calendar = _of_node(node, "timeCalendarModel") or GREGORIAN
    # Without a value node, the first of January at midnight most often stands for the whole year.
    whole_year = (month, day, match[5]) == (1, 1, "00:00:00")
    precision = int(_of_node(node, "timePrecision") or (_YEAR if whole_year else _DAY))
    if calendar == JULIAN and precision >= _DAY:
        cycles, year = divmod(year - 1, 400)
        year, month, day = _julian_from_days(cycles * 146_097 + date(year + 1, month, 1).toordinal() + day - 1)
    month, day = month if precision > _YEAR else 0, day if precision > _MONTH else 0
    sign, year = ("+", year) if year > 0 else ("-", 1 - year)
    return {
        "time": f"{sign}{year:04}-{month:02}-{day:02}T{match[5]}Z",
        "timezone": int(_of_node(node, "timeTimezone") or 0),
        "before": 0,
        "after": 0,
        "precision": precision,
        "calendarmodel": calendar,
    }


def _decode_quantity(lexical: str, node: Node) -> dict[str, Any]:
    unit = _of_node(node, "quantityUnit")
    value = {"amount": _signed(lexical), "unit": "1" if unit in {"", UNITLESS} else unit}
    for name in ("upperBound", "lowerBound"):
        bound = _of_node(node, f"quantity{name[0].upper()}{name[1:]}")
        if bound:
            value[name] = _signed(bound)
    return value


def _signed(number: str) -> str:
    return number if number.startswith(("-", "+")) else f"+{number}"


def _decode_coordinate(lexical: str, node: Node) -> dict[str, Any]:
    match = _POINT.fullmatch(lexical)
    if match is None:
        raise BadValue(f"not a point: {lexical!r}")
    precision = _of_node(node, "geoPrecision")
    return {
        "latitude": float(match[3]),
        "longitude": float(match[2]),
        "altitude": None,
        "precision": float(precision) if precision else None,
        "globe": _of_node(node, "geoGlobe") or match[1] or EARTH,
    }


def _of_node(node: Node, name: str) -> str:
    term = node.get(name)
    return term.value if isinstance(term, NamedNode | Literal) else ""


def _julian_from_days(days: int) -> tuple[int, int, int]:
    c = days + 1_721_425 + 32_082
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


@lru_cache(100_000)
def _iri(text: str) -> NamedNode:
    return NamedNode(text)


def _of(name: str) -> NamedNode:
    return _iri(v.WIKIBASE + name)


def _typed(value: object, datatype: str) -> Literal:
    return Literal(str(value), datatype=_iri(v.XSD + datatype))


def entities(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The entities of a dump: an array with one a line, or such lines without brackets.

    Raises BadValue for a line that is no entity, and where an array has no end.
    """
    is_open = False
    for line in lines:
        text = line.strip().rstrip(b",")
        if text in (b"[", b"]", b""):
            is_open = text == b"[" or (is_open and not text)
            continue
        try:
            entity = json.loads(text)
        except (ValueError, RecursionError) as error:
            cut = "" if line.endswith(b"\n") else ": the dump is cut off in this line"
            raise BadValue(f"not JSON{cut}: {error}") from error
        if not isinstance(entity, dict):
            raise BadValue(f"not an entity: {text[:80]!r}")
        yield entity
    if is_open:
        raise BadValue("the dump is cut off: the ] that closes it is missing")


def quads(entity: Mapping[str, Any], n: v.Namespaces = v.OF_WIKIDATA) -> Iterator[Quad]:
    """The triples of an item, a property or a lexeme. Raises BadValue where it is no entity."""
    try:
        if not v.is_entity_id(found := str(entity["id"])):
            raise BadValue(f"not an entity's id: {found!r}")
        if (kind := v.entity_kind(found)) in ("item", "property", "lexeme"):
            yield from _entity(NamedNode(n.wd + found), kind, entity, n)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise error if isinstance(error, BadValue) else BadValue(f"not an entity: {error!r}") from error


def datatypes(entity: Mapping[str, Any]) -> dict[bytes, bool]:
    """Of the properties of an entity's statements, whether each is an external identifier."""
    snaks = (statement["mainsnak"] for group in _map(entity.get("claims")).values() for statement in group)
    return {snak["property"].encode(): snak["datatype"] == "external-id" for snak in snaks if "datatype" in snak}


def _map(value: Any) -> Mapping[str, Any]:
    """Empty maps come as empty lists, or not at all."""
    return value if isinstance(value, Mapping) else {}


def _entity(subject: NamedNode, kind: str, entity: Mapping[str, Any], n: v.Namespaces) -> Iterator[Quad]:
    yield Quad(subject, v.RDF_TYPE, _of(kind.capitalize()))
    for name, predicate in (("labels", v.RDFS_LABEL), ("descriptions", v.DESCRIPTION), ("aliases", v.ALT_LABEL)):
        for texts in _map(entity.get(name)).values():
            for text in texts if isinstance(texts, list) else [texts]:
                yield Quad(subject, predicate, _text(text["value"], text["language"]))
    if kind == "property":
        yield Quad(subject, v.PROPERTY_TYPE, _of(v.DATATYPES[entity["datatype"]]))
        for name, namespace in _PREDICATES.items():
            yield Quad(subject, _of(name), _iri(getattr(n, namespace) + entity["id"]))
    links, claims = _map(entity.get("sitelinks")), _map(entity.get("claims"))
    for link in links.values():
        yield from _sitelink(subject, link, n)
    yield from _statements(subject, claims, n)
    if kind == "lexeme":
        yield from _lexeme(subject, entity, n)
    stated = [statement for group in claims.values() for statement in group]
    external = sum(statement["mainsnak"].get("datatype") == "external-id" for statement in stated)
    counts = {v.STATEMENTS: len(stated), v.IDENTIFIERS: external, v.VERSION: entity.get("lastrevid")}
    for predicate, count in (counts | ({v.SITELINKS: len(links)} if kind == "item" else {})).items():
        if count is not None:
            yield Quad(subject, predicate, _typed(count, "integer"))
    if entity.get("modified"):
        yield Quad(subject, v.DATE_MODIFIED, _typed(entity["modified"], "dateTime"))


def _lexeme(subject: NamedNode, lexeme: Mapping[str, Any], n: v.Namespaces) -> Iterator[Quad]:
    """What a lexeme has that an item has not, with its forms and senses."""
    yield Quad(subject, v.RDF_TYPE, _iri(f"{_ONTOLEX}LexicalEntry"))
    yield from _worded(subject, lexeme.get("lemmas"), f"{v.WIKIBASE}lemma")
    for key, predicate in (("language", "http://purl.org/dc/terms/language"), (_CATEGORY, v.WIKIBASE + _CATEGORY)):
        if lexeme.get(key):
            yield Quad(subject, _iri(predicate), _iri(n.wd + lexeme[key]))
    for key, kind, also, link, texts, predicate in _PARTS:
        for part in lexeme.get(key) or ():
            node = NamedNode(n.wd + part["id"])
            yield Quad(subject, _iri(_ONTOLEX + link), node)
            yield Quad(node, v.RDF_TYPE, _of(kind))
            yield Quad(node, v.RDF_TYPE, _iri(_ONTOLEX + also))
            yield from _worded(node, part.get(texts), predicate)
            for feature in part.get("grammaticalFeatures", ()):
                yield Quad(node, _of("grammaticalFeature"), _iri(n.wd + feature))
            yield from _statements(node, _map(part.get("claims")), n)


def _worded(subject: NamedNode, texts: Any, predicate: str) -> Iterator[Quad]:
    for text in _map(texts).values():
        for one in (v.RDFS_LABEL, _iri(predicate)):
            yield Quad(subject, one, _text(text["value"], text["language"]))


def _sitelink(subject: NamedNode, link: Mapping[str, Any], n: v.Namespaces) -> Iterator[Quad]:
    if not (match := _SITE.fullmatch(link["site"])):
        return
    code, family = match[1].replace("_", "-"), "wikipedia" if match[2] == "wiki" else match[2]
    host = f"{'be-tarask' if code == 'be-x-old' else code}.{family}"
    if match[2] == "wiki" and code in _SITES:
        code, host, family = "en", _SITES[code], code
    code, site = _LANGUAGES.get(code, code), _iri(f"https://{host}.org/")
    page = NamedNode(f"{site.value}wiki/{quote(link['title'].replace(' ', '_'), safe=_TITLE)}")
    yield Quad(page, v.RDF_TYPE, _iri(f"{v.SCHEMA}Article"))
    yield Quad(page, v.ABOUT, subject)
    yield Quad(page, _iri(f"{v.SCHEMA}inLanguage"), Literal(code))
    yield Quad(page, _iri(f"{v.SCHEMA}isPartOf"), site)
    yield Quad(page, _iri(f"{v.SCHEMA}name"), _text(link["title"], code))
    yield Quad(site, _of("wikiGroup"), Literal(family))
    yield from (Quad(page, _of("badge"), _iri(n.wd + badge)) for badge in link.get("badges", ()))


def _statements(subject: NamedNode, claims: Mapping[str, Any], n: v.Namespaces) -> Iterator[Quad]:
    for prop, statements in claims.items():
        best = "preferred" if any(one["rank"] == "preferred" for one in statements) else "normal"
        for statement in statements:
            yield from _statement(subject, prop, statement, n, best)


def _statement(
    subject: NamedNode, prop: str, statement: Mapping[str, Any], n: v.Namespaces, best: str
) -> Iterator[Quad]:
    node = NamedNode(n.wds + statement["id"].replace("$", "-", 1))
    yield Quad(subject, _iri(n.p + prop), node)
    yield Quad(node, v.RDF_TYPE, _of("Statement"))
    yield Quad(node, v.RANK, v.RANKS[statement["rank"]])
    yield from _snak(node, statement["mainsnak"], n.ps, n.psv, n)
    if statement["rank"] == best:
        yield Quad(node, v.RDF_TYPE, _of("BestRank"))
        yield from _snak(subject, statement["mainsnak"], n.wdt, "", n)
    for group in _map(statement.get("qualifiers")).values():
        for snak in group:
            yield from _snak(node, snak, n.pq, n.pqv, n)
    for reference in statement.get("references", ()):
        source = NamedNode(n.wdref + (reference.get("hash") or _digest(reference)))
        yield Quad(node, _iri("http://www.w3.org/ns/prov#wasDerivedFrom"), source)
        yield Quad(source, v.RDF_TYPE, _of("Reference"))
        for snak in (snak for group in _map(reference["snaks"]).values() for snak in group):
            yield from _snak(source, snak, n.pr, n.prv, n)


def _snak(subject: NamedNode, snak: Mapping[str, Any], simple: str, full: str, n: v.Namespaces) -> Iterator[Quad]:
    """One snak as the simple triple and, where its value has a node and ``full`` a name, the triple to that too."""
    prop = snak["property"]
    if snak["snaktype"] == "novalue":
        yield Quad(subject, v.RDF_TYPE, _iri(n.wdno + prop))
        return
    if snak["snaktype"] == "somevalue":
        yield Quad(subject, _iri(simple + prop), BlankNode())
        return
    term, kind, pairs = _value(snak.get("datatype", ""), snak["datavalue"]["value"], n)
    yield Quad(subject, _iri(simple + prop), term)
    if pairs and full:
        node = NamedNode(n.wdv + _digest(pairs))
        yield Quad(subject, _iri(full + prop), node)
        yield Quad(node, v.RDF_TYPE, _of(kind))
        for name, value in pairs:
            yield Quad(node, _of(name), value)


def _value(datatype: str, value: Any, n: v.Namespaces) -> tuple[Term, str, tuple[tuple[str, Term], ...]]:
    """A value's term, and the type and triples of its node where it has one."""
    if isinstance(value, str):
        if datatype == "commonsMedia":
            return NamedNode(v.COMMONS_FILE + quote(value.replace("_", " "), safe=_FILE)), "", ()
        if datatype in ("geo-shape", "tabular-data"):
            return NamedNode(v.COMMONS_DATA + quote(value.replace(" ", "_"), safe=_DATA)), "", ()
        iri = datatype == "url" and NamedNode(_NOT_IRI.sub(lambda one: quote(one[0]), value))
        return iri or Literal(value), "", ()
    if "time" in value:
        calendar, precision = value["calendarmodel"].replace("https:", "http:"), int(value["precision"])
        term = _typed(_date_time(value["time"], precision, calendar), "dateTime")
        zone, exact = (_typed(number, "integer") for number in (value.get("timezone", 0), precision))
        more = (("timePrecision", exact), ("timeTimezone", zone), ("timeCalendarModel", _iri(calendar)))
        return term, "TimeValue", (("timeValue", term), *more)
    if "amount" in value:
        unit = value.get("unit", "1").replace("https:", "http:")
        amounts = {"Amount": "amount", "UpperBound": "upperBound", "LowerBound": "lowerBound"}
        pairs = [(f"quantity{one}", _typed(value[key], "decimal")) for one, key in amounts.items() if value.get(key)]
        return pairs[0][1], "QuantityValue", (*pairs, ("quantityUnit", _iri(UNITLESS if unit in ("1", "") else unit)))
    if "latitude" in value:
        globe = (value.get("globe") or EARTH).replace("https:", "http:")
        names = {"geoLatitude": "latitude", "geoLongitude": "longitude", "geoPrecision": "precision"}
        numbers = {name: f"{float(value[key]):.14g}" for name, key in names.items() if value.get(key) is not None}
        point = f"Point({numbers['geoLongitude']} {numbers['geoLatitude']})"
        term = Literal(point if globe == EARTH else f"<{globe}> {point}", datatype=WKT)
        doubles = [(name, _typed(number, "double")) for name, number in numbers.items()]
        return term, "GlobecoordinateValue", (*doubles, ("geoGlobe", _iri(globe)))
    if "text" in value:
        return _text(value["text"], value["language"]), "", ()
    return NamedNode(n.wd + _id(value)), "", ()


def _digest(value: object) -> str:
    return hashlib.md5(repr(value).encode(), usedforsecurity=False).hexdigest()


def _id(value: Mapping[str, Any]) -> str:
    prefix = {"item": "Q", "property": "P", "lexeme": "L"}.get(value["entity-type"], "")
    found = str(value.get("id") or f"{prefix}{value.get('numeric-id')}")  # old revisions have only the number
    if not v.is_entity_id(found):
        raise BadValue(f"not an entity: {value!r}")
    return found


def _text(text: str, language: str) -> Literal:
    try:
        return Literal(text, language=_LANGUAGES.get(language, language))
    except ValueError:  # a code that is not a language tag
        return Literal(text, language="und")


def _date_time(time: str, precision: int, calendar: str) -> str:
    """A time as xsd:dateTime of XSD 1.1 (a year 0 exists), in the Gregorian calendar where the day is known."""
    match = _TIME.fullmatch(time)
    if match is None:
        raise BadValue(f"not a time: {time!r}")
    year, month, day = int(match[1] + match[2]), int(match[3]), int(match[4])
    year += year < 0
    month = 1 if precision < 10 else min(max(month, 1), 12)
    day = 1 if precision < 11 else min(max(day, 1), 31)
    if calendar == JULIAN and precision >= 11:  # by way of days since the Gregorian 0001-01-01
        before = (14 - month) // 12
        years, months = year + 4800 - before, month + 12 * before - 3
        days = day + (153 * months + 2) // 5 + 365 * years + years // 4 - 1_753_508
        cycles, days = divmod(days - 1, 146_097)
        gregorian = date.fromordinal(days + 1)
        year, month, day = gregorian.year + cycles * 400, gregorian.month, gregorian.day
    return f"{'-' * (year < 0)}{abs(year):04}-{month:02}-{day:02}T{match[5]}Z"
