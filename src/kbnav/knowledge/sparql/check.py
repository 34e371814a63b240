"""Check a query before it is sent: that it only reads, asks no foreign service, and parses.

Nothing is run here, and nothing is sent. The parser is Oxigraph's; where it refuses a query, it is asked again to find
out where the fault is and what belongs there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.guard import guard, service_targets
from kbnav.knowledge.sparql.tokens import AGGREGATES, Token, edited, join, refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    LABEL_SERVICE,
    SKB_PREFIXES,
    STANDARD_PREFIXES,
    QueryText,
    declared_prefixes,
)

if TYPE_CHECKING:
    from pyoxigraph import Store

HINTS = "http://www.bigdata.com/queryHints#"


class QueryForm(StrEnum):
    """What a query returns: rows, a truth value, or (the last two) triples."""

    SELECT = "SELECT"
    ASK = "ASK"
    CONSTRUCT = "CONSTRUCT"
    DESCRIBE = "DESCRIBE"


def check(query: str, *, services: Collection[str], strict: bool) -> QueryForm:
    """Check a query before it is sent, and say which form it has.

    Args:
        query: the text as the model wrote it; standard prefixes need not be declared.
        services: IRIs that SERVICE may name.
        strict: whether the query is for a store that knows the SPARQL standard, the label service and what
            ``expand_aliases`` rewrites only. Otherwise it is for Blazegraph, and its extensions pass.

    Raises:
        QueryRefused: the query changes data, names a dataset, or names a SERVICE that is not allowed.
        QuerySyntaxError: it does not parse, or is too large for parsers; line and column are those of ``query``.
    """
    refuse_oversized(query)
    guard(query, services)
    form = query_form(query)
    split = QueryText(query)
    found = extension(split) or next(_other_services(split.tokens), None)
    if strict and found:
        detail = f"{found[1]} is an extension that this query service does not have; use standard SPARQL"
        raise syntax_error(query, found[0].start, detail)
    for index in split.calls() if strict else ():
        iri, call = split.iri(index), split.tokens[index]
        if not iri.startswith(STANDARD_PREFIXES["xsd"]):
            detail = f"the function {call.text} is an extension that this query service does not have"
            raise syntax_error(query, call.start, detail)
    text = without_services(query)
    error = parse_error(text)
    if error and not found and (parse_error(expand_aliases(text)) if strict else not _parses_relaxed(text)):
        raise explain(query, text, error)
    return form


def query_form(query: str) -> QueryForm:
    """The form of a query, by its first word behind the declarations. Raises QuerySyntaxError where it has none."""
    tokens = iter(tokenize(query))
    for token in tokens:
        if token.is_word(*QueryForm):
            return QueryForm(token.text.upper())
        if not token.is_word("PREFIX", "BASE"):
            detail = f"expected SELECT, ASK, CONSTRUCT or DESCRIBE, not `{token.text[:40]}`"
            raise syntax_error(query, token.start, detail)
        for _ in range(2 if token.is_word("PREFIX") else 1):
            next(tokens, None)
    raise syntax_error(query, len(query), "expected SELECT, ASK, CONSTRUCT or DESCRIBE; the query is empty")


def extension(query: QueryText) -> tuple[Token, str] | None:
    """The first token that only Blazegraph's parser understands, and what it is called."""
    for index, token in enumerate(query.tokens):
        if token.is_word("INCLUDE", "WITH") or token.kind == "subquery":
            return token, "a named subquery (WITH … AS %name, INCLUDE %name)"
        if query.iri(index).startswith(HINTS):
            return token, f"the query hint `{token.text}`"
    return None


