"""The structure of a query: its groups and what stands in them, with the place of each in the query's text.

What these classes hold is read by ``kbnav.knowledge.sparql.syntax``; a rewriting replaces the text of one part by its
place and leaves all other text as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.tokens import Token, join, nesting, syntax_error, tokenize


@dataclass(frozen=True)
class Path:
    """A property path (SPARQL 1.1, section 9).

    ``kind`` is ``iri`` (its text in ``name``), ``negated`` (``!`` before a path of IRIs, ``^`` and ``|``), ``^``,
    ``/``, ``|``, or one of ``*``, ``+`` and ``?``.
    """

    kind: Literal["iri", "negated", "^", "/", "|", "*", "+", "?"]
    name: str = ""
    parts: tuple[Path, ...] = ()

    def text(self) -> str:
        """The path as SPARQL."""
        match self.kind:
            case "iri":
                return self.name
            case "negated":
                return f"!({self.parts[0].text()})" if self.parts[0].kind == "|" else f"!{self.parts[0].text()}"
            case "|":
                return "|".join(part.text() for part in self.parts)
            case "/":
                return "/".join(f"({part.text()})" if part.kind in "/|" else part.text() for part in self.parts)
            case "^":
                return f"^({self.parts[0].text()})" if self.parts[0].kind in "/|^" else f"^{self.parts[0].text()}"
            case _:
                inner = self.parts[0].text()
                return f"{inner}{self.kind}" if self.parts[0].kind == "iri" else f"({inner}){self.kind}"


@dataclass(frozen=True)
class Pattern:
    """A triple pattern: texts of subject and object, and a path, or the text of a variable, between them.

    A blank node is ``_:label``; what stands for ``[ … ]`` has a label that no query can write.
    """

    subject: str
    verb: Path | str
    object: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variables, as ``?name``, in the order they are written; blank nodes are none."""
        verb = self.verb if isinstance(self.verb, str) else ""
        return tuple("?" + part[1:] for part in (self.subject, verb, self.object) if is_variable(part))


@dataclass(frozen=True)
class Place:
    """Where something stands: offsets into the query's text."""

    start: int
    end: int


@dataclass(frozen=True)
class Triples:
    """Triple patterns that stand together, a closing full stop among them."""

    place: Place
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class Values:
    """VALUES with its variables, its number of rows and the terms in them; ``total`` where no row has UNDEF."""

    place: Place
    variables: tuple[str, ...]
    rows: int
    terms: tuple[str, ...]
    total: bool


@dataclass(frozen=True)
class Expression:
    """What is read of an expression: its variables, the groups of its EXISTS, and its literals outside of those.

    ``kbnav.knowledge.sparql.syntax`` reads the rest, from its place.
    """

    variables: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    literals: tuple[str, ...] = ()
    place: Place = Place(0, 0)


@dataclass(frozen=True)
class Filter:
    """FILTER with its expression."""

    place: Place
    expression: Expression

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables outside the groups of EXISTS."""
        return self.expression.variables

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of EXISTS."""
        return self.expression.groups


@dataclass(frozen=True)
class Bind:
    """BIND with the variable it sets."""

    place: Place
    variable: str
    expression: Expression

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of EXISTS."""
        return self.expression.groups


@dataclass(frozen=True)
class Nested:
    """Groups in a group: one group or a UNION of several, OPTIONAL, MINUS, LATERAL, GRAPH or SERVICE.

    ``name`` is what GRAPH and SERVICE name.
    """

    place: Place
    kind: Literal["UNION", "OPTIONAL", "MINUS", "LATERAL", "GRAPH", "SERVICE"]
    groups: tuple[Group, ...]
    name: str = ""


@dataclass(frozen=True)
class Include:
    """Blazegraph's INCLUDE of a named subquery (``name``: ``%name``), with the variables that this shows."""

    place: Place
    variables: tuple[str, ...]
    name: str = ""


Element = Triples | Values | Filter | Bind | Nested | Include


@dataclass(frozen=True)
class Modifier:
    """GROUP BY, HAVING, ORDER BY, LIMIT or OFFSET; ``number`` is that of the last two."""

    kind: str
    expression: Expression = Expression()
    number: int = 0


@dataclass(frozen=True)
class Tail:
    """What stands behind a query's outermost group."""

    modifiers: tuple[Modifier, ...] = ()
    values: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Select:
    """A SELECT, the query's own or a subquery's; ``star`` is the place of its ``*``, which ``variables`` is without.

    ``expressions`` are those it computes, ``computed`` the variables they set, empty for one without a name (Blazegraph
    takes that), ``named`` its named subqueries by name (``WITH { … } AS %name``, Blazegraph's too). ``distinct`` also
    where it is REDUCED.
    """

    where: Group
    variables: tuple[str, ...]
    star: Place | None
    expressions: tuple[Expression, ...] = ()
    computed: tuple[str, ...] = ()
    named: tuple[tuple[str, Select], ...] = ()
    tail: Tail = Tail()
    distinct: bool = False
    place: Place = Place(0, 0)

    @property
    def visible(self) -> tuple[str, ...]:
        """The variables of its rows, a ``*`` spelled out."""
        if self.star is None:
            return self.variables
        behind = (name for values in self.tail.values for name in values.variables)
        return tuple(dict.fromkeys((*self.where.visible, *behind)))


