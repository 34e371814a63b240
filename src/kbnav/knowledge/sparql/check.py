"""What a query may do, and where it goes wrong: found before anything is sent, and nothing is run.

The guard, which lets no query change data or reach a service that is not allowed, reads text before any parser or
service sees it, and must agree with all of them on what is a keyword. Where parsers are known to read the same
characters differently, the query is refused and the text says how to write it. For errors two parsers look at a query:
``syntax`` says what belongs in a place, Oxigraph's what the standard allows beyond grammar.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from kbnav.errors import QueryRefused, QuerySyntaxError
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Call,
    Expression,
    Node,
    Query,
    Select,
    Value,
    nodes_of,
    visible,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, Token, edited, position, syntax_error, tokenize, tokenize_all
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, STANDARD_PREFIXES, declared_prefixes, expand

if TYPE_CHECKING:
    from pyoxigraph import Store


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
    """The query with spaces moved before CONCAT, COALESCE and BNODE, behind which Oxigraph accepts none."""
    edits = {}
    for token, after in pairwise(tokenize(query)):
        if after.text == "(" and token.is_word("CONCAT", "COALESCE", "BNODE"):
            edits[token.start, after.start] = query[token.end : after.start] + token.text
    return edited(query, edits)


def fresh_variable(query: str, stem: str = "unused") -> str:
    """A variable name, without ``?``, that does not occur in the query."""
    taken = {int(number or 0) for number in re.findall(rf"{stem}(\d{{0,9}})", query)}
    return f"{stem}{max(taken, default=0) + 1}"


# What Blazegraph runs although the standard, and with it the parser, forbids it: names that are used or given twice.

_LONGEST_ALIAS = 4000
"""Twenty aliases, each of the one before twice, would make a million characters: such a query is left to fail."""


def alias_edits(query: str, read: Query) -> dict[tuple[int, int], str]:
    """Places of aliases that stand where the standard lets none be used, each with what it stands for.

    ``(COUNT(?e) AS ?n) … HAVING(?n > 1)``: by the standard HAVING comes before the expressions behind SELECT, so the
    alias has no value there, and the result is empty without an error. ``(COUNT(?e) AS ?n) (?n * 2 AS ?m)`` does not
    even parse.
    """
    edits: dict[tuple[int, int], str] = {}
    for select in read.selects:
        aliases: dict[str, str] = {}
        for one in select.expressions:
            used = dict(_uses(one.node, aliases))
            start, end = one.node.place.start, one.node.place.end
            text = edited(query[start:end], {(at - start, to - start): new for (at, to), new in used.items()})
            if one.variable and len(text) + 2 <= _LONGEST_ALIAS:
                aliases[one.variable] = f"({text})"
            # Without groups an alias may be used by the next expression, and stays.
            edits |= used if is_grouped(select) else {}
        for one in select.tail.keys("HAVING"):
            edits |= _uses(one.node, aliases)
    return edits


def _uses(node: Node, aliases: Mapping[str, str]) -> Iterable[tuple[tuple[int, int], str]]:
    """The uses of aliases in an expression, and their expressions; not in a pattern, an aggregate or BOUND."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Value) and one.text in aliases:
            yield (one.place.start, one.place.end), aliases[one.text]
        waiting += one.arguments if isinstance(one, Call) and one.name not in (*AGGREGATES, "BOUND") else ()


def is_grouped(select: Select) -> bool:
    """Whether the rows of a SELECT are of groups."""
    return bool(select.tail.keys("GROUP BY")) or any(map(_aggregates, select.expressions))


def _aggregates(expression: Expression) -> bool:
    return any(isinstance(one, Call) and one.name in AGGREGATES for one in nodes_of(expression.node))


def renamed(query: str, read: Query) -> str:
    """The query as it would be if no name were given twice, aliases were not used, and no full stop were missing.

    ``(YEAR(?d) AS ?year) … GROUP BY ?year``, an alias used by the next expression behind SELECT, and ``BIND(… AS ?x)``
    for an ``?x`` that has a value are in the query service's own examples.
    """
    stem = fresh_variable(query, "renamed")
    edits = {(place, place): ". " for place in read.loose}
    listed = {id(one) for select in read.selects for one in select.expressions}
    done = 0  # what stands in an EXISTS goes with the expression around it
    for number, one in enumerate(read.expressions):
        if (one.variable or id(one) in listed) and one.place.start >= done:
            text = one.node.place.of(query)
            if id(one) in listed:
                text = "SAMPLE(1)" if _aggregates(one) else "1"
            done = one.place.end
            edits[one.place.start, done] = f"({text} AS ?{stem}_{number})"
    return edited(query, edits)


# Where a query that is read goes wrong all the same

