"""Parses a query to its syntax tree, along the grammar of SPARQL 1.1 (section 19.8).

With Oxigraph's ``LATERAL``, and what Blazegraph takes beyond the standard: named subqueries, and triples without a full
stop between them. Every part knows its place in the text, so that a rewriting replaces one and leaves all other text.
A parser for the standard would not do: RDFLib's refuses a tenth of SPINACH's gold queries (``WITH … AS %name``) and a
sixth of WikiWebQuestions' (no full stops), and takes fifty times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, islice
from operator import attrgetter
from typing import Literal, TypeVar

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.tokens import Token, check_nesting, join, syntax_error, tokenize


@dataclass(frozen=True)
class Path:
    """A property path: ``iri`` (its text in ``name``), ``negated``, or ``^``, ``/``, ``|``, ``*``, ``+``, ``?``."""

    kind: Literal["iri", "negated", "^", "/", "|", "*", "+", "?"]
    name: str = ""
    parts: tuple[Path, ...] = ()

    def text(self) -> str:
        """The path as SPARQL."""
        if self.kind == "iri":
            return self.name
        inner = [part.text() for part in self.parts]
        match self.kind:
            case "negated":
                return f"!({inner[0]})" if self.parts[0].kind == "|" else f"!{inner[0]}"
            case "|":
                return "|".join(inner)
            case "/":
                return "/".join(
                    f"({text})" if part.kind in "/|" else text for part, text in zip(self.parts, inner, strict=True)
                )
            case "^":
                return f"^({inner[0]})" if self.parts[0].kind in "/|^" else f"^{inner[0]}"
            case _:
                return f"{inner[0]}{self.kind}" if self.parts[0].kind == "iri" else f"({inner[0]}){self.kind}"

    def steps(self, back: bool = False) -> list[tuple[Path, bool]]:
        """The steps of a sequence, each with whether it is gone backwards."""
        if self.kind == "^":
            return self.parts[0].steps(not back)
        if self.kind == "/":
            return [step for part in (reversed(self.parts) if back else self.parts) for step in part.steps(back)]
        return [(self, back)]


@dataclass(frozen=True)
class Pattern:
    """A triple pattern by its texts; a blank node is ``_:label``, for ``[ … ]`` one that no query can write."""

    subject: str
    verb: Path | str
    object: str

    @property
    def relation(self) -> str:
        """The name of its property as written; empty where the verb is a variable or a path of several."""
        return self.verb.name if isinstance(self.verb, Path) and self.verb.kind == "iri" else ""

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variables, as ``?name``, in the order they are written; blank nodes are none."""
        verb = self.verb if isinstance(self.verb, str) else ""
        return tuple("?" + part[1:] for part in (self.subject, verb, self.object) if is_variable(part))

    def apart(self, between: Iterator[str]) -> list[Pattern]:
        """A pattern for each step of its path, forwards; ``between`` them are new variables."""
        steps: Sequence[tuple[Path | str, bool]]
        steps = [(self.verb, False)] if isinstance(self.verb, str) else self.verb.steps()
        ends = [self.subject, *islice(between, len(steps) - 1), self.object]
        placed = zip(steps, ends, ends[1:], strict=False)
        return [Pattern(end, step, start) if back else Pattern(start, step, end) for (step, back), start, end in placed]

    def text(self) -> str:
        """The pattern as SPARQL."""
        return f"{self.subject} {self.verb if isinstance(self.verb, str) else self.verb.text()} {self.object}"


@dataclass(frozen=True)
class Place:
    """Where something stands: offsets into the query's text."""

    start: int
    end: int

    def of(self, query: str) -> str:
        """The text there."""
        return query[self.start : self.end]

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True)
class Value:
    """An operand of an expression: a variable (``?name``), an IRI or a literal, as written."""

    text: str
    place: Place = field(default=Place(0, 0), compare=False)


@dataclass(frozen=True)
class Call:
    """An operator, function or aggregate with its operands.

    ``name`` is the operator (``IN`` and ``NOT IN`` have what is looked for, and then the list), a function's keyword in
    upper case, or its IRI as written. ``star`` where it is ``COUNT(*)``; ``separator`` is the literal of GROUP_CONCAT.
    """

    name: str
    arguments: tuple[Node, ...] = ()
    distinct: bool = False
    star: bool = False
    separator: str = ""
    place: Place = field(default=Place(0, 0), compare=False)


