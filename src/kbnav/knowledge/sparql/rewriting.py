"""Queries for an engine other than the one that they were written for: the seam for every knowledge base.

Models and people write for Wikidata's query service, which is Blazegraph, or in standard SPARQL. ``prepare`` checks
such a query and gives the text that another engine runs with the same rows, or says which part it cannot say there.
It never leaves a part out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeGuard

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.check import (
    alias_edits,
    close_up,
    explain,
    fresh_variable,
    guard,
    parse_error,
    renamed,
)
from kbnav.knowledge.sparql.dialects import GEOF_STANDARD, GEOF_WIKIDATA, Dialect
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Call,
    Element,
    Filter,
    Group,
    Include,
    Nested,
    Place,
    Query,
    Select,
    Triples,
    Value,
    is_variable,
    nodes_of,
    parse_query,
    visible,
)
from kbnav.knowledge.sparql.tokens import edited, position, refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    LABEL_SERVICE,
    STANDARD_PREFIXES,
    TABLES,
    WIKIDATA_VOCABULARY,
    Terms,
    add_prefixes,
    declared_prefixes,
    expand,
)

_WIKIBASE = STANDARD_PREFIXES["wikibase"]
_BIGDATA = "http://www.bigdata.com/"
_HINTS = f"{_BIGDATA}queryHints#"
_XSD = STANDARD_PREFIXES["xsd"]
_WIKIDATA_ONLY: Mapping[str, str] = {
    f"{_WIKIBASE}mwapi": "it asks Wikidata's own search: search for the names, and put the ids in VALUES",
    f"{_WIKIBASE}around": "bind the places by wdt:P625, and compare geof:distance with a number of kilometres",
    f"{_WIKIBASE}box": "bind the places by wdt:P625, and compare geof:latitude and geof:longitude with numbers",
    f"{_BIGDATA}rdf/gas#service": "write a property path such as `wd:Q1 wdt:P40* ?x`",
    f"{_BIGDATA}rdf#sample": "there is no sample by chance: use a subquery with a LIMIT, which takes the first",
    f"{_BIGDATA}rdf#slice": "use a subquery with LIMIT and OFFSET",
}
_SOME_VALUE, _DECODE_URI = f"{_WIKIBASE}isSomeValue", f"{_WIKIBASE}decodeUri"
_NARROW = frozenset(
    _XSD + name
    for name in (
        *("int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
)
_GEO: Mapping[str, str] = {
    namespace + name: name
    for namespace in (GEOF_WIKIDATA, GEOF_STANDARD)
    for name in ("distance", "latitude", "longitude")
}


@dataclass(frozen=True)
class Prepared:
    """A query that was checked: SELECT, ASK, CONSTRUCT or DESCRIBE, and the text to send, its prefixes declared."""

    form: str
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
        QuerySyntaxError: it does not parse, is too large for parsers, or has a part that the engine does not understand
            and that cannot be said otherwise; line and column are those of ``query``.
    """
    refuse_oversized(query)
    guard(query, services if dialect.blazegraph else {*services, LABEL_SERVICE, *_WIKIDATA_ONLY})
    read = parse_query(query)
    _refuse_missing(query, read, dialect)
    if dialect.blazegraph:
        named = read.select is not None and read.select.named
        if not named and (error := parse_error(query)) and parse_error(renamed(query, read)):
            raise explain(query, read, error, prefixes)
        return Prepared(read.form, add_prefixes(query, prefixes), False)
    text = rewrite(query, dialect, language=language)
    if error := parse_error(text):
        if (own := parse_error(query)) or text == query:
            raise explain(query, read, own if text != query and own else error, prefixes)
        raise QuerySyntaxError(f"as rewritten for {dialect.engine}: {explain(text, parse_query(text), error)}")
    return Prepared(read.form, add_prefixes(text, prefixes), text != query)


