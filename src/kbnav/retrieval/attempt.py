"""Asking a retriever for one query, as a run that can be saved and scored."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kbnav.errors import StopRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.retrieval.base import Retriever
from kbnav.settings import OFFLINE, Settings
from kbnav.trace import Trace
from kbnav.trajectory import Outcome, Run

if TYPE_CHECKING:
    from kbnav.trajectory import Attempt

KEPT = 100
"""Nodes of a ranking that a run keeps."""
NO_MODEL = "none"
"""The model of a run that asked none."""


def model_name(retriever: Retriever, settings: Settings) -> str:
    """The model that a retrieval system asks; a stand-in is named as one."""
    if not retriever.prompts:
        return NO_MODEL
    if settings.model == OFFLINE:
        from kbnav.models.standin import NAME

        return NAME
    return settings.model


def attempt(retriever: Retriever, kb: KnowledgeBase, settings: Settings, query: str, *, k: int = KEPT) -> Attempt:
    """Retrieve for one query and save nothing; a failure of a service comes beside the run, with the steps before it.

    Raises UsageError for no query.
    """
    from kbnav.models.chat import cost_of
    from kbnav.question import checked_question
    from kbnav.trajectory import Attempt, new_id, versions

    query = checked_question(query)
    trace, began, started = Trace(), time.monotonic(), datetime.now(UTC)
    failure: StopRun | None = None
    try:
        ranking = retriever.retrieve(query, k, trace)
        outcome = Outcome("answered" if len(ranking) else "no answer", "finish", ranking=ranking)
    except StopRun as error:
        failure, outcome = error, Outcome("failed", "error", note=str(error))
    model = model_name(retriever, settings)
    run = Run(
        id=new_id("run"),
        question=query,
        system=retriever.name,
        model=model,
        language="",
        path=tuple(trace.steps),
        discarded=(),
        outcome=outcome,
        usage=trace.usage,
        replayed=trace.replayed,
        replayed_seconds=round(trace.replayed_seconds, 3),
        cost=cost_of(trace.usage, settings.prices.get(model)),
        replayed_cost=cost_of(trace.replayed, settings.prices.get(model)) if trace.replayed.calls else None,
        seconds=round(time.monotonic() - began, 3),
        started=started.isoformat(timespec="seconds"),
        kb=kb.state(),
        settings=settings.public(),
        versions=versions(),
        prompts=dict(retriever.prompts),
    )
    return Attempt(run, failure)