@dataclass(frozen=True)
class Exists:
    """EXISTS with its group."""

    group: Group
    place: Place = field(default=Place(0, 0), compare=False)


Node = Value | Call | Exists


@dataclass(frozen=True)
class Expression:
    """An expression, with the variable that AS sets and whether ORDER BY sorts by it downwards."""

    node: Node
    place: Place
    variable: str = ""
    descending: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it reads, those in groups of EXISTS left out."""
        return tuple(node.text for node in nodes_of(self.node) if isinstance(node, Value) and is_variable(node.text))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of EXISTS."""
        return tuple(node.group for node in nodes_of(self.node) if isinstance(node, Exists))


def nodes_of(node: Node) -> Iterator[Node]:
    """A node of an expression and those below it, groups of EXISTS left out."""
    waiting = [node]
    while waiting:
        yield (one := waiting.pop())
        waiting += reversed(one.arguments) if isinstance(one, Call) else ()


@dataclass(frozen=True)
class Triples:
    """Triple patterns that stand together, a closing full stop among them; ``subjects`` with where theirs stand."""

    place: Place
    patterns: tuple[Pattern, ...]
    subjects: tuple[tuple[str, Place], ...] = ()


@dataclass(frozen=True)
class Values:
    """VALUES with its variables, its number of rows and the terms in them; ``total`` where no row has UNDEF."""

    place: Place
    variables: tuple[str, ...]
    rows: int
    terms: tuple[str, ...]
    total: bool


@dataclass(frozen=True)
class _WithExpression:
    place: Place
    expression: Expression

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of EXISTS."""
        return self.expression.groups


class Filter(_WithExpression):
    """FILTER with its expression."""


class Bind(_WithExpression):
    """BIND with its expression, which names the variable it sets."""


@dataclass(frozen=True)
class Nested:
    """Groups in a group: a UNION, OPTIONAL, MINUS, LATERAL, or a GRAPH or SERVICE of this ``name``."""

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
E = TypeVar("E", bound=Element)


@dataclass(frozen=True)
class Modifier:
    """GROUP BY, HAVING, ORDER BY, LIMIT or OFFSET; ``number`` is that of the last two."""

    kind: str
    place: Place
    expressions: tuple[Expression, ...] = ()
    number: int = 0


@dataclass(frozen=True)
class Tail:
    """What stands behind a query's outermost group."""

    modifiers: tuple[Modifier, ...] = ()
    values: tuple[Values, ...] = ()

    def keys(self, kind: str) -> tuple[Expression, ...]:
        """The expressions of GROUP BY, HAVING or ORDER BY."""
        return tuple(key for one in self.modifiers if one.kind == kind for key in one.expressions)


@dataclass(frozen=True)
class Select:
    """A SELECT, the query's own or a subquery's; ``star`` is the place of its ``*``, which ``variables`` is without.

    ``named`` are its named subqueries by name (``WITH { … } AS %name``), which stand in ``prepared``. ``distinct`` also
    where it is REDUCED.
    """

    where: Group
    variables: tuple[str, ...]
    star: Place | None
    expressions: tuple[Expression, ...] = ()
    named: tuple[tuple[str, Select], ...] = ()
    tail: Tail = Tail()
    distinct: bool = False
    place: Place = Place(0, 0)
    prepared: Place = Place(0, 0)

    @property
    def computed(self) -> tuple[str, ...]:
        """The variables that its expressions set, empty for one without a name, which Blazegraph takes."""
        return tuple(one.variable for one in self.expressions)

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
        return tuple(dict.fromkeys(name for element in self.elements for name in visible(element)))

    @property
    def certain(self) -> frozenset[str]:
        """The variables that have a value in each of its solutions, as far as that is easily seen."""
        return frozenset().union(*map(certain, self.elements))


@dataclass(frozen=True)
class Query:
    """A query; ``select`` is None for ASK, CONSTRUCT and DESCRIBE.

    ``prologue`` is the text of its declarations, ``where`` empty where there is none (DESCRIBE). ``loose`` are the
    places of triples that no full stop divides from those before, as Blazegraph takes them. ``groups``, ``selects`` and
    ``expressions`` are all that it has at any depth, in the order they begin. ``beyond``: what of it the structure does
    not tell in full, or few engines know.
    """

    form: str
    prologue: str
    where: Group
    tail: Tail = Tail()
    select: Select | None = None
    loose: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    selects: tuple[Select, ...] = ()
    expressions: tuple[Expression, ...] = ()
    beyond: frozenset[str] = frozenset()

    @property
    def patterns(self) -> list[Pattern]:
        """Its triple patterns, at any depth."""
        return [pattern for element in self.elements(Triples) for pattern in element.patterns]

    def elements(self, kind: type[E]) -> Iterator[E]:
        """Its elements of a kind, at any depth."""
        return (one for group in self.groups for one in group.elements if isinstance(one, kind))


