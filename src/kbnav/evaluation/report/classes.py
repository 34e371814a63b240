"""Why an answer is not right, as far as it can be seen without a person reading it.

SPINACH's authors sorted a sample of errors by hand (section 5.4); these classes are the nearest to theirs that
recordings alone give: properties (40 % there), the way the query is put together (30 %), too little exploration (15 %),
clauses that the question did not ask for (10 %).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kbnav.errors import QuerySyntaxError
from kbnav.evaluation.query_shape import query_shape
from kbnav.evaluation.records import GoldAnswer, QuestionRecord

CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "missing": "not reached",
        "no gold": "there is no gold answer to compare with",
        "right": "every row right (EM, or a right node in the first place)",
        "failed": "ended by an error",
        "out of budget": "ended by the budget, before the agent said it was done",
        "no answer": "gave up, or refused",
        "other kind": "rows where a truth value is asked for, or the reverse",
        "no rows": "the final query has no rows, the gold one has",
        "other properties": "the query lacks a property of the gold query",
        "extra properties": "the query has all gold properties, and others",
        "other query": "the same properties, put together in another way; or one query cannot be read",
        "ranked low": "a right node, but not in the first place",
        "not found": "no right node in the ranking",
    }
)
"""Every class with what it means; a question is in the first one that fits."""


def error_class(record: QuestionRecord | None, gold: GoldAnswer | None, values: Mapping[str, float] | None) -> str:
    """The class, a key of CLASSES, of one question; ``values`` are its scores by metric, None without gold answer."""
    if record is None:
        return "missing"
    if gold is None or values is None:
        return "no gold"
    if values.get("em", values.get("hit@1")) == 1:
        return "right"
    outcome = record.run.outcome
    if outcome.status == "failed":
        return "failed"
    if outcome.stop in ("step budget", "action budget", "time limit", "cost limit"):
        return "out of budget"
    if outcome.table is None and outcome.ranking is None:
        return "no answer"
    if gold.nodes:
        return "ranked low" if values.get("mrr", 0.0) > 0 else "not found"
    return _class_of_table(record, gold)


def _class_of_table(record: QuestionRecord, gold: GoldAnswer) -> str:
    table, wanted = record.run.outcome.table, gold.table
    if table is None or wanted is None:
        return "no answer"
    if (table.boolean is None) != (wanted.boolean is None):
        return "other kind"
    if not len(table) and len(wanted):
        return "no rows"
    try:
        used, needed = query_shape(record.run.outcome.query).properties, query_shape(gold.query).properties
    except QuerySyntaxError:
        return "other query"
    if needed - used:
        return "other properties"
    return "extra properties" if used - needed else "other query"
