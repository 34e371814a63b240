"""The words of a SPARQL query: enough of its grammar to tell code from comments, strings and IRIs.

Everything that reads or changes a query's text goes through here, because a ``#`` may be part of an IRI, a ``{`` part
of a string and a keyword part of a comment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kbnav.errors import QuerySyntaxError

TokenKind = Literal[
    "comment", "string", "iri", "variable", "blank", "name", "language", "number", "word", "subquery", "symbol"
]

# SPARQL 1.1, section 19.8: PN_CHARS_BASE with and without the other characters a name may hold.
_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_VARIABLE = rf"{_BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040"
_NAME = rf"{_VARIABLE}\-"
_LOCAL = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"

_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n]++)
  | (?P<comment>\#[^\r\n]*+)
  | (?P<string>\"{{3}}(?:\"{{0,2}}(?:[^"\\]|\\.))*+\"{{3}} | '{{3}}(?:'{{0,2}}(?:[^'\\]|\\.))*+'{{3}}
      | "(?!"")(?:[^"\\\r\n]|\\[^\r\n])*+" | '(?!'')(?:[^'\\\r\n]|\\[^\r\n])*+')
  | (?P<open>["'])
  | (?P<iri><(?:[^<>"{{}}|^`\\\x00-\x20]|\\[uU][0-9A-Fa-f]+)*+>)
  | (?P<variable>[?$][{_VARIABLE}]++)
  | (?P<blank>_:[{_VARIABLE}](?:[{_NAME}.]*[{_NAME}])?)
  | (?P<name>(?:[{_BASE}](?:[{_NAME}]|\.+(?=[{_NAME}])){{0,99}}+)?:
      (?:(?:[{_VARIABLE}:]|{_LOCAL})(?:(?:[{_NAME}.:]|{_LOCAL})*(?:[{_NAME}:]|{_LOCAL}))?)?)
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<number>(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+\-]?[0-9]+)?)
  | (?P<word>[{_BASE}_][{_VARIABLE}]*+)
  | (?P<subquery>%[{_NAME}]++)
  | (?P<symbol>\^\^|&&|\|\||!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")

# Parsers recurse: a few thousand brackets overflow the stack of the process.
_DEEPEST = 100

# So do they at these: 1,500 overflow a stack of half a megabyte, as some systems give threads; real queries have 200.
_RECURSIVE = ("UNION", "OPTIONAL", "MINUS", "GRAPH", "SERVICE", "FILTER", "BIND", "HAVING", "AS")
_OPERATORS = ("!", "+", "-", "*", "/", "|", "^", "||", "&&")
_MOST_OPERATORS = 1000
_LONGEST_SIGN = 100
_LONGEST_QUERY = 100_000
_SHORT = 5_000
"""Characters of a query whose tokens are kept at hand."""

_CLOSES = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, its text as written, and where it begins (an offset into the query's text).

    A ``name`` is a prefixed name (``wd:Q42``, ``wd:``), a ``word`` a keyword or function, a ``subquery`` Blazegraph's
    ``%name``, a ``symbol`` an operator, a bracket or a character that no token begins with.
    """

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset of the first character behind the token."""
        return self.start + len(self.text)

    def is_word(self, *words: str) -> bool:
        """Whether the token is one of these keywords, given in upper case."""
        return self.kind == "word" and self.text.upper() in words


def tokenize(query: str) -> list[Token]:
    """Tokens of a query, comments left out. Raises QuerySyntaxError at a string that is never closed."""
    return [token for token in tokenize_all(query) if token.kind != "comment"]


def tokenize_all(query: str) -> list[Token]:
    """Tokens of a query, comments among them. Raises QuerySyntaxError at a string that is never closed."""
    return list(_at_hand(query) if len(query) <= _SHORT else _read(query))


def _read(query: str) -> tuple[Token, ...]:
    tokens = []
    for match in _TOKEN.finditer(query):
        kind = match.lastgroup
        if kind == "open":
            raise syntax_error(query, match.start(), "the string that begins here is never closed")
        if kind != "space":
            tokens.append(Token(kind, match.group(), match.start()))  # type: ignore[arg-type]  # the groups are kinds
    return tuple(tokens)


_at_hand = lru_cache(64)(_read)
"""The checks and the rewriting of one query each begin with its tokens."""


def check_nesting(query: str, tokens: Sequence[Token]) -> None:
    """Raise QuerySyntaxError at a bracket without counterpart, or too deep."""
    stack: list[Token] = []
    for token in tokens:
        if token.kind != "symbol":
            continue
        if token.text in ")}]":
            if not stack:
                raise syntax_error(query, token.start, f"`{token.text}` closes nothing: remove it or add what opens it")
            opener = stack.pop()
            if token.text != _CLOSES[opener.text]:
                line, column = position(query, opener.start)
                detail = f"expected `{_CLOSES[opener.text]}` for the `{opener.text}` at line {line}, column {column}"
                raise syntax_error(query, token.start, detail)
        elif token.text in _CLOSES:
            stack.append(token)
            if len(stack) > _DEEPEST:
                raise syntax_error(query, token.start, f"brackets are nested more than {_DEEPEST} deep: simplify")
    if stack:
        opener = stack[-1]
        detail = (
            f"the `{opener.text}` here is never closed: expected `{_CLOSES[opener.text]}` before the end of the query"
        )
        raise syntax_error(query, opener.start, detail)


def refuse_oversized(query: str) -> None:
    """Raise QuerySyntaxError for a query that is longer, or has more operators, than parsers take without a crash."""
    if len(query) > _LONGEST_QUERY:
        detail = f"the query is longer than {_LONGEST_QUERY:,} characters: shorten it"
        raise syntax_error(query, _LONGEST_QUERY, detail)
    operators = signs = 0
    for token in tokenize(query):
        operator = token.kind == "symbol" and token.text in _OPERATORS
        operators += operator or token.is_word(*_RECURSIVE)
        if operators > _MOST_OPERATORS:
            detail = (
                f"more than {_MOST_OPERATORS:,} operators, BIND, FILTER, UNION and the like: simplify, or use VALUES"
            )
            raise syntax_error(query, token.start, detail)
        if not (operator and token.text in "!+-"):
            signs = signs if token.text == "(" else 0
            continue
        signs += 1
        if signs > _LONGEST_SIGN:
            raise syntax_error(query, token.start, f"more than {_LONGEST_SIGN} signs such as `!` in a row: simplify")


def edited(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    """The text with parts of it, by start and end, replaced; the parts do not overlap."""
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def join(tokens: Sequence[Token]) -> str:
    """The tokens as text, a space between them where there was any: a sign stays with its number."""
    text = ""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        text += token.text + ("" if after is None or after.start == token.end else " ")
    return text


def position(query: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both counted from 1."""
    before = query[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def syntax_error(query: str, offset: int, detail: str) -> QuerySyntaxError:
    """An error that names line and column and shows the line with a caret under the place."""
    line, column = position(query, offset)
    lines = query.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # A query on one line of several kilobytes is shown in part, or it would drown the message.
    first = max(0, column - 61)
    shown = lines[line - 1][first : first + 120].replace("\t", " ")
    text = f"syntax error at line {line}, column {column}: {detail}\n  {shown}\n  {' ' * (column - 1 - first)}^"
    return QuerySyntaxError(text, line=line, column=column)