def is_variable(text: str) -> bool:
    """Whether a term is written as a variable."""
    return text.startswith(("?", "$"))


def is_literal(text: str) -> bool:
    """Whether a term is written as a literal: a string, a number or a truth value."""
    return text[:1] in ("'", '"', "+", "-", ".") or text[:1].isdigit() or text.lower() in ("true", "false")


def visible(element: Element) -> tuple[str, ...]:
    """The variables that an element binds, or may bind, in the order they are written."""
    match element:
        case Triples(patterns=patterns):
            return tuple(name for pattern in patterns for name in pattern.variables)
        case Values(variables=names) | Include(variables=names):
            return names
        case Bind(expression=expression):
            return (expression.variable,)
        case Filter() | Nested(kind="MINUS"):
            return ()
        case Nested(groups=groups, name=name):
            inner = tuple(shown for group in groups for shown in group.visible)
            return ("?" + name[1:], *inner) if is_variable(name) else inner


def certain(element: Element) -> frozenset[str]:
    """The variables that an element binds in each solution, as far as that is easily seen."""
    match element:
        case Triples():
            return frozenset(visible(element))
        case Values(variables=names, total=True):
            return frozenset(names)
        case Nested(kind="UNION" | "LATERAL", groups=groups):
            return frozenset.intersection(*(group.certain for group in groups))
    return frozenset()


@lru_cache(64)
def parse_query(text: str) -> Query:
    """The structure of a query. Raises QuerySyntaxError, with the place, where it is none."""
    return _Parser(text).query()


def read_query(text: str) -> Query:
    """The structure of a query that can be rewritten by its parts. Raises QuerySyntaxError for any other."""
    query = parse_query(text)
    if query.beyond:
        raise QuerySyntaxError(" and ".join(sorted(query.beyond)))
    return query