@dataclass(frozen=True)
class Group:
    """``{ … }`` with its elements in order, or with a subquery."""

    place: Place
    elements: tuple[Element, ...] = ()
    select: Select | None = None

    @property
    def visible(self) -> tuple[str, ...]:
        """The variables that it binds, or may bind, for what is around it, in the order they are written."""
        if self.select is not None:
            return self.select.visible
        return tuple(dict.fromkeys(name for element in self.elements for name in _shown(element)))

    @property
    def certain(self) -> frozenset[str]:
        """The variables that have a value in each of its solutions, as far as that is easily seen."""
        found: set[str] = set()
        for element in self.elements:
            found |= certain(element)
        return frozenset(found)


@dataclass(frozen=True)
class Query:
    """A query; ``select`` is None for ASK, CONSTRUCT and DESCRIBE, which have their own ``tail``.

    ``prologue`` is the text of its declarations, ``where`` empty where there is none (DESCRIBE).
    """

    form: str
    prologue: str
    where: Group
    tail: Tail = Tail()
    select: Select | None = None


def subqueries(group: Group) -> Iterator[Select]:
    """The SELECTs in a group, at any depth."""
    if group.select is not None:
        yield group.select
        yield from subqueries(group.select.where)
    for element in group.elements:
        if isinstance(element, Filter | Bind | Nested):
            for inner in element.groups:
                yield from subqueries(inner)


def groups_of(group: Group) -> Iterator[Group]:
    """A group and all in it, those of subqueries and of EXISTS too."""
    yield group
    if group.select is not None:
        for select in (*(one for _, one in group.select.named), group.select):
            yield from groups_of(select.where)
    for element in group.elements:
        if isinstance(element, Filter | Bind | Nested):
            for inner in element.groups:
                yield from groups_of(inner)


def bound_variables(query: Query) -> Iterator[str]:
    """The variables that something in a query gives a value; some more than once."""
    selects = [select for _, select in query.select.named] if query.select else []
    for where in (query.where, *(select.where for select in selects)):
        for group in groups_of(where):
            yield from group.visible
    for select in (*((query.select,) if query.select else ()), *selects, *subqueries(query.where)):
        yield from filter(None, select.computed)


def is_variable(text: str) -> bool:
    """Whether a term is written as a variable."""
    return text.startswith(("?", "$"))


def certain(element: Element) -> frozenset[str]:
    """The variables that an element binds in each solution, as far as that is easily seen."""
    match element:
        case Triples(patterns=patterns):
            return frozenset(name for pattern in patterns for name in pattern.variables)
        case Values(variables=names, total=True):
            return frozenset(names)
        case Nested(kind="UNION" | "LATERAL", groups=groups):
            return frozenset.intersection(*(group.certain for group in groups))
    return frozenset()


def _shown(element: Element) -> tuple[str, ...]:
    match element:
        case Triples(patterns=patterns):
            return tuple(name for pattern in patterns for name in pattern.variables)
        case Values(variables=names) | Include(variables=names):
            return names
        case Bind(variable=name):
            return (name,)
        case Filter() | Nested(kind="MINUS"):
            return ()
        case Nested(groups=groups, name=name):
            inner = tuple(shown for group in groups for shown in group.visible)
            return ("?" + name[1:], *inner) if is_variable(name) else inner


class Cursor(ABC):
    """The tokens of a query, and in ``_at`` the one that comes next."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @abstractmethod
    def _ended(self) -> Exception:
        """What is raised where the query ends and more is expected."""

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise self._ended()
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next()
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        """Whether a word or symbol among ``texts`` comes next."""
        if self._at >= len(self._tokens):
            return False
        token = self._tokens[self._at]
        return token.kind in ("word", "symbol") and token.text.upper() in texts

    def _accept(self, *texts: str) -> bool:
        """Move on where one of ``texts`` comes next, and say whether it did."""
        accepted = self._is(*texts)
        self._at += accepted
        return accepted


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
    return _Reader_expressions(query, expression).one()


def read_keys(query: str, expression: Expression) -> tuple[Key, ...]:
    """The trees of a modifier's expressions. Raises QuerySyntaxError where there is none."""
    return tuple(_Reader_expressions(query, expression).keys())


class _Reader_expressions(Cursor):
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
