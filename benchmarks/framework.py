"""What the framework itself costs per step, without model and network, beside a bare LangGraph loop in the same run.

    python -m benchmarks.framework [--runs 30]

Each run takes 15 steps with a scripted model and a tool that does nothing. Printed is the median time of the
fifteenth step (model call, action, bookkeeping), which has the longest path to carry.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Usage
from kbnav.sessions.session import Chat, ask, sqlite_sessions
from kbnav.settings.model import Settings
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox

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


def script() -> list[AIMessage]:
    """Fifteen different actions."""
    return [says(("look", {"at": f"place {number}"})) for number in range(STEPS)]


def agent(home: Path) -> Agent:
    """An agent on the tool above."""
    settings = Settings(home=home, model="scripted", language="en")
    toolbox = Toolbox([look], NoKB.capabilities)  # type: ignore[arg-type]
    policy = ChatPolicy(ScriptedModel(replies=script()), toolbox, "spinach/policy.md", settings.budget)
    ending = QueryEnding(write_plainly)
    return Agent("bench", "scripted", NoKB(), settings, policy, toolbox, ending, lambda entry, _: (entry, Usage()))  # type: ignore[arg-type]


class Clock:
    """A listener that notes when each step was done."""

    def __init__(self) -> None:
        self.ticks: list[float] = []

    def __call__(self, event: Any) -> None:
        """Listen."""
        if event.kind == "step":
            self.ticks.append(time.perf_counter())


def last_step(ticks: Sequence[float]) -> float:
    """Milliseconds between the fourteenth and the fifteenth step."""
    return (ticks[-1] - ticks[-2]) * 1000


def kbnav_run(home: Path) -> float:
    """One run without checkpoints."""
    clock = Clock()
    ask(agent(home), "Where?", on_event=clock)
    return last_step(clock.ticks)


def kbnav_chat(home: Path) -> float:
    """One turn of a chat, checkpointed in SQLite after every node."""
    clock = Clock()
    with sqlite_sessions(Path(tempfile.mkdtemp(dir=home))) as saver:
        Chat(agent(home), "bench", saver).ask("Where?", on_event=clock)
    return last_step(clock.ticks)


class Messages(TypedDict):
    """The state of the bare loop."""

    messages: list[Any]


def bare_run(home: Path) -> float:  # noqa: ARG001 - it saves nothing
    """The same conversation as a two-node LangGraph loop with nothing around it."""
    model, ticks = ScriptedModel(replies=script()), list[float]()

    def think(state: Messages) -> Messages:
        return {"messages": [*state["messages"], model.invoke(state["messages"])]}

    def act(state: Messages) -> Messages:
        (call,) = state["messages"][-1].tool_calls
        ticks.append(time.perf_counter())
        return {"messages": [*state["messages"], ToolMessage(call["args"]["at"], tool_call_id=call["id"])]}

    graph = StateGraph(Messages)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_edge("think", "act")
    graph.add_conditional_edges("act", lambda _: END if len(ticks) >= STEPS else "think", ["think", END])
    for _ in graph.compile().stream({"messages": [HumanMessage("Where?")]}, {"recursion_limit": 100}):
        pass
    return last_step(ticks)


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    ways: dict[str, Callable[[Path], float]] = {
        "bare LangGraph loop": bare_run,
        "kbnav, no checkpoints": kbnav_run,
        "kbnav, SQLite checkpoint after each node": kbnav_chat,
    }
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for way in ways.values():
            way(home)
        for _ in range(runs):  # side by side, so that a noisy moment hits all of them
            for name, way in ways.items():
                times[name].append(way(home))
    bare = statistics.median(times["bare LangGraph loop"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:42} {median:6.2f} ms at step {STEPS}   {median / bare:5.2f} x bare")


if __name__ == "__main__":
    main()
