"""The structure of a query: its groups and what stands in them, with the place of each in the query's text.

What these classes hold is read by ``kbnav.knowledge.sparql.reading``; a rewriting replaces the text of one part by its
place and leaves all other text as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


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

    ``kbnav.knowledge.sparql.expressions`` reads the rest, from its place.
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