def rewrite(query: str, dialect: Dialect, *, language: str = "en") -> str:
    """The query in a dialect, with nothing checked; prefixes are not added. Raises QuerySyntaxError."""
    if dialect.blazegraph:
        return query
    text = _inline_subqueries(query)
    read, terms = parse_query(text), Terms(text, WIKIDATA_VOCABULARY)
    subjects = (one for element in read.elements(Triples) for one in element.subjects)
    hints = {(at.start, at.end): "" for subject, at in subjects if terms.iri(subject).startswith(_HINTS)}
    text = _rewrite_functions(edited(text, hints | alias_edits(text, read)), dialect)
    return close_up(_rewrite_labels(text, dialect.lateral, language))


def _refuse_missing(query: str, read: Query, dialect: Dialect) -> None:
    terms = Terms(query, WIKIDATA_VOCABULARY)
    missing: list[tuple[int, str]] = []
    for element in read.elements(Nested):
        iri, at = terms.iri(element.name), element.place.start
        if element.kind == "LATERAL" and not dialect.lateral:
            missing.append((at, "LATERAL cannot run here: use a subquery"))
        elif element.kind == "SERVICE" and not dialect.blazegraph:
            if iri in _WIKIDATA_ONLY:
                missing.append((at, f"SERVICE {element.name} cannot run here: {_WIKIDATA_ONLY[iri]}"))
            elif iri != LABEL_SERVICE and not dialect.federation:
                missing.append((at, f"SERVICE {element.name} cannot run here: no other endpoint is asked"))
    for call in _calls(read):
        iri, at = terms.iri(call.name), call.place.start
        if iri in _GEO and not dialect.geo:
            missing.append((at, f"{call.name} cannot run here: there are no functions for places"))
        elif iri == _DECODE_URI and iri not in dialect.functions:
            missing.append((at, f"{call.name} cannot run here: only Wikidata's query service decodes addresses"))
        elif dialect.closed and not (iri in {*_GEO, _SOME_VALUE, *dialect.functions} or iri.startswith(_XSD)):
            missing.append((at, f"the function {call.name} cannot run here: there is none of this name"))
    if missing:
        at, reason = min(missing)
        line, column = position(query, at)
        raise QuerySyntaxError(f"line {line}, column {column}: {reason}", line=line, column=column)


def _calls(read: Query) -> Iterator[Call]:
    for expression in read.expressions:
        for node in nodes_of(expression.node):
            if isinstance(node, Call) and ":" in node.name:
                yield node


# Named subqueries and hints, as Blazegraph's wiki (pages NamedSubquery and QueryHints) has them

_MOST_COPIES = 50


def _inline_subqueries(text: str) -> str:
    """The query with each ``INCLUDE %name`` replaced by the subquery that ``WITH { … } AS %name`` defines.

    Raises QuerySyntaxError for a name that is not defined or defined by itself, and for one that is included twice and
    may have other rows each time.
    """
    read = parse_query(text)
    named = dict(read.select.named) if read.select else {}
    includes = [*read.elements(Include)]
    copies: Counter[str] = Counter()

    if not includes and not named:
        return text

    def may_change(select: Select) -> bool:
        kinds = {one.kind for one in select.tail.modifiers}
        cut = kinds & {"LIMIT", "OFFSET"} and "ORDER BY" not in kinds
        words = tokenize(select.place.of(text))
        return bool(cut) or any(word.is_word("RAND", "UUID", "STRUUID", "BNODE") for word in words)

    def part(start: int, end: int) -> str:
        edits = {}
        for one in includes:
            if start <= one.place.start < end:
                copies[one.name] += 1
                if one.name not in named:
                    raise syntax_error(text, one.place.start, f"{one.name} is not defined by any WITH {{ … }} AS %name")
                if copies[one.name] == 2 and may_change(named[one.name]):
                    detail = "is included twice and may have other rows each time: order it, or name it once"
                    raise syntax_error(text, one.place.start, f"{one.name} {detail}")
                if copies.total() > _MOST_COPIES:
                    raise syntax_error(text, one.place.start, "named subqueries include each other too often")
                inner = named[one.name].place
                edits[one.place.start - start, one.place.end - start] = f"{{ {part(inner.start, inner.end)} }}"
        return edited(text[start:end], edits)

    prepared = read.select.prepared if read.select else read.where.place
    return part(0, prepared.start) + part(prepared.end, len(text))


