"""What speaks against an answer is found by rule, once it is made."""

from __future__ import annotations

from dataclasses import replace

from kbnav.knowledge.base import asked_by
from kbnav.knowledge.sparql.vocabulary import vocabulary_of
from kbnav.tools.observation import Context
from kbnav.trajectory import Outcome
from kbnav.verification.rules import ENDINGS, check_answer


def doubted(outcome: Outcome, question: str, context: Context) -> Outcome:
    """The outcome with its doubts; one without an answer, or whose answer is no query's result, has none."""
    if outcome.status not in ("answered", "best effort") or outcome.table is None or not outcome.query:
        return outcome
    endings = vocabulary_of(asked_by(context.kb, outcome.query)).each(ENDINGS)
    found = check_answer(question, context.language, outcome.query, outcome.table, endings)
    return replace(outcome, doubts=(*outcome.doubts, *found))
