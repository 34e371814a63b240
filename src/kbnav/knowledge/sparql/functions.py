"""Functions that engines have under other names, or not at all: places, unknown values, casts."""

from __future__ import annotations

from kbnav.knowledge.sparql.blocks import Parsed, arguments, parsed
from kbnav.knowledge.sparql.dialects import GEOF_STANDARD, GEOF_WIKIDATA, Dialect, GeoFunction
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES

IS_SOME_VALUE = "http://wikiba.se/ontology#isSomeValue"
DECODE_URI = "http://wikiba.se/ontology#decodeUri"
_XSD = STANDARD_PREFIXES["xsd"]
_NARROW = frozenset(
    _XSD + name
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
        known = iri in _GEO or iri == IS_SOME_VALUE or iri in dialect.functions or iri.startswith(_XSD)
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
        return f"<{_XSD}integer>({given[0]})"
    return ""