_ELEMENTS = ("OPTIONAL", "MINUS", "LATERAL", "GRAPH", "SERVICE", "FILTER", "BIND", "VALUES", "INCLUDE", "UNION")
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
_LEVELS = {"||": 0, "&&": 1, "+": 3, "-": 3, "*": 4, "/": 4} | dict.fromkeys(
    ("=", "!=", "<", ">", "<=", ">=", "IN", "NOT"), 2
)
"""How strongly operators bind."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._beyond: set[str] = set()
        check_nesting(text, self._tokens)
        self._loose: list[int] = []
        self._groups: list[Group] = []
        self._selects: list[Select] = []
        self._expressions: list[Expression] = []
        self._unnamed = count(1)
        self._named: dict[str, tuple[str, ...]] = {}

    # Tokens

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise syntax_error(self._text, len(self._text), "the query ends too early")
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next()
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        token = self._tokens[self._at]
        return token.kind in ("word", "symbol") and token.text.upper() in texts

    def _accept(self, *texts: str) -> bool:
        accepted = self._is(*texts)
        self._at += accepted
        return accepted

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f"`{text}`")

    def _unexpected(self, wanted: str) -> QuerySyntaxError:
        token = self._next()
        return syntax_error(self._text, token.start, f"expected {wanted}, found `{token.text[:40]}`")

    def _since(self, start: int) -> Place:
        return Place(start, self._tokens[self._at - 1].end)

    # Query forms

    def query(self) -> Query:
        while self._is("PREFIX", "BASE"):
            self._at += 3 if self._is("PREFIX") else 2
        prologue, form = self._text[: self._next().start], self._next().text.upper()
        select, tail = None, Tail()
        if form == "SELECT":
            select = self._select()
            where, tail = select.where, select.tail
        elif form in ("ASK", "CONSTRUCT", "DESCRIBE"):
            self._at += 1
            where, tail = self._described(form), self._tail()
        else:
            raise self._unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE")
        if self._at < len(self._tokens):
            raise self._unexpected("the end of the query")
        order = attrgetter("place.start")
        return Query(
            form,
            prologue,
            where,
            tail,
            select,
            tuple(self._loose),
            tuple(sorted(self._groups, key=order)),
            tuple(sorted(self._selects, key=order)),
            tuple(sorted(self._expressions, key=order)),
            frozenset(self._beyond),
        )

    def _described(self, form: str) -> Group:
        if form == "CONSTRUCT" and self._is("{"):
            beyond = set(self._beyond)
            self._group()  # the template makes triples and matches none
            self._beyond = beyond
            self._groups.clear()
        if form == "DESCRIBE":
            while self._at < len(self._tokens) and (self._next().kind in ("variable", "iri", "name") or self._is("*")):
                self._at += 1
            if self._at == len(self._tokens) or self._is(*_MODIFIERS):
                self._beyond.add("DESCRIBE without a pattern")
                return Group(self._since(self._tokens[self._at - 1].end))
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
        named: list[tuple[str, Select]] = []
        star: Place | None = None
        while not self._is("WHERE", "FROM", "{", "WITH"):
            if self._is("*"):
                star = Place(self._take().start, self._tokens[self._at - 1].end)
            elif self._next().kind == "variable":
                variables.append(self._term())
            elif self._is("("):
                expressions.append(self._expression())
                variables += filter(None, [expressions[-1].variable])
            else:
                raise self._unexpected("a variable, `(… AS ?name)` or `{`")
        prepared = self._next().start
        while self._accept("WITH"):
            named.append(self._subquery())
        select = Select(
            prepared=self._since(prepared) if named else Place(prepared, prepared),
            where=self._where(),
            variables=tuple(variables),
            star=star,
            expressions=tuple(expressions),
            named=tuple(named),
            tail=self._tail(),
            distinct=distinct,
            place=self._since(start),
        )
        self._selects.append(select)
        return select

    def _subquery(self) -> tuple[str, Select]:
        self._beyond.add("a named subquery")
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
            start, kind = self._next().start, self._take().text.upper()
            if kind in ("LIMIT", "OFFSET"):
                if not self._next().text.isdecimal():
                    raise self._unexpected("a number")
                modifiers.append(Modifier(kind, number=int(self._take().text), place=self._since(start)))
                continue
            if kind in ("GROUP", "ORDER"):
                self._expect("BY")
                kind += " BY"
            expressions: list[Expression] = []
            while self._at < len(self._tokens) and not self._is("}", *_MODIFIERS):
                if self._is("AS", *_LEVELS) and expressions:
                    named = " AS ?x" if kind == "GROUP BY" else ""
                    raise self._unexpected(f"brackets around an expression, as in `{kind} (…{named})`")
                expressions.append(self._expression())
            modifiers.append(Modifier(kind, self._since(start), tuple(expressions)))
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
            if self._accept("."):
                continue
            at, beside = self._next().start, self._tokens[self._at - 1].text != "."
            elements.append(self._element())
            if beside and all(isinstance(one, Triples) for one in elements[-2:]) and len(elements) > 1:
                self._loose.append(at)
        self._groups.append(Group(self._since(start), tuple(elements), select))
        return self._groups[-1]

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
            case "FILTER":
                expression = self._expression()
                return Filter(self._since(start), expression)
            case "BIND":
                expression = self._expression()
                if not expression.variable:
                    raise syntax_error(self._text, start, "BIND sets no variable: write BIND(… AS ?name)")
                return Bind(self._since(start), expression)
            case "GRAPH" | "SERVICE" | "OPTIONAL" | "MINUS" | "LATERAL":
                if kind in ("GRAPH", "SERVICE"):
                    self._accept("SILENT")
                    name = self._term()
                inner = (self._group(),)
                return Nested(self._since(start), kind, inner, name)
            case "INCLUDE":
                self._beyond.add("a named subquery")
                name = self._take().text
                return Include(self._since(start), self._named.get(name, ()), name)
        self._at -= 1
        raise self._unexpected("a pattern")

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
        subjects: list[tuple[str, Place]] = []
        while True:
            described, begin = self._is("[", "("), self._next().start
            subject = self._node(patterns)
            if not described or not self._is(".", "{", "}", *_ELEMENTS):
                self._properties(subject, patterns)
            stop = self._accept(".")
            subjects.append((subject, self._since(begin)))
            if not stop or self._is("}", "{", *_ELEMENTS) or self._at >= len(self._tokens):
                return Triples(self._since(start), tuple(patterns), tuple(subjects))

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
            self._beyond.add("a collection")
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
        sign = self._take().text if self._is("+", "-") else ""
        token = self._next()
        if not (token.kind in ("string", "number") or (token.is_word("TRUE", "FALSE") and not sign)):
            raise self._unexpected("a term")
        parts = [self._take()]
        if self._at < len(self._tokens) and self._next().kind == "language":
            parts.append(self._take())
        elif self._is("^^"):
            parts += [self._take(), self._take()]
        return sign + join(parts)

    # Paths

    def _path(self, kind: Literal["|", "/"] = "|") -> Path:
        parts: list[Path] = []
        while not parts or self._accept(kind):
            parts.append(self._path("/") if kind == "|" else self._step())
        return parts[0] if len(parts) == 1 else Path(kind, parts=tuple(parts))

    def _step(self) -> Path:
        if self._accept("^"):
            return Path("^", parts=(self._step(),))
        if self._accept("("):
            path = self._path()
            self._expect(")")
        elif self._accept("!"):
            path = Path("negated", parts=(self._step(),))
        elif self._next().kind in ("iri", "name") or self._next().is_word("A"):
            path = Path("iri", self._take().text)
        else:
            raise self._unexpected("a property")
        kinds: tuple[Literal["*", "+", "?"], ...] = ("*", "+", "?")
        return next((Path(kind, parts=(path,)) for kind in kinds if self._accept(kind)), path)

    # Expressions, by the precedence of their operators

    def _expression(self) -> Expression:
        """One operand, ``(… AS ?name)`` among them, with what ORDER BY puts before it."""
        descending = self._is("DESC")
        self._at += self._is("ASC", "DESC")
        start, variable = self._next().start, ""
        if self._accept("("):
            node = self._either()
            if self._accept("AS"):
                variable = "?" + self._take().text[1:]
            self._expect(")")
        else:
            node = self._operand()
        self._expressions.append(Expression(node, self._since(start), variable, descending))
        return self._expressions[-1]

    def _either(self, lowest: int = 0) -> Node:
        """Operands joined by operators that bind at least as strongly as ``lowest``."""
        start = self._next().start
        node = self._signed()
        while self._is(*_LEVELS) and (level := _LEVELS[self._next().text.upper()]) >= lowest:
            name = self._take().text.upper()
            if name == "NOT":
                self._expect("IN")
                name = "NOT IN"
            if name in ("IN", "NOT IN"):
                self._expect("(")
                operands = (node, *self._arguments())
            else:
                before = node.arguments if isinstance(node, Call) and node.name == name in ("||", "&&") else (node,)
                operands = (*before, self._either(level + 1))
            node = Call(name, operands, place=self._since(start))
        return node

    def _signed(self) -> Node:
        start = self._next().start
        if self._is("!", "-"):
            name = self._take().text
            return Call(name, (self._signed(),), place=self._since(start))
        self._accept("+")
        return self._operand()

    def _operand(self) -> Node:
        start = self._next().start
        if self._accept("("):
            node = self._either()
            self._expect(")")
            return node
        if self._is("NOT", "EXISTS"):
            negated = self._accept("NOT")
            self._expect("EXISTS")
            exists = Exists(self._group(), self._since(start))
            return Call("!", (exists,), place=exists.place) if negated else exists
        token = self._next()
        if token.kind == "variable":
            return Value(self._term(), self._since(start))
        if token.kind in ("string", "number") or token.is_word("TRUE", "FALSE"):
            return Value(self._literal(), self._since(start))
        if token.kind not in ("word", "iri", "name"):
            raise self._unexpected("an operand")
        name = self._take().text
        if not self._accept("("):
            if token.kind == "word":
                raise self._unexpected("`(`")
            return Value(name, self._since(start))
        distinct, star = self._accept("DISTINCT"), self._accept("*")
        arguments = tuple(self._arguments())
        separator = ""
        if self._tokens[self._at - 1].text == ";":
            self._expect("SEPARATOR")
            self._expect("=")
            separator = self._take().text
            self._expect(")")
        name = name.upper() if token.kind == "word" else name
        return Call(name, arguments, distinct, star, separator, self._since(start))

    def _arguments(self) -> Iterator[Node]:
        while not self._accept(")", ";"):
            yield self._either()
            if not self._is(")", ";"):
                self._expect(",")
