"""What the offline policies know so far: what searches, look-ups and queries of their steps found, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from kbnav.answers.language import fold
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import Direction, Entity, Entry, Neighborhood, Qualifier, SearchResult, Value
from kbnav.runs.trajectory import QUERY, Step
from kbnav.tools.context import Context, Shown
from kbnav.tools.toolbox import Toolbox

NOTHING = SearchResult()
_ENDINGS = ("e", "en", "er", "es", "n", "s")
"""Of a plural."""


def parts(query: str, search: SearchResult) -> tuple[str, ...]:
    """The parts of a phrase that a search matched."""
    if search.rung == "shorter":
        return tuple(search.matched.split(" | "))
    return () if search.rung in ("fulltext", "none") else (query,)


def first(search: SearchResult, *, of_class: bool) -> Entity | None:
    """The first class that a search of an endpoint found, or the first thing that is none."""
    found = (one for one in search.entities if bool(re.match(r"class(?:;|$)", one.description)) is of_class)
    return next(found, None)


def value_kind(value: Value) -> Literal["item", "time", "number", "text", ""]:
    """Of what kind a value is; empty where none was seen."""
    if value.id or not value.text:
        return "item" if value.id else ""
    if value.special or value.datatype == "time":
        return "text" if value.special else "time"
    return "number" if value.datatype in ("quantity", "decimal", "integer", "double") else "text"


@dataclass(frozen=True)
class SeenEdge:
    """A statement that leaves ("out") or reaches ("in") the entity that was looked at; seen from there."""

    direction: Direction
    property: Entity
    value: Value
    qualifiers: tuple[Qualifier, ...] = ()


def facts(edge: SeenEdge) -> tuple[SeenEdge | Qualifier, ...]:
    """A statement and its qualifiers."""
    return (edge, *edge.qualifiers)


class Seen:
    """Everything found so far. What is no longer in the context, as a run was resumed, is looked up again."""

    def __init__(self, steps: Iterable[Step], toolbox: Toolbox, context: Context) -> None:
        self._steps, self._toolbox, self._context = list(steps), toolbox, context
        self.rows = {str(step.call.arguments["query"]): step.rows or 0 for step in self._of(QUERY)}
        """Rows of every query that ran; 0 where it failed."""

    @cached_property
    def searches(self) -> dict[str, SearchResult]:
        """What was found, by what was searched for."""
        steps = {str(step.call.arguments["query"]): step for step in self._of("search_entities")}
        return {
            query: _read(query, self._data(step) or NOTHING, self._context.shown) if step.ok else NOTHING
            for query, step in steps.items()
        }

    @cached_property
    def edges(self) -> dict[str, list[SeenEdge]]:
        """Statements by the entity that was looked at."""
        found: dict[str, list[SeenEdge]] = {}
        for step in (*self._of("get_entry"), *self._of("search_neighbors")):
            edges = found.setdefault(str(step.call.arguments["entity_id"]), [])
            data = self._data(step) if step.ok else None
            if isinstance(data, Entry):
                stated = (*data.statements, *data.identifiers)
                edges += [SeenEdge("out", one.property, one.value, one.qualifiers) for one in stated]
            elif isinstance(data, Neighborhood):
                edges += [SeenEdge(one.direction, one.relation, one.neighbor) for one in data.edges]
        return found

    def labels(self, items: Sequence[str]) -> Mapping[str, str]:
        """Labels by id."""
        return self._context.kb.labels(items, language=self._context.language)

    def items(self, query: str) -> list[str]:
        """The entities in the result of a query."""
        table = self.table(query)
        return list(dict.fromkeys(one for row in table.rows for cell in row if (one := table.entity(cell))))

    def table(self, query: str) -> AnswerTable:
        """The result of a query; empty where it failed."""
        if self.rows.get(query) == 0:
            return AnswerTable()
        tables, kb = self._context.tables, self._context.kb
        if query not in tables:
            tables[query] = kb.execute_query(query, language=self._context.language)
        return tables[query]

    def _of(self, tool: str) -> list[Step]:
        return [step for step in self._steps if step.call.tool == tool]

    def _data(self, step: Step) -> Any:
        found, call = self._context.found, step.call
        if step.number not in found:
            found[step.number] = self._toolbox.run(self._context, call.tool, call.thought, call.arguments).data
        return found[step.number]


def _read(query: str, found: SearchResult, shown: Shown) -> SearchResult:
    """A search, as far as it is shown, with the rung that it is for rules."""
    if not (found.entities or found.properties):
        return replace(found, rung="none")
    wanted, low = " ".join(query.split()).casefold(), query.casefold()

    def begins(one: Entity) -> bool:
        return found.rung == "exact" and wanted not in (one.label.casefold(), one.alias.casefold())

    entities = tuple(sorted(found.entities[: shown.entities], key=begins))
    most = shown.properties if entities else shown.entities
    found = replace(found, entities=entities, properties=tuple(sorted(found.properties[:most], key=begins)))
    named = tuple(one for one in entities if one.id[0] == "Q" and one.label and one.label.casefold() in low)
    if named and found.rung in ("near", "fulltext"):  # they are what a part of the phrase names
        return replace(found, rung="shorter", matched=" | ".join(one.label for one in named), entities=named)
    best = (*entities, *found.properties)[0]
    plural = fold(query).removeprefix(fold(best.alias or best.label)) in _ENDINGS
    if found.rung == "near" and not plural and re.fullmatch(r"[QP]\d+", best.id):  # another spelling: people choose
        return SearchResult(suggestion=best.alias or best.label)
    return found
