"""A query rewritten so that Oxigraph evaluates the parts of each join in a good order.

Oxigraph guesses sizes from the form of a pattern alone. It takes ``?c wdt:P279* wd:Q8502``, six classes, for ten times
as much as ``?x wdt:P31 ?c``, everything there is. Here the store is asked: how many solutions a part has alone is
counted up to a limit, and the best order is the one with the least work by those counts, found greedily.

The order is held by ``LATERAL`` (SPARQL 1.2 community proposal SEP-0006), which for patterns, paths, VALUES and UNIONs
of them is the same as a join. Groups in OPTIONAL and EXISTS begin with what is known around them, as they are evaluated
once for each solution there; those in MINUS and in subqueries stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import prod

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.check import fresh_variable, parse_error
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Filter,
    Group,
    Nested,
    Path,
    Pattern,
    Query,
    Triples,
    Values,
    certain,
    is_variable,
    read_query,
)
from kbnav.knowledge.sparql.tokens import edited, tokenize

_FEW, _MANY = 1_000, 20_000
"""Up to how many solutions are counted: at first, and where the best order by that is much work."""
_VERY_FEW = 20
_OFTEN = 30
"""Solutions from which on what all of them are compared with is found once."""
_STARTS = 6
_UNBOUND = 1e7

Names = frozenset[str]
"""Variables that have values already."""


def order_joins(query: str, counts: Callable[[str], int]) -> str:
    """The query in a form that gives the same rows sooner; as it is, where it is not read or nothing is gained.

    ``counts`` runs a query whose one value is a number. Columns of ``SELECT *`` are in the order they are written.
    """
    with suppress(QuerySyntaxError):
        read = read_query(query)
        if not any(token.is_word("FROM") for token in tokenize(query)):
            found = _Ordering(query, read, counts).text()
            return found if found == query or parse_error(found) is None else query
    return query


@dataclass(frozen=True)
class _Effort:
    """Solutions per solution of what comes before, and the work of finding them; 1 is a look into an index."""

    rows: float
    work: float


@dataclass(frozen=True)
class _Part:
    """What may change its place in a join: a triple pattern without a sequence of paths, VALUES, or a UNION.

    A UNION has branches of nothing but parts and of filters of their own; ``source`` is the text of VALUES.
    """

    variables: Names
    """What it binds."""
    pattern: Pattern | None = None
    rows: int = 0
    source: str = ""
    branches: tuple[tuple[tuple[_Part, ...], tuple[str, ...]], ...] = ()

    @property
    def is_closure(self) -> bool:
        """Whether it is ``?class wdt:P279* wd:Q8502``: from a known end to whatever reaches it."""
        verb = self.pattern.verb if self.pattern else ""
        return isinstance(verb, Path) and verb.kind in ("*", "+") and len(self.variables) == 1

    def is_guess(self, bound: Names) -> bool:
        """Whether it is an edge from object to subject: a class has one instance or a million."""
        pattern = self.pattern
        simple = pattern is not None and pattern.relation
        return bool(simple and not _is_bound(pattern.subject, bound) and _is_bound(pattern.object, bound))  # type: ignore[union-attr]


# By whether subject and object are known. Going up a closure costs a few looks into an index for each of its classes:
# ``wd:Q515 wdt:P279* wd:Q5`` took as long as a hundred looks.
_ANY = {(1, 1): _Effort(1, 2), (1, 0): _Effort(20, 20), (0, 1): _Effort(50, 50), (0, 0): _Effort(_UNBOUND, _UNBOUND)}
_EDGE = {(1, 1): _Effort(0.4, 1), (1, 0): _Effort(1.5, 2), (0, 1): _Effort(20, 3), (0, 0): _Effort(1e6, 1e6)}
_CLOSURE = {(1, 1): _Effort(0.4, 100), (1, 0): _Effort(8, 60), (0, 1): _Effort(100, 300), (0, 0): _Effort(1e7, 1e7)}


def _path_effort(verb: Path | str, subject: bool, object_: bool) -> _Effort:
    if isinstance(verb, str) or verb.kind == "negated":
        return _ANY[subject, object_]
    match verb.kind:
        case "iri":
            return _EDGE[subject, object_]
        case "^":
            return _path_effort(verb.parts[0], object_, subject)
        case "?" if not (subject or object_):
            return _Effort(_UNBOUND, _UNBOUND)  # each node there is, with itself
        case "|" | "?":
            inner = [_path_effort(part, subject, object_) for part in verb.parts]
            return _Effort(sum(one.rows for one in inner) + (verb.kind == "?"), sum(one.work for one in inner) + 1)
        case "/":
            # From one known end step by step; rows and work multiply.
            ends = subject or not object_, object_ and not subject
            rows = prod(_path_effort(part, *ends).rows for part in verb.parts)
            return _Effort(min(rows, 0.5 if subject and object_ else _UNBOUND), rows * 2)
    return _CLOSURE[subject, object_]


def _is_bound(term: str, bound: Names) -> bool:
    return not is_variable(term) or term in bound


@dataclass(frozen=True)
class _Order:
    """Parts in the order they are to be evaluated, with the rows and the work that are expected.

    ``before`` are the rows expected where each part begins.
    """

    parts: tuple[_Part, ...]
    rows: float
    work: float
    before: tuple[float, ...] = (1.0,)


class _Joins:
    def __init__(self, prologue: str, counts: Callable[[str], int]) -> None:
        self._prologue = prologue
        self._run = counts
        self._counted: dict[tuple[str, int], int] = {}

    def arranged(self, parts: Sequence[_Part], bound: Names) -> tuple[str, _Effort]:
        """Parts as SPARQL that Oxigraph evaluates in the best order, and what that is expected to cost.

        What shares no variable is joined as a whole, not for each solution of the other.
        """
        orders = [self._best_order(some, bound) for some in _connected(parts)]
        texts = [self._written(order, bound) for order in orders]
        effort = _Effort(prod(order.rows for order in orders), sum(order.work for order in orders))
        return (texts[0] if len(texts) == 1 else " ".join(f"{{ {text} }}" for text in texts)), effort

    def _count(self, patterns: str, limit: int) -> int:
        if (patterns, limit) not in self._counted:
            inner = f"SELECT * {{ {patterns} }} LIMIT {limit}"
            self._counted[patterns, limit] = self._run(
                f"{self._prologue}SELECT (COUNT(*) AS ?count) {{ {{ {inner} }} }}"
            )
        return self._counted[patterns, limit]

    def _text(self, part: _Part, bound: Names) -> str:
        if part.pattern is not None:
            return part.pattern.text()
        return part.source or " UNION ".join(
            "{ " + " ".join([self.arranged(parts, bound)[0], *filters]) + " }" for parts, filters in part.branches
        )

    def _effort(self, part: _Part, bound: Names) -> _Effort:
        if part.pattern is not None:
            ends = (_is_bound(end, bound) for end in (part.pattern.subject, part.pattern.object))
            return _path_effort(part.pattern.verb, *ends)
        if part.source:  # few rows select, and each is compared
            return _Effort(0.5 if part.variables <= bound else part.rows, part.rows)
        efforts = [self.arranged(parts, bound)[1] for parts, _ in part.branches]
        return _Effort(sum(effort.rows for effort in efforts), sum(effort.work for effort in efforts))

    def _alone(self, part: _Part, limit: int = _FEW) -> _Effort:
        effort = self._effort(part, frozenset())
        if part.pattern is None or (effort.rows >= _UNBOUND and effort.work >= _UNBOUND):
            return effort
        named = not (is_variable(part.pattern.subject) and is_variable(part.pattern.object))
        limit = limit if named else _FEW
        rows: float = self._count(part.pattern.text(), limit)
        if rows >= limit:  # how many more is not known: a pattern that names nothing has most
            rows *= 2 if named else 100
        return _Effort(rows, rows * max(1.0, effort.work / max(effort.rows, 1.0)))

    def _best_order(self, parts: Sequence[_Part], bound: Names) -> _Order:
        """The order with the least expected work where the variables ``bound`` have values already."""
        if len(parts) == 1:
            (part,) = parts
            effort = self._effort(part, bound) if part.variables & bound else self._alone(part)
            return _Order((part,), effort.rows, effort.work)
        if any(part.variables & bound for part in parts):
            orders = [self._greedy(parts, None, _Effort(1, 0), bound)]
            orders += [self._greedy(parts, part, self._alone(part), bound) for part in parts if part.is_closure]
            return min(orders, key=lambda order: order.work)
        order = self._best_start(parts, _FEW)
        return order if order.work < _MANY else self._best_start(parts, _MANY)

    def _best_start(self, parts: Sequence[_Part], limit: int) -> _Order:
        sizes: list[tuple[_Effort, int]] = []
        for place, part in sorted(enumerate(parts), key=lambda one: self._effort(one[1], frozenset()).work):
            # Where a part has next to no solutions, nothing better is found by counting the others.
            if not sizes or min(size.rows for size, _ in sizes) > _VERY_FEW:
                sizes.append((self._alone(part, limit), place))
        starts = sorted(sizes, key=lambda one: (one[0].work, one[1]))[:_STARTS]
        orders = [self._greedy(parts, parts[place], size, frozenset()) for size, place in starts]
        return min(orders, key=lambda order: order.work)

    def _greedy(self, parts: Sequence[_Part], first: _Part | None, so_far: _Effort, bound: Names) -> _Order:
        """Begin with ``first``, and append, again and again, what multiplies the solutions least."""
        order = [first] if first else []
        left, rows, work = [part for part in parts if part is not first], so_far.rows, so_far.work
        bound |= first.variables if first else frozenset()
        before = [1.0] * len(order)
        while left:
            joined = [part for part in left if part.variables & bound or not part.variables] or left
            efforts = [(self._effort(part, bound), place) for place, part in enumerate(joined)]
            effort, place = min(efforts, key=lambda one: (one[0].rows, one[0].work, one[1]))
            part = joined[place]
            if len(order) == 1 and rows < _FEW and part.is_guess(bound):
                both = f"{self._text(order[0], frozenset())} LATERAL {{ {self._text(part, bound)} }}"
                found = self._count(both, _FEW)
                effort = _Effort((found if found < _FEW else 5 * found) / max(rows, 1), effort.work)
            work += max(rows, 1) * (effort.work + effort.rows)
            before.append(rows)
            rows *= effort.rows
            order.append(part)
            left.remove(part)
            bound |= part.variables
        return _Order(tuple(order), rows, work, tuple(before))

    def _written(self, order: _Order, bound: Names) -> str:
        """Parts in their order as SPARQL that Oxigraph evaluates in this order.

        Whether each of many solutions reaches a node by a path is not looked up for each, where few nodes reach it:
        those are found once, and joined as a whole.
        """
        texts: list[str] = []
        alone = not bound
        for part, rows in zip(order.parts, order.before, strict=True):
            text = self._text(part, bound)
            asked_often = alone and texts and rows >= _OFTEN and part.variables <= bound and part.is_closure
            if asked_often and self._count(text, _FEW) < _FEW:
                texts = [f"{{ {' '.join(texts)} }} {{ SELECT {' '.join(part.variables)} {{ {text} }} }}"]
                continue
            # LATERAL must not hold VALUES of a variable that has one.
            lateral = "" if part.source and part.variables & bound else "LATERAL "
            texts.append(f"{lateral}{{ {text} }}" if texts else text)
            bound |= part.variables
        return " ".join(texts)


def _connected(parts: Sequence[_Part]) -> list[list[_Part]]:
    found: list[tuple[Names, list[int]]] = []
    for place, part in enumerate(parts):
        joined = [one for one in found if one[0] & part.variables]
        found = [one for one in found if one not in joined]
        names = part.variables.union(*(one[0] for one in joined))
        found.append((names, sorted([place, *(other for one in joined for other in one[1])])))
    return [[parts[place] for place in places] for _, places in sorted(found, key=lambda one: one[1])]


class _Ordering:
    def __init__(self, query: str, read: Query, counts: Callable[[str], int]) -> None:
        self._query = query
        self._read = read
        self._joins = _Joins(read.prologue, counts)
        self._edits: dict[tuple[int, int], str] = {}
        stem = fresh_variable(query, "step")
        self._names = (f"?{stem}_{number}" for number in count(1))
        self._blank: dict[str, str] = {}

    def text(self) -> str:
        self._group(self._read.where, frozenset())
        for select in self._read.selects:
            if select.star is not None:  # Oxigraph would sort its names
                self._edits[select.star.start, select.star.end] = " ".join(select.visible)
        return edited(self._query, self._edits)

    def _group(self, group: Group, bound: Names) -> None:
        if group.select is not None:
            self._group(group.select.where, frozenset())
            return
        run: list[tuple[Element, tuple[_Part, ...]]] = []
        known, before = bound, False
        for element in group.elements:
            parts = self._parts(element)
            if parts is not None:
                run.append((element, parts))
            elif isinstance(element, Bind) or (isinstance(element, Nested) and element.kind != "UNION"):
                self._run(run, known, before)
                known = known.union(*(certain(one) for one, _ in run))
                run, before = [], True
                self._inner(element, known)
            elif isinstance(element, Nested):
                known |= certain(element)
                self._inner(element, frozenset())
        self._run(run, known, before)
        for element in group.elements:
            for inner in element.groups if isinstance(element, Filter) else ():
                self._group(inner, bound | group.certain)

    def _inner(self, element: Bind | Nested, known: Names) -> None:
        if isinstance(element, Nested) and element.kind in ("GRAPH", "SERVICE", "LATERAL"):
            return  # other data; or the engine's own, which is in order
        correlated = isinstance(element, Bind) or element.kind == "OPTIONAL"
        for inner in element.groups:
            self._group(inner, known if correlated else frozenset())

    def _run(self, run: Sequence[tuple[Element, tuple[_Part, ...]]], known: Names, before: bool) -> None:
        parts = [part for _, found in run for part in found]
        if len(parts) < 2 and not any(isinstance(element, Nested) for element, _ in run):
            return
        shared = known & frozenset().union(*(part.variables for part in parts))
        text, _ = self._joins.arranged(parts, shared)
        # What stands behind OPTIONAL or BIND is joined with what came before: for each solution of it.
        text = f" LATERAL {{ {text} }} " if before and shared else f" {text} "
        for place, (element, _) in enumerate(run):
            self._edits[element.place.start, element.place.end] = "" if place else text

    def _parts(self, element: Element) -> tuple[_Part, ...] | None:
        """The parts of an element that may change its place among others of its group; None where it may not."""
        match element:
            case Triples(patterns=patterns):
                return tuple(step for pattern in patterns for step in self._steps(pattern))
            case Values(total=True, variables=names, rows=rows, place=place):
                return (_Part(frozenset(names), rows=rows, source=place.of(self._query)),)
            case Nested(kind="UNION", groups=groups):
                branches = []
                for group in groups:
                    branch = None if group.select else self._branch(group.elements)
                    if branch is None:
                        return None
                    branches.append(branch)
                shared = frozenset.intersection(
                    *(frozenset().union(*(part.variables for part in parts)) for parts, _ in branches)
                )
                return (_Part(shared, branches=tuple(branches)),)
        return None

    def _branch(self, elements: Sequence[Element]) -> tuple[tuple[_Part, ...], tuple[str, ...]] | None:
        known = frozenset().union(*map(certain, elements))
        parts: list[_Part] = []
        filters: list[str] = []
        for element in elements:
            if isinstance(element, Filter):
                # A filter on a variable from outside has another result inside a join than beside it.
                if element.groups or not known.issuperset(element.expression.variables):
                    return None
                filters.append(element.place.of(self._query))
            elif (found := self._parts(element)) is not None:
                parts += found
            else:
                return None
        return (tuple(parts), tuple(filters)) if parts else None

    def _steps(self, pattern: Pattern) -> list[_Part]:
        subject, last = (self._new(end) if end.startswith("_:") else end for end in (pattern.subject, pattern.object))
        steps = Pattern(subject, pattern.verb, last).apart(iter(self._new, None))
        return [_Part(frozenset(one.variables), one) for one in steps]

    def _new(self, blank: str = "") -> str:
        name = self._blank.get(blank) or next(self._names)
        if blank:
            self._blank[blank] = name
        return name
