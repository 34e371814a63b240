"""Asking an agent: one question, or a chat whose turns are checkpointed and go on after a kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.state import State, start, step_limit
from kbnav.agents.machine import Event, RunContext
from kbnav.answers.language import chosen_language
from kbnav.answers.question import checked_question
from kbnav.answers.tables import AnswerTable
from kbnav.errors import UsageError
from kbnav.models.cancellation import Cancellation
from kbnav.models.prices import cost_of, price_of
from kbnav.runs.journal import private_file
from kbnav.runs.trajectory import CHECKPOINTED, Attempt, Run, Turn, new_id, now, save_run, span, versions
from kbnav.settings.model import Settings
from kbnav.tools.context import Context, Observation

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.types import Durability, StateSnapshot

Listener = Callable[[Event], None]


def ask(
    agent: Agent,
    question: str,
    *,
    on_event: Listener | None = None,
    history: Sequence[Turn] = (),
    cancellation: Cancellation | None = None,
    config: RunnableConfig | None = None,
) -> Run:
    """Ask one question and save the run under ``<home>/runs``, unless ``save_runs`` is off.

    ``cancellation`` ends it from another thread.

    ``config`` is LangChain's: callbacks, tags and metadata for the run and for all that it calls.

    Raises StopRun where a service failed or the run was stopped; the run, up to then, is saved before. An answer whose
    run cannot be saved is given all the same; ``outcome.error`` then names the file.
    """
    asked = attempt(agent, question, on_event=on_event, history=history, cancellation=cancellation, config=config)
    return saved(asked, agent.settings)


def attempt(
    agent: Agent,
    question: str,
    *,
    on_event: Listener | None = None,
    history: Sequence[Turn] = (),
    cancellation: Cancellation | None = None,
    config: RunnableConfig | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
) -> Attempt:
    """Ask without saving; a failure comes beside the run. ``given``: gold entities. Raises UsageError."""
    question = checked_question(question)
    graph = agent.graph()  # loads LangGraph, before the clock of ``budget.seconds`` starts
    context = replace(agent.context(question, given), cancellation=cancellation)
    state = start(question, history, agent.settings.budget)
    return _run(agent, graph, state, context, config or {}, on_event)


def _run(
    agent: Agent,
    graph: Any,
    state: State | None,
    context: RunContext,
    config: Mapping[str, Any],
    on_event: Listener | None,
    durability: Durability = "sync",
) -> Attempt:
    """Run the graph to its end, stream its events, and make the record; no state: go on from the checkpoint."""
    began, started = time.monotonic(), datetime.now(UTC)
    limit = {"recursion_limit": step_limit(agent.settings.budget)}
    # A single question has no checkpoints, only its saved run.
    options = {"durability": durability} if graph.checkpointer else {}
    with span("invoke_agent", agent.name, agent_name=agent.name, request_model=agent.model) as add_attributes:
        over = threading.Event()

        def tell(event: Event) -> None:
            if on_event and not over.is_set():  # a call that was given up may still be at work
                on_event(event)

        try:
            told = replace(context, tell=tell)
            for values in graph.stream(state, {**limit, **config}, context=told, stream_mode="values", **options):
                state = values
        finally:
            over.set()
        if context.failure:
            add_attributes({"error.type": type(context.failure[0]).__name__})
    run = _record(agent, state, context, started, time.monotonic() - began)
    return Attempt(run, context.failure[0] if context.failure else None)


def _record(agent: Agent, state: Any, context: RunContext, started: datetime, seconds: float) -> Run:
    used, outcome = state["usage"], state["outcome"]
    return Run(
        id=state.get("run_id") or new_id("run"),
        question=state["question"],
        system=agent.name,
        model=agent.model,
        language=context.tool_context.answer_language,
        path=tuple(state["path"]),
        discarded=tuple(state["discarded"]),
        outcome=outcome,
        usage=used,
        cost=cost_of(used, price_of(agent.settings, agent.model)),
        requests=context.tool_context.meter.sent,
        seconds=round(seconds, 3),
        started=started.isoformat(timespec="seconds"),
        history=tuple(state["history"]),
        kb=agent.kb.state(),
        settings=agent.settings.public(),
        versions=versions(),
        prompts=agent.prompt_hashes(),
    )


def repeated(run: Run) -> Run:
    """A run told again as another."""
    return replace(run, id=new_id("run"), repeated=True, requests={}, seconds=0.0, started=now())


def saved(attempt: Attempt, settings: Settings) -> Run:
    """Save the run unless ``save_runs`` is off, and then raise what stopped it; a full disk loses no answer."""
    run, failure = attempt
    try:
        if settings.save_runs:
            save_run(run, settings.home / "runs")
    except UsageError as error:
        if failure:
            raise type(failure)(f"{failure}; {error}") from failure
        return replace(run, outcome=run.outcome.noted("", str(error)))
    if failure:
        raise failure
    return run


def use(agent: Agent, tool: str, arguments: Mapping[str, Any]) -> tuple[Observation, AnswerTable | None]:
    """Call one of an agent's tools outside any run: what a model would see, and the whole table where a query ran.

    The step's ``thought`` stands for the question that results are cut to; it may be left out. Raises BadArguments
    where the tool cannot be called so, and StopRun where a service failed.
    """
    thought, values = agent.lookups.validate(tool, {"thought": "", **arguments})
    language = chosen_language(agent.settings.language, thought)
    context = Context(agent.kb, thought, language, agent.prune, agent.shown)
    seen = agent.lookups.run(context, tool, thought, values)
    return seen, next(reversed(context.tables.values()), None)


class Chat:
    """A session with follow-up questions; each turn knows the earlier ones with their actions and results."""

    def __init__(self, agent: Agent, session_id: str, checkpointer: BaseCheckpointSaver[Any]) -> None:
        """Open the session ``session_id``, new or old."""
        self.id = session_id
        self._agent = agent
        self._graph = agent.graph(checkpointer)
        self._config: RunnableConfig = {"configurable": {"thread_id": session_id}}

    @property
    def history(self) -> list[Turn]:
        """The turns that ended, oldest first."""
        return turns_of(self._graph.get_state(self._config).values)

    @property
    def unfinished(self) -> str | None:
        """The question that was being worked on when the session was killed, if any."""
        return _unfinished(self._graph.get_state(self._config))

    def recover(self) -> None:
        """Save the run of the last turn where a kill came between its end and that; its time is not known any more."""
        agent, values = self._agent, self._graph.get_state(self._config).values
        folder, run_id = agent.settings.home / "runs", values.get("run_id")
        if agent.settings.save_runs and run_id and values.get("outcome") and not (folder / f"{run_id}.json").exists():
            context = agent.context(values["question"])
            save_run(_record(agent, values, context, datetime.now(UTC), 0), folder)

    def ask(self, question: str, *, on_event: Listener | None = None, cancellation: Cancellation | None = None) -> Run:
        """Ask the next question, or go on with the unfinished one. Raises as ``kbnav.sessions.session.ask``."""
        return saved(self.attempt(question, on_event=on_event, cancellation=cancellation), self._agent.settings)

    def attempt(
        self,
        question: str,
        *,
        again: bool = False,
        on_event: Listener | None = None,
        cancellation: Cancellation | None = None,
        durability: Durability = "sync",
    ) -> Attempt:
        """As ``ask``, but no run is saved, and a failure is given back. An unfinished question is resumed.

        ``again``: whoever asked it before was killed. If it had ended even so, it is not in the history twice.
        ``durability``: ``sync`` keeps the run after each node, whenever it is killed; ``exit`` at its end alone.
        """
        agent, question = self._agent, checked_question(question)
        snapshot = self._graph.get_state(self._config)
        context = replace(agent.context(question), cancellation=cancellation)
        state = None
        if _unfinished(snapshot) != question:
            history = turns_of(snapshot.values)
            if again and history and history[-1].question == question:
                history.pop()
            state = State(**{**start(question, history, agent.settings.budget), "run_id": new_id("run")})
        return _run(agent, self._graph, state, context, self._config, on_event, durability)

    def repeat(self, run: Run) -> Run:
        """Have the first question of another chat, to the same agent, as this one's; how it ended, without asking."""
        told = repeated(run)
        state = start(run.question, (), self._agent.settings.budget)
        ended = {"path": list(run.path), "discarded": list(run.discarded), "outcome": run.outcome, "usage": run.usage}
        self._graph.update_state(self._config, {**state, **ended, "run_id": told.id}, as_node="report")
        return told


@contextmanager
def sqlite_sessions(home: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    """Chats in ``<home>/sessions.sqlite``, checkpointed after every node. Raises UsageError for a bad file."""
    from kbnav.sessions.checkpoints import Sessions

    path = home / "sessions.sqlite"
    try:
        private_file(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot keep chat sessions here ({error.strerror}); set KBNAV_HOME") from error
    with closing(Sessions(path, serializer())) as sessions:
        yield sessions


def serializer() -> SerializerProtocol:
    """What writes checkpoints, and reads back nothing but kbnav's own records and what LangGraph knows."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED)


def _unfinished(snapshot: StateSnapshot) -> str | None:
    begun = set(snapshot.next) - {"__start__"}  # before it, the values are still those of the question before
    return str(snapshot.values["question"]) if begun and snapshot.values else None


def turns_of(state: Mapping[str, Any]) -> list[Turn]:
    """The turns of a checkpointed chat that ended, oldest first; none of an empty state."""
    if not state.get("outcome"):
        return list(state.get("history", ()))
    return [*state["history"], Turn.of(state["question"], state["path"], state["discarded"], state["outcome"])]
