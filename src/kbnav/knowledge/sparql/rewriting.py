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
    QueryForm,
    check,
    close_up,
    expand_aliases,
    explain,
    fresh_variable,
    parse_error,
    query_form,
    without_services,
)
from kbnav.knowledge.sparql.dialects import GEOF_STANDARD, GEOF_WIKIDATA, Dialect, GeoFunction, TextIndex
from kbnav.knowledge.sparql.guard import guard
from kbnav.knowledge.sparql.syntax import UnreadQuery, read_query, subqueries
from kbnav.knowledge.sparql.tokens import Nesting, Token, nesting, refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES, add_prefixes, declared_prefixes, expand

SERVICE_PARAMETER = "http://www.bigdata.com/rdf#serviceParam"


@dataclass(frozen=True)
class Parsed:
    """A query's text with its tokens, how they nest, and the prefixes that it declares."""

    text: str
    tokens: Sequence[Token]
    nested: Nesting
    declared: Mapping[str, str]

    def iri(self, index: int) -> str:
        """The IRI that a token stands for; empty where it is none, or there is no such token."""
        return expand(self.tokens[index], self.declared) if index < len(self.tokens) else ""

    def between(self, start: int, stop: int) -> str:
        """The text from a token to the one before ``stop``."""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].end] if stop > start else ""


@dataclass(frozen=True)
class Block:
    """A SERVICE by indexes of its tokens: SERVICE itself, ``{`` and ``}``; ``target`` is what it names."""

    start: int
    target: int
    open: int
    close: int


def parsed(query: str) -> Parsed:
    """Split a query. Raises QuerySyntaxError where strings or brackets do not close."""
    tokens = tokenize(query)
    return Parsed(query, tokens, nesting(query, tokens), declared_prefixes(tokens))


def service_blocks(query: Parsed) -> Iterator[Block]:
    """Every SERVICE with a group behind it, in the order they are written."""
    for index, token in enumerate(query.tokens):
        if token.is_word("SERVICE"):
            silent = index + 1 < len(query.tokens) and query.tokens[index + 1].is_word("SILENT")
            target = index + (2 if silent else 1)
            if target + 1 in query.nested.close:
                yield Block(index, target, target + 1, query.nested.close[target + 1])


def parameters(query: Parsed, block: Block) -> tuple[str, dict[str, str]]:
    """The patterns of a block as text, and what its ``bd:serviceParam`` triples say by the predicates' IRIs."""
    patterns: list[str] = []
    said: dict[str, str] = {}
    for start, stop in _split(query, block.open + 1, block.close, block.open, "."):
        if query.iri(start) != SERVICE_PARAMETER:
            patterns.append(query.between(start, stop))
            continue
        for place, (first, last) in enumerate(_split(query, start, stop, block.open, ";")):
            predicate = first + (place == 0)
            said[query.iri(predicate)] = query.between(predicate + 1, last)
    return " . ".join(patterns), said


def _split(query: Parsed, start: int, stop: int, level: int, mark: str) -> Iterator[tuple[int, int]]:
    """Runs of tokens between marks that stand at one level of brackets; empty runs are left out."""
    begin = start
    for index in range(start, stop + 1):
        if index == stop or (query.tokens[index].text == mark and query.nested.parent[index] == level):
            if index > begin:
                yield begin, index
            begin = index + 1


def arguments(query: Parsed, bracket: int) -> list[str]:
    """The texts between the commas of a call, by its opening bracket."""
    close = query.nested.close[bracket]
    return [query.between(*run) for run in _split(query, bracket + 1, close, bracket, ",")]


