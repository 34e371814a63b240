"""A query rewritten so that Oxigraph evaluates the parts of each join in a good order.

The order is held by ``LATERAL`` (SPARQL 1.2 community proposal SEP-0006), which for patterns, paths, VALUES and UNIONs
of them is the same as a join. Groups in OPTIONAL and EXISTS begin with what is known around them, as they are evaluated
once for each solution there; those in MINUS and in subqueries stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    Place,
    Query,
    Triples,
    UnreadQuery,
    Values,
    certain,
    is_variable,
    read_query,
    subqueries,
)
from kbnav.knowledge.sparql.tokens import tokenize

Count = Callable[[str, int], int]
"""The number of solutions of some patterns, given as text, up to a limit."""

_FEW, _MANY = 1_000, 20_000
"""Up to how many solutions are counted: at first, and where the best order by that is much work."""
_VERY_FEW = 20
_OFTEN = 30
"""Solutions from which on what all of them are compared with is found once."""
_STARTS = 6
_UNBOUND = 1e7


@dataclass(frozen=True)
class Effort:
    """Solutions per solution of what comes before, and the work of finding them; 1 is a look into an index."""

    rows: float
    work: float


@dataclass(frozen=True)
class Step:
    """A triple pattern without a sequence of paths."""

    pattern: Pattern

    @property
    def variables(self) -> frozenset[str]:
        """What it binds."""
        return frozenset(self.pattern.variables)

    def text(self, bound: frozenset[str], counts: Count) -> str:  # noqa: ARG002 - as the other parts
        """The pattern as SPARQL."""
        verb = self.pattern.verb if isinstance(self.pattern.verb, str) else self.pattern.verb.text()
        return f"{self.pattern.subject} {verb} {self.pattern.object}"

    def effort(self, bound: frozenset[str], counts: Count) -> Effort:  # noqa: ARG002 - as the other parts
        """What it costs where these variables have values."""
        return _effort(self.pattern.verb, *(_known(end, bound) for end in (self.pattern.subject, self.pattern.object)))


@dataclass(frozen=True)
class Rows:
    """VALUES."""

    values: Values
    source: str

    @property
    def variables(self) -> frozenset[str]:
        """What it binds."""
        return frozenset(self.values.variables)

    def text(self, bound: frozenset[str], counts: Count) -> str:  # noqa: ARG002 - as the other parts
        """VALUES as it was written."""
        return self.source

    def effort(self, bound: frozenset[str], counts: Count) -> Effort:  # noqa: ARG002 - as the other parts
        """Few rows select, and each is compared."""
        return Effort(0.5 if self.variables <= bound else self.values.rows, self.values.rows)


@dataclass(frozen=True)
class Choice:
    """A UNION whose branches hold nothing but patterns, VALUES and filters of their own."""

    branches: tuple[tuple[tuple[Part, ...], tuple[str, ...]], ...]
    """Parts and filters of each."""

    @property
    def variables(self) -> frozenset[str]:
        """What all branches bind."""
        return frozenset.intersection(
            *(frozenset(name for part in parts for name in part.variables) for parts, _ in self.branches)
        )

    def text(self, bound: frozenset[str], counts: Count) -> str:
        """The UNION, each branch in its best order."""
        return " UNION ".join(
            "{ " + " ".join([arranged(parts, bound, counts)[0], *filters]) + " }" for parts, filters in self.branches
        )

    def effort(self, bound: frozenset[str], counts: Count) -> Effort:
        """That of all branches together."""
        efforts = [arranged(parts, bound, counts)[1] for parts, _ in self.branches]
        return Effort(sum(effort.rows for effort in efforts), sum(effort.work for effort in efforts))


Part = Step | Rows | Choice

# By whether subject and object are known. Going up a closure costs a few looks into an index for each of its classes:
# ``wd:Q515 wdt:P279* wd:Q5`` took as long as a hundred looks.
_ANY = {(1, 1): Effort(1, 2), (1, 0): Effort(20, 20), (0, 1): Effort(50, 50), (0, 0): Effort(_UNBOUND, _UNBOUND)}
_EDGE = {(1, 1): Effort(0.4, 1), (1, 0): Effort(1.5, 2), (0, 1): Effort(20, 3), (0, 0): Effort(1e6, 1e6)}
_CLOSURE = {(1, 1): Effort(0.4, 100), (1, 0): Effort(8, 60), (0, 1): Effort(100, 300), (0, 0): Effort(1e7, 1e7)}


@dataclass(frozen=True)
class Order:
    """Parts in the order they are to be evaluated, with the rows and the work that are expected.

    ``before`` are the rows expected where each part begins.
    """

    parts: tuple[Part, ...]
    rows: float
    work: float
    before: tuple[float, ...] = (1.0,)


class Parts:
    """Makes parts of elements, with new variables for blank nodes and for what is between two steps of a path."""

    def __init__(self, query: str, stem: str) -> None:
        """``stem`` begins no variable of the query."""
        self._query = query
        self._names = (f"?{stem}_{number}" for number in count(1))
        self._blank: dict[str, str] = {}
        self.renamed = False

    def of(self, element: Element) -> tuple[Part, ...] | None:
        """The parts of an element that may change its place among others of its group; None where it may not."""
        match element:
            case Triples(patterns=patterns):
                return tuple(step for pattern in patterns for step in self._steps(pattern))
            case Values(total=True, place=place):
                return (Rows(element, self._query[place.start : place.end]),)
            case Nested(kind="UNION", groups=groups):
                branches = []
                for group in groups:
                    if group.select is not None or not group.elements:
                        return None
                    branch = self._branch(group.elements)
                    if branch is None:
                        return None
                    branches.append(branch)
                return (Choice(tuple(branches)),)
        return None

    def _branch(self, elements: Sequence[Element]) -> tuple[tuple[Part, ...], tuple[str, ...]] | None:
        known = frozenset(name for element in elements for name in certain(element))
        parts: list[Part] = []
        filters: list[str] = []
        for element in elements:
            if isinstance(element, Filter):
                # A filter on a variable from outside has another result inside a join than beside it.
                if element.groups or not known.issuperset(element.expression.variables):
                    return None
                filters.append(self._query[element.place.start : element.place.end])
            elif (found := self.of(element)) is not None:
                parts += found
            else:
                return None
        return (tuple(parts), tuple(filters)) if parts else None

    def _steps(self, pattern: Pattern) -> list[Step]:
        subject, last = self._term(pattern.subject), self._term(pattern.object)
        if isinstance(pattern.verb, str):
            return [Step(Pattern(subject, pattern.verb, last))]
        paths = list(_sequence(pattern.verb))
        ends = [subject, *(self._new() for _ in paths[1:]), last]
        return [
            Step(Pattern(end, path, start) if turned else Pattern(start, path, end))
            for (path, turned), start, end in zip(paths, ends, ends[1:], strict=False)
        ]

    def _term(self, text: str) -> str:
        if text.startswith("_:"):
            if text not in self._blank:
                self._blank[text] = self._new()
            return self._blank[text]
        return text

    def _new(self) -> str:
        self.renamed = True
        return next(self._names)


def _sequence(path: Path, turned: bool = False) -> Sequence[tuple[Path, bool]]:
    """The steps of a path, each with whether it is gone backwards."""
    if path.kind == "^":
        return _sequence(path.parts[0], not turned)
    if path.kind == "/":
        parts = [step for part in path.parts for step in _sequence(part, turned)]
        return parts if not turned else [s for part in reversed(path.parts) for s in _sequence(part, turned)]
    return [(path, turned)]


def arranged(parts: Sequence[Part], bound: frozenset[str], counts: Count) -> tuple[str, Effort]:
    """Parts as SPARQL that Oxigraph evaluates in the best order, and what that is expected to cost.

    ``bound`` are the variables that have values already. What shares no variable is joined as a whole, not for each
    solution of the other.
    """
    orders = [_best_order(some, bound, counts) for some in _connected(parts)]
    texts = [_written(order, bound, counts) for order in orders]
    effort = Effort(prod(order.rows for order in orders), sum(order.work for order in orders))
    return (texts[0] if len(texts) == 1 else " ".join(f"{{ {text} }}" for text in texts)), effort


def _connected(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts that are joined with one another by variables, each set in the order given."""
    found: list[tuple[set[str], list[int]]] = []
    for place, part in enumerate(parts):
        joined = [one for one in found if one[0] & part.variables]
        found = [one for one in found if one not in joined]
        names = set(part.variables).union(*(one[0] for one in joined))
        found.append((names, sorted([place, *(other for one in joined for other in one[1])])))
    return [[parts[place] for place in places] for _, places in sorted(found, key=lambda one: one[1])]