_FAILURE = re.compile(r"error at (\d+):(\d+): expected")
_RULES = {
    "Duplicated variable name in SELECT": "a variable stands twice behind SELECT",
    "overrides an existing variable": "`(… AS ?name)` behind SELECT needs a name that the pattern does not use",
    "not authorized with GROUP BY": "`SELECT *` cannot be used with GROUP BY: name the variables",
    "VALUES clause rows": "every row of VALUES needs as many values as there are variables (UNDEF where there is none)",
    "IRI parsing failed": "this IRI is relative or malformed: write it in full or with a prefix",
    "already used": "a variable is given a value twice",
}
"""Parts of the parser's messages about queries that are grammatical and still not allowed."""


def explain(query: str, read: Query, error: str, prefixes: Collection[str] = STANDARD_PREFIXES) -> QuerySyntaxError:
    """The parser's ``error`` about a query as one that says what to change; of ``prefixes`` some are proposed."""
    tokens = tokenize(query)
    declared = declared_prefixes(tokens)
    for token in tokens:
        if token.kind == "name" and not expand(token, {**SKB_PREFIXES, **declared}) and token.text != ":":
            prefix = token.text.split(":", 1)[0]
            known = ", ".join([*dict.fromkeys([*declared, *list(prefixes)[:9]]), "…"])
            detail = f"the prefix `{prefix}:` is not declared: add `PREFIX {prefix}: <…>`, or use one of {known}"
            return syntax_error(query, token.start, detail)
    for select in read.selects if "unbound" in error or not any(part in error for part in _RULES) else ():
        for key in select.tail.keys("GROUP BY"):
            if not key.variable and not isinstance(key.node, Value):
                detail = "an expression in GROUP BY needs a name, which SELECT then uses"
                return syntax_error(query, key.place.start, f"{detail}: GROUP BY ({key.node.place.of(query)} AS ?x)")
        keys = {name for key in select.tail.keys("GROUP BY") for name in (key.variable, *key.variables)}
        plain = [name for one in select.expressions if not _aggregates(one) for name in one.variables]
        loose = [one for one in (*select.variables, *plain) if one not in (*keys, *select.computed)]
        if is_grouped(select) and loose:
            name = loose[0]
            at = next(one.start for one in tokens if one.start >= select.place.start and one.text[1:] == name[1:])
            detail = f"{name} is neither in GROUP BY nor aggregated: add it to GROUP BY, or write SAMPLE({name})"
            return syntax_error(query, at, detail)
    if read.loose:
        return syntax_error(query, read.loose[0], "a full stop is missing in front of this: expected `.` or `;`")
    for group in read.groups:
        bound: set[str] = set()
        for element in group.elements:
            if isinstance(element, Bind) and (name := element.expression.variable) in bound:
                detail = f"BIND gives {name} a value, but the pattern before already uses it: choose another name"
                return syntax_error(query, element.place.end - 1 - len(name), detail)
            bound |= set(visible(element))
    match = _FAILURE.match(error)
    lines = query.splitlines(keepends=True)
    line, column = (int(match[1]), int(match[2])) if match else (len(lines), 1)
    at = min(sum(map(len, lines[: line - 1])) + column - 1, len(query.rstrip()))
    before = [token for token in tokens if token.start < at]
    for part, rule in _RULES.items():
        if part in error:
            return syntax_error(query, before[-1].start if before else at, rule)
    shown = f", at `{before[-1].text[:60]}`" if before else ""
    detail = f"unexpected here{shown}: check the keyword, the operands and the brackets"
    return syntax_error(query, before[-1].start if before else at, detail)


_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE")
_UPDATES_AT_START = (*_UPDATES, "ADD", "MOVE", "COPY", "WITH")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
# Some parsers need no space behind a keyword: to them `SERVICEx:y` is a SERVICE, to others a prefixed name.
_GLUED = re.compile(r"(true|false)?service", re.IGNORECASE)
_GLUED_PREFIX = re.compile(r"prefix|base", re.IGNORECASE)
_GLUED_FROM = re.compile(r"from", re.IGNORECASE)
# Read as an expression, `//` makes no sense to any parser: this is an IRI.
_PLAIN_IRI = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*://")
_OPERANDS = ("variable", "string", "iri", "name", "language", "number")


def guard(query: str, services: Collection[str]) -> None:
    """Raise QueryRefused where a query is more than a read of this knowledge base and the ``services`` (IRIs)."""
    everything = tokenize_all(query)
    _refuse_hidden(query, everything)
    tokens = [token for token in everything if token.kind != "comment"]
    _refuse_ambiguous(query, tokens)
    _refuse_updates(query, tokens)
    _refuse_datasets(query, tokens)
    for target, iri in service_targets(tokens):
        if iri not in services:
            shown = target.text if target else "nothing"
            where = target.start if target else len(query)
            raise _refused(query, where, f"SERVICE {shown} is not allowed here")


