"""A query rewritten so that Oxigraph evaluates the parts of each join in a good order.

The order is held by ``LATERAL`` (SPARQL 1.2 community proposal SEP-0006), which for patterns, paths, VALUES and UNIONs
of them is the same as a join. Groups in OPTIONAL and EXISTS begin with what is known around them, as they are evaluated
once for each solution there; those in MINUS and in subqueries stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.joins import Part, Parts, arranged
from kbnav.knowledge.sparql.parser import fresh_variable, parse_error
from kbnav.knowledge.sparql.reading import UnreadQuery, read_query
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Filter,
    Group,
    Nested,
    Place,
    Query,
    certain,
    subqueries,
)
from kbnav.knowledge.sparql.tokens import tokenize


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