def _best_order(parts: Sequence[Part], bound: frozenset[str], counts: Count) -> Order:
    """The order with the least expected work where the variables ``bound`` have values already."""
    if len(parts) == 1:
        part = parts[0]
        known = part.effort(bound, counts) if part.variables & bound else _alone(part, counts, _FEW)
        return Order(tuple(parts), known.rows, known.work)
    if any(part.variables & bound for part in parts):
        orders = [_greedy(parts, [], Effort(1, 0), bound, counts)]
        orders += [_from(part, parts, _alone(part, counts, _FEW), bound, counts) for part in parts if _is_closure(part)]
        return min(orders, key=lambda order: order.work)
    order = _best_start(parts, counts, _FEW)
    return order if order.work < _MANY else _best_start(parts, counts, _MANY)


def _best_start(parts: Sequence[Part], counts: Count, limit: int) -> Order:
    sizes: list[tuple[Effort, int]] = []
    for place, part in sorted(enumerate(parts), key=lambda one: one[1].effort(frozenset(), counts).work):
        # Where a part has next to no solutions, nothing better is found by counting the others.
        if not sizes or min(size.rows for size, _ in sizes) > _VERY_FEW:
            sizes.append((_alone(part, counts, limit), place))
    starts = sorted(sizes, key=lambda one: (one[0].work, one[1]))[:_STARTS]
    orders = [_from(parts[place], parts, size, frozenset(), counts) for size, place in starts]
    return min(orders, key=lambda order: order.work)


