"""What the framework itself costs per step, without model and network, beside a bare LangGraph loop in the same run.

    python -m benchmarks.framework [--runs 30] [--sessions 10000]

Each run takes 15 steps with a scripted model and a tool that does nothing. Printed is the median time of the
fifteenth step (model call, action, bookkeeping), which has the longest path to carry, and that of a whole question.
Chats are checkpointed after each node, in SQLite and, where it is installed, in PostgreSQL; with ``--sessions``, so
many other chats of three steps are in the database before.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.database import Execute, open_postgres
from kbnav.runs.trajectory import Usage
from kbnav.sessions.checkpoints import shared_sessions
from kbnav.sessions.session import Chat, ask, serializer, sqlite_sessions
from kbnav.settings.model import Budget, Settings
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox
from tests.services import Missing, postgresql

STEPS = 15


def look(context: Context, thought: str, at: str) -> Observation:  # noqa: ARG001 - a tool that does nothing
    """Look.

    Args:
        context: Not the model's.
        thought: Why.
        at: Where.
    """
    return Observation(at)


class NoKB:
    """A knowledge base that is asked nothing."""

    name = "none"
    capabilities = frozenset({"search_entities"})

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def script(steps: int = STEPS) -> list[AIMessage]:
    """Different actions."""
    return [says(("look", {"at": f"place {number}"})) for number in range(steps)]


def agent(home: Path, steps: int = STEPS) -> Agent:
    """An agent on the tool above."""
    settings = Settings(home=home, model="scripted", language="en", budget=Budget(steps=steps))
    toolbox = Toolbox([look], NoKB.capabilities)  # type: ignore[arg-type]
    policy = ChatPolicy(ScriptedModel(replies=script(steps)), toolbox, "spinach/policy.md", settings.budget)
    ending = QueryEnding(write_plainly)
    return Agent("bench", "scripted", NoKB(), settings, policy, toolbox, ending, lambda entry, _: (entry, Usage()))  # type: ignore[arg-type]


class Clock:
    """A listener that notes when each step was done."""

    def __init__(self) -> None:
        self.began, self.ticks = time.perf_counter(), list[float]()

    def __call__(self, event: Any) -> None:
        """Listen."""
        if event.kind == "step":
            self.ticks.append(time.perf_counter())

    @property
    def times(self) -> Times:
        """What the fifteenth step took, and the question to its end, in milliseconds."""
        return 1000 * (self.ticks[-1] - self.ticks[-2]), 1000 * (time.perf_counter() - self.began)


Times = tuple[float, float]
Way = Callable[[Path], Times]
"""Makes one run."""


def kbnav_run(home: Path) -> Times:
    """One run without checkpoints."""
    clock = Clock()
    ask(agent(home), "Where?", on_event=clock)
    return clock.times


def chat_in(saver: BaseCheckpointSaver[Any]) -> Way:
    """The first turns of chats, checkpointed after every node."""
    numbers = count()

    def run(home: Path) -> Times:
        clock = Clock()
        Chat(agent(home), f"bench {next(numbers)}", saver).ask("Where?", on_event=clock)
        return clock.times

    return run


def fill(home: Path, saver: BaseCheckpointSaver[Any], run: Execute, tables: Mapping[str, str], sessions: int) -> None:
    """Have so many chats of three steps in a database: one is asked, and its rows are copied for the others."""
    Chat(agent(home, 3), "other 0", saver).ask("Where?")
    for table, columns in tables.items():
        numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {sessions}) "
        copied = f"SELECT 'other ' || n.i, {columns} FROM {table}, n WHERE thread_id = 'other 0'"
        run(f"INSERT INTO {table} (thread_id, {columns}) {numbers}{copied}")


_KEY = "checkpoint_ns, checkpoint_id"
_SAVED = f"{_KEY}, parent_checkpoint_id, type, checkpoint, metadata"
SQLITE = {"checkpoints": _SAVED, "writes": f"{_KEY}, task_id, idx, channel, type, value"}
POSTGRES = {
    "checkpoints": _SAVED,
    "checkpoint_blobs": "checkpoint_ns, channel, version, type, blob",
    "checkpoint_writes": f"{_KEY}, task_id, idx, channel, type, blob, task_path",
}
"""LangGraph's tables, with the columns that follow the session's id."""


@contextmanager
def ways(home: Path, sessions: int) -> Iterator[dict[str, Way]]:
    """What is measured; databases hold ``sessions`` other chats."""
    with ExitStack() as opened:
        made: dict[str, Way] = {"bare LangGraph loop": bare_run, "kbnav, no checkpoints": kbnav_run}
        saver: Any = opened.enter_context(sqlite_sessions(home))
        made["kbnav, SQLite checkpoint after each node"] = chat_in(saver)
        if sessions:
            fill(home, saver, saver.conn.execute, SQLITE, sessions)
            saver.conn.commit()
        with suppress(Missing):
            pool = opened.enter_context(open_postgres(opened.enter_context(postgresql())))
            saver = shared_sessions(pool, serializer())
            made["kbnav, PostgreSQL checkpoint after each node"] = chat_in(saver)
            if sessions:
                with pool.connection() as connection:
                    fill(home, saver, connection.execute, POSTGRES, sessions)
                    connection.execute("ANALYZE")
        yield made


class Messages(TypedDict):
    """The state of the bare loop."""

    messages: list[Any]


def bare_run(home: Path) -> Times:  # noqa: ARG001 - it saves nothing
    """The same conversation as a two-node LangGraph loop with nothing around it."""
    model, clock = ScriptedModel(replies=script()), Clock()

    def think(state: Messages) -> Messages:
        return {"messages": [*state["messages"], model.invoke(state["messages"])]}

    def act(state: Messages) -> Messages:
        (call,) = state["messages"][-1].tool_calls
        clock.ticks.append(time.perf_counter())
        return {"messages": [*state["messages"], ToolMessage(call["args"]["at"], tool_call_id=call["id"])]}

    graph = StateGraph(Messages)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_edge("think", "act")
    graph.add_conditional_edges("act", lambda _: END if len(clock.ticks) >= STEPS else "think", ["think", END])
    for _ in graph.compile().stream({"messages": [HumanMessage("Where?")]}, {"recursion_limit": 100}):
        pass
    return clock.times


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--sessions", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ways(Path(folder), given.sessions) as made:
        times: dict[str, list[Times]] = {name: [] for name in made}
        for way in made.values():
            way(Path(folder))
        for _ in range(given.runs):  # side by side, so that a noisy moment hits all of them
            for name, way in made.items():
                times[name].append(way(Path(folder)))
    medians = {name: tuple(map(statistics.median, zip(*measured, strict=True))) for name, measured in times.items()}
    bare = medians["bare LangGraph loop"][0]
    for name, (step, question) in medians.items():
        print(f"{name:46} {step:6.2f} ms at step {STEPS} {step / bare:6.2f} x bare {question:8.1f} ms a question")


if __name__ == "__main__":
    main()
