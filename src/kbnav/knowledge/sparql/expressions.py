"""Reads the expressions of a query as trees, by the precedence that SPARQL 1.1 gives its operators (section 19.8).

``kbnav.knowledge.sparql.reading`` finds where they are and what groups their EXISTS have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.cursor import Cursor
from kbnav.knowledge.sparql.syntax import Expression, Group
from kbnav.knowledge.sparql.tokens import Token, join, syntax_error, tokenize

_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


@dataclass(frozen=True)
class Value:
    """A variable (``?name``), an IRI or a literal, as written."""

    text: str


@dataclass(frozen=True)
class Operation:
    """An operator with its operands: ``||``, ``&&``, a comparison, ``IN``, ``NOT IN``, ``+``, ``-``, ``*``, ``/``.

    ``!`` and a ``-`` before one operand have one; ``IN`` has what is looked for, and then the list.
    """

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Function:
    """A function or aggregate; a keyword's name is in upper case, an IRI as written.

    ``star`` where it is ``COUNT(*)``; ``separator`` is the literal that GROUP_CONCAT names.
    """

    name: str
    arguments: tuple[Node, ...] = ()
    distinct: bool = False
    star: bool = False
    separator: str = ""


@dataclass(frozen=True)
class Exists:
    """EXISTS with its group."""

    group: Group


Node = Value | Operation | Function | Exists


@dataclass(frozen=True)
class Key:
    """One of several expressions that stand together: what GROUP BY and ORDER BY list, and HAVING asks."""

    node: Node
    descending: bool = False
    variable: str = ""


def read_expression(query: str, expression: Expression) -> Node:
    """The tree of one expression, a name behind AS left out. Raises QuerySyntaxError where it is none."""
    return _Reader(query, expression).one()


def read_keys(query: str, expression: Expression) -> tuple[Key, ...]:
    """The trees of a modifier's expressions. Raises QuerySyntaxError where there is none."""
    return tuple(_Reader(query, expression).keys())


class _Reader(Cursor):
    """One pass over an expression's tokens."""

    def __init__(self, query: str, expression: Expression) -> None:
        self._place = expression.place
        self._text = query
        super().__init__(tokenize(query[self._place.start : self._place.end]))
        self._groups = iter(expression.groups)

    def _ended(self) -> QuerySyntaxError:
        return syntax_error(self._text, self._place.end, "the expression ends too early")

    def _unexpected(self, token: Token) -> QuerySyntaxError:
        return syntax_error(self._text, self._place.start + token.start, f"`{token.text}` is no operand")

    def one(self) -> Node:
        return self._whole()[0]

    def keys(self) -> Iterator[Key]:
        while self._at < len(self._tokens):
            descending = self._is("DESC")
            self._at += self._is("ASC", "DESC")
            node, variable = self._whole()
            yield Key(node, descending, variable)

    def _whole(self) -> tuple[Node, str]:
        """An operand, and the variable that it sets where it is ``(… AS ?name)``."""
        if not self._is("("):
            return self._primary(), ""
        self._at += 1
        node, variable = self._either(), ""
        if self._accept("AS"):
            variable = "?" + self._take().text[1:]
        self._close()
        return node, variable

    def _close(self) -> None:
        if not self._accept(")"):
            raise self._unexpected(self._next())

    def _either(self) -> Node:
        return self._joined("||", self._both)

    def _both(self) -> Node:
        return self._joined("&&", self._compared)

    def _joined(self, operator: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._accept(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Operation(operator, tuple(parts))

    def _compared(self) -> Node:
        left = self._sum()
        if self._is(*_COMPARISONS):
            return Operation(self._take().text, (left, self._sum()))
        negated = self._accept("NOT")
        if self._accept("IN"):
            return Operation("NOT IN" if negated else "IN", (left, *self._arguments()))
        return left

    def _sum(self) -> Node:
        return self._calculated(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._calculated(("*", "/"), self._signed)

    def _calculated(self, operators: tuple[str, str], part: Callable[[], Node]) -> Node:
        node = part()
        while self._is(*operators):
            node = Operation(self._take().text, (node, part()))
        return node

    def _signed(self) -> Node:
        if self._is("!", "-"):
            return Operation(self._take().text, (self._signed(),))
        self._accept("+")
        return self._primary()

    def _primary(self) -> Node:
        if self._accept("("):
            node = self._either()
            self._close()
            return node
        if self._is("NOT", "EXISTS"):
            return self._exists()
        token = self._take()
        if token.kind == "variable":
            return Value("?" + token.text[1:])
        if token.kind in ("string", "number") or token.is_word("TRUE", "FALSE"):
            return Value(self._literal(token))
        if token.kind not in ("word", "iri", "name"):
            raise self._unexpected(token)
        name = token.text.upper() if token.kind == "word" else token.text
        if self._is("("):
            return self._function(name)
        return Value(token.text)

    def _literal(self, token: Token) -> str:
        parts = [token]
        if self._at < len(self._tokens) and self._next().kind == "language":
            parts.append(self._take())
        elif self._is("^^"):
            parts += [self._take(), self._take()]
        return join(parts)

    def _exists(self) -> Node:
        negated = self._accept("NOT")
        if not self._accept("EXISTS"):
            raise self._unexpected(self._next())
        found = Exists(next(self._groups))
        depth = 0
        while True:
            token = self._take()
            depth += (token.text == "{") - (token.text == "}")
            if not depth:
                return Operation("!", (found,)) if negated else found

    def _arguments(self) -> list[Node]:
        self._accept("(")
        found: list[Node] = []
        while not self._accept(")"):
            found.append(self._either())
            self._accept(",")
        return found

    def _function(self, name: str) -> Function:
        self._at += 1
        distinct = self._accept("DISTINCT")
        star = self._accept("*")
        arguments: list[Node] = []
        separator = ""
        while not self._accept(")"):
            if self._accept(";"):
                self._at += 2  # SEPARATOR =
                separator = self._take().text
            else:
                arguments.append(self._either())
                self._accept(",")
        return Function(name, tuple(arguments), distinct, star, separator)
