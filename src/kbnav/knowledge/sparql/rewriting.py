"""Queries for an engine other than the one that they were written for: the seam for every knowledge base.

Models and people write for Wikidata's query service, which is Blazegraph, or in standard SPARQL. ``prepare`` checks
such a query and gives the text that another engine runs with the same rows, or says which part it cannot say there.
It never leaves a part out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.check import (
    HINTS,
    QueryForm,
    check,
    close_up,
    expand_aliases,
    explain,
    extension,
    fresh_variable,
    parse_error,
    query_form,
    without_services,
)
from kbnav.knowledge.sparql.dialects import GEOF_STANDARD, GEOF_WIKIDATA, Dialect, GeoFunction, TextIndex
from kbnav.knowledge.sparql.guard import guard
from kbnav.knowledge.sparql.syntax import UnreadQuery, is_variable, read_query, subqueries
from kbnav.knowledge.sparql.tokens import Token, edited, refuse_oversized, syntax_error
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES, TABLES, QueryText, add_prefixes

_WIKIBASE = STANDARD_PREFIXES["wikibase"]
_BIGDATA = "http://www.bigdata.com/"
_XSD = STANDARD_PREFIXES["xsd"]
_AROUND, _BOX, _SLICE = f"{_WIKIBASE}around", f"{_WIKIBASE}box", f"{_BIGDATA}rdf#slice"
_REWRITTEN = frozenset({LABEL_SERVICE, _AROUND, _BOX, _SLICE})
"""Services that no engine has to have: what they do is said in standard SPARQL."""
_WIKIDATA_ONLY: Mapping[str, str] = {
    f"{_WIKIBASE}mwapi": "it asks Wikidata's own search: search for the names, and put the ids in VALUES",
    f"{_BIGDATA}rdf/gas#service": "write a property path such as `wd:Q1 wdt:P40* ?x`",
    f"{_BIGDATA}rdf#sample": "there is no sample by chance: use a subquery with a LIMIT, which takes the first",
}
_TEXT: Mapping[str, TextIndex] = {
    "bif:contains": "virtuoso",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-word": "qlever",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-entity": "qlever",
}
_SOME_VALUE, _DECODE_URI = f"{_WIKIBASE}isSomeValue", f"{_WIKIBASE}decodeUri"
_NARROW = frozenset(
    _XSD + name
    for name in (
        *("int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
)
_GEO_ARGUMENTS: Mapping[GeoFunction, int] = {"distance": 2, "latitude": 1, "longitude": 1}
_GEO: Mapping[str, GeoFunction] = {
    namespace + name: name for namespace in (GEOF_WIKIDATA, GEOF_STANDARD) for name in _GEO_ARGUMENTS
}


@dataclass(frozen=True)
class Prepared:
    """A query that was checked: its form, and the text to send, with the prefixes that it lacked in front."""

    form: QueryForm
    text: str
    changed: bool
    """Whether more than prefixes was changed, so that places in the engine's messages are not those of the query."""


def prepare(
    query: str,
    dialect: Dialect,
    *,
    services: Collection[str] = (),
    prefixes: Mapping[str, str] = STANDARD_PREFIXES,
    language: str = "en",
) -> Prepared:
    """Check a query and write it for an engine.

    Args:
        query: as a model or person wrote it, in standard SPARQL or for Wikidata's query service.
        dialect: the engine's.
        services: IRIs that SERVICE may name besides those that are rewritten.
        prefixes: need not be declared by the query.
        language: stands for ``[AUTO_LANGUAGE]`` where the label service is rewritten.

    Raises:
        QueryRefused: the query changes data, names a dataset, or a SERVICE that is not allowed.
        QuerySyntaxError: it does not parse, or has a part that the engine does not understand and that cannot be said
            otherwise; line and column are those of ``query``.
    """
    if dialect.blazegraph:
        form = check(query, services=services, strict=False)
        _refuse_missing(QueryText(query), dialect)
        return Prepared(form, add_prefixes(query, prefixes), False)
    refuse_oversized(query)
    guard(query, {*services, *_REWRITTEN, *_WIKIDATA_ONLY})
    split = QueryText(query)
    form = query_form(query)
    _refuse_missing(split, dialect)
    text = rewrite(query, dialect, language=language)
    if error := parse_error(text):
        standard = without_services(query)
        if not extension(split) and (own := parse_error(standard)):
            raise explain(query, standard, own)
        raise QuerySyntaxError(f"as rewritten for {dialect.engine}: {explain(text, text, error)}")
    return Prepared(form, add_prefixes(text, prefixes), text != query)


