"""Rules on several knowledge bases: those of each in turn, up to the first that answers, which is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kbnav.agents.common.state import Policy, Reply, State
from kbnav.runs.trajectory import FINISH, Call, Step
from kbnav.tools.context import Context
from kbnav.tools.toolbox import alone, within


class SeveralPolicy:
    """Asks the rules of the first knowledge base; where they end without an answer, those of the next.

    It joins nothing: an answer is that of one knowledge base.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        """``policies`` by the names of the knowledge bases, in the order in which they are asked."""
        self._policies = policies

    def __call__(self, state: State, context: Context) -> Reply:
        """The next calls of the first whose rules are not at their end."""
        taken = (*state["path"], *state["discarded"])
        turn = 1 + max((step.call.turn for step in taken), default=0)
        reply, last = Reply(), list(self._policies)[-1]
        for name, policy in self._policies.items():
            reply = policy(_on(state, name), within(context, name))
            if name == last or any(not _gives_up(call) for call in reply.calls):
                return replace(
                    reply, calls=[_asking(call, name, turn, place) for place, call in enumerate(reply.calls)]
                )
        return reply


def _on(state: State, name: str) -> State:
    """The state with the steps on one knowledge base only."""
    return State(**{**state, "path": _of(state["path"], name), "discarded": _of(state["discarded"], name)})


def _of(steps: Sequence[Step], name: str) -> list[Step]:
    return [alone(step, name) for step in steps if step.call.arguments.get("kb") == name]


def _gives_up(call: Call) -> bool:
    return call.tool == FINISH and bool(call.arguments.get("no_answer"))


def _asking(call: Call, name: str, turn: int, place: int) -> Call:
    """A call for one knowledge base; the end says which one it was that answered."""
    named = replace(call, id=f"call-{turn}-{place + 1}", turn=turn)
    if call.tool == FINISH:
        return named if _gives_up(call) else replace(named, thought=f"{name} answers: {call.thought}")
    return replace(named, arguments={**call.arguments, "kb": name})
