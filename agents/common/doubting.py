"""What speaks against an answer is found by rule, once it is made."""

from __future__ import annotations

from dataclasses import replace

from kbnav.agents.common.state import LIMITS
from kbnav.agents.verification.rules import ENDINGS, check_answer
from kbnav.agents.verification.units import mixed_units
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import asked_by
from kbnav.knowledge.sparql.vocabulary import vocabulary_of
from kbnav.runs.trajectory import Outcome
from kbnav.runs.warnings import Doubt
from kbnav.tools.observation import Context


def doubted(outcome: Outcome, question: str, context: Context) -> Outcome:
    """The outcome with its doubts; one without an answer, or whose answer is no query's result, has none."""
    if outcome.status not in ("answered", "best effort") or outcome.table is None or not outcome.query:
        return outcome
    found = doubts_of(question, outcome.query, outcome.table, context)
    if outcome.stop not in LIMITS and not _dated(outcome.table):
        found += mixed_units(asked_by(context.kb, outcome.query), outcome.query, context.language)
    return replace(outcome, doubts=(*outcome.doubts, *found))


def _dated(table: AnswerTable) -> bool:
    """Whether a result shows dates, which are what it sorts by or compares then."""
    first = table.rows[0] if table.rows else ()
    return any(cell is not None and (cell.datatype or "").endswith(("#dateTime", "#date")) for cell in first)


def doubts_of(question: str, query: str, table: AnswerTable, context: Context) -> tuple[Doubt, ...]:
    """What the rules find, with the ids of the knowledge base that the query is for."""
    endings = vocabulary_of(asked_by(context.kb, query)).each(ENDINGS)
    return check_answer(question, context.language, query, table, endings)