def rewrite(query: str, dialect: Dialect, *, language: str = "en") -> str:
    """The query in a dialect, with nothing checked; prefixes are not added. Raises QuerySyntaxError."""
    if dialect.blazegraph:
        return query
    text = _rewrite_services(_drop_hints(_inline_subqueries(query)), dialect)
    text = rewrite_dates(_rewrite_functions(expand_aliases(text), dialect), dialect)
    return close_up(_rewrite_labels(text, dialect.lateral, language))


def _refuse_missing(query: QueryText, dialect: Dialect) -> None:
    for missing in (_missing_service, _missing_word, _missing_function):
        for index, reason in missing(query, dialect):
            shown = query.tokens[index].text
            raise syntax_error(
                query.text, query.tokens[index].start, f"{dialect.engine} cannot run {reason.format(shown)}"
            )


def _missing_service(query: QueryText, dialect: Dialect) -> Iterator[tuple[int, str]]:
    for block in () if dialect.blazegraph else _services(query):
        iri = query.iri(block.target)
        if iri in _WIKIDATA_ONLY:
            yield block.target, f"SERVICE {{}}: {_WIKIDATA_ONLY[iri]}"
        elif (iri == _AROUND and "distance" not in dialect.geo) or (iri == _BOX and "latitude" not in dialect.geo):
            yield block.target, "SERVICE {}: it has no functions for places"
        elif iri not in _REWRITTEN and not dialect.federation:
            yield block.target, "SERVICE {}: it asks no other endpoint; ask that one by itself"


def _missing_word(query: QueryText, dialect: Dialect) -> Iterator[tuple[int, str]]:
    for index, token in enumerate(query.tokens):
        if token.is_word("LATERAL") and not dialect.lateral:
            yield index, "LATERAL, which only Oxigraph and Jena have: use a subquery"
        owner = _TEXT.get("bif:contains" if token.text == "bif:contains" else query.iri(index), dialect.text)
        if owner != dialect.text:
            yield index, "the text search `{}` of another engine: use FILTER(CONTAINS(LCASE(?label), …))"


def _missing_function(query: QueryText, dialect: Dialect) -> Iterator[tuple[int, str]]:
    for index in query.calls():
        iri = query.iri(index)
        name = _GEO.get(iri)
        if name and name not in dialect.geo:
            yield index, f"{{}}: it has no {name}s of points"
        elif iri == _DECODE_URI and iri not in dialect.functions:
            yield index, "{}: only Wikidata's query service decodes addresses"
        elif dialect.closed and not (name or iri == _SOME_VALUE or iri in dialect.functions or iri.startswith(_XSD)):
            yield index, "the function {}: it has none of this name"


# Named subqueries, hints, and services about places and slices, as the manual of Wikidata's query service and
# Blazegraph's wiki (pages NamedSubquery and QueryHints) have them

_MOST_COPIES = 50


def _inline_subqueries(text: str) -> str:
    """The query with each ``INCLUDE %name`` replaced by the subquery that ``WITH { … } AS %name`` defines.

    Raises QuerySyntaxError for a name that is not defined or defined by itself, and for one that is included twice and
    may have other rows each time.
    """
    query = QueryText(text)
    defined: dict[str, str] = {}
    edits: dict[tuple[int, int], str] = {}
    for index, token in enumerate(query.tokens):
        close = query.close.get(index + 1)
        if token.is_word("WITH") and close and close + 2 < len(query.tokens):
            name = query.tokens[close + 2]
            if name.kind == "subquery":
                defined[name.text] = query.between(index + 1, close + 1)
                edits[token.start, name.end] = ""
    text = edited(text, edits)
    included: defaultdict[str, int] = defaultdict(int)
    for _ in range(_MOST_COPIES):
        edits = {}
        for token, name in pairwise(QueryText(text).tokens):
            if token.is_word("INCLUDE"):
                if name.text not in defined:
                    raise syntax_error(text, name.start, f"{name.text} is not defined by any WITH {{ … }} AS %name")
                included[name.text] += 1
                edits[token.start, name.end] = defined[name.text]
                if included[name.text] == 2 and _may_change(defined[name.text]):
                    detail = (
                        f"{name.text} is included twice and may have other rows each time: order it, or name it once"
                    )
                    raise syntax_error(text, name.start, detail)
        if not edits:
            return text
        text = edited(text, edits)
        if sum(included.values()) > _MOST_COPIES:
            break
    raise syntax_error(text, 0, "named subqueries include each other too often")


