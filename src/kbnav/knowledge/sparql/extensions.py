"""Blazegraph's extensions in standard SPARQL: named subqueries, hints, and services about places and slices.

What each does is told in the manual of Wikidata's query service and in Blazegraph's wiki (pages NamedSubquery and
QueryHints). Hints change how a query is run and never its rows, so they are dropped.
"""

from __future__ import annotations

import re

from kbnav.knowledge.sparql.blocks import Block, Parsed, parameters, parsed, replaced, service_blocks
from kbnav.knowledge.sparql.dialects import Dialect
from kbnav.knowledge.sparql.tokens import syntax_error

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
