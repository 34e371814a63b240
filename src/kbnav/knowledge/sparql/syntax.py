"""The structure of a query: its groups and what stands in them, with the place of each in the query's text.

What these classes hold is read by ``kbnav.knowledge.sparql.reading``; a rewriting replaces the text of one part by its
place and leaves all other text as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Path:
    """A property path (SPARQL 1.1, section 9).

    ``kind`` is ``iri`` (its text in ``name``), ``negated`` (the whole text in ``name``), ``^``, ``/``, ``|``, or one of
    ``*``, ``+`` and ``?``.
    """

    kind: Literal["iri", "negated", "^", "/", "|", "*", "+", "?"]
    name: str = ""
    parts: tuple[Path, ...] = ()

    def text(self) -> str:
        """The path as SPARQL."""
        match self.kind:
            case "iri" | "negated":
                return self.name
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
    """VALUES with its variables and number of rows; ``total`` where no row has UNDEF."""

    place: Place
    variables: tuple[str, ...]
    rows: int
    total: bool


@dataclass(frozen=True)
class Filter:
    """FILTER, with the variables outside the groups of its EXISTS, and those groups."""

    place: Place
    variables: tuple[str, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Bind:
    """BIND with the variable it sets, and the groups of EXISTS in it."""

    place: Place
    variable: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Nested:
    """Groups in a group: one group or a UNION of several, OPTIONAL, MINUS, LATERAL, GRAPH or SERVICE.

    ``name`` is what GRAPH and SERVICE name.
    """

    place: Place
    kind: Literal["UNION", "OPTIONAL", "MINUS", "LATERAL", "GRAPH", "SERVICE"]
    groups: tuple[Group, ...]
    name: str = ""


Element = Triples | Values | Filter | Bind | Nested


@dataclass(frozen=True)
class Select:
    """A SELECT, the query's own or a subquery's; ``star`` is the place of its ``*``, which ``variables`` is without."""

    where: Group
    variables: tuple[str, ...]
    star: Place | None


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
            return self.select.where.visible if self.select.star else self.select.variables
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
    """A query; ``select`` is None for ASK, CONSTRUCT and DESCRIBE. ``prologue`` is the text of its declarations."""

    form: str
    prologue: str
    where: Group
    select: Select | None = field(default=None)


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
        case Values(variables=names):
            return names
        case Bind(variable=name):
            return (name,)
        case Filter() | Nested(kind="MINUS"):
            return ()
        case Nested(groups=groups, name=name):
            inner = tuple(shown for group in groups for shown in group.visible)
            return ("?" + name[1:], *inner) if is_variable(name) else inner