def _may_change(subquery: str) -> bool:
    tokens = QueryText(subquery).tokens
    cut = any(token.is_word("LIMIT", "OFFSET") for token in tokens)
    ordered = any(token.is_word("ORDER") for token in tokens)
    return (cut and not ordered) or any(token.is_word("RAND", "UUID", "STRUUID", "BNODE") for token in tokens)


def _drop_hints(text: str) -> str:
    query = QueryText(text)
    edits: dict[tuple[int, int], str] = {}
    index = 0
    while index < len(query.tokens):
        stop = index + 1
        if query.iri(index).startswith(HINTS) and query.iri(index + 1).startswith(HINTS):
            stop = _behind_triples(query.tokens, index)
            edits[query.tokens[index].start, query.tokens[stop - 1].end] = ""
        index = stop
    return edited(text, edits)


def _behind_triples(tokens: Sequence[Token], index: int) -> int:
    """The place behind triples of simple terms that share a subject, their full stop among them."""
    place = index + 2
    while place < len(tokens):
        place += 1  # the object
        while place < len(tokens) and tokens[place].kind == "language":
            place += 1
        if place < len(tokens) and tokens[place].text == "^^":
            place += 2
        mark = tokens[place].text if place < len(tokens) else ""
        if mark not in (";", ","):
            return place + (mark == ".")
        place += 1 if mark == "," else 2
    return place


@dataclass(frozen=True)
class _Service:
    """A SERVICE with a group behind it by its tokens: itself, what it names, ``{`` and ``}``."""

    start: int
    target: int
    open: int
    close: int

    def __contains__(self, index: int) -> bool:
        return self.open < index < self.close

    def span(self, query: QueryText, stop: int) -> tuple[int, int]:
        """Where it begins in the text, and where a token ends."""
        return query.tokens[self.start].start, query.tokens[stop].end

    def gap(self, query: QueryText) -> str:
        """What has to stand in front of what takes its place."""
        return "" if query.tokens[self.start - 1].text in ("{", "}", ".") else ". "


def _services(query: QueryText, *names: str) -> Iterator[_Service]:
    """Every SERVICE of these names, or every one, in the order they are written."""
    for index, token in enumerate(query.tokens):
        target = index + (2 if query.is_word(index + 1, "SILENT") else 1)
        if token.is_word("SERVICE") and target + 1 in query.close and (not names or query.iri(target) in names):
            yield _Service(index, target, target + 1, query.close[target + 1])


def _parameters(query: QueryText, block: _Service) -> tuple[str, dict[str, str]]:
    """The patterns of a block as text, and what its ``bd:serviceParam`` triples say by the predicates' names."""
    patterns: list[str] = []
    given: dict[str, str] = {}
    for start, stop in query.split(block.open + 1, block.close, block.open, "."):
        if query.iri(start) != f"{_BIGDATA}rdf#serviceParam":
            patterns.append(query.between(start, stop))
            continue
        for place, (first, last) in enumerate(query.split(start, stop, block.open, ";")):
            predicate = first + (place == 0)
            name = query.iri(predicate).removeprefix(_WIKIBASE).removeprefix(f"{_SLICE}.")
            given[name] = query.between(predicate + 1, last)
    return " . ".join(patterns), given


def _rewrite_services(text: str, dialect: Dialect) -> str:
    """The query with ``wikibase:around``, ``wikibase:box`` and ``bd:slice`` in standard SPARQL.

    Raises QuerySyntaxError where such a service is not written as the manual has it.
    """
    while True:
        query = QueryText(text)
        block = next(_services(query, _AROUND, _BOX, _SLICE), None)
        if block is None:
            return text
        patterns, given = _parameters(query, block)
        location, corners = _located(patterns), _corners(given)
        match query.iri(block.target):
            case name if name == _SLICE:
                limits = [f"{name.upper()} {given[name]}" for name in ("limit", "offset") if name in given]
                inside, late = f"{{ SELECT * {{ {patterns} }} {' '.join(limits)} }}", ""
            case name if name == _BOX and location and corners:
                inside, late = f"{patterns} . {_within(dialect, location, *corners)}", ""
            case name if name == _AROUND and location and {"center", "radius"} <= given.keys() <= _AROUND_PARAMETERS:
                inside, late = _around(dialect, patterns, location, given)
                if _known_before(query, block, given["center"]):
                    inside, late = f"{inside} {late}", ""
            case _:
                target = query.tokens[block.target]
                detail = f"{target.text} is not written as the query service's manual has it"
                raise syntax_error(text, target.start, detail)
        edits = {block.span(query, block.close): block.gap(query) + inside}
        if late:
            end = query.tokens[query.end(query.parent[block.start])].start
            edits[end, end] = f" {late} "
        text = edited(text, edits)


