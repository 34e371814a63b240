"""Asking an agent: one question, or a chat whose turns are checkpointed and go on after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from kbnav.agents.common.agent import Agent
from kbnav.agents.machine import Node, RunContext, State, start
from kbnav.agents.verification.confidence import agreed, escalated, fails, weighed
from kbnav.answers.question import checked_question
from kbnav.answers.tables import AnswerTable
from kbnav.errors import UsageError
from kbnav.models.cancellation import Brake
from kbnav.runs.journal import private_file
from kbnav.runs.trajectory import CHECKPOINTED, Attempt, Run, Turn, save_run
from kbnav.sessions.running import NOTHING, Listener, context_of, drive, language_of, walk
from kbnav.settings.model import OFFLINE
from kbnav.tools.observation import Context, Observation

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.types import StateSnapshot
    from psycopg_pool import ConnectionPool

KEPT_EVERY = 0.5
"""Seconds between checkpoints of a run that asks no model: no more than that is done again after a kill."""


def ask(
    agent: Agent,
    question: str,
    *,
    on_event: Listener | None = None,
    history: Sequence[Turn] = (),
    brake: Brake | None = None,
    config: RunnableConfig | None = None,
) -> Run:
    """Ask one question and save the run under ``<home>/runs``; ``brake`` ends it from another thread.

    ``config`` is LangChain's: callbacks, tags and metadata for the run and for all that it calls.

    Raises StopRun where a service failed or the run was stopped; the run, up to then, is saved before. An answer whose
    run cannot be saved is given all the same; ``outcome.error`` then names the file.
    """
    return _saved(attempt(agent, question, on_event=on_event, history=history, brake=brake, config=config), agent)


def attempt(
    agent: Agent,
    question: str,
    *,
    on_event: Listener | None = None,
    history: Sequence[Turn] = (),
    brake: Brake | None = None,
    config: RunnableConfig | None = None,
    given: Mapping[str, str] = NOTHING,
) -> Attempt:
    """Ask one question, save nothing, and give a failure back beside the run. Raises UsageError for no question.

    ``given`` are entities that an evaluation gives of the gold answer, labels by id.
    """
    question = checked_question(question)

    def once(listener: Listener | None) -> Attempt:
        context = context_of(agent, question, brake, given)
        state = start(question, history, agent.settings.budget)
        if config is None and agent.model == OFFLINE:
            return walk(agent, state, context, listener)
        return drive(agent, agent.machine.graph(), state, context, config or {}, listener)

    first = once(on_event)
    chosen, agreeing, asked = _with_others(agent, first, lambda: once(None))
    found = weighed(chosen, agent.settings.checks, agreeing, asked)
    stronger = agent.stronger
    if stronger is None or not fails(found):
        return found
    more = {"on_event": on_event, "history": history, "brake": brake, "config": config, "given": given}
    return escalated(found, attempt(stronger, question, **more))  # type: ignore[arg-type]


def _with_others(agent: Agent, first: Attempt, once: Callable[[], Attempt]) -> tuple[Attempt, int, int]:
    """What most attempts answer, how many do, and how many were made; none follows one that was stopped or failed."""
    attempts = [first]
    while len(attempts) < agent.samples and attempts[-1].failure is None and not _used_up(agent, attempts):
        attempts.append(once())
    if attempts[-1].failure is not None:
        return attempts[-1], 1, 1
    return (*agreed(attempts), len(attempts))


def _used_up(agent: Agent, attempts: Sequence[Attempt]) -> bool:
    """Whether the time or the money of a question is not enough for one attempt more like those before."""
    budget, more = agent.settings.budget, 1 + 1 / len(attempts)
    seconds = sum(one.run.seconds for one in attempts)
    dollars = sum(one.run.cost or 0.0 for one in attempts)
    return bool(
        (budget.seconds and seconds * more > budget.seconds) or (budget.dollars and dollars * more > budget.dollars)
    )


def _saved(attempt: Attempt, agent: Agent) -> Run:
    """Save the run, and only then raise what stopped it; what was found is not lost with a disk that is full."""
    run, failure = attempt
    try:
        save_run(run, agent.settings.home / "runs")
    except UsageError as error:
        if failure:
            raise type(failure)(f"{failure}; {error}") from failure
        return replace(run, outcome=run.outcome.noted("", str(error)))
    if failure:
        raise failure
    return run


def use(agent: Agent, tool: str, arguments: Mapping[str, Any]) -> tuple[Observation, AnswerTable | None]:
    """Call one of an agent's tools outside any run: what a model would see, and the whole table where a query ran.

    What is thought of the step, ``thought``, stands for the question that results are cut to; it may be left out.
    Raises BadArguments where the tool cannot be called so, and StopRun where a service failed.
    """
    thought, values = agent.lookups.validate(tool, {"thought": "", **arguments})
    context = Context(agent.kb, thought, language_of(agent, thought), agent.prune, agent.shown)
    seen = agent.lookups.run(context, tool, thought, values)
    return seen, next(reversed(context.tables.values()), None)


class Chat:
    """A session with follow-up questions; each turn knows the earlier ones with their actions and results."""

    def __init__(
        self,
        agent: Agent,
        session_id: str,
        checkpointer: BaseCheckpointSaver[Any],
        *,
        kept_every: float = KEPT_EVERY,
        begun: bool = True,
    ) -> None:
        """Open the session ``session_id``, new or old; ``kept_every`` is for runs that ask no model.

        Of these, ``begun`` says whether a question is kept as soon as it is asked, or is by whoever asks.
        """
        self.id = session_id
        self._kept_every, self._begun = kept_every, begun
        self._agent = agent
        self._over: State | None = None
        """The last state of a run, until it is kept."""
        self._machine = agent.graph(checkpointer)
        self._config = {"configurable": {"thread_id": session_id}}

    @property
    def exists(self) -> bool:
        """Whether anything was ever asked in this session."""
        return bool(self._machine.get_state(self._config).values)  # type: ignore[arg-type]

    @property
    def history(self) -> list[Turn]:
        """The turns that ended, oldest first."""
        return turns_of(self._snapshot().values)

    @property
    def unfinished(self) -> str | None:
        """The question that was being worked on when the session was killed, if any."""
        return _unfinished(self._snapshot())

    def _snapshot(self) -> StateSnapshot:
        return self._machine.get_state(self._config)  # type: ignore[arg-type]

    def ask(self, question: str, *, on_event: Listener | None = None, brake: Brake | None = None) -> Run:
        """Ask the next question. Raises as ``kbnav.sessions.session.ask``."""
        question, snapshot = checked_question(question), self._snapshot()
        return self._save(self._ask(question, turns_of(snapshot.values), snapshot, on_event, brake))

    def attempt(self, question: str, *, on_event: Listener | None = None, brake: Brake | None = None) -> Attempt:
        """As ``ask``, but no run is saved, and a failure is given back beside the run."""
        question, snapshot = checked_question(question), self._snapshot()
        return self._end(self._ask(question, turns_of(snapshot.values), snapshot, on_event, brake))

    def attempt_again(
        self, question: str, *, begun: bool, on_event: Listener | None = None, brake: Brake | None = None
    ) -> Attempt:
        """As ``attempt``, but a question that is unfinished is gone on with where it was.

        One that was ``begun`` before, by whoever was killed, is not in the history twice, however far it had come.
        """
        question, snapshot = checked_question(question), self._snapshot()
        if _unfinished(snapshot) == question:
            return self._end(self._go(question, None, snapshot, on_event, brake))
        history = turns_of(snapshot.values)
        if begun and history and history[-1].question == question:
            history.pop()
        return self._end(self._ask(question, history, snapshot, on_event, brake))

    def _ask(
        self,
        question: str,
        history: Sequence[Turn],
        snapshot: StateSnapshot,
        on_event: Listener | None,
        brake: Brake | None,
    ) -> Attempt:
        state = start(question, history, self._agent.settings.budget)
        return self._go(question, state, snapshot, on_event, brake)

    def resume(self, *, on_event: Listener | None = None, brake: Brake | None = None) -> Run:
        """Go on with the unfinished question where it was. Raises UsageError where there is none."""
        return self._save(self._resume(on_event, brake))

    def attempt_resume(self, *, on_event: Listener | None = None, brake: Brake | None = None) -> Attempt:
        """As ``resume``, but no run is saved, and a failure is given back beside the run."""
        return self._end(self._resume(on_event, brake))

    def _resume(self, on_event: Listener | None, brake: Brake | None) -> Attempt:
        snapshot = self._snapshot()
        question = _unfinished(snapshot)
        if question is None:
            raise UsageError(f"nothing to go on with in session {self.id}")
        return self._go(question, None, snapshot, on_event, brake)

    def _go(
        self,
        question: str,
        state: State | None,
        snapshot: StateSnapshot,
        on_event: Listener | None,
        brake: Brake | None,
    ) -> Attempt:
        agent, history = self._agent, (snapshot.values if state is None else state)["history"]
        first = self._first(state, snapshot, context_of(agent, question, brake), on_event)

        def once() -> Attempt:
            again = start(question, history, agent.settings.budget)
            return drive(agent, agent.machine.graph(), again, context_of(agent, question, brake), {}, None)

        chosen, agreeing, asked = _with_others(agent, first, once)
        found = weighed(chosen, agent.settings.checks, agreeing, asked)
        if agent.stronger is not None and fails(found):
            chosen = found = escalated(found, attempt(agent.stronger, question, history=history, brake=brake))
        run = chosen.run
        if run.id != first.run.id:
            self._end(first)
            self._keep("report", {"path": [*run.path], "discarded": [*run.discarded], "outcome": run.outcome})
        return found

    def _first(
        self, state: State | None, snapshot: StateSnapshot, context: RunContext, on_event: Listener | None
    ) -> Attempt:
        """One run, from ``state``, or from where ``snapshot`` was: checkpointed after every node, or now and then.

        Where no model is asked a node may take a few milliseconds, and LangGraph would take longer than all of them.
        """
        node, agent = snapshot.next[0] if state is None else "think", self._agent
        if agent.model != OFFLINE or node not in get_args(Node):
            return drive(agent, self._machine, state, context, self._config, on_event)
        if state is None:
            state = cast("State", snapshot.values)
        elif self._begun:
            self._keep("__start__", state)
        kept = time.monotonic()

        def after(over: Node, now: State) -> None:
            nonlocal kept
            if over == "report":
                self._over = now
            elif time.monotonic() >= kept + self._kept_every:
                self._keep(over, now)
                kept = time.monotonic()

        return walk(agent, state, context, on_event, cast("Node", node), after)

    def _save(self, attempt: Attempt) -> Run:
        """Save a run, and only then let the session know that it is over: killed in between, it is done again."""
        try:
            return _saved(attempt, self._agent)
        finally:
            self._end(attempt)

    def _end(self, attempt: Attempt) -> Attempt:
        """Checkpoint the last state of a run that asks no model."""
        if self._over is not None:
            self._keep("report", self._over)
            self._over = None
        return attempt

    def _keep(self, node: str, values: Mapping[str, Any]) -> None:
        """Checkpoint what is known after a node."""
        self._machine.update_state(self._config, dict(values), as_node=node)  # type: ignore[arg-type]


@contextmanager
def sqlite_sessions(home: Path, on_loss: Callable[[str], None] | None = None) -> Iterator[BaseCheckpointSaver[Any]]:
    """Chat sessions in ``<home>/sessions.sqlite``, checkpointed after every node.

    ``on_loss`` is for who has one session: where the file cannot be written any more (a full disk), it is told so in a
    line, once, and the session goes on in memory. Raises UsageError where the file cannot be used, and, without
    ``on_loss``, where it cannot be written.
    """
    from kbnav.sessions.checkpoints import Sessions

    path = home / "sessions.sqlite"
    try:
        private_file(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot keep chat sessions here ({error.strerror}); set KBNAV_HOME") from error
    with closing(Sessions(path, serializer(), on_loss)) as sessions:
        yield sessions


def postgres_sessions(pool: ConnectionPool[Any]) -> BaseCheckpointSaver[Any]:
    """Chat sessions in a PostgreSQL database that several servers share; its connections are in autocommit mode."""
    from kbnav.sessions.checkpoints import SharedSessions

    saver = SharedSessions(pool, serde=serializer())
    saver.setup()
    return saver


def serializer() -> SerializerProtocol:
    """What writes checkpoints, and reads back nothing but kbnav's own records and what LangGraph knows."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED)


def _unfinished(snapshot: StateSnapshot) -> str | None:
    return str(snapshot.values["question"]) if snapshot.next and snapshot.values else None


def turns_of(state: Mapping[str, Any]) -> list[Turn]:
    """The turns of a checkpointed chat that ended, oldest first; none of an empty state."""
    if not state.get("outcome"):
        return list(state.get("history", ()))
    return [*state["history"], Turn.of(state["question"], state["path"], state["outcome"])]
