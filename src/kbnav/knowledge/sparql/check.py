"""Check a query before it is sent: that it only reads, asks no foreign service, and parses.

Nothing is run here, and nothing is sent.
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
from kbnav.knowledge.sparql.tokens import (
    AGGREGATES,
    Nesting,
    Token,
    join,
    nesting,
    refuse_oversized,
    syntax_error,
    tokenize,
)
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, SKB_PREFIXES, STANDARD_PREFIXES, declared_prefixes, expand

if TYPE_CHECKING:
    from pyoxigraph import Store


# Twenty aliases, each of the one before twice, would make a million: such a query is left to fail.
_LONGEST = 4000
_BEHIND_HAVING = ("ORDER", "LIMIT", "OFFSET", "VALUES")


def expand_aliases(query: str) -> str:
    """The query with such aliases, its own and its subqueries', replaced by what they stand for.

    All other text stays as it is. Raises QuerySyntaxError where strings or brackets do not close.
    """
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    edits: dict[Token, str] = {}
    for select, token in enumerate(tokens):
        if token.is_word("SELECT"):
            edits |= _edits(tokens, nested, select)
    for variable in sorted(edits, key=lambda token: token.start, reverse=True):
        query = query[: variable.start] + edits[variable] + query[variable.end :]
    return query


def _edits(tokens: Sequence[Token], nested: Nesting, select: int) -> dict[Token, str]:
    """What to put in place of which variables of one SELECT."""
    level = nested.parent[select]
    end = nested.close[level] if level >= 0 else len(tokens)
    own = [index for index in range(select + 1, end) if nested.parent[index] == level]
    body = next((index for index in own if tokens[index].text == "{" or tokens[index].is_word("WHERE", "FROM")), end)
    having = next((index for index in own if tokens[index].is_word("HAVING")), end)
    behind = next((index for index in own if index > having and tokens[index].is_word(*_BEHIND_HAVING)), end)
    aliases: dict[str, str] = {}
    edits: dict[Token, str] = {}
    for bracket in own:
        close = nested.close.get(bracket, bracket)
        if close < body and close - bracket > 3 and tokens[close - 2].is_word("AS"):
            expression = range(bracket + 1, close - 2)
            replaced = _replaced(tokens, nested, expression, bracket, aliases)
            edits |= replaced
            parts = [tokens[index] for index in expression]
            parts = [Token("word", replaced[part], part.start) if part in replaced else part for part in parts]
            text = f"({join(parts)})"
            if len(text) <= _LONGEST:
                aliases[tokens[close - 1].text[1:]] = text
    grouped = any(tokens[index].is_word("GROUP") for index in own) or any(
        token.is_word(*AGGREGATES) for token in tokens[select:body]
    )
    # Without groups an alias may be used by the next expression, and stays.
    return (edits if grouped else {}) | _replaced(tokens, nested, range(having + 1, behind), level, aliases)


def _replaced(
    tokens: Sequence[Token], nested: Nesting, places: range, level: int, aliases: dict[str, str]
) -> dict[Token, str]:
    """The aliases among some tokens, and their expressions; not in a pattern, an aggregate or BOUND."""
    found = {}
    for index in places:
        if tokens[index].kind == "variable" and tokens[index].text[1:] in aliases:
            bracket = nested.parent[index]
            while bracket != level and tokens[bracket].text == "(" and not _takes_variables(tokens[bracket - 1]):
                bracket = nested.parent[bracket]
            if bracket == level:
                found[tokens[index]] = aliases[tokens[index].text[1:]]
    return found


def _takes_variables(token: Token) -> bool:
    return token.is_word(*AGGREGATES, "BOUND")


def parse_error(query: str) -> str | None:
    """The parser's own message about a query, None where it parses."""
    from pyoxigraph import DefaultGraph

    text, prefixes = close_up(query), {**SKB_PREFIXES, **STANDARD_PREFIXES}
    try:
        _empty_store().query(text, prefixes=prefixes, use_default_graph_as_union=True, default_graph=DefaultGraph())
    except SyntaxError as error:
        return str(error)
    except ValueError:
        return None
    raise RuntimeError("the parser ran a query that it was to refuse")


def close_up(query: str) -> str:
    """The query with no space before the brackets of CONCAT, COALESCE and BNODE, where Oxigraph accepts none.

    The space goes in front of the function's name, so that the text keeps its length and its lines.
    """
    parts, written = [], 0
    for token, after in pairwise(tokenize(query)):
        if after.text == "(" and opens_at_once(token):
            parts += [query[written : token.start], query[token.end : after.start], token.text]
            written = after.start
    return "".join(parts) + query[written:]