def _located(patterns: str) -> str:
    """The variable for the place's location: the object of the one pattern; empty where there is none."""
    tokens = QueryText(patterns).tokens
    single = len(tokens) == 3 or not any(token.text in (";", ",", "{") for token in tokens)
    return tokens[-1].text if tokens and single and tokens[-1].kind == "variable" else ""


_AROUND_PARAMETERS = frozenset({"center", "radius", "distance"})


def _around(dialect: Dialect, patterns: str, location: str, given: Mapping[str, str]) -> tuple[str, str]:
    """What stands in place of the service, and what has to stand behind the place where its centre is known."""
    distance = dialect.geo["distance"].format(location, given["center"])
    radius = given["radius"].strip("\"'")
    number = radius if re.fullmatch(r"[0-9]+(\.[0-9]+)?", radius) else f"<{_XSD}double>({radius})"
    bind = f"BIND({distance} AS {given['distance']})" if "distance" in given else ""
    return f"{patterns} . FILTER({distance} <= {number})", bind


def _known_before(query: QueryText, block: _Service, term: str) -> bool:
    """Whether a term is no variable, or one that stands before the block in its group."""
    level = query.parent[block.start]
    before = (query.tokens[one].text for one in range(level + 1, block.start) if query.parent[one] == level)
    return not is_variable(term) or term in before


def _corners(given: Mapping[str, str]) -> tuple[str, str] | None:
    ends = (("SouthWest", "NorthEast"), ("West", "East"), ("NorthWest", "SouthEast"))
    pairs = ((given.get(f"corner{west}"), given.get(f"corner{east}")) for west, east in ends)
    return next(((west, east) for west, east in pairs if west and east), None)


def _within(dialect: Dialect, location: str, west: str, east: str) -> str:
    places = (location, west, east)
    lat, lat_1, lat_2 = (dialect.geo["latitude"].format(one) for one in places)
    lon, lon_1, lon_2 = (dialect.geo["longitude"].format(one) for one in places)
    north = f"IF({lat_1} <= {lat_2}, {lat} >= {lat_1} && {lat} <= {lat_2}, {lat} >= {lat_2} && {lat} <= {lat_1})"
    # A box over the 180th meridian has the larger number in the west.
    within = f"IF({lon_1} <= {lon_2}, {lon} >= {lon_1} && {lon} <= {lon_2}, {lon} >= {lon_1} || {lon} <= {lon_2})"
    return f"FILTER({north}) FILTER({within})"


# Functions that engines have under other names, or not at all: places, unknown values, casts, dates


def _rewrite_functions(text: str, dialect: Dialect) -> str:
    done = len(text)
    while True:
        query = QueryText(text)
        # From the end, so that what stands in brackets is done before what is around it.
        for index in reversed(list(query.calls())):
            start, bracket = query.tokens[index].start, index + 1
            if start >= done:
                continue
            done, close = start, query.close[bracket]
            arguments = [query.between(*run) for run in query.split(bracket + 1, close, bracket, ",")]
            if new := _replacement(query.iri(index), arguments, dialect):
                text = text[:start] + new + text[query.tokens[close].end :]
                break
        else:
            return text


def _replacement(iri: str, given: Sequence[str], dialect: Dialect) -> str:
    """What stands for a call; empty where it may stay."""
    name = _GEO.get(iri)
    if name and len(given) == _GEO_ARGUMENTS[name]:
        new = dialect.geo[name].format(*given)
        return "" if new.startswith(f"<{iri}>") else new
    if len(given) != 1:
        return ""
    if iri == _SOME_VALUE and iri not in dialect.functions:
        return f'(ISBLANK({given[0]}) || CONTAINS(STR({given[0]}), "/.well-known/genid/"))'
    return f"<{_XSD}integer>({given[0]})" if iri in _NARROW and not dialect.narrow_integers else ""