def _other_services(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    return (
        (target, f"SERVICE {target.text}") for target, iri in service_targets(tokens) if target and iri != LABEL_SERVICE
    )


def without_services(query: str) -> str:
    """The query with each ``SERVICE target`` blanked out: a plain group is left, and positions stay as they were."""
    tokens = tokenize(query)
    targets = iter(service_targets(tokens))
    spans = [(token.start, (next(targets)[0] or token).end) for token in tokens if token.is_word("SERVICE")]
    return edited(query, {(start, end): " " * (end - start) for start, end in spans})


# The parser


def parse_error(query: str) -> str | None:
    """The parser's own message about a query, None where it parses.

    Oxigraph offers no way to parse alone, and preparing a query takes seconds where it has a hundred patterns. But it
    refuses two options together, after parsing and before anything else: every query here asks for both. So none is
    ever run: no computation starts and no SERVICE is called.
    """
    from pyoxigraph import DefaultGraph

    text, prefixes = close_up(query), {**SKB_PREFIXES, **STANDARD_PREFIXES}
    try:
        _empty_store().query(text, prefixes=prefixes, use_default_graph_as_union=True, default_graph=DefaultGraph())
    except SyntaxError as error:
        return str(error)
    except ValueError:
        return None
    raise RuntimeError("the parser ran a query that it was to refuse")


@cache
def _empty_store() -> Store:
    from pyoxigraph import Store

    return Store()


def close_up(query: str) -> str:
    """The query with no space before the brackets of CONCAT, COALESCE and BNODE, where Oxigraph accepts none.

    The space goes in front of the function's name, so that the text keeps its length and its lines.
    """
    edits = {}
    for token, after in pairwise(tokenize(query)):
        if after.text == "(" and _opens_at_once(token):
            edits[token.start, after.start] = query[token.end : after.start] + token.text
    return edited(query, edits)


def _opens_at_once(token: Token) -> bool:
    return token.is_word("CONCAT", "COALESCE", "BNODE")


def fresh_variable(query: str, stem: str = "unused") -> str:
    """A variable name, without ``?``, that does not occur in the query."""
    taken = {int(number or 0) for number in re.findall(rf"{stem}(\d{{0,9}})", query)}
    return f"{stem}{max(taken, default=0) + 1}"


# What Blazegraph runs although the standard, and with it the parser, forbids it: names that are used or given twice.

_LONGEST_ALIAS = 4000
"""Twenty aliases, each of the one before twice, would make a million characters: such a query is left to fail."""


def expand_aliases(query: str) -> str:
    """The query with aliases replaced by what they stand for, where the standard lets none be used.

    ``(COUNT(?e) AS ?n) … HAVING(?n > 1)``: by the standard HAVING comes before the expressions behind SELECT, so the
    alias has no value there, and the result is empty without an error. ``(COUNT(?e) AS ?n) (?n * 2 AS ?m)`` does not
    even parse. All other text stays as it is. Raises QuerySyntaxError where strings or brackets do not close.
    """
    split = QueryText(query)
    edits: dict[tuple[int, int], str] = {}
    for index, token in enumerate(split.tokens):
        if token.is_word("SELECT"):
            edits |= _alias_edits(split, index)
    return edited(query, edits)


def _alias_edits(query: QueryText, select: int) -> dict[tuple[int, int], str]:
    """What to put in place of which variables of one SELECT."""
    tokens, own, end = query.tokens, query.beside(select), query.end(query.parent[select])
    body = next((one for one in own if tokens[one].text == "{" or tokens[one].is_word("WHERE", "FROM")), end)
    having = next((one for one in own if tokens[one].is_word("HAVING")), end)
    behind = next((one for one in own if one > having and tokens[one].is_word(*_BEHIND_GROUPS)), end)
    aliases: dict[str, str] = {}
    edits: dict[tuple[int, int], str] = {}
    for bracket in own:
        close = query.close.get(bracket, bracket)
        if close < body and close - bracket > 3 and tokens[close - 2].is_word("AS"):
            inside = range(bracket + 1, close - 2)
            replaced = _uses(query, inside, bracket, aliases)
            edits |= replaced
            parts = [tokens[one] for one in inside]
            text = f"({join([replace(one, text=replaced.get((one.start, one.end), one.text)) for one in parts])})"
            if len(text) <= _LONGEST_ALIAS:
                aliases[tokens[close - 1].text[1:]] = text
    grouped = any(tokens[one].is_word("GROUP") for one in own) or _has_aggregate(tokens[select:body])
    # Without groups an alias may be used by the next expression, and stays.
    return (edits if grouped else {}) | _uses(query, range(having + 1, behind), query.parent[select], aliases)


def _uses(query: QueryText, places: range, level: int, aliases: dict[str, str]) -> dict[tuple[int, int], str]:
    """The uses of aliases among some tokens, and their expressions; not in a pattern, an aggregate or BOUND."""
    found = {}
    for index in places:
        token, bracket = query.tokens[index], query.parent[index]
        if token.kind == "variable" and token.text[1:] in aliases:
            while (
                bracket != level
                and query.tokens[bracket].text == "("
                and not query.is_word(bracket - 1, *AGGREGATES, "BOUND")
            ):
                bracket = query.parent[bracket]
            if bracket == level:
                found[token.start, token.end] = aliases[token.text[1:]]
    return found


def _has_aggregate(tokens: Sequence[Token]) -> bool:
    return any(token.is_word(*AGGREGATES) for token in tokens)


def _parses_relaxed(text: str) -> bool:
    """Whether the query would parse if no name were given twice and aliases could be used at once.

    ``(YEAR(?d) AS ?year) … GROUP BY ?year``, an alias used by the next expression behind SELECT, and ``BIND(… AS ?x)``
    for an ``?x`` that has a value are in the query service's own examples.
    """
    query = QueryText(text)
    stem = fresh_variable(text, "renamed")
    changed = list(query.tokens)
    for index, token in enumerate(query.tokens):
        if token.is_word("AS") and index + 1 < len(changed) and changed[index + 1].kind == "variable":
            changed[index + 1] = replace(changed[index + 1], text=f"?{stem}_{index}")
            if expression := _selected(query, index):
                own = query.tokens[expression.start : expression.stop]
                error = parse_error(f"SELECT ({join(own)} AS ?{stem}) {{}}")
                if error and "an expression with a variable that is unbound" not in error:
                    return False
                for inside in expression:
                    changed[inside] = Token("word", "", token.start)
                changed[expression.start] = Token("word", "SAMPLE(1)" if _has_aggregate(own) else "1", token.start)
    return parse_error(join(changed)) is None


def _selected(query: QueryText, index: int) -> range | None:
    """The tokens of the expression before an ``AS`` behind SELECT; None for the ``AS`` of BIND or GROUP BY."""
    bracket = query.parent[index]
    for before in range(bracket - 1, -1, -1):
        token = query.tokens[before]
        listed = token.kind == "variable" or token.text in ("(", ")") or token.is_word("DISTINCT", "REDUCED")
        if query.parent[before] == query.parent[bracket] and not listed:
            return range(bracket + 1, index) if token.is_word("SELECT") else None
    return None


# Where a query that does not parse goes wrong. The parser reports the furthest character it looked at, which is up to a
# keyword's length behind the fault, and only the alternatives that reached that far. Both are cured by asking it again:
# with each token on a line of its own, padded by more than the longest keyword, the line of the failure is the token at
# fault; and what may stand there is found by putting each of a few candidates in its place.

_PAD = " " * 24 + "\n"
_MOST_TOKENS, _MOST_BINDS = 5000, 5
"""Tokens before the fault, and BINDs, the nearest first: more parses than for these would take seconds."""
_FAILURE = re.compile(r"error at (\d+):\d+: expected (.*)", re.DOTALL)
_BEHIND_GROUPS = ("ORDER", "LIMIT", "OFFSET", "VALUES")

_CANDIDATES = {
    **{f"`{mark}`": mark for mark in "})].;,{("},
    "a variable": "?v",
    "a prefixed name or IRI": "<a:a>",
    "a number": "1",
    "a string": '"s"',
    "an operator such as `=`": "=",
    "AS": "AS",
    "WHERE": "WHERE",
    "BY": "BY",
    "a pattern such as FILTER or OPTIONAL": "OPTIONAL",
    "GROUP BY": "GROUP",
    "ORDER BY": "ORDER",
    "LIMIT": "LIMIT",
}
"""What is named as expected, and a text that stands for it."""

_RULES = {
    "Duplicated variable name in SELECT": "a variable stands twice behind SELECT",
    "overrides an existing variable": "`(… AS ?name)` behind SELECT needs a name that the pattern does not use",
    "not authorized with GROUP BY": "`SELECT *` cannot be used with GROUP BY: name the variables",
    "VALUES clause rows": "every row of VALUES needs as many values as there are variables (UNDEF where there is none)",
    "IRI parsing failed": "this IRI is relative or malformed: write it in full or with a prefix",
    "already used": "a variable is given a value twice",
}
"""Parts of the parser's messages about queries that are grammatical and still not allowed."""


def explain(query: str, parsed: str, error: str) -> QuerySyntaxError:
    """Turn the parser's ``error`` about ``parsed`` into one about ``query``, which has the same positions."""
    split = QueryText(parsed)
    tokens = split.tokens
    layout, lines = _layout(tokens)
    match = _FAILURE.search(parse_error(layout) or error)
    index, expected = len(tokens), error
    if match is not None:
        index, expected = sum(end < int(match[1]) for end in lines), match[2]
    if (name := _ungrouped(split, index)) is not None:
        detail = f"{name.text} is neither in GROUP BY nor aggregated: add it to GROUP BY, or write SAMPLE({name.text})"
        return syntax_error(query, name.start, detail)
    if index < len(tokens) and tokens[index].kind == "name" and not split.iri(index):
        prefix = tokens[index].text.split(":", 1)[0]
        known = ", ".join([*declared_prefixes(tokens), *list(STANDARD_PREFIXES)[:9], "…"])
        detail = f"the prefix `{prefix}:` is not declared: add `PREFIX {prefix}: <…>`, or use one of {known}"
        return syntax_error(query, tokens[index].start, detail)
    if (name := _bound_twice(split, index)) is not None:
        detail = f"BIND gives {name.text} a value, but the pattern before already uses it: choose another name"
        return syntax_error(query, name.start, detail)
    at = tokens[index].start if index < len(tokens) else len(query.rstrip())
    for part, rule in _RULES.items():
        if part in expected:
            return syntax_error(query, at, rule)
    found = f"unexpected `{tokens[index].text[:60]}`" if index < len(tokens) else "the query ends too early"
    *others, last = (_expected(tokens[:index]) if index <= _MOST_TOKENS else []) or [""]
    wanted = f"{', '.join(others)} or {last}" if others else last
    return syntax_error(query, at, f"{found}: expected {wanted}" if wanted else found)


def _layout(tokens: Sequence[Token]) -> tuple[str, list[int]]:
    """The tokens on lines of their own, and the last line of each."""
    parts: list[str] = []
    line, ends = 1, []
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        # `-1` is one token to the parser where a value is expected.
        signed = after is not None and token.text in ("-", "+") and after.kind == "number" and after.start == token.end
        glued = signed or (after is not None and after.text == "(" and _opens_at_once(token))
        ends.append(line + token.text.count("\n"))
        parts.append(token.text + ("" if glued else _PAD))
        line = ends[-1] + (not glued)
    return "".join(parts), ends


def _expected(tokens: Sequence[Token]) -> list[str]:
    text, _ = _layout(tokens)
    line = text.count("\n") + 1
    failures = {name: _FAILURE.search(parse_error(f"{text}{one}{_PAD}") or "") for name, one in _CANDIDATES.items()}
    return [name for name, match in failures.items() if match is None or int(match[1]) > line]


def _bound_twice(query: QueryText, index: int) -> Token | None:
    """The variable of a BIND before ``index`` if, with another name there, the parser goes on."""
    tokens = query.tokens
    stranger = "?" + fresh_variable(query.text)
    bound = [
        place
        for place in range(2, min(index, len(tokens)))
        if tokens[place].kind == "variable"
        and query.is_word(place - 1, "AS")
        and query.is_word(query.parent[place] - 1, "BIND")
    ]
    for place in reversed(bound[-_MOST_BINDS:]):
        text, ends = _layout([*tokens[:place], replace(tokens[place], text=stranger), *tokens[place + 1 :]])
        match = _FAILURE.search(parse_error(text) or "")
        if match is None or index >= len(ends) or int(match[1]) > ends[index]:
            return tokens[place]
    return None


def _ungrouped(query: QueryText, index: int) -> Token | None:
    """A variable behind a SELECT that ends at ``index`` which is projected alone although rows are grouped."""
    tokens = query.tokens
    for start, token in enumerate(tokens):
        end = query.end(query.parent[start])
        if not token.is_word("SELECT") or end != index:
            continue
        own = query.beside(start)
        body = next((one for one in own if tokens[one].text == "{"), end)
        by = next((one for one in own if one > body and tokens[one].is_word("GROUP")), end)
        stop = next((one for one in own if one > by and tokens[one].is_word("HAVING", *_BEHIND_GROUPS)), end)
        if by < end or _has_aggregate(tokens[start:body]):
            keys = {tokens[one].text[1:] for one in range(by, stop) if tokens[one].kind == "variable"}
            alone = (tokens[one] for one in own if one < body and tokens[one].kind == "variable")
            if (loose := next((one for one in alone if one.text[1:] not in keys), None)) is not None:
                return loose
    return None
