"""Reads the structure of a query along the grammar of SPARQL 1.1 (section 19.8) and Oxigraph's ``LATERAL``.

Over the project's own tokens. Expressions are not read, only the groups of EXISTS in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from kbnav.knowledge.sparql.cursor import Cursor
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Filter,
    Group,
    Nested,
    Path,
    Pattern,
    Place,
    Query,
    Select,
    Triples,
    Values,
)
from kbnav.knowledge.sparql.tokens import join, nesting, tokenize

_ELEMENTS = ("OPTIONAL", "MINUS", "LATERAL", "GRAPH", "SERVICE", "FILTER", "BIND", "VALUES", "INCLUDE", "UNION")


class UnreadQuery(Exception):
    """A query with something that is not read here: an update, a collection, Blazegraph's named subqueries."""


def read_query(text: str) -> Query:
    """The structure of a query. Raises UnreadQuery, and QuerySyntaxError where strings or brackets do not close."""
    return _Reader(text).query()


def subqueries(group: Group) -> Iterator[Select]:
    """The SELECTs in a group, at any depth."""
    if group.select is not None:
        yield group.select
        yield from subqueries(group.select.where)
    for element in group.elements:
        if not isinstance(element, Triples | Values):
            for inner in element.groups:
                yield from subqueries(inner)