_DAY = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")
_TIME = re.compile(r"[+-]?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
_ENDS = frozenset([",", ";", "=", "!=", "<", ">", "<=", ">=", "&&", "||", "!"])
_OPERANDS = ("variable", "number", "string", "language", "name", "iri")


def rewrite_dates(text: str, dialect: Dialect) -> str:
    """The query with dates as Wikidata's query service counts with them, where the engine has a function for days.

    There the difference of two dates is a number of days, not a duration, and a date without a time of day, or without
    a time zone, is one at midnight UTC, which can be compared with every other.
    """
    if not dialect.days:
        return text
    query = QueryText(_midnights(QueryText(text)))
    put: defaultdict[int, str] = defaultdict(str)
    for index, token in enumerate(query.tokens):
        if token.text == "-" and (place := _difference(query, index)):
            put[place[0]] += f"<{dialect.days}>("
            put[place[1]] += ")"
    return edited(query.text, {(offset, offset): new for offset, new in put.items()})


def _midnights(query: QueryText) -> str:
    """``"2000-01-01"^^xsd:date`` and its like as times at midnight UTC."""
    edits = {}
    for index, (token, sign, kind) in enumerate(zip(query.tokens, query.tokens[1:], query.tokens[2:], strict=False)):
        dated = token.kind == "string" and sign.text == "^^"
        if dated and query.iri(index + 2) in (f"{_XSD}date", f"{_XSD}dateTime"):
            written = token.text.strip("\"'").removesuffix("Z")
            if _DAY.fullmatch(written):
                written += "T00:00:00"
            if _TIME.fullmatch(written):
                edits[token.start, kind.end] = f'"{written}Z"^^<{_XSD}dateTime>'
    return edited(query.text, edits)


def _difference(query: QueryText, minus: int) -> tuple[int, int] | None:
    """From where to where the operands of a minus sign are, as offsets; None where it is no difference of dates."""
    tokens, bracket = query.tokens, query.parent[minus]
    if bracket < 0 or tokens[bracket].text != "(" or not 0 < minus < len(tokens) - 1:
        return None
    if tokens[minus - 1].text != ")" and tokens[minus - 1].kind not in _OPERANDS:
        return None
    level = [one for one in range(bracket + 1, query.close[bracket]) if query.parent[one] == bracket]
    at = level.index(minus)
    first = next((one for one in reversed(range(at)) if _ends_sum(query, level[one])), -1) + 1
    last = at
    while last + 1 < len(level) and not _ends_sum(query, level[last + 1]):
        if last > at and tokens[level[last + 1]].text in ("+", "-"):
            break
        last += 1
    right = [tokens[index] for index in level[at + 1 : last + 1]]
    if first >= at or all(token.kind == "number" or token.text in "+-" for token in right):
        return None
    return tokens[level[first]].start, tokens[level[last]].end


def _ends_sum(query: QueryText, index: int) -> bool:
    """Whether a sum cannot go on over this token: a comparison, a comma, a word that is no function."""
    token = query.tokens[index]
    if token.kind == "word":
        return query.tokens[index + 1].text != "(" or token.is_word("IN", "DISTINCT", "AS", "NOT")
    return token.kind == "symbol" and token.text in _ENDS


# The label service. It runs after everything else in its group, once for each row. So does what takes its place at the
# end of the group, which looks up each language and takes the first that has something: a LATERAL subquery where the
# engine has that (SPARQL 1.2 community proposal SEP-0006), which keeps helper variables from a ``SELECT *``, or else
# OPTIONALs, with the names that the ``*`` stood for in its place.

_LABEL, _ALIAS = f"{STANDARD_PREFIXES['rdfs']}label", f"{STANDARD_PREFIXES['skos']}altLabel"
_FILLED = {"AltLabel": _ALIAS, "Label": _LABEL, "Description": f"{STANDARD_PREFIXES['schema']}description"}
_STAR = re.compile(r"\bSELECT\s+(?:DISTINCT\s+|REDUCED\s+)?\*", re.IGNORECASE)


@dataclass(frozen=True)
class _Wish:
    """What one use of the service is to fill in: ``variable`` with the ``predicate`` (an IRI) of ``subject``."""

    subject: str
    predicate: str
    variable: str


def _rewrite_labels(text: str, lateral: bool, auto_language: str) -> str:
    """The query without the label service.

    Both modes work: the automatic one (``?xLabel``, ``?xDescription`` and ``?xAltLabel`` wherever the SELECT uses them
    without giving them a value) and the manual one. An entity without a label is labelled with its id, a literal with
    itself. Raises QuerySyntaxError where a ``*`` cannot be resolved.
    """
    query = QueryText(text)
    blocks = list(_services(query, LABEL_SERVICE))
    edits: dict[tuple[int, int], str] = {}
    done: set[tuple[int, str]] = set()
    for block in blocks:
        following = block.close + 1
        dot = following < len(query.tokens) and query.tokens[following].text == "."
        edits[block.span(query, following if dot else block.close)] = block.gap(query).strip()
        languages, wishes = _wishes(query, block, auto_language)
        for wish in wishes or _automatic(query, block, blocks):
            group = _group_of(query, block, wish, blocks)
            if group >= 0 and (group, wish.variable) not in done:
                done.add((group, wish.variable))
                place = query.tokens[query.close[group]].start
                key = "?" + fresh_variable(text, "labelled") + ("" if lateral else f"_{len(done)}")
                edits[place, place] = edits.get((place, place), "") + _lookup(key, wish, languages, lateral)
    if done and not lateral:
        edits |= _named_stars(text, [query.tokens[query.close[group]].start for group, _ in done])
    return edited(text, edits)


def _named_stars(query: str, places: Sequence[int]) -> dict[tuple[int, int], str]:
    """For each ``SELECT *`` around one of the places the names that it stands for."""
    try:
        read = read_query(query)
    except UnreadQuery as error:
        if _STAR.search(query):
            raise syntax_error(query, 0, "name the variables behind SELECT where labels are asked for") from error
        return {}
    selects = [one for one in (read.select, *subqueries(read.where)) if one is not None]
    found = {}
    for place in places:
        around = [one for one in selects if one.where.place.start < place < one.where.place.end]
        inner = max(around, key=lambda one: one.where.place.start, default=None)
        if inner is not None and inner.star is not None:
            found[inner.star.start, inner.star.end] = " ".join(inner.where.visible)
    return found


def _wishes(query: QueryText, block: _Service, auto_language: str) -> tuple[list[str], list[_Wish]]:
    """The languages, best first, and the triples of a block that are not parameters."""
    languages: list[str] = []
    wishes: list[_Wish] = []
    subject, predicate, place = "", "", 0
    for index in range(block.open + 1, block.close):
        token = query.tokens[index]
        if token.text in (".", ";", ","):
            place = ".;,".index(token.text)
        elif place == 0:
            subject, place = token.text, 1
        elif place == 1:
            predicate, place = query.iri(index), 2
        elif predicate == f"{_WIKIBASE}language" and token.kind == "string":
            languages += [code.strip() for code in token.text.strip("\"'").split(",")]
        elif predicate in _FILLED.values() and token.kind == "variable":
            wishes.append(_Wish(subject, predicate, token.text))
    codes = [auto_language if code == "[AUTO_LANGUAGE]" else code.lower() for code in languages]
    return list(dict.fromkeys(code for code in codes if code.replace("-", "").isalnum())), wishes


def _automatic(query: QueryText, block: _Service, blocks: Sequence[_Service]) -> list[_Wish]:
    """Label variables that the SELECT around the service uses and that nothing in it binds."""
    scope = _scope(query, block.start)
    used: dict[str, None] = {}
    bound: set[str] = set()
    for index in range(scope + 1, query.end(scope)):
        token, bracket = query.tokens[index], query.parent[index]
        if token.kind != "variable" or any(index in other for other in blocks):
            continue
        name = "?" + token.text[1:]
        # A triple, VALUES, a subquery or AS gives a value; a filter only reads it.
        held = bracket != scope and query.tokens[bracket].text in ("{", "[")
        if query.is_word(index - 1, "AS") or (held and not query.is_word(bracket - 1, "CONSTRUCT")):
            bound.add(name)
        if _scope(query, index) == scope:
            used[name] = None
    endings = ((name, next((one for one in _FILLED if name.endswith(one)), "")) for name in used if name not in bound)
    split = ((name, ending, name.removesuffix(ending)) for name, ending in endings if ending)
    return [_Wish(subject, _FILLED[ending], name) for name, ending, subject in split if subject != "?"]


def _scope(query: QueryText, index: int) -> int:
    """The bracket of the innermost subquery around a token, -1 where it belongs to the query itself."""
    bracket = query.parent[index]
    while bracket >= 0 and not query.is_word(bracket + 1, "SELECT"):
        bracket = query.parent[bracket]
    return bracket


def _group_of(query: QueryText, block: _Service, wish: _Wish, blocks: Sequence[_Service]) -> int:
    """The innermost group around the service that knows the wish's subject; -1 where no group does."""
    scope, group = _scope(query, block.start), query.parent[block.start]
    while group > scope:
        if not is_variable(wish.subject) or any(
            query.tokens[one].kind == "variable" and query.tokens[one].text[1:] == wish.subject[1:]
            for one in range(group + 1, query.close[group])
            if not any(one in other for other in blocks)
        ):
            return group
        group = query.parent[group]
    return -1


def _lookup(key: str, wish: _Wish, languages: Sequence[str], lateral: bool) -> str:
    """The patterns that fill in a wish; ``key`` is a variable that nothing else has, nor its like with ``_0``."""
    found = [f"{key}_{place}" for place in range(len(languages))]
    parts = [f"BIND(COALESCE({wish.subject}, <urn:kbnav:nothing>) AS {key})"]
    for name, language in zip(found, languages, strict=True):
        if wish.predicate == _ALIAS:
            one = f'{key} <{_ALIAS}> ?one FILTER(LANG(?one) = "{language}")'
            joined = f'SELECT {key} (GROUP_CONCAT(?one; SEPARATOR=", ") AS {name})'
            if lateral:
                parts.append(f"LATERAL {{ {joined} WHERE {{ OPTIONAL {{ {one} }} }} GROUP BY {key} }}")
            else:
                parts.append(f"OPTIONAL {{ {joined} WHERE {{ {one} }} GROUP BY {key} }}")
        else:
            parts.append(f'OPTIONAL {{ {key} <{wish.predicate}> {name} FILTER(LANG({name}) = "{language}") }}')
    if wish.predicate == _LABEL:
        found.append(f'REPLACE(STR({wish.subject}), "^https?://[^/]+/entity/", "")')
    if found:
        parts.append(f"BIND(COALESCE({', '.join(found)}) AS {wish.variable})")
    if not lateral:
        return f" {' '.join(parts)} "
    kept = f"{wish.subject} " if is_variable(wish.subject) else ""
    return f" LATERAL {{ SELECT {kept}{wish.variable} WHERE {{ {' '.join(parts)} }} }} "


# The outermost LIMIT of a query


def drop_probe_limit(query: str, question: str) -> str:
    """The query without its outermost LIMIT, if that was for probing; all other text stays as it is.

    A LIMIT is part of the answer, and stays, where the query sorts (ORDER BY), pages (OFFSET) or is no SELECT, and
    where the question has its number, in digits or as a word. Raises QuerySyntaxError where the text does not hold
    together.
    """
    outer = _outermost(query)
    form = next((one for one in outer if one.is_word(*QueryForm)), None)
    limits = [pair for pair in pairwise(outer) if pair[0].is_word("LIMIT")]
    if form is None or not form.is_word("SELECT") or len(limits) != 1:
        return query
    ((limit, number),) = limits
    if any(token.is_word("ORDER", "OFFSET") for token in outer) or not number.text.isdecimal():
        return query
    if asked_limit(question, int(number.text)):
        return query
    head, tail = query[: limit.start], query[number.end :]
    # White space goes too, unless something behind would run into what stands before.
    return head.rstrip(" \t\r\n") if not tail.strip() else head + tail


def outer_limit(query: str) -> int | None:
    """The number of the outermost LIMIT; None where there is none. Raises QuerySyntaxError as ``drop_probe_limit``."""
    for token, number in pairwise(_outermost(query)):
        if token.is_word("LIMIT") and number.text.isdecimal():
            return int(number.text)
    return None


def _outermost(query: str) -> list[Token]:
    split = QueryText(query)
    return [token for token, parent in zip(split.tokens, split.parent, strict=True) if parent < 0]


def asked_limit(question: str, number: int) -> bool:
    """Whether the question has a number, in digits or as a word."""
    if any(int(digits) == number for digits in re.findall(r"\d+", re.sub(r"(?<=\d)[,.](?=\d{3})", "", question))):
        return True
    # Chinese writes no spaces between words.
    return any(
        word in question if word >= "一" else re.search(rf"\b{word}\b", question, re.IGNORECASE)
        for word in TABLES["numbers"].get(str(number), "").split()
    )
