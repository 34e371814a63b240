"""Reads the structure of a query along the grammar of SPARQL 1.1 (section 19.8).

With Oxigraph's ``LATERAL`` and Blazegraph's named subqueries and triples without a full stop between them, over the
project's own tokens. Of expressions only what counts is read: variables, literals and the groups of EXISTS.
A parser for the standard would not do: RDFLib's refuses a tenth of SPINACH's gold queries (Blazegraph's ``WITH … AS
%name``) and a sixth of WikiWebQuestions' (no full stops), and takes fifty times as long.
"""

from __future__ import annotations

from itertools import count

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.cursor import Cursor
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Expression,
    Filter,
    Group,
    Include,
    Modifier,
    Nested,
    Path,
    Pattern,
    Place,
    Query,
    Select,
    Tail,
    Triples,
    Values,
)
from kbnav.knowledge.sparql.tokens import Token, join, nesting, syntax_error, tokenize

_ELEMENTS = ("OPTIONAL", "MINUS", "LATERAL", "GRAPH", "SERVICE", "FILTER", "BIND", "VALUES", "INCLUDE", "UNION")
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
_NAMED = "a named subquery"


class UnreadQuery(Exception):
    """A query that is not rewritten here: an update, no SPARQL, or with a collection or a named subquery in it."""


def parse_query(text: str) -> Query:
    """The structure of a query. Raises QuerySyntaxError, with the place, where it is none."""
    return _Reader(text).query()


def read_query(text: str, *, named: bool = False) -> Query:
    """The structure of a query that can be rewritten by its parts; ``named``: also where it has named subqueries.

    Raises UnreadQuery, and QuerySyntaxError where strings or brackets do not close.
    """
    reader = _Reader(text)
    try:
        query = reader.query()
    except QuerySyntaxError as error:
        raise UnreadQuery(str(error)) from error
    beyond = reader.beyond - ({_NAMED} if named else set())
    if beyond:
        raise UnreadQuery(" and ".join(sorted(beyond)))
    return query


class _Found:
    """What has been seen of an expression."""

    def __init__(self) -> None:
        self.variables: list[str] = []
        self.groups: list[Group] = []
        self.literals: list[str] = []

    def expression(self, place: Place) -> Expression:
        return Expression(tuple(self.variables), tuple(self.groups), tuple(self.literals), place)


