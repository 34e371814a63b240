"""Asking a retriever for one query, as a run that can be saved and scored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kbnav.answers.question import checked_question
from kbnav.errors import Stopped, StopRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.cancellation import ON_REQUEST, Cancellation
from kbnav.models.prices import cost_of, price_of
from kbnav.retrieval.base import Retriever, build_retriever
from kbnav.runs.trace import Trace, span
from kbnav.runs.trajectory import Attempt, Outcome, Run, Step, Usage, new_id, versions
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings

KEPT = 100
"""Nodes of a ranking that a run keeps."""
NO_MODEL = "none"
"""The model of a run that asked none."""


def model_name(retriever: Retriever, settings: Settings) -> str:
    """The model that a retrieval system asks; a stand-in is named as one."""
    if not retriever.prompts:
        return NO_MODEL
    if settings.model == OFFLINE:
        from kbnav.models.scripted import NAME

        return NAME
    return settings.model


def retrieved(system: systems.SystemName, kb: KnowledgeBase, settings: Settings, query: str, **how: Any) -> Attempt:
    """``attempt`` by a retriever that is named, all of whose options are then among the run's settings.

    Raises as ``build_retriever`` too.
    """
    options = systems.find(system, "retriever").read(settings.options).model_dump(mode="json")
    settings = settings.model_copy(update={"options": options})
    return attempt(build_retriever(system, kb, settings), kb, settings, query, **how)


def attempt(
    retriever: Retriever,
    kb: KnowledgeBase,
    settings: Settings,
    query: str,
    *,
    k: int = KEPT,
    on_step: Callable[[Step], None] = lambda step: None,  # noqa: ARG005
    cancellation: Cancellation | None = None,
) -> Attempt:
    """Retrieve for one query and save nothing; a failure of a service comes beside the run, with the steps before it.

    ``on_step`` is given each step once it is over; ``cancellation`` ends the run from another thread, also in
    the middle of a model's call, and where too much was spent.

    Raises UsageError for no query, and CancelledError where the cancellation abandons the run.
    """
    query = checked_question(query)
    over = threading.Event()

    def told(step: Step, spent: Usage) -> None:
        if over.is_set():  # left alone by the cancellation, it may go on until here
            raise Stopped(ON_REQUEST)
        on_step(step)
        if cancellation:
            cancellation.check(spent)

    trace, began, started = Trace(told), time.monotonic(), datetime.now(UTC)
    failure: StopRun | None = None
    try:
        with span("invoke_agent", retriever.name, agent_name=retriever.name):
            ranking = (cancellation.run if cancellation else lambda call: call())(
                lambda: retriever.retrieve(query, k, trace)
            )
        outcome = Outcome("answered" if len(ranking) else "no answer", "finish", ranking=ranking)
    except StopRun as error:
        failure, outcome = error, Outcome("failed", "error", note=str(error))
    finally:
        over.set()
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
        cost=cost_of(trace.usage, price_of(settings, model)),
        seconds=round(time.monotonic() - began, 3),
        started=started.isoformat(timespec="seconds"),
        kb=kb.state(),
        settings=settings.public(),
        versions=versions(),
        prompts=dict(retriever.prompts),
    )
    return Attempt(run, failure)
