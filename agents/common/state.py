"""What a run is at any moment, who decides in it, and what of the budget is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol

from typing_extensions import TypedDict

from kbnav.runs.trajectory import NO_TOOL, Call, Outcome, Step, Stop, Turn, Understood, Usage
from kbnav.settings.model import Budget
from kbnav.tools.context import Context

LIMITS = ("time limit", "cost limit")
"""Stops after which nothing more is asked, of a model or a service: what is there is given."""
Update = dict[str, Any]
"""What a node changes of the state."""


class State(TypedDict):
    """What is checkpointed. ``pending`` are calls not yet decided on; ``depth`` is that of the next rollback."""

    question: str
    history: list[Turn]
    path: list[Step]
    discarded: list[Step]
    pending: list[Call]
    depth: int
    stop: Stop | None
    failure: str
    usage: Usage
    outcome: Outcome | None
    understood: NotRequired[Understood | None]
    """What the policy says of how it read the question; a chat that is older has none."""
    run_id: NotRequired[str]
    """Of a chat's turn: the id that its run is saved by, so that it is saved once, whenever the chat is killed."""


@dataclass(frozen=True)
class Reply:
    """What a policy says: calls, a refusal, or why it gives up (``note``); ``understood``: the question's reading."""

    calls: Sequence[Call] = ()
    usage: Usage = Usage()
    refusal: str = ""
    note: str = ""
    understood: Understood | None = None


Policy = Callable[[State, Context], Reply]
"""Chooses the actions of the next turn from the state; raises StopRun only."""


class Ending(Protocol):
    """What an agent's answer is: when finishing is premature, and what the outcome of a run is."""

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """Whether this finish must be dropped, after the path's steps and the chat's earlier turns."""

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:
        """Whether a call that repeats a step of the path does so to name its result as the answer."""

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The outcome of a run that stopped; the best so far where it did not finish."""


def start(question: str, history: Sequence[Turn], budget: Budget) -> State:
    """The state a run begins with."""
    return State(
        question=question,
        history=list(history),
        path=[],
        discarded=[],
        pending=[],
        depth=budget.rollback_depth,
        stop=None,
        failure="",
        usage=Usage(),
        outcome=None,
        understood=None,
    )


UNCOUNTED = ("over budget", "not alone")
"""Why a step was dropped that costs no action: it was not run, and is free to be asked for again."""


def all_steps(state: State) -> list[Step]:
    """The steps of the path and those that were dropped, by their number: every call that a policy has asked for."""
    return sorted((*state["path"], *state["discarded"]), key=lambda step: step.number)


def next_turn(state: State) -> int:
    """The number of the next turn, from 1 on."""
    return 1 + max((step.call.turn for step in all_steps(state)), default=0)


def actions_used(state: State) -> int:
    """Actions taken so far, those rolled back included; the first reply of a run without a call is none."""
    steps = all_steps(state)
    silent = any(step.call.tool == NO_TOOL for step in steps)
    return sum(step.dropped not in UNCOUNTED for step in steps) - silent


def turns_used(state: State) -> int:
    """Turns on the path, counted so too: what one asks for side by side is one of them."""
    first = next((step.number for step in all_steps(state) if step.call.tool == NO_TOOL), 0)
    return len({step.call.turn or -step.number for step in state["path"] if step.number != first})


def turns_left(state: State, budget: Budget) -> int:
    """Turns that the budget leaves; below 0 where a finish that cost none was not accepted."""
    return min(budget.steps - turns_used(state), budget.actions - actions_used(state))


def step_limit(budget: Budget) -> int:
    """A bound on graph steps that no run within the budget reaches, for LangGraph's ``recursion_limit``."""
    return 4 * budget.actions + 10


def seen_text(state: State) -> str:
    """Everything a policy has been shown of a run, as one text; what was taken back was seen too."""
    parts = [state["question"]]
    for turn in state["history"]:
        parts += [turn.question, turn.outcome.query, *(step.observation for step in turn.steps)]
    parts += [step.observation for step in all_steps(state)]
    return "\n".join(parts)
