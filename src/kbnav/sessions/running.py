"""One run of an agent's machine, from a state to its end, and the record of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.machine import Event, Node, RunContext, State, step_limit, unkept
from kbnav.answers.language import question_language
from kbnav.models.cancellation import Brake
from kbnav.models.prices import cost_of, price_of
from kbnav.runs.tracing import span
from kbnav.runs.trajectory import Attempt, Run, Usage, new_id, versions

Listener = Callable[[Event], None]
NOTHING: Mapping[str, str] = MappingProxyType({})


def context_of(agent: Agent, question: str, brake: Brake | None, given: Mapping[str, str] = NOTHING) -> RunContext:
    """What a run is done with; ``brake`` ends it, and ``given`` is as in ``session.attempt``."""
    return replace(agent.context(question, language_of(agent, question), given), brake=brake)


def language_of(agent: Agent, question: str) -> str:
    """The language of a question: the settings', or what the text is written in."""
    chosen = agent.settings.language
    return question_language(question) if chosen == "auto" else chosen


def walk(
    agent: Agent,
    state: State,
    context: RunContext,
    on_event: Listener | None,
    node: Node = "think",
    after: Callable[[Node, State], None] = unkept,
) -> Attempt:
    """Run the machine to its end by itself: where no model is asked there is nothing that LangGraph could trace."""
    began, started = time.monotonic(), datetime.now(UTC)
    over = threading.Event()

    def tell(event: Event) -> None:
        if on_event and not over.is_set():  # a tool that was left alone may end after the run
            on_event(event)

    with _span(agent, context):
        end = agent.machine.run(state, replace(context, tell=tell), node, after)
    over.set()
    return _attempt(agent, end, context, started, began)


@contextmanager
def _span(agent: Agent, context: RunContext) -> Iterator[None]:
    """A run's span, which says so where the run failed."""
    with span("invoke_agent", agent.name, agent_name=agent.name, request_model=agent.model) as tell:
        yield
        if context.failure:
            tell({"error.type": type(context.failure[0]).__name__})


def drive(
    agent: Agent,
    machine: Any,
    state: State | None,
    context: RunContext,
    config: Mapping[str, Any],
    on_event: Listener | None,
) -> Attempt:
    """Run the graph to its end and stream its events."""
    began, started = time.monotonic(), datetime.now(UTC)
    limit = {"recursion_limit": step_limit(agent.settings.budget)}
    # A chat must survive a kill at any moment; a single question has no checkpoints, only its saved run.
    options = {"durability": "sync"} if machine.checkpointer else {}
    with _span(agent, context):
        for mode, item in machine.stream(
            state, {**limit, **config}, context=context, stream_mode=["custom", "values"], **options
        ):
            if mode == "values":
                state = item
            elif on_event:
                on_event(item)
    return _attempt(agent, state, context, started, began)


def _attempt(agent: Agent, state: Any, context: RunContext, started: datetime, began: float) -> Attempt:
    run = _record(agent, state, context, started, time.monotonic() - began)
    return Attempt(run, context.failure[0] if context.failure else None)


def _record(agent: Agent, state: Any, context: RunContext, started: datetime, seconds: float) -> Run:
    used, price = state["usage"], price_of(agent.settings, agent.model)
    replayed = used.replayed or Usage()
    return Run(
        id=new_id("run"),
        question=state["question"],
        system=agent.name,
        model=agent.model,
        language=context.tools.language,
        path=tuple(state["path"]),
        discarded=tuple(state["discarded"]),
        outcome=state["outcome"],
        usage=used.paid,
        replayed=replayed,
        replayed_seconds=round(used.replayed_seconds, 3),
        cost=cost_of(used, price),
        replayed_cost=cost_of(replayed, price) if used.replayed else None,
        requests=context.tools.meter.sent,
        seconds=round(seconds, 3),
        started=started.isoformat(timespec="seconds"),
        history=tuple(state["history"]),
        kb=agent.kb.state(),
        settings=agent.settings.public(),
        versions=versions(),
        prompts=agent.prompt_hashes(),
    )