class _Reader(Cursor):
    """One pass over a query's tokens; each method leaves ``_at`` behind what it read."""

    def __init__(self, text: str) -> None:
        tokens = tokenize(text)
        super().__init__(tokens)
        self._text = text
        self._close = nesting(text, tokens).close
        self._unnamed = count(1)

    def _ended(self) -> UnreadQuery:
        return UnreadQuery("the query ends too early")

    def _since(self, start: int) -> Place:
        """From an offset to behind what was read last."""
        return Place(start, self._tokens[self._at - 1].end)

    # Query forms

    def query(self) -> Query:
        while self._is("PREFIX", "BASE"):
            self._at += 3 if self._is("PREFIX") else 2
        prologue, form = self._text[: self._next().start], self._next().text.upper()
        if form == "SELECT":
            select = self._select()
            return Query(form, prologue, select.where, select)
        if form not in ("ASK", "CONSTRUCT", "DESCRIBE"):
            raise UnreadQuery(form)
        self._at += 1
        if form == "CONSTRUCT" and self._is("{"):
            self._at = self._close[self._at] + 1
        self._skip_to_group()
        return Query(form, prologue, self._group())

    def _skip_to_group(self) -> None:
        while not self._is("{"):
            self._take()

    def _select(self) -> Select:
        self._at += 1
        variables: list[str] = []
        star: Place | None = None
        while not self._is("WHERE", "FROM", "{"):
            token = self._next()
            if token.kind == "variable":
                variables.append("?" + token.text[1:])
            elif token.text == "*":
                star = Place(token.start, token.end)
            elif token.text == "(":
                self._at = self._close[self._at]
                variables.append("?" + self._tokens[self._at - 1].text[1:])
            self._at += 1
        self._skip_to_group()
        return Select(self._group(), tuple(variables), star)

    # Groups

    def _group(self) -> Group:
        if not self._is("{"):
            raise UnreadQuery(self._next().text)
        start, close = self._next().start, self._close[self._at]
        self._at += 1
        elements: list[Element] = []
        select = self._select() if self._is("SELECT") else None
        if select is not None:
            self._at = close  # what is behind its group orders and limits
        while self._at < close:
            if not self._accept("."):
                elements.append(self._element())
        if self._at != close:
            raise UnreadQuery("a part that reaches beyond its group")
        self._at += 1
        return Group(self._since(start), tuple(elements), select)

    def _element(self) -> Element:
        start = self._next().start
        if self._is("{"):
            groups = [self._group()]
            while self._accept("UNION"):
                groups.append(self._group())
            return Nested(self._since(start), "UNION", tuple(groups))
        if self._is("FILTER", "BIND"):
            return self._expression()
        if self._is("VALUES"):
            return self._values()
        if not self._is(*_ELEMENTS):
            return self._triples()
        kind, name = self._take().text.upper(), ""
        while not self._is("{"):
            name = self._take().text
        match kind:
            case "OPTIONAL" | "MINUS" | "LATERAL" | "GRAPH" | "SERVICE":
                inner = (self._group(),)
                return Nested(self._since(start), kind, inner, name)
        raise UnreadQuery(kind)

    def _expression(self) -> Filter | Bind:
        start, kind = self._next().start, self._take().text.upper()
        if self._accept("NOT") or self._is("EXISTS"):
            self._at += 1
            inner = (self._group(),)
            return Filter(self._since(start), (), inner)
        while not self._is("("):  # a function
            self._take()
        close = self._close[self._at]
        variables: list[str] = []
        groups: list[Group] = []
        while self._at < close:
            if self._is("{"):
                groups.append(self._group())
                continue
            token = self._take()
            if token.kind == "variable":
                variables.append("?" + token.text[1:])
        self._at += 1
        place = self._since(start)
        if kind == "FILTER":
            return Filter(place, tuple(variables), tuple(groups))
        if not variables:
            raise UnreadQuery("BIND without a variable")
        return Bind(place, variables[-1], tuple(groups))

    def _values(self) -> Values:
        start = self._take().start
        variables: list[str] = []
        single = not self._is("(")
        while not self._is("{"):
            token = self._take()
            if token.kind == "variable":
                variables.append("?" + token.text[1:])
        opened, close = self._at, self._close[self._at]
        inside = self._tokens[opened + 1 : close]
        # A term has one token, but for its language or datatype.
        terms = [token for token in inside if token.kind in ("iri", "name", "string", "number", "word")]
        typed = sum(token.text == "^" for token in inside) // 2 + sum(token.text == "^^" for token in inside)
        rows = len(terms) - typed if single else sum(token.text == "(" for token in inside)
        self._at = close + 1
        total = not any(token.is_word("UNDEF") for token in inside)
        return Values(self._since(start), tuple(variables), rows, total)

    # Triples

    def _triples(self) -> Triples:
        start = self._next().start
        patterns: list[Pattern] = []
        while True:
            described = self._is("[")
            subject = self._node(patterns)
            if not described or not self._is(".", "}"):
                self._properties(subject, patterns)
            stop = self._accept(".")
            if not stop or self._is("}", "{", *_ELEMENTS) or self._at >= len(self._tokens):
                return Triples(self._since(start), tuple(patterns))

    def _properties(self, subject: str, patterns: list[Pattern]) -> None:
        while True:
            verb = "?" + self._take().text[1:] if self._next().kind == "variable" else self._path()
            while True:
                patterns.append(Pattern(subject, verb, self._node(patterns)))
                if not self._accept(","):
                    break
            if not self._accept(";"):
                return
            while self._accept(";"):
                pass
            if self._is(".", "}", "]", *_ELEMENTS):
                return

    def _node(self, patterns: list[Pattern]) -> str:
        """The text of a subject or object; ``[ … ]`` puts its own patterns among the others."""
        token = self._take()
        if token.text == "[":
            name = f"_: {next(self._unnamed)}"
            if not self._is("]"):
                self._properties(name, patterns)
            if not self._accept("]"):
                raise UnreadQuery(self._next().text)
            return name
        if token.kind == "variable":
            return "?" + token.text[1:]
        if token.kind in ("iri", "name", "blank") or token.is_word("TRUE", "FALSE") or token.kind == "number":
            return token.text
        if token.text in ("+", "-") and self._next().kind == "number":
            return token.text + self._take().text
        if token.kind != "string":
            raise UnreadQuery(token.text)
        parts = [token]
        if self._next().kind == "language":
            parts.append(self._take())
        elif self._is("^^"):
            parts += [self._take(), self._take()]
        return join(parts)

    # Paths

    def _path(self) -> Path:
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Path("|", parts=tuple(parts))

    def _sequence(self) -> Path:
        parts = [self._step()]
        while self._accept("/"):
            parts.append(self._step())
        return parts[0] if len(parts) == 1 else Path("/", parts=tuple(parts))

    def _step(self) -> Path:
        if self._accept("^"):
            return Path("^", parts=(self._step(),))
        path = self._primary()
        for kind in ("*", "+", "?"):
            if self._accept(kind):
                return Path(kind, parts=(path,))
        return path

    def _primary(self) -> Path:
        first = self._at
        if self._accept("("):
            path = self._path()
            if not self._accept(")"):
                raise UnreadQuery(self._next().text)
            return path
        if self._accept("!"):
            self._accept("^")
            self._at = self._close[self._at] + 1 if self._is("(") else self._at + 1
            return Path("negated", join(self._tokens[first : self._at]))
        token = self._take()
        if token.kind not in ("iri", "name") and token.text != "a":
            raise UnreadQuery(token.text)
        return Path("iri", token.text)
