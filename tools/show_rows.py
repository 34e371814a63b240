"""show_rows: more of a result that was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import BadArguments
from kbnav.knowledge.base import asked_by
from kbnav.tools.context import Context, Observation, Shown
from kbnav.tools.show import rows_text

_LABELLED = 500
"""Entities without a label so far that one call fetches labels of."""


def show_rows(context: Context, thought: str, result: int = 0, start: int = 1, contains: str = "") -> Observation:
    """See further rows of a result that was cut, or those only that contain a text; no query is run.

    Args:
        thought: Why this step comes next.
        result: Its number; 0: the last one with rows.
        start: The first row to see, from 1.
        contains: Only rows with this text.
    """
    with_rows = {number: step for number, step in context.ran.items() if step.rows}
    number = result or max(with_rows, default=0)
    step = with_rows.get(number)
    if step is None:
        known = f"Results with rows: {', '.join(map(str, with_rows))}." if with_rows else "No query has had rows yet."
        raise BadArguments(f"There is no result {result} with rows. {known}" if result else known)
    query = step.call.query
    table = context.tables.get(query)
    if table is None:  # the run was killed and goes on
        table = context.tables[query] = context.kb.execute_query(query, language=context.language)
    ids = [table.entity(cell) for row in _wanted(table, start, contains, context.shown) for cell in row]
    missing = [one for one in dict.fromkeys(ids) if one and one not in table.labels]
    if missing:
        names = asked_by(context.kb, query).labels(missing[:_LABELLED], language=context.language)
        table = context.tables[query] = replace(table, labels={**table.labels, **names})
    text = f"Result {number}:\n" + rows_text(table, context.shown, start=start, contains=contains)
    nameless = len(missing) - _LABELLED
    if nameless <= 0:
        return Observation(text)
    return Observation(f"{text}\nThe names of {nameless} entities are not known yet: call again to look at more.")


def _wanted(table: AnswerTable, start: int, contains: str, shown: Shown) -> Sequence[tuple[Cell, ...]]:
    """The rows whose labels matter: those of the page, or all where a text is looked for."""
    return table.rows if contains else table.rows[max(0, start - 1) :][: shown.whole_rows or None]