# Functions that engines have under other names, or not at all: places, unknown values, casts, dates


def _rewrite_functions(text: str, dialect: Dialect) -> str:
    read, terms = parse_query(text), Terms(text, WIKIDATA_VOCABULARY)
    edits: dict[tuple[int, int], str] = {}
    for call in _calls(read):
        iri, start = terms.iri(call.name), call.place.start
        if iri in _GEO and not iri.startswith(dialect.geo):
            edits[start, start + len(call.name)] = f"<{dialect.geo}{_GEO[iri]}>"
        elif iri in _NARROW and not dialect.narrow_integers:
            edits[start, start + len(call.name)] = f"<{_XSD}integer>"
        elif iri == _SOME_VALUE and iri not in dialect.functions:
            if len(call.arguments) != 1 or not isinstance(call.arguments[0], Value):
                raise syntax_error(text, start, f"{call.name} takes one variable here")
            given = call.arguments[0].text
            unknown = f'(ISBLANK({given}) || CONTAINS(STR({given}), "/.well-known/genid/"))'
            edits[start, call.place.end] = unknown
    return rewrite_dates(edited(text, edits), dialect)


_DAY = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")
_TIME = re.compile(r"[+-]?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")


def rewrite_dates(text: str, dialect: Dialect) -> str:
    """The query with dates as Wikidata's query service counts with them, where the engine has a function for days.

    There the difference of two dates is a number of days, not a duration, and a date without a time of day, or without
    a time zone, is one at midnight UTC, which can be compared with every other.
    """
    if not dialect.days:
        return text
    edits, tokens = {}, tokenize(text)
    declared = declared_prefixes(tokens)
    for token, sign, kind in zip(tokens, tokens[1:], tokens[2:], strict=False):
        dated = token.kind == "string" and sign.text == "^^"
        if dated and expand(kind, declared) in (f"{_XSD}date", f"{_XSD}dateTime"):
            written = token.text.strip("\"'").removesuffix("Z")
            if _DAY.fullmatch(written):
                written += "T00:00:00"
            if _TIME.fullmatch(written):
                edits[token.start, kind.end] = f'"{written}Z"^^<{_XSD}dateTime>'
    text = edited(text, edits)
    put: defaultdict[int, str] = defaultdict(str)
    for expression in parse_query(text).expressions:
        for node in nodes_of(expression.node):
            if isinstance(node, Call) and node.name == "-" and len(node.arguments) == 2:
                right = node.arguments[1]
                if not (isinstance(right, Value) and right.text[:1].isdigit()):
                    put[node.place.start] += f"<{dialect.days}>("
                    put[node.place.end] += ")"
    return edited(text, {(offset, offset): new for offset, new in put.items()})


# The label service. It runs after everything else in its group, once for each row. So does what takes its place at the
# end of the group, which looks up each language and takes the first that has something: a LATERAL subquery where the
# engine has that (SPARQL 1.2 community proposal SEP-0006), which keeps helper variables from a ``SELECT *``, or else
# OPTIONALs, with the names that the ``*`` stood for in its place.

_LABEL, _ALIAS = f"{STANDARD_PREFIXES['rdfs']}label", f"{STANDARD_PREFIXES['skos']}altLabel"
_FILLED = {"AltLabel": _ALIAS, "Label": _LABEL, "Description": f"{STANDARD_PREFIXES['schema']}description"}


_Wish = tuple[str, str, str]
"""A subject, an IRI of ``_FILLED``, and the variable that is to be filled with what the subject has of it."""