def replaced(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    """The text with parts of it, by start and end, replaced; the parts do not overlap."""
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


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


HINTS = "http://www.bigdata.com/queryHints#"
AROUND = "http://wikiba.se/ontology#around"
BOX = "http://wikiba.se/ontology#box"
SLICE = "http://www.bigdata.com/rdf#slice"
_WIKIBASE = "http://wikiba.se/ontology#"
_AROUND = frozenset({"center", "radius", "distance"})
_CORNERS = (
    ("cornerSouthWest", "cornerNorthEast"),
    ("cornerWest", "cornerEast"),
    ("cornerNorthWest", "cornerSouthEast"),
)
_CHANGING = ("RAND", "UUID", "STRUUID", "BNODE")
_MOST_COPIES = 50


def inline_subqueries(text: str) -> str:
    """The query with each ``INCLUDE %name`` replaced by the subquery that ``WITH { … } AS %name`` defines.

    Raises QuerySyntaxError for a name that is not defined or defined by itself, and for one that is included twice and
    may have other rows each time.
    """
    query = parsed(text)
    defined: dict[str, str] = {}
    edits: dict[tuple[int, int], str] = {}
    for index, token in enumerate(query.tokens):
        close = query.nested.close.get(index + 1)
        if token.is_word("WITH") and close and close + 2 < len(query.tokens):
            name = query.tokens[close + 2]
            if name.kind == "subquery":
                defined[name.text] = query.between(index + 1, close + 1)
                edits[token.start, name.end] = ""
    text = replaced(text, edits)
    included: dict[str, int] = {}
    for _ in range(_MOST_COPIES):
        query = parsed(text)
        edits = {}
        for token, name in zip(query.tokens, query.tokens[1:], strict=False):
            if token.is_word("INCLUDE"):
                if name.text not in defined:
                    raise syntax_error(text, name.start, f"{name.text} is not defined by any WITH {{ … }} AS %name")
                included[name.text] = included.get(name.text, 0) + 1
                edits[token.start, name.end] = defined[name.text]
                if included[name.text] == 2 and _may_change(defined[name.text]):
                    detail = (
                        f"{name.text} is included twice and may have other rows each time: order it, or name it once"
                    )
                    raise syntax_error(text, name.start, detail)
        if not edits:
            return text
        text = replaced(text, edits)
        if sum(included.values()) > _MOST_COPIES:
            break
    raise syntax_error(text, 0, "named subqueries include each other too often")


def _may_change(subquery: str) -> bool:
    tokens = parsed(subquery).tokens
    cut = any(token.is_word("LIMIT", "OFFSET") for token in tokens)
    return any(token.is_word(*_CHANGING) for token in tokens) or (
        cut and not any(token.is_word("ORDER") for token in tokens)
    )


def drop_hints(text: str) -> str:
    """The query without its query hints."""
    query = parsed(text)
    edits: dict[tuple[int, int], str] = {}
    index = 0
    while index < len(query.tokens):
        stop = index + 1
        if query.iri(index).startswith(HINTS) and query.iri(index + 1).startswith(HINTS):
            stop = _behind_triples(query, index)
            edits[query.tokens[index].start, query.tokens[stop - 1].end] = ""
        index = stop
    return replaced(text, edits)


def _behind_triples(query: Parsed, index: int) -> int:
    """The place behind triples of plain terms that share a subject, their full stop among them."""
    place = index + 2
    while place < len(query.tokens):
        place += 1  # the object
        while place < len(query.tokens) and query.tokens[place].kind == "language":
            place += 1
        if place < len(query.tokens) and query.tokens[place].text == "^^":
            place += 2
        mark = query.tokens[place].text if place < len(query.tokens) else ""
        if mark == ".":
            return place + 1
        if mark not in (";", ","):
            return place
        place += 1 if mark == "," else 2
    return place


def rewrite_services(text: str, dialect: Dialect) -> str:
    """The query with ``wikibase:around``, ``wikibase:box`` and ``bd:slice`` in standard SPARQL.

    Raises QuerySyntaxError where such a service is not written as the manual has it.
    """
    while True:
        query = parsed(text)
        block = next((one for one in service_blocks(query) if query.iri(one.target) in (AROUND, BOX, SLICE)), None)
        if block is None:
            return text
        patterns, said = parameters(query, block)
        said = {name.removeprefix(_WIKIBASE): value for name, value in said.items()}
        kind = query.iri(block.target)
        location = query_variable(patterns)
        corners = _corners(said)
        late = ""
        if kind == SLICE:
            inside = _slice(patterns, said)
        elif kind == BOX and location and corners:
            inside = f"{patterns} . {_within(dialect, location, *corners)}"
        elif kind == AROUND and location and {"center", "radius"} <= said.keys() <= _AROUND:
            inside, late = _around(dialect, patterns, location, said)
            if _known_before(query, block, said["center"]):
                inside, late = f"{inside} {late}", ""
        else:
            detail = f"{query.tokens[block.target].text} is not written as the query service's manual has it"
            raise syntax_error(text, query.tokens[block.target].start, detail)
        apart = query.tokens[block.start - 1].text in ("{", "}", ".")
        edits = {(query.tokens[block.start].start, query.tokens[block.close].end): ("" if apart else ". ") + inside}
        if late:
            end = query.tokens[query.nested.close[query.nested.parent[block.start]]].start
            edits[end, end] = f" {late} "
        text = replaced(text, edits)


def query_variable(patterns: str) -> str:
    """The variable for the place's location: the object of the one pattern; empty where there is none."""
    tokens = parsed(patterns).tokens
    plain = len(tokens) == 3 or not any(token.text in (";", ",", "{") for token in tokens)
    return tokens[-1].text if tokens and plain and tokens[-1].kind == "variable" else ""


def _slice(patterns: str, said: dict[str, str]) -> str:
    bounds = {name.rpartition("slice.")[2]: value for name, value in said.items()}
    limits = [f"{name.upper()} {bounds[name]}" for name in ("limit", "offset") if name in bounds]
    return f"{{ SELECT * {{ {patterns} }} {' '.join(limits)} }}"


def _around(dialect: Dialect, patterns: str, location: str, said: dict[str, str]) -> tuple[str, str]:
    """What stands in place of the service, and what has to stand behind the place where its centre is known."""
    distance = dialect.geo["distance"].format(location, said["center"])
    radius = said["radius"].strip("\"'")
    plain = re.fullmatch(r"[0-9]+(\.[0-9]+)?", radius)
    number = radius if plain else f"<http://www.w3.org/2001/XMLSchema#double>({radius})"
    bind = f"BIND({distance} AS {said['distance']})" if "distance" in said else ""
    return f"{patterns} . FILTER({distance} <= {number})", bind


def _known_before(query: Parsed, block: Block, term: str) -> bool:
    """Whether a term is no variable, or one that stands before the block in its group."""
    level = query.nested.parent[block.start]
    before = {
        query.tokens[index].text for index in range(level + 1, block.start) if query.nested.parent[index] == level
    }
    return not term.startswith(("?", "$")) or term in before


def _corners(said: dict[str, str]) -> tuple[str, str] | None:
    return next(((said[west], said[east]) for west, east in _CORNERS if west in said and east in said), None)


def _within(dialect: Dialect, location: str, west: str, east: str) -> str:
    """Filters for a location between two corners."""
    places = (location, west, east)
    lat, lat_1, lat_2 = (dialect.geo["latitude"].format(one) for one in places)
    lon, lon_1, lon_2 = (dialect.geo["longitude"].format(one) for one in places)
    north = f"IF({lat_1} <= {lat_2}, {lat} >= {lat_1} && {lat} <= {lat_2}, {lat} >= {lat_2} && {lat} <= {lat_1})"
    # A box over the 180th meridian has the larger number in the west.
    within = f"IF({lon_1} <= {lon_2}, {lon} >= {lon_1} && {lon} <= {lon_2}, {lon} >= {lon_1} || {lon} <= {lon_2})"
    return f"FILTER({north}) FILTER({within})"


IS_SOME_VALUE = "http://wikiba.se/ontology#isSomeValue"
DECODE_URI = "http://wikiba.se/ontology#decodeUri"
_XSD_functions = STANDARD_PREFIXES["xsd"]
_NARROW = frozenset(
    _XSD_functions + name
    for name in (
        *("int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
)
_GEO: dict[str, GeoFunction] = {
    namespace + name: name
    for namespace in (GEOF_WIKIDATA, GEOF_STANDARD)
    for name in ("distance", "latitude", "longitude")
}
_ARGUMENTS = {"distance": 2, "latitude": 1, "longitude": 1}


def calls(query: Parsed) -> list[tuple[int, str]]:
    """The calls of functions that have an IRI: index of the name's token, and the IRI."""
    found = []
    for index in range(len(query.tokens) - 1):
        token, bracket = query.tokens[index], query.nested.parent[index]
        # Elsewhere a name before a bracket is a predicate, and the bracket a list.
        expression = (bracket >= 0 and query.tokens[bracket].text == "(") or query.tokens[index - 1].is_word(
            "FILTER", "HAVING", "BY"
        )
        if expression and token.kind in ("name", "iri") and query.tokens[index + 1].text == "(":
            found.append((index, query.iri(index)))
    return found


def missing_function(query: Parsed, dialect: Dialect) -> tuple[int, str] | None:
    """The first call that the engine cannot answer and that no rewriting helps, and what it is."""
    for index, iri in calls(query):
        name = _GEO.get(iri)
        if name and name not in dialect.geo:
            return index, f"{query.tokens[index].text}: it has no {name}s of points"
        if iri == DECODE_URI and iri not in dialect.functions:
            return index, f"{query.tokens[index].text}: only Wikidata's query service decodes addresses"
        known = iri in _GEO or iri == IS_SOME_VALUE or iri in dialect.functions or iri.startswith(_XSD_functions)
        if dialect.closed and not known:
            return index, f"the function {query.tokens[index].text}: it has none of this name"
    return None


def rewrite_functions(text: str, dialect: Dialect) -> str:
    """The query with functions as the engine has them; ``missing_function`` has been asked before."""
    written = -1
    while True:
        query = parsed(text)
        # From the end, so that what stands in brackets is done before what is around it.
        for index, iri in reversed(calls(query)):
            token, bracket = query.tokens[index], index + 1
            if written >= 0 and token.start >= written:
                continue
            new = _replacement(iri, arguments(query, bracket), dialect)
            written = token.start
            if new:
                text = text[: token.start] + new + text[query.tokens[query.nested.close[bracket]].end :]
                break
        else:
            return text


def _replacement(iri: str, given: list[str], dialect: Dialect) -> str:
    """What stands for a call; empty where it may stay."""
    name = _GEO.get(iri)
    if name and len(given) == _ARGUMENTS[name]:
        new = dialect.geo[name].format(*given)
        return "" if new.startswith(f"<{iri}>") else new
    if iri == IS_SOME_VALUE and iri not in dialect.functions and len(given) == 1:
        return f'(ISBLANK({given[0]}) || CONTAINS(STR({given[0]}), "/.well-known/genid/"))'
    if iri in _NARROW and not dialect.narrow_integers and len(given) == 1:
        return f"<{_XSD_functions}integer>({given[0]})"
    return ""


_LANGUAGE = "http://wikiba.se/ontology#language"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_DESCRIPTION = "http://schema.org/description"
_SUFFIXES = {"AltLabel": _ALIAS, "Label": _LABEL, "Description": _DESCRIPTION}
_STAR = re.compile(r"\bSELECT\s+(?:DISTINCT\s+|REDUCED\s+)?\*", re.IGNORECASE)
_NOTHING = "<urn:kbnav:nothing>"


@dataclass(frozen=True)
class _Wish:
    """What one use of the service is to fill in: ``variable`` with the ``predicate`` (an IRI) of ``subject``."""

    subject: str
    predicate: str
    variable: str


@dataclass(frozen=True)
class _Block:
    """A ``SERVICE wikibase:label { … }`` by indexes of its tokens: SERVICE, ``{`` and ``}``."""

    start: int
    open: int
    close: int


def rewrite_label_service(query: str, *, lateral: bool = True, auto_language: str = "en") -> str:
    """Rewrite a query that uses the label service for an engine that does not have it.

    Both modes work: the automatic one (``?xLabel``, ``?xDescription`` and ``?xAltLabel`` wherever the SELECT uses them
    without giving them a value) and the manual one. An entity without a label is labelled with its id, a literal with
    itself.

    Args:
        query: SPARQL.
        lateral: whether the engine has LATERAL.
        auto_language: stands for ``[AUTO_LANGUAGE]``.

    Raises QuerySyntaxError where strings or brackets do not close, or a ``*`` cannot be resolved.
    """
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    blocks = list(_blocks(tokens, nested))
    edits: dict[tuple[int, int], str] = {}
    done: set[tuple[int, str]] = set()
    for block in blocks:
        following = block.close + 1
        dot = following < len(tokens) and tokens[following].text == "."
        apart = tokens[block.start - 1].text in ("{", "}", ".")
        edits[tokens[block.start].start, tokens[following if dot else block.close].end] = "" if apart else "."
        languages, wishes = _read(tokens[block.open + 1 : block.close], declared_prefixes(tokens), auto_language)
        for wish in wishes or _automatic(tokens, nested, block, blocks):
            group = _group(tokens, nested, block, wish, blocks)
            if group is not None and (group, wish.variable) not in done:
                done.add((group, wish.variable))
                place = tokens[nested.close[group]].start
                key = "?" + fresh_variable(query, "labelled") + ("" if lateral else f"_{len(done)}")
                edits[place, place] = edits.get((place, place), "") + _lookup(key, wish, languages, lateral)
    if done and not lateral:
        edits |= _named_stars(query, [tokens[nested.close[group]].start for group, _ in done])
    for (start, end), text in sorted(edits.items(), reverse=True):
        query = query[:start] + text + query[end:]
    return close_up(query)


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


def _blocks(tokens: Sequence[Token], nested: Nesting) -> Iterator[_Block]:
    declared = declared_prefixes(tokens)
    for index, token in enumerate(tokens):
        if token.is_word("SERVICE"):
            target = index + (2 if index + 1 < len(tokens) and tokens[index + 1].is_word("SILENT") else 1)
            named = target < len(tokens) and expand(tokens[target], declared) == LABEL_SERVICE
            if named and target + 1 in nested.close:
                yield _Block(index, target + 1, nested.close[target + 1])


def _read(block: Sequence[Token], declared: dict[str, str], auto_language: str) -> tuple[list[str], list[_Wish]]:
    """The languages, best first, and the triples that are not parameters."""
    languages: list[str] = []
    wishes: list[_Wish] = []
    subject, predicate, place = "", "", 0
    for token in block:
        if token.text in (".", ";", ","):
            place = {".": 0, ";": 1, ",": 2}[token.text]
        elif place == 0:
            subject, place = token.text, 1
        elif place == 1:
            predicate, place = expand(token, declared), 2
        elif predicate == _LANGUAGE and token.kind == "string":
            languages += [code.strip() for code in token.text.strip("\"'").split(",")]
        elif predicate in _SUFFIXES.values() and token.kind == "variable":
            wishes.append(_Wish(subject, predicate, token.text))
    codes = [auto_language if code == "[AUTO_LANGUAGE]" else code.lower() for code in languages]
    return list(dict.fromkeys(code for code in codes if code.replace("-", "").isalnum())), wishes


def _automatic(tokens: Sequence[Token], nested: Nesting, block: _Block, blocks: Sequence[_Block]) -> list[_Wish]:
    """Label variables that the SELECT around the service uses and that nothing in it binds."""
    scope = _select(tokens, nested, block.start)
    used: dict[str, None] = {}
    bound: set[str] = set()
    for index in range(scope + 1, nested.close[scope] if scope >= 0 else len(tokens)):
        if tokens[index].kind != "variable" or any(other.open < index < other.close for other in blocks):
            continue
        name = "?" + tokens[index].text[1:]
        if _binds(tokens, nested, index, scope):
            bound.add(name)
        if _select(tokens, nested, index) == scope:
            used[name] = None
    wishes = []
    for name in used:
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)
        subject = name.removesuffix(suffix) if suffix else "?"
        if suffix and subject != "?" and name not in bound:
            wishes.append(_Wish(subject, _SUFFIXES[suffix], name))
    return wishes


def _select(tokens: Sequence[Token], nested: Nesting, index: int) -> int:
    """The bracket of the innermost subquery around a token, -1 where it belongs to the query itself."""
    bracket = nested.parent[index]
    while bracket >= 0 and not tokens[bracket + 1].is_word("SELECT"):
        bracket = nested.parent[bracket]
    return bracket


def _binds(tokens: Sequence[Token], nested: Nesting, index: int, scope: int) -> bool:
    """Whether a variable gets a value here: by a triple, VALUES, a subquery or AS; a filter only reads it."""
    bracket = nested.parent[index]
    if tokens[index - 1].is_word("AS"):
        return True
    return bracket != scope and tokens[bracket].text in ("{", "[") and not tokens[bracket - 1].is_word("CONSTRUCT")


def _group(
    tokens: Sequence[Token], nested: Nesting, block: _Block, wish: _Wish, blocks: Sequence[_Block]
) -> int | None:
    """The innermost group around the service that knows the wish's subject; None where no group does."""
    scope = _select(tokens, nested, block.start)
    group = nested.parent[block.start]
    while group > scope:
        inside = range(group + 1, nested.close[group])
        outside = (i for i in inside if not any(other.open < i < other.close for other in blocks))
        if not wish.subject.startswith(("?", "$")) or any(
            tokens[i].kind == "variable" and tokens[i].text[1:] == wish.subject[1:] for i in outside
        ):
            return group
        group = nested.parent[group]
    return None


def _lookup(key: str, wish: _Wish, languages: Sequence[str], lateral: bool) -> str:
    """The patterns that fill in a wish; ``key`` is a variable that nothing else has, nor its like with ``_0``."""
    found = [f"{key}_{place}" for place in range(len(languages))]
    parts = [f"BIND(COALESCE({wish.subject}, {_NOTHING}) AS {key})"]
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
    kept = f"{wish.subject} " if wish.subject.startswith(("?", "$")) else ""
    return f" LATERAL {{ SELECT {kept}{wish.variable} WHERE {{ {' '.join(parts)} }} }} "


REWRITTEN_SERVICES = frozenset({LABEL_SERVICE, AROUND, BOX, SLICE})
"""Services that no engine has to have: what they do is said in standard SPARQL."""
_BIGDATA = "http://www.bigdata.com/"
_WIKIDATA_ONLY: Mapping[str, str] = {
    "http://wikiba.se/ontology#mwapi": "it asks Wikidata's own search: search for the names, and put the ids in VALUES",
    f"{_BIGDATA}rdf/gas#service": "write a property path such as `wd:Q1 wdt:P40* ?x`",
    f"{_BIGDATA}rdf#sample": "there is no sample by chance: use a subquery with a LIMIT, which takes the first",
}
_TEXT: Mapping[str, TextIndex] = {
    "bif:contains": "virtuoso",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-word": "qlever",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-entity": "qlever",
    "http://jena.apache.org/text#query": "jena",
    "tag:stardog:api:property:textMatch": "stardog",
    "http://www.ontotext.com/connectors/lucene#query": "graphdb",
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
        _refuse_missing(parsed(query), dialect)
        return Prepared(form, add_prefixes(query, prefixes), False)
    refuse_oversized(query)
    guard(query, {*services, *REWRITTEN_SERVICES, *_WIKIDATA_ONLY})
    split = parsed(query)
    form = query_form(query, split.tokens)
    _refuse_missing(split, dialect)
    text = rewrite(query, dialect, language=language)
    if error := parse_error(text):
        plain = without_services(query, split.tokens)
        own = None if _extended(split) else parse_error(plain)
        raise explain(query, plain, own) if own else _unparsed(text, dialect, error)
    return Prepared(form, add_prefixes(text, prefixes), text != query)


def rewrite(query: str, dialect: Dialect, *, language: str = "en") -> str:
    """The query in a dialect, with nothing checked; prefixes are not added. Raises QuerySyntaxError."""
    if dialect.blazegraph:
        return query
    text = drop_hints(inline_subqueries(query))
    text = rewrite_services(text, dialect)
    text = rewrite_dates(rewrite_functions(expand_aliases(text), dialect), dialect)
    return close_up(rewrite_label_service(text, lateral=dialect.lateral, auto_language=language))


def _refuse_missing(query: Parsed, dialect: Dialect) -> None:
    """Raise QuerySyntaxError for the first part that cannot be said in the dialect."""
    found = _missing_service(query, dialect) or _missing_word(query, dialect) or missing_function(query, dialect)
    if found:
        index, reason = found
        raise syntax_error(query.text, query.tokens[index].start, f"{dialect.engine} cannot run {reason}")


def _missing_service(query: Parsed, dialect: Dialect) -> tuple[int, str] | None:
    if dialect.blazegraph:
        return None
    for block in service_blocks(query):
        iri, shown = query.iri(block.target), f"SERVICE {query.tokens[block.target].text}"
        if iri in _WIKIDATA_ONLY:
            return block.target, f"{shown}: {_WIKIDATA_ONLY[iri]}"
        if (iri == AROUND and "distance" not in dialect.geo) or (iri == BOX and "latitude" not in dialect.geo):
            return block.target, f"{shown}: it has no functions for places"
        if iri not in REWRITTEN_SERVICES and not dialect.federation:
            return block.target, f"{shown}: it asks no other endpoint; ask that one by itself"
    return None


def _missing_word(query: Parsed, dialect: Dialect) -> tuple[int, str] | None:
    for index, token in enumerate(query.tokens):
        if token.is_word("LATERAL") and not dialect.lateral:
            return index, "LATERAL, which only Oxigraph and Jena have: use a subquery"
        owner = _TEXT.get("bif:contains" if token.text == "bif:contains" else query.iri(index))
        if owner and owner != dialect.text:
            return index, f"the text search `{token.text}` of another engine: use FILTER(CONTAINS(LCASE(?label), …))"
    return None


def _extended(query: Parsed) -> bool:
    """Whether a query has an extension that the standard's parser does not read."""
    return any(
        token.is_word("INCLUDE", "WITH") or token.kind == "subquery" or query.iri(index).startswith(HINTS)
        for index, token in enumerate(query.tokens)
    )


def _unparsed(text: str, dialect: Dialect, error: str) -> QuerySyntaxError:
    found = explain(text, text, error)
    return QuerySyntaxError(f"as rewritten for {dialect.engine}: {found}")


# One to nineteen, and the round numbers that questions about lists use, in Wikidata's larger languages.
_NUMBER_WORDS = {
    1: "one single ein eine einen une uno una один одна одно 一",
    2: "two zwei deux dos два две 二 两",
    3: "three drei trois tres три 三",
    4: "four vier quatre cuatro четыре 四",
    5: "five fünf cinq cinco пять 五",
    6: "six sechs seis шесть 六",
    7: "seven sieben sept siete семь 七",
    8: "eight acht huit ocho восемь 八",
    9: "nine neun neuf nueve девять 九",
    10: "ten zehn dix diez десять 十",
    11: "eleven elf onze once",
    12: "twelve zwölf douze doce",
    13: "thirteen dreizehn treize trece",
    14: "fourteen vierzehn quatorze catorce",
    15: "fifteen fünfzehn quinze quince",
    16: "sixteen sechzehn seize dieciséis",
    17: "seventeen siebzehn dix-sept diecisiete",
    18: "eighteen achtzehn dix-huit dieciocho",
    19: "nineteen neunzehn dix-neuf diecinueve",
    20: "twenty zwanzig vingt veinte двадцать 二十",
    50: "fifty fünfzig cinquante cincuenta пятьдесят 五十",
    100: "hundred hundert cent cien сто 一百",
}


def drop_probe_limit(query: str, question: str) -> str:
    """The query without its outermost LIMIT, if that was for probing; all other text stays as it is.

    A LIMIT is part of the answer, and stays, where the query sorts (ORDER BY), pages (OFFSET) or is no SELECT, and
    where the question has its number, in digits or as a word. Raises QuerySyntaxError where the text does not hold
    together.
    """
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    outer = [token for index, token in enumerate(tokens) if nested.parent[index] < 0]
    forms = [token for token in outer if token.is_word("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")]
    limits = [place for place, token in enumerate(outer) if token.is_word("LIMIT")]
    if not forms or not forms[0].is_word("SELECT") or len(limits) != 1:
        return query
    if any(token.is_word("ORDER", "OFFSET") for token in outer) or limits[0] + 1 >= len(outer):
        return query
    limit, number = outer[limits[0]], outer[limits[0] + 1]
    if not number.text.isdecimal() or asked_limit(question, int(number.text)):
        return query
    head, tail = query[: limit.start], query[number.end :]
    # White space goes too, unless something behind would run into what stands before.
    return head.rstrip(" \t\r\n") if not tail.strip() else head + tail


def outer_limit(query: str) -> int | None:
    """The number of the outermost LIMIT; None where there is none. Raises QuerySyntaxError as ``drop_probe_limit``."""
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    outer = [token for index, token in enumerate(tokens) if nested.parent[index] < 0]
    for token, number in pairwise(outer):
        if token.is_word("LIMIT") and number.text.isdecimal():
            return int(number.text)
    return None


def asked_limit(question: str, number: int) -> bool:
    """Whether the question has a number, in digits or as a word."""
    if any(int(digits) == number for digits in re.findall(r"\d+", re.sub(r"(?<=\d)[,.](?=\d{3})", "", question))):
        return True
    # Chinese writes no spaces between words.
    return any(
        word in question if word >= "一" else re.search(rf"\b{word}\b", question, re.IGNORECASE)
        for word in _NUMBER_WORDS.get(number, "").split()
    )
