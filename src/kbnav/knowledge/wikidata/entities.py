"""Entity documents, as Wikidata serves them in JSON, into entries, and values into text. Labels of others come in.

https://www.mediawiki.org/wiki/Wikibase/DataModel/JSON describes the form. Empty objects come as empty lists.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from kbnav.answers.tables import Term
from kbnav.errors import BadResponse, UnknownId
from kbnav.knowledge.base import Entity, Entry, Qualifier, Statement, Value
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
            precision = value.get("precision")  # in degrees; it says how many digits there are
            digits = max(0, min(8, math.ceil(-math.log10(abs(precision))))) if precision else 6
            text = ", ".join(f"{float(value[name]):.{digits}f}" for name in ("latitude", "longitude"))
            globe = str(value.get("globe") or EARTH).rpartition("/")[2]
            called = name(globe)
            text += "" if globe == EARTH else f" on {called}"
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
    amount = Decimal(str(value["amount"]))
    unit = str(value.get("unit") or "1").rpartition("/")[2]
    text = f"{amount:f}"
    if "lowerBound" in value and "upperBound" in value:
        lower, upper = Decimal(str(value["lowerBound"])), Decimal(str(value["upperBound"]))
        if amount - lower != upper - amount:
            text += f" [{lower:f}, {upper:f}]"
        elif amount != lower:
            text += f" ± {(amount - lower).normalize():f}"
    return text if unit == "1" else f"{text} {name(unit)}"


def term_value(term: Term, name: Name, words: Vocabulary = WIKIDATA_VOCABULARY) -> Value:
    """An RDF term of the query service as a value: entities by label, dates and points as people write them."""
    if term.type == "bnode" or "/.well-known/genid/" in term.value:
        return Value("unknown value", special="unknown")
    if term.type == "uri":
        entity = words.entity_id(term.value) if term.value.startswith(words.concept_base) else ""
        return Value(name(entity), id=entity) if entity else Value(term.value)
    datatype = (term.datatype or "").removeprefix(_XSD)
    if datatype == "dateTime" and (date := date_text(term)):
        return Value(date, datatype="time")
    if point := _POINT.fullmatch(term.value):
        return Value(f"{point['north']}, {point['east']}", datatype="globe-coordinate")
    return Value(f"{term.value} ({term.language})" if term.language else term.value)


def date_text(term: Term, precision: int | None = None) -> str:
    """A date of the query service as people write it; empty for a term that is none.

    RDF does not say how precise a date is: where that is not known, 1 January stands for the year.
    """
    parts = _TIME.match(term.value)
    if parts is None or not (term.datatype or "").endswith("#dateTime"):
        return ""
    # RDF counts years as astronomers do: 0 is 1 BCE.
    year, day = int(parts["year"]), (parts["month"], parts["day"])
    before = parts["sign"] == "-" or year == 0
    if precision is None:
        precision = 9 if day == ("01", "01") else _DAY
    return time_text(f"{'-' if before else ''}{year + before}-{day[0]}-{day[1]}", precision)


_BEHIND = {"zh": ("zh-hans", "zh-cn", "zh-hant", "zh-tw"), "no": ("nb",), "nb": ("no",)}
_SHAPE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


def languages(language: str) -> tuple[str, ...]:
    """The languages a label is looked for in: the user's, its variants, ``mul`` (for all), English."""
    base = language.partition("-")[0]
    return tuple(dict.fromkeys([language, base, *_BEHIND.get(base, ()), "mul", "en"]))


def entity_of(reply: Mapping[str, Any], asked: str) -> Mapping[str, Any]:
    """An entity's document in a reply, or the document itself. Raises UnknownId, BadResponse for neither."""
    document: Any = reply
    if "entities" in reply:
        entities = reply["entities"] or {}
        if not isinstance(entities, dict):
            raise BadResponse("entities: an object is promised")
        document = entities.get(asked) or next(iter(entities.values()), None)
    if document is None or (isinstance(document, dict) and "missing" in document):
        raise no_page(asked)
    if not isinstance(document, dict) or not document.get("id"):
        raise BadResponse(f"{asked}: not an entity document")
    kind = document.get("type") or "item"
    if kind not in ("item", "property"):
        raise UnknownId(f"{asked} is of the kind {kind}; entries are of items and properties: query for others")
    return document


NO_PAGE_OF_ITS_OWN = "{} has no page of its own here, and so no name: what is shown are statements that name it."
"""What is said of an id that only others' statements have, as a copy of a part of Wikidata has many."""


def no_page(entity_id: str) -> UnknownId:
    """The error for an id without a page; it may well have been seen as a value: a mirror holds a part of Wikidata."""
    return UnknownId(
        f"the knowledge base has no page for {entity_id}: it was deleted, never created, or is not in this copy"
    )