def _rewrite_labels(text: str, lateral: bool, auto_language: str) -> str:
    """The query without the label service.

    Both modes work: the automatic one (``?xLabel``, ``?xDescription`` and ``?xAltLabel`` wherever the SELECT uses them
    without giving them a value) and the manual one. An entity without a label is labelled with its id, a literal with
    itself.
    """
    read, terms, tokens = parse_query(text), Terms(text, WIKIDATA_VOCABULARY), tokenize(text)
    scopes: list[tuple[Select | None, Group]] = [(select, select.where) for select in read.selects]
    if read.select is None:
        scopes.append((None, read.where))
    edits: defaultdict[tuple[int, int], str] = defaultdict(str)
    count = 0
    for select, where in scopes:
        blocks = list(_label_services(where, (), terms))
        done: dict[tuple[int, str], None] = {}
        for block, around in blocks:
            start, end = block.place.start, block.place.end
            before = next(token for token in reversed(tokens) if token.end <= start)
            after = next(token for token in tokens if token.start >= end)
            # The full stop goes that may stand behind it, and one comes between triples that it divided.
            edits[start, after.end if after.text == "." else end] = "" if before.text in ("{", "}", ".") else "."
            languages, wishes = _wishes(block, terms, auto_language)
            for wish in wishes or _automatic(text, read, select, where, [one.place for one, _ in blocks], terms):
                subject, _, variable = wish
                fixed = not is_variable(subject)
                group = next((one for one in reversed(around) if fixed or subject in _bound(one, terms)), None)
                if group is not None and (group.place.start, variable) not in done:
                    done[group.place.start, variable] = None
                    count += 1
                    key = "?" + fresh_variable(text, "labelled") + ("" if lateral else f"_{count}")
                    edits[group.place.end - 1, group.place.end - 1] += _lookup(key, wish, languages, lateral)
        if done and not lateral and select is not None and select.star is not None:
            names = dict.fromkeys((*_bound(where, terms), *(name for _, name in done)))
            edits[select.star.start, select.star.end] = " ".join(names)
    return edited(text, edits)


def _label_services(
    group: Group, around: tuple[Group, ...], terms: Terms
) -> Iterator[tuple[Nested, tuple[Group, ...]]]:
    """The uses of the label service in a group, those of its subqueries left out, with the groups around each."""
    around = (*around, group)
    for element in group.elements:
        if _is_label_service(element, terms):
            yield element, around
        elif isinstance(element, Filter | Bind | Nested):
            for inner in element.groups:
                yield from _label_services(inner, around, terms)


def _is_label_service(element: Element, terms: Terms) -> TypeGuard[Nested]:
    return isinstance(element, Nested) and element.kind == "SERVICE" and terms.iri(element.name) == LABEL_SERVICE


def _bound(group: Group, terms: Terms) -> dict[str, None]:
    if group.select is not None:
        return dict.fromkeys(group.select.visible)
    found: dict[str, None] = {}
    for element in group.elements:
        if isinstance(element, Nested) and element.kind != "MINUS":
            if not _is_label_service(element, terms):
                found |= dict.fromkeys(one for inner in element.groups for one in _bound(inner, terms))
        else:
            found |= dict.fromkeys(visible(element))
    return found


def _wishes(block: Nested, terms: Terms, auto_language: str) -> tuple[list[str], list[_Wish]]:
    languages: list[str] = []
    wishes: list[_Wish] = []
    for pattern in (one for part in block.groups[0].elements if isinstance(part, Triples) for one in part.patterns):
        predicate = terms.iri(pattern.relation)
        if predicate == f"{_WIKIBASE}language":
            languages += [code.strip() for code in pattern.object.strip("\"'").split(",")]
        elif predicate in _FILLED.values() and is_variable(pattern.object):
            wishes.append((pattern.subject, predicate, pattern.object))
    codes = [auto_language if code == "[AUTO_LANGUAGE]" else code.lower() for code in languages]
    return list(dict.fromkeys(code for code in codes if code.replace("-", "").isalnum())), wishes


def _automatic(
    text: str, read: Query, select: Select | None, where: Group, blocks: Sequence[Place], terms: Terms
) -> Iterator[_Wish]:
    """Label variables that the SELECT around the service uses and that nothing in it binds."""
    own = select.place if select is not None and select is not read.select else Place(0, len(text))
    bound = {*_bound(where, terms), *(select.computed if select else ())}
    others = [one.place for one in read.selects if one not in (select, read.select) and one.place.start in own]
    used = dict.fromkeys(
        "?" + token.text[1:]
        for token in tokenize(text)
        if token.kind == "variable" and token.start in own and not any(token.start in one for one in (*others, *blocks))
    )
    for name in used:
        ending = next((one for one in _FILLED if name.endswith(one)), "")
        if ending and name not in bound and len(name) > len(ending) + 1:
            yield name.removesuffix(ending), _FILLED[ending], name