def _from(first: Part, parts: Sequence[Part], size: Effort, bound: frozenset[str], counts: Count) -> Order:
    rest = [part for part in parts if part is not first]
    return _greedy(rest, [first], size, bound | first.variables, counts)


def _is_closure(part: Part) -> bool:
    """Whether a part is ``?class wdt:P279* wd:Q8502``: from a known end to whatever reaches it."""
    return (
        isinstance(part, Step)
        and isinstance(part.pattern.verb, Path)
        and part.pattern.verb.kind in ("*", "+")
        and len(part.variables) == 1
    )


def _alone(part: Part, counts: Count, limit: int) -> Effort:
    if not isinstance(part, Step):
        return part.effort(frozenset(), counts)
    effort = part.effort(frozenset(), counts)
    if effort.rows >= _UNBOUND and effort.work >= _UNBOUND:
        return effort
    named = _known(part.pattern.subject, frozenset()) or _known(part.pattern.object, frozenset())
    limit = limit if named else _FEW
    rows: float = counts(part.text(frozenset(), counts), limit)
    if rows >= limit:  # how many more is not known: a pattern that names nothing has most
        rows *= 2 if named else 100
    return Effort(rows, rows * max(1.0, effort.work / max(effort.rows, 1.0)))


def _greedy(
    parts: Sequence[Part],
    order: list[Part],
    so_far: Effort,
    bound: frozenset[str],
    counts: Count,
) -> Order:
    """Append, again and again, what multiplies the solutions least."""
    left, rows, work = list(parts), so_far.rows, so_far.work
    before = [1.0] * len(order)
    while left:
        joined = [part for part in left if part.variables & bound or not part.variables] or left
        efforts = [(part.effort(bound, counts), place) for place, part in enumerate(joined)]
        effort, place = min(efforts, key=lambda one: (one[0].rows, one[0].work, one[1]))
        part = joined[place]
        if len(order) == 1 and rows < _FEW and _is_guess(part, bound):
            both = f"{order[0].text(frozenset(), counts)} LATERAL {{ {part.text(bound, counts)} }}"
            found = counts(both, _FEW)
            effort = Effort((found if found < _FEW else 5 * found) / max(rows, 1), effort.work)
        work += max(rows, 1) * (effort.work + effort.rows)
        before.append(rows)
        rows *= effort.rows
        order.append(part)
        left.remove(part)
        bound |= part.variables
    return Order(tuple(order), rows, work, tuple(before))


def _is_guess(part: Part, bound: frozenset[str]) -> bool:
    """Whether a part is an edge from object to subject: a class has one instance or a million."""
    if not isinstance(part, Step) or isinstance(part.pattern.verb, str) or part.pattern.verb.kind != "iri":
        return False
    return not _known(part.pattern.subject, bound) and _known(part.pattern.object, bound)


def _written(order: Order, bound: frozenset[str], counts: Count) -> str:
    """Parts in their order as SPARQL that Oxigraph evaluates in this order.

    Whether each of many solutions reaches a node by a path is not looked up for each, where few nodes reach it: those
    are found once, and joined as a whole.
    """
    texts: list[str] = []
    alone = not bound
    for part, rows in zip(order.parts, order.before, strict=True):
        text = part.text(bound, counts)
        asked_often = alone and texts and rows >= _OFTEN and part.variables <= bound and _is_closure(part)
        if asked_often and counts(text, _FEW) < _FEW:
            texts = [f"{{ {' '.join(texts)} }} {{ SELECT {' '.join(part.variables)} {{ {text} }} }}"]
            continue
        texts.append(f"LATERAL {{ {text} }}" if texts else text)
        bound |= part.variables
    return " ".join(texts)


def _known(term: str, bound: frozenset[str]) -> bool:
    return not is_variable(term) or term in bound