def opens_at_once(token: Token) -> bool:
    """Whether the token is a function whose bracket must follow without a space."""
    return token.is_word("CONCAT", "COALESCE", "BNODE")


def fresh_variable(query: str, stem: str = "unused") -> str:
    """A variable name, without ``?``, that does not occur in the query."""
    taken = {int(number or 0) for number in re.findall(rf"{stem}(\d{{0,9}})", query)}
    return f"{stem}{max(taken, default=0) + 1}"


@cache
def _empty_store() -> Store:
    from pyoxigraph import Store

    return Store()


_PAD = " " * 24 + "\n"
# Tokens before the fault in queries so long that a parse for every candidate would take seconds.
_LONGEST_locate = 5000
# BINDs before the fault that are tried, the nearest first, for the same reason.
_REBOUND = 5
_FAILURE = re.compile(r"error at (\d+):\d+: expected (.*)", re.DOTALL)

# What is shown, and a text that stands for it.
_CANDIDATES = {
    "`}`": "}",
    "`)`": ")",
    "`]`": "]",
    "`.`": ".",
    "`;`": ";",
    "`,`": ",",
    "`{`": "{",
    "`(`": "(",
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

# Parts of the parser's messages about queries that are grammatical and still not allowed.
_RULES = {
    "Duplicated variable name in SELECT": "a variable stands twice behind SELECT",
    "overrides an existing variable": "`(… AS ?name)` behind SELECT needs a name that the pattern does not use",
    "not authorized with GROUP BY": "`SELECT *` cannot be used with GROUP BY: name the variables",
    "VALUES clause rows": "every row of VALUES needs as many values as there are variables (UNDEF where there is none)",
    "IRI parsing failed": "this IRI is relative or malformed: write it in full or with a prefix",
    "already used": "a variable is given a value twice",
}


def explain(query: str, parsed: str, error: str) -> QuerySyntaxError:
    """Turn the parser's ``error`` about ``parsed`` into one about ``query``, which has the same positions."""
    tokens = tokenize(parsed)
    index, expected = _locate(tokens, error)
    if (name := _ungrouped(parsed, tokens, index)) is not None:
        detail = f"{name.text} is neither in GROUP BY nor aggregated: add it to GROUP BY, or write SAMPLE({name.text})"
        return syntax_error(query, name.start, detail)
    if index < len(tokens) and tokens[index].kind == "name" and not expand(tokens[index], declared_prefixes(tokens)):
        return syntax_error(query, tokens[index].start, _unknown_prefix(tokens, tokens[index]))
    if (name := _rebound(parsed, tokens, index)) is not None:
        detail = f"BIND gives {name.text} a value, but the pattern before already uses it: choose another name"
        return syntax_error(query, name.start, detail)
    at = tokens[index].start if index < len(tokens) else len(query.rstrip())
    for part, rule in _RULES.items():
        if part in expected:
            return syntax_error(query, at, rule)
    found = f"unexpected `{tokens[index].text[:60]}`" if index < len(tokens) else "the query ends too early"
    wanted = _expected(tokens[:index]) if index <= _LONGEST_locate else []
    return syntax_error(query, at, f"{found}: expected {_either(wanted)}" if wanted else found)


def _locate(tokens: Sequence[Token], error: str) -> tuple[int, str]:
    """Index of the token at fault (the number of tokens: the end), and the parser's words about it."""
    text, lines = _layout(tokens)
    match = _FAILURE.search(parse_error(text) or error)
    if match is None:
        return len(tokens), error
    line = int(match.group(1))
    return sum(end < line for end in lines), match.group(2)


def _layout(tokens: Sequence[Token]) -> tuple[str, list[int]]:
    """The tokens on lines of their own, and the last line of each."""
    text = ""
    line = 1
    ends = []
    for token, after in pairwise([*tokens, None]):
        if token is None:
            break
        # `-1` is one token to the parser where a value is expected.
        signed = after is not None and token.text in ("-", "+") and after.kind == "number" and after.start == token.end
        glued = signed or (after is not None and after.text == "(" and opens_at_once(token))
        ends.append(line + token.text.count("\n"))
        text += token.text + ("" if glued else _PAD)
        line = ends[-1] + (not glued)
    return text, ends


def _expected(tokens: Sequence[Token]) -> list[str]:
    """Which candidates may follow these tokens."""
    text, _ = _layout(tokens)
    line = text.count("\n") + 1
    fitting = []
    for shown, candidate in _CANDIDATES.items():
        match = _FAILURE.search(parse_error(text + candidate + _PAD) or "")
        if match is None or int(match.group(1)) > line:
            fitting.append(shown)
    return fitting


def _either(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else ", ".join(choices[:-1]) + " or " + choices[-1]


def _unknown_prefix(tokens: Sequence[Token], token: Token) -> str:
    prefix = token.text.split(":", 1)[0]
    known = ", ".join([*declared_prefixes(tokens), *list(STANDARD_PREFIXES)[:9], "…"])
    return f"the prefix `{prefix}:` is not declared: add `PREFIX {prefix}: <…>`, or use one of {known}"


def _rebound(query: str, tokens: Sequence[Token], index: int) -> Token | None:
    """The variable of a BIND before ``index`` if, with another name there, the parser goes on."""
    nested = nesting(query, tokens)
    stranger = "?" + fresh_variable(query)
    bound = [
        place
        for place in range(2, min(index, len(tokens)))
        if tokens[place].kind == "variable"
        and tokens[place - 1].is_word("AS")
        and tokens[nested.parent[place] - 1].is_word("BIND")
    ]
    for place in reversed(bound[-_REBOUND:]):
        name = tokens[place]
        text, ends = _layout([*tokens[:place], Token("variable", stranger, name.start), *tokens[place + 1 :]])
        match = _FAILURE.search(parse_error(text) or "")
        if match is None or index >= len(ends) or int(match.group(1)) > ends[index]:
            return name
    return None


def _ungrouped(query: str, tokens: Sequence[Token], index: int) -> Token | None:
    """A variable behind a SELECT that ends at ``index`` which is projected alone although rows are grouped."""
    for names, grouped, end in _groupings(query, tokens):
        if end == index:
            loose = [name for name in names if name.text[1:] not in grouped]
            if loose:
                return loose[0]
    return None


def _groupings(query: str, tokens: Sequence[Token]) -> Iterator[tuple[list[Token], set[str], int]]:
    """For each SELECT that groups: the variables projected alone, the names grouped by, and the index of its end."""
    nested = nesting(query, tokens)
    for start, token in enumerate(tokens):
        if not token.is_word("SELECT"):
            continue
        level = nested.parent[start]
        end = nested.close[level] if level >= 0 else len(tokens)
        own = [i for i in range(start + 1, end) if nested.parent[i] == level]
        body = next((i for i in own if tokens[i].text == "{"), end)
        by = next((i for i in own if i > body and tokens[i].is_word("GROUP")), end)
        stop = next(
            (i for i in own if i > by and tokens[i].is_word("HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")), end
        )
        aggregated = any(tokens[i].is_word(*AGGREGATES) for i in range(start, body))
        if by < end or aggregated:
            names = [tokens[i] for i in own if i < body and tokens[i].kind == "variable"]
            yield names, {tokens[i].text[1:] for i in range(by, stop) if tokens[i].kind == "variable"}, end


_EXPRESSION_RULE = "an expression with a variable that is unbound"


def parses_relaxed(query: str) -> bool:
    """Whether the query would parse if no name were given twice and aliases could be used at once."""
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    stem = fresh_variable(query, "renamed")
    changed = list(tokens)
    for index, token in enumerate(tokens):
        if token.is_word("AS") and index + 1 < len(tokens) and tokens[index + 1].kind == "variable":
            changed[index + 1] = replace(tokens[index + 1], text=f"?{stem}_{index}")
            expression = _projected(tokens, nested, index)
            if expression:
                error = parse_error(f"SELECT ({join(tokens[expression.start : expression.stop])} AS ?{stem}) {{}}")
                if error and _EXPRESSION_RULE not in error:
                    return False
                grouped = any(tokens[inside].is_word(*AGGREGATES) for inside in expression)
                changed[expression.start] = Token("word", "SAMPLE(1)" if grouped else "1", token.start)
                for inside in expression[1:]:
                    changed[inside] = Token("word", "", token.start)
    return parse_error(join(changed)) is None


def _projected(tokens: Sequence[Token], nested: Nesting, index: int) -> range | None:
    """The tokens of the expression before an ``AS`` behind SELECT; None for the ``AS`` of BIND or GROUP BY."""
    bracket = nested.parent[index]
    for before in range(bracket - 1, -1, -1):
        token = tokens[before]
        beside = nested.parent[before] == nested.parent[bracket]
        if beside and not (
            token.kind == "variable" or token.text in ("(", ")") or token.is_word("DISTINCT", "REDUCED")
        ):
            return range(bracket + 1, index) if token.is_word("SELECT") else None
    return None


_HINTS = "http://www.bigdata.com/queryHints#"


class QueryForm(StrEnum):
    """What a query returns: rows, a truth value, or (the last two) triples."""

    SELECT = "SELECT"
    ASK = "ASK"
    CONSTRUCT = "CONSTRUCT"
    DESCRIBE = "DESCRIBE"


def check(query: str, *, services: Collection[str], strict: bool, functions: Collection[str] = ()) -> QueryForm:
    """Check a query before it is sent, and say which form it has.

    Args:
        query: the text as the model wrote it; standard prefixes need not be declared.
        services: IRIs that SERVICE may name.
        strict: whether the query is for a store that knows the SPARQL standard, the label service and what
            ``expand_aliases`` rewrites only. Otherwise it is for Blazegraph, and its extensions pass.
        functions: IRIs of functions beyond the standard's that the store has; it matters where ``strict``.

    Raises:
        QueryRefused: the query changes data, names a dataset, or names a SERVICE that is not allowed.
        QuerySyntaxError: it does not parse, or is too large for parsers; line and column are those of ``query``.
    """
    refuse_oversized(query)
    guard(query, services)
    tokens = tokenize(query)
    form = query_form(query, tokens)
    nested = nesting(query, tokens)
    extension = _extension(tokens)
    if strict and extension:
        detail = f"{extension[1]} is an extension that this query service does not have; use standard SPARQL"
        raise syntax_error(query, extension[0].start, detail)
    if strict and (call := _unknown_function(tokens, nested, functions)):
        detail = f"the function {call.text} is an extension that this query service does not have"
        raise syntax_error(query, call.start, detail)
    text = without_services(query, tokens)
    error = parse_error(text)
    if error and not extension and (parse_error(expand_aliases(text)) if strict else not parses_relaxed(text)):
        raise explain(query, text, error)
    return form


def without_services(query: str, tokens: Sequence[Token]) -> str:
    """The query with each ``SERVICE target`` blanked out: a plain group is left, and positions stay as they were."""
    text = query
    targets = {target.start: target for target, _ in service_targets(tokens) if target}
    for index, token in enumerate(tokens):
        if token.is_word("SERVICE"):
            target = next((t for t in tokens[index + 1 : index + 3] if t.start in targets), None)
            end = target.end if target else token.end
            text = text[: token.start] + " " * (end - token.start) + text[end:]
    return text


def query_form(query: str, tokens: Sequence[Token]) -> QueryForm:
    """The form of a query, by its first word behind the declarations. Raises QuerySyntaxError where it has none."""
    index = 0
    while index < len(tokens) and tokens[index].is_word("PREFIX", "BASE"):
        index += 3 if tokens[index].is_word("PREFIX") else 2
    if index >= len(tokens):
        raise syntax_error(query, len(query), "expected SELECT, ASK, CONSTRUCT or DESCRIBE; the query is empty")
    if not tokens[index].is_word(*QueryForm):
        detail = f"expected SELECT, ASK, CONSTRUCT or DESCRIBE, not `{tokens[index].text[:40]}`"
        raise syntax_error(query, tokens[index].start, detail)
    return QueryForm(tokens[index].text.upper())


def _extension(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    """The first token that only Blazegraph understands, and what it is called."""
    declared = declared_prefixes(tokens)
    services = {target.start: iri for target, iri in service_targets(tokens) if target}
    for token in tokens:
        if token.is_word("INCLUDE", "WITH") or token.kind == "subquery":
            return token, "a named subquery (WITH … AS %name, INCLUDE %name)"
        if expand(token, declared).startswith(_HINTS):
            return token, f"the query hint `{token.text}`"
        if services.get(token.start, LABEL_SERVICE) != LABEL_SERVICE:
            return token, f"SERVICE {token.text}"
    return None


def _unknown_function(tokens: Sequence[Token], nested: Nesting, functions: Collection[str]) -> Token | None:
    """The first call of a function that has an IRI and is neither a cast to an XSD type nor among ``functions``."""
    declared = declared_prefixes(tokens)
    for index, token in enumerate(tokens[:-1]):
        bracket = nested.parent[index]
        # Elsewhere a name before a bracket is a predicate, and the bracket a list.
        expression = (bracket >= 0 and tokens[bracket].text == "(") or tokens[index - 1].is_word(
            "FILTER", "HAVING", "BY"
        )
        if expression and token.kind in ("name", "iri") and tokens[index + 1].text == "(":
            iri = expand(token, declared)
            if iri not in functions and not iri.startswith(STANDARD_PREFIXES["xsd"]):
                return token
    return None
