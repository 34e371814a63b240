"""execute_query: run SPARQL."""

from __future__ import annotations

import re
from dataclasses import replace

from kbnav.answers import AnswerTable
from kbnav.errors import TellModel
from kbnav.knowledge.sparql.diagnose import diagnose_empty
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import table_text

_NAMED = 20
"""Ids of one query that are named at most."""


def execute_query(context: Context, thought: str, query: str) -> Observation:
    """Run a SPARQL query (SELECT, ASK or CONSTRUCT) and see the first and last rows and the number of rows.

    Start with a small query, look at the result, then build on it. Use only ids that you have seen in a result. The
    usual prefixes (wd, wdt, p, ps, pq, rdfs, ...) need not be declared.

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: The whole SPARQL query.
    """
    unseen, seen = _unseen(context, query), run_query(context, query)
    return replace(seen, text=unseen + seen.text)


def run_query(context: Context, query: str) -> Observation:
    """The rows that are shown, or why there are none; the whole table is kept in the context."""
    try:
        table = context.kb.execute_query(query, language=context.language)
    except TellModel as error:
        return Observation(str(error), ok=False)
    context.tables[query] = table
    text = table_text(table, context.shown)
    if not len(table) and (reason := diagnose_empty(query, lambda probe: _holds(context, probe))):
        text += f"\n{reason}"
    return Observation(text, rows=_rows_with_values(table))


def _rows_with_values(table: AnswerTable) -> int:
    """Rows that say anything: one in which every variable is unbound is no answer."""
    if table.boolean is not None:
        return 1
    return sum(any(cell is not None for cell in row) for row in table.rows)


def _holds(context: Context, ask: str) -> bool:
    return bool(context.kb.execute_query(ask, language=context.language).boolean)


def _unseen(context: Context, query: str) -> str:
    """Names the ids that the model has not been shown, so that an invented one is noticed."""
    ids = [used for used in entity_ids(query) if not re.search(rf"\b{used}\b", context.seen)][:_NAMED]
    if not ids:
        return ""
    names = context.kb.labels(ids, language=context.language)
    known = [f'{used} is "{names[used]}"' for used in ids if used in names]
    unknown = [f"{used} is unknown here" for used in ids if used not in names]
    return f"(Check the ids that you have not seen before: {'; '.join(known + unknown)}.)\n"