def brief(document: Mapping[str, Any], language: str) -> Entity:
    """Label, description, kind and datatype of an entity document. Raises BadResponse where it is not one."""
    try:
        wanted = languages(language)
        kind = str(document.get("type") or "item")
        return Entity(
            str(document["id"]),
            _term(document.get("labels"), wanted),
            _term(document.get("descriptions"), wanted),
            kind,
            str(document.get("datatype") or ""),
        )
    except _SHAPE as error:
        raise BadResponse(f"entity document: {error!r}") from error


class _Asked(dict[str, Entity]):
    """Knows no entity, and keeps those that it is asked for."""

    def get(self, key: str, default: Any = None) -> Any:
        self.setdefault(key, Entity(key))
        return default


def references(document: Mapping[str, Any]) -> list[str]:
    """Ids of all entities whose labels an entry needs, in order: properties, values, units, globes; no duplicates.

    Raises as ``parse``.
    """
    asked = _Asked()
    parse(document, language="en", known=asked)
    return list(asked)


def parse(document: Mapping[str, Any], *, language: str, known: Mapping[str, Entity]) -> Entry:
    """An entry from an entity document and what is known of the entities it names.

    Preferred statements of a property come before its normal ones; identifiers in other databases stand apart, and
    deprecated statements are left out and counted in ``omitted``. Raises BadResponse where the document is not of the
    promised form.
    """
    redirect = document.get("redirects")
    try:
        statements, identifiers, omitted = _statements(document, known)
        by_language = document.get("aliases") or {}
        aliases = [one for code in (language, "mul") for one in by_language.get(code, ())]
        return Entry(
            entity=brief(document, language),
            statements=statements,
            identifiers=identifiers,
            aliases=tuple(dict.fromkeys(str(one["value"]) for one in aliases)),
            redirected_from=str(redirect.get("from", "")) if isinstance(redirect, dict) else "",
            omitted=dict(omitted),
        )
    except _SHAPE as error:
        raise BadResponse(f"{document.get('id')}: not of the form of an entity document: {error!r}") from error


def without_unknown(entry: Entry, known: Mapping[str, Entity]) -> Entry:
    """The entry without the statements of properties that are not known; ``omitted`` counts them."""
    kept = tuple(one for one in entry.statements if one.property.id in known)
    left_out = len(entry.statements) - len(kept)
    if not left_out:
        return entry
    return replace(entry, statements=kept, omitted={**(entry.omitted or {}), "unknown property": left_out})


def _qualifier_snaks(statement: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    qualifiers = statement.get("qualifiers") or {}
    order = statement.get("qualifiers-order") or ()
    for property_id in dict.fromkeys([*order, *qualifiers]):
        for snak in qualifiers.get(property_id, ()):
            if snak.get("datatype") != "external-id":
                yield snak


def _statements(
    document: Mapping[str, Any], known: Mapping[str, Entity]
) -> tuple[tuple[Statement, ...], tuple[Statement, ...], Counter[str]]:
    """The statements, the identifiers, and how many were left out by reason."""

    def name(entity: str) -> str:
        found = known.get(entity)
        return (found.label if found else "") or entity

    omitted: Counter[str] = Counter()
    identifiers: list[Statement] = []
    best: dict[str, list[Statement]] = {}
    others: dict[str, list[Statement]] = {}
    claims = document.get("claims") or {}  # an empty object is served as an empty list
    for property_id, statement in ((one, each) for one, some in claims.items() for each in some):
        if statement.get("rank") == "deprecated":
            omitted["deprecated"] += 1
            continue
        snak = statement["mainsnak"]
        if snak.get("datatype") == "external-id":
            identifiers.append(Statement(_property(snak, known), snak_value(snak, name)))
            continue
        rank: Literal["preferred", "normal"] = "preferred" if statement.get("rank") == "preferred" else "normal"
        used, value = _property(snak, known), snak_value(snak, name)
        qualifiers = tuple(
            Qualifier(_property(item, known), snak_value(item, name)) for item in _qualifier_snaks(statement)
        )
        parsed = Statement(used, value, rank, qualifiers)
        best.setdefault(property_id, [])
        (best if rank == "preferred" else others).setdefault(property_id, []).append(parsed)
    ordered = [one for property_id in best for one in (*best[property_id], *others.get(property_id, ()))]
    return tuple(ordered), tuple(identifiers), omitted


def _property(snak: Mapping[str, Any], known: Mapping[str, Entity]) -> Entity:
    found = known.get(snak["property"])
    datatype = str(snak.get("datatype") or (found.datatype if found else ""))
    return Entity(
        str(snak["property"]), found.label if found else "", found.description if found else "", "property", datatype
    )


def _term(terms: Any, wanted: Sequence[str]) -> str:
    """The text in the first of the wanted languages that has one."""
    if not terms:
        return ""
    for language in wanted:
        if language in terms:
            return str(terms[language]["value"])
    return ""