def _lookup(key: str, wish: _Wish, languages: Sequence[str], lateral: bool) -> str:
    subject, predicate, variable = wish
    found = [f"{key}_{place}" for place in range(len(languages))]
    parts = [f"BIND(COALESCE({subject}, <urn:kbnav:nothing>) AS {key})"]
    for name, language in zip(found, languages, strict=True):
        if predicate == _ALIAS:
            one = f'{key} <{_ALIAS}> ?one FILTER(LANG(?one) = "{language}")'
            joined = f'SELECT {key} (GROUP_CONCAT(?one; SEPARATOR=", ") AS {name})'
            if lateral:
                parts.append(f"LATERAL {{ {joined} WHERE {{ OPTIONAL {{ {one} }} }} GROUP BY {key} }}")
            else:
                parts.append(f"OPTIONAL {{ {joined} WHERE {{ {one} }} GROUP BY {key} }}")
        else:
            parts.append(f'OPTIONAL {{ {key} <{predicate}> {name} FILTER(LANG({name}) = "{language}") }}')
    if predicate == _LABEL:
        found.append(f'REPLACE(STR({subject}), "^https?://[^/]+/entity/", "")')
    if found:
        parts.append(f"BIND(COALESCE({', '.join(found)}) AS {variable})")
    if not lateral:
        return f" {' '.join(parts)} "
    kept = f"{subject} " if is_variable(subject) else ""
    return f" LATERAL {{ SELECT {kept}{variable} WHERE {{ {' '.join(parts)} }} }} "


# The outermost LIMIT of a query


def drop_probe_limit(query: str, question: str) -> str:
    """The query without its outermost LIMIT, if that was for probing; all other text stays as it is.

    A LIMIT is part of the answer, and stays, where the query sorts (ORDER BY), pages (OFFSET) or is no SELECT, and
    where the question has its number, in digits or as a word, as "Name a river" has 1. What cannot be read is left as
    it is: it has run.
    """
    try:
        read = parse_query(query)
    except QuerySyntaxError:
        return query
    limits = [one for one in read.tail.modifiers if one.kind == "LIMIT"]
    kept = len(limits) != 1 or any(one.kind in ("ORDER BY", "OFFSET") for one in read.tail.modifiers)
    if kept or read.select is None or asked_limit(question, limits[0].number):
        return query
    head, tail = query[: limits[0].place.start], query[limits[0].place.end :]
    # White space goes too, unless something behind would run into what stands before.
    return head.rstrip(" \t\r\n") if not tail.strip() else head + tail


def outer_limit(query: str) -> int | None:
    """The number of the outermost LIMIT; None where there is none, or it is no query."""
    with suppress(QuerySyntaxError):
        return next((one.number for one in parse_query(query).tail.modifiers if one.kind == "LIMIT"), None)
    return None


_ONE_WILL_DO = re.compile(
    r"\W*(please\s+)?(name|give|find|show|tell|list)\s+((me|us)\s+)?(an?|any)\b(?!\s+(\w+\s+)?(list|table|set|overview)\b)",
    re.IGNORECASE,
)


def asked_limit(question: str, number: int) -> bool:
    """Whether the question has a number, in digits or as a word."""
    if any(int(digits) == number for digits in re.findall(r"\d+", re.sub(r"(?<=\d)[,.](?=\d{3})", "", question))):
        return True
    if number == 1 and _ONE_WILL_DO.match(question):
        return True
    # Chinese writes no spaces between words.
    return any(
        word in question if word >= "一" else re.search(rf"\b{word}\b", question, re.IGNORECASE)
        for word in TABLES["numbers"].get(str(number), "").split()
    )