def service_targets(tokens: Sequence[Token]) -> list[tuple[Token | None, str]]:
    """For every SERVICE in a query the token that names its target, and the target's IRI (empty where not an IRI)."""
    declared = declared_prefixes(tokens)
    found: list[tuple[Token | None, str]] = []
    for index, token in enumerate(tokens):
        if not token.is_word("SERVICE"):
            continue
        behind = index + 1
        if behind < len(tokens) and tokens[behind].is_word("SILENT"):
            behind += 1
        target = tokens[behind] if behind < len(tokens) else None
        found.append((target, expand(target, declared) if target else ""))
    return found


def _refuse_hidden(query: str, tokens: Sequence[Token]) -> None:
    """Refuse codepoint escapes that a parser may read before or after splitting the query into tokens."""
    for token in tokens:
        if "\\" not in token.text:
            continue
        quiet = token.kind in ("string", "iri", "comment")
        for match in _ESCAPE.finditer(token.text):
            code = int(match.group(1) or match.group(2), 16)
            if not quiet or code > 0x10FFFF or code < 0x20 or chr(code) in "\"'\\<>":
                raise _refused(query, token.start, 'write this character itself, or as `\\n` or `\\"`, not as `\\u…`')
        if token.kind == "symbol":
            raise _refused(query, token.start, "a `\\` may only stand in a string or a prefixed name")


def _refuse_ambiguous(query: str, tokens: Sequence[Token]) -> None:
    """Refuse glued keywords, and a `<` between operands that some parsers read as the beginning of an IRI."""
    brackets: list[str] = []
    before: Token | None = None
    for index, token in enumerate(tokens):
        if token.kind == "iri" and before and before.kind == "name" and not brackets:
            # To some parsers `PREFIXx: <…>` declares `x:`, and with it what a SERVICE is.
            glued = _GLUED_PREFIX.match(before.text) and not before.text.lower().startswith(("prefix:", "base:"))
            if glued and not tokens[max(index - 2, 0)].is_word("PREFIX"):
                detail = f"`{before.text}` may declare a prefix: put a space behind the keyword"
                raise _refused(query, before.start, detail)
        if token.kind in ("word", "name") and not token.is_word("SERVICE") and _GLUED.match(token.text):
            raise _refused(
                query,
                token.start,
                f"`{token.text}` may be read as SERVICE: put a space behind SERVICE, or use another name",
            )
        operand = before is not None and (before.kind in _OPERANDS or before.text == ")")
        # Something in the IRI could end or begin another token if its `<` were an operator.
        odd = bool(set("'#)") & set(token.text)) and not _PLAIN_IRI.match(token.text)
        if token.kind == "iri" and operand and brackets and brackets[-1] == "(" and odd:
            raise _refused(query, token.start, "put spaces around the operator `<`, or write the IRI with a prefix")
        if token.text in ("(", "{", "["):
            brackets.append(token.text)
        elif token.text in (")", "}", "]") and brackets:
            brackets.pop()
        before = token


def _refuse_updates(query: str, tokens: Sequence[Token]) -> None:
    depth = 0
    start = True
    for index, token in enumerate(tokens):
        if token.is_word(*(_UPDATES_AT_START if start else _UPDATES)):
            raise _refused(
                query,
                token.start,
                f"{token.text.upper()} changes data; only SELECT, ASK, CONSTRUCT and DESCRIBE may run",
            )
        declares = token.is_word("PREFIX", "BASE") or (index > 0 and start and token.kind in ("name", "iri"))
        start = (depth == 0 and token.text == ";") or (start and declares)
        depth += (token.text == "{") - (token.text == "}")


def _refuse_datasets(query: str, tokens: Sequence[Token]) -> None:
    """Refuse FROM and FROM NAMED: some stores fetch what they name."""
    depth = 0
    before: Token | None = None
    for token in tokens:
        # Outside of brackets a name such as `FROMx:y` is FROM to some parsers, unless a PREFIX declares it.
        glued = depth == 0 and token.kind == "name" and _GLUED_FROM.match(token.text)
        if token.is_word("FROM", "FROMNAMED") or (glued and not (before and before.is_word("PREFIX"))):
            raise _refused(query, token.start, "FROM is not allowed here: leave it out, the data is queried as it is")
        depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]"))
        before = token


def _refused(query: str, offset: int, detail: str) -> QueryRefused:
    line, column = position(query, offset)
    return QueryRefused(f"refused, line {line}, column {column}: {detail}")
