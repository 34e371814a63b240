"""What no query may do: change data, or reach out to services that are not allowed.

The guard reads text, before any parser or service sees the query, and must agree with all of them on what is a keyword.
Where parsers are known to read the same characters differently, the query is refused and the text says how to write it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kbnav.errors import QueryRefused
from kbnav.knowledge.sparql.tokens import Token, position, tokenize_all
from kbnav.knowledge.sparql.vocabulary import declared_prefixes, expand

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
            allowed = ", ".join(f"<{service}>" for service in sorted(services)) or "none"
            raise _refused(query, where, f"SERVICE {shown} is not allowed here; allowed: {allowed}")


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