def _effort(verb: Path | str, subject: bool, object_: bool) -> Effort:
    """What a step costs; ``subject`` and ``object_`` say whether its ends are known."""
    if isinstance(verb, str) or verb.kind == "negated":
        return _ANY[subject, object_]
    if verb.kind == "iri":
        return _EDGE[subject, object_]
    inner = [_effort(part, subject, object_) for part in verb.parts]
    if verb.kind == "^":
        return _effort(verb.parts[0], object_, subject)
    if verb.kind == "?" and not (subject or object_):
        return Effort(_UNBOUND, _UNBOUND)  # each node there is, with itself
    if verb.kind in ("|", "?"):
        rows = sum(effort.rows for effort in inner) + (verb.kind == "?")
        return Effort(rows, sum(effort.work for effort in inner) + 1)
    if verb.kind == "/":
        # From one known end step by step; rows and work multiply.
        rows = 1.0
        for part in verb.parts:
            rows *= _effort(part, subject or not object_, object_ and not subject).rows
        return Effort(min(rows, 0.5 if subject and object_ else _UNBOUND), rows * 2)
    return _CLOSURE[subject, object_]


def order_joins(query: str, counts: Callable[[str], int]) -> str:
    """The query in a form that gives the same rows sooner; as it is, where it is not read or nothing is gained.

    Args:
        query: SPARQL that parses.
        counts: runs a query whose one value is a number.

    Columns of ``SELECT *`` keep their names and their order.
    """
    with suppress(UnreadQuery, QuerySyntaxError):
        read = read_query(query)
        if not any(token.is_word("FROM") for token in tokenize(query)):
            ordering = _Ordering(query, read, counts)
            ordering.group(read.where, frozenset())
            found = ordering.text()
            return found if found == query or parse_error(found) is None else query
    return query


class _Ordering:
    """The edits of one query."""

    def __init__(self, query: str, read: Query, counts: Callable[[str], int]) -> None:
        self._query = query
        self._read = read
        self._parts = Parts(query, fresh_variable(query, "step"))
        self._edits: list[tuple[Place, str]] = []
        known: dict[tuple[str, int], int] = {}

        def counted(patterns: str, limit: int) -> int:
            if (patterns, limit) not in known:
                inner = f"SELECT * {{ {patterns} }} LIMIT {limit}"
                known[patterns, limit] = counts(f"{read.prologue}SELECT (COUNT(*) AS ?count) {{ {{ {inner} }} }}")
            return known[patterns, limit]

        self._counts = counted

    def text(self) -> str:
        """The query with its edits."""
        edits = list(self._edits)
        if self._parts.renamed and edits:
            edits += list(_stars(self._read))
        query = self._query
        for place, text in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
            query = query[: place.start] + text + query[place.end :]
        return query

    def group(self, group: Group, bound: frozenset[str]) -> None:
        """Order a group in which the variables ``bound`` have values from around it."""
        if group.select is not None:
            self.group(group.select.where, frozenset())
            return
        run: list[tuple[Element, tuple[Part, ...]]] = []
        known, before = bound, False
        for element in group.elements:
            parts = self._parts.of(element)
            if parts is not None:
                run.append((element, parts))
            elif isinstance(element, Bind) or (isinstance(element, Nested) and element.kind != "UNION"):
                self._run(run, known, before)
                known |= frozenset(name for one, _ in run for name in certain(one))
                run, before = [], True
                self._inner(element, known)
            elif isinstance(element, Nested):
                known |= certain(element)
                self._inner(element, frozenset())
        self._run(run, known, before)
        for element in group.elements:
            if isinstance(element, Filter):
                for inner in element.groups:
                    self.group(inner, bound | group.certain)

    def _inner(self, element: Bind | Nested, known: frozenset[str]) -> None:
        if isinstance(element, Nested) and element.kind in ("GRAPH", "SERVICE", "LATERAL"):
            return  # other data; or the engine's own, which is in order
        correlated = isinstance(element, Bind) or element.kind == "OPTIONAL"
        for inner in element.groups:
            self.group(inner, known if correlated else frozenset())

    def _run(self, run: list[tuple[Element, tuple[Part, ...]]], known: frozenset[str], before: bool) -> None:
        """Write the parts of elements that are joined in their best order, where the first of them stands."""
        parts = [part for _, found in run for part in found]
        if len(parts) < 2 and not any(isinstance(element, Nested) for element, _ in run):
            return
        shared = known & frozenset(name for part in parts for name in part.variables)
        text, _ = arranged(parts, shared, self._counts)
        # What stands behind OPTIONAL or BIND is joined with what came before: for each solution of it.
        text = f" LATERAL {{ {text} }} " if before and shared else f" {text} "
        for place, (element, _) in enumerate(run):
            self._edits.append((element.place, "" if place else text))


def _stars(read: Query) -> Iterator[tuple[Place, str]]:
    """In place of each ``SELECT *`` the names that it stands for, in the order in which Oxigraph gives them."""
    selects = [read.select, *subqueries(read.where)]
    for select in selects:
        if select is not None and select.star is not None:
            yield select.star, " ".join(sorted(select.where.visible))