class _Reader(Cursor):
    """One pass over a query's tokens; each method leaves ``_at`` behind what it read."""

    def __init__(self, text: str) -> None:
        tokens = tokenize(text)
        super().__init__(tokens)
        self.beyond: set[str] = set()
        """What the query has that its structure does not tell in full, or that few engines know."""
        self._text = text
        nesting(text, tokens)
        self._unnamed = count(1)
        self._named: dict[str, tuple[str, ...]] = {}

    def _ended(self) -> QuerySyntaxError:
        return syntax_error(self._text, len(self._text), "the query ends too early")

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f"`{text}`")

    def _unexpected(self, wanted: str) -> QuerySyntaxError:
        token = self._next()
        return syntax_error(self._text, token.start, f"expected {wanted}, found `{token.text[:40]}`")

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
            query = Query(form, prologue, select.where, select=select)
        elif form in ("ASK", "CONSTRUCT", "DESCRIBE"):
            self._at += 1
            query = Query(form, prologue, self._described(form), self._tail())
        else:
            raise self._unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE")
        if self._at < len(self._tokens):
            raise self._unexpected("the end of the query")
        return query

    def _described(self, form: str) -> Group:
        """The group of a query that is no SELECT."""
        if form == "CONSTRUCT" and self._is("{"):
            beyond = set(self.beyond)
            self._group()  # the template makes triples and matches none
            self.beyond = beyond
        if form == "DESCRIBE":
            while self._at < len(self._tokens) and (self._next().kind in ("variable", "iri", "name") or self._is("*")):
                self._at += 1
            if self._at == len(self._tokens):
                self.beyond.add("DESCRIBE without a pattern")
                return Group(Place(len(self._text), len(self._text)))
        return self._where()

    def _where(self) -> Group:
        while self._accept("FROM"):
            self._accept("NAMED")
            self._at += 1
        self._accept("WHERE")
        return self._group()

    def _select(self) -> Select:
        start = self._next().start
        self._expect("SELECT")
        distinct = self._accept("DISTINCT", "REDUCED")
        variables: list[str] = []
        expressions: list[Expression] = []
        computed: list[str] = []
        named: list[tuple[str, Select]] = []
        star: Place | None = None
        while not self._is("WHERE", "FROM", "{", "WITH"):
            if self._is("*"):
                token = self._take()
                star = Place(token.start, token.end)
            elif self._next().kind == "variable":
                variables.append("?" + self._take().text[1:])
            else:
                expression, name = self._computed()
                expressions.append(expression)
                computed.append(name)
                variables += [name] if name else []
        while self._accept("WITH"):
            named.append(self._subquery())
        where = self._where()
        tail, shown = self._tail(), tuple(variables)
        place = self._since(start)
        return Select(where, shown, star, tuple(expressions), tuple(computed), tuple(named), tail, distinct, place)

    def _computed(self) -> tuple[Expression, str]:
        """``(… AS ?name)``, or as Blazegraph takes it, without a name; the expression and the variable."""
        start, found = self._at, _Found()
        self._operand(found)
        read = self._tokens[start : self._at]
        aliased = len(read) > 3 and read[-3].is_word("AS") and read[-2].kind == "variable"
        return found.expression(self._since(read[0].start)), found.variables[-1] if aliased else ""

    def _subquery(self) -> tuple[str, Select]:
        """A named subquery, behind WITH."""
        self.beyond.add(_NAMED)
        self._expect("{")
        select = self._select()
        self._expect("}")
        self._expect("AS")
        name = self._take().text
        self._named[name] = select.visible
        return name, select

    def _tail(self) -> Tail:
        modifiers: list[Modifier] = []
        values: list[Values] = []
        while self._is(*_MODIFIERS):
            if self._is("VALUES"):
                values.append(self._values())
                continue
            kind, found = self._take().text.upper(), _Found()
            if kind in ("GROUP", "ORDER"):
                self._expect("BY")
                kind += " BY"
            start, number = self._next().start, 0
            if kind in ("LIMIT", "OFFSET"):
                number = self._number()
            else:
                while self._at < len(self._tokens) and not self._is("}", *_MODIFIERS):
                    self._operand(found)
            modifiers.append(Modifier(kind, found.expression(self._since(start)), number))
        return Tail(tuple(modifiers), tuple(values))

    # Groups

    def _group(self) -> Group:
        start = self._next().start
        self._expect("{")
        elements: list[Element] = []
        select = self._select() if self._is("SELECT") else None
        while not self._accept("}"):
            if select is not None:
                raise self._unexpected("`}` behind the subquery")
            if not self._accept("."):
                elements.append(self._element())
        return Group(self._since(start), tuple(elements), select)

    def _element(self) -> Element:
        start = self._next().start
        if self._is("{"):
            groups = [self._group()]
            while self._accept("UNION"):
                groups.append(self._group())
            return Nested(self._since(start), "UNION", tuple(groups))
        if self._is("VALUES"):
            return self._values()
        if not self._is(*_ELEMENTS):
            return self._triples()
        kind, name = self._take().text.upper(), ""
        match kind:
            case "FILTER" | "BIND":
                return self._expression(kind, start)
            case "GRAPH" | "SERVICE":
                self._accept("SILENT")
                name = self._term()
                return Nested(self._since(start), kind, (self._group(),), name)
            case "OPTIONAL" | "MINUS" | "LATERAL":
                inner = (self._group(),)
                return Nested(self._since(start), kind, inner)
            case "INCLUDE":
                self.beyond.add(_NAMED)
                name = self._take().text
                return Include(self._since(start), self._named.get(name, ()), name)
        self._at -= 1
        raise self._unexpected("a pattern")

    def _expression(self, kind: str, start: int) -> Filter | Bind:
        found, opened = _Found(), self._next().start
        self._operand(found)
        place, expression = self._since(start), found.expression(self._since(opened))
        if kind == "FILTER":
            return Filter(place, expression)
        if not found.variables:
            raise syntax_error(self._text, start, "BIND sets no variable: write BIND(… AS ?name)")
        return Bind(place, found.variables[-1], expression)

    def _operand(self, found: _Found) -> None:
        """One operand and the bracket behind it, if any: ``?x``, ``(…)``, ``year(…)``, ``NOT EXISTS {…}``."""
        if self._accept("EXISTS"):
            found.groups.append(self._group())
        elif self._accept("("):
            while not self._accept(")"):
                self._operand(found)
        elif self._next().kind in ("string", "number") or self._is("TRUE", "FALSE"):
            found.literals.append(self._literal())
        else:
            taken = self._take()
            if taken.kind == "variable":
                found.variables.append("?" + taken.text[1:])
            if taken.is_word("NOT") or (taken.kind in ("word", "name", "iri") and self._is("(")):
                self._operand(found)

    def _number(self) -> int:
        token = self._take()
        return int(token.text) if token.kind == "number" and token.text.isdecimal() else 0

    def _values(self) -> Values:
        start = self._take().start
        variables: list[str] = []
        single = not self._is("(")
        while not self._accept("{"):
            token = self._take()
            if token.kind == "variable":
                variables.append("?" + token.text[1:])
        terms: list[str] = []
        bracketed = undefined = 0
        while not self._accept("}"):
            if self._accept("("):
                bracketed += 1
            elif self._accept("UNDEF"):
                undefined += 1
            elif not self._accept(")"):
                terms.append(self._term())
        rows = len(terms) + undefined if single else bracketed
        return Values(self._since(start), tuple(variables), rows, tuple(terms), not undefined)

    # Triples

    def _triples(self) -> Triples:
        start = self._next().start
        patterns: list[Pattern] = []
        while True:
            described = self._is("[", "(")
            subject = self._node(patterns)
            if not described or not self._is(".", "{", "}", *_ELEMENTS):
                self._properties(subject, patterns)
            stop = self._accept(".")
            if not stop or self._is("}", "{", *_ELEMENTS) or self._at >= len(self._tokens):
                return Triples(self._since(start), tuple(patterns))

    def _properties(self, subject: str, patterns: list[Pattern]) -> None:
        while True:
            verb = self._term() if self._next().kind == "variable" else self._path()
            while True:
                patterns.append(Pattern(subject, verb, self._node(patterns)))
                if not self._accept(","):
                    break
            if not self._accept(";"):
                return
            while self._accept(";"):
                pass
            if self._is(".", "{", "}", "]", *_ELEMENTS):
                return

    def _node(self, patterns: list[Pattern]) -> str:
        """The text of a subject or object; ``[ … ]`` puts its own patterns among the others, a list what is in it."""
        if not self._is("[", "("):
            return self._term()
        listed = self._take().text == "("
        name = f"_: {next(self._unnamed)}"
        if listed:
            self.beyond.add("a collection")
            while not self._is(")"):
                self._node(patterns)
        elif not self._is("]"):
            self._properties(name, patterns)
        self._expect(")" if listed else "]")
        return name

    def _term(self) -> str:
        token = self._next()
        if token.kind in ("variable", "iri", "name", "blank"):
            self._at += 1
            return "?" + token.text[1:] if token.kind == "variable" else token.text
        return self._literal()

    def _literal(self) -> str:
        """A string with its language or datatype, a number, or a truth value, as it is written."""
        sign = self._take().text if self._is("+", "-") else ""
        token = self._next()
        if not (token.kind in ("string", "number") or (token.is_word("TRUE", "FALSE") and not sign)):
            raise self._unexpected("a term")
        parts: list[Token] = [self._take()]
        if self._at < len(self._tokens) and self._next().kind == "language":
            parts.append(self._take())
        elif self._is("^^"):
            parts += [self._take(), self._take()]
        return sign + join(parts)

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
        if self._accept("("):
            path = self._path()
            self._expect(")")
            return path
        if self._accept("!"):
            return Path("negated", parts=(self._step(),))
        if self._next().kind not in ("iri", "name") and not self._next().is_word("A"):
            raise self._unexpected("a property")
        return Path("iri", self._take().text)
