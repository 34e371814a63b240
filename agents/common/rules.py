"""The rules by which a turn's calls are run, dropped or end the run (docs/state-machine.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kbnav.agents.common.losses import AGAIN, settled, to_try_again
from kbnav.agents.common.objecting import is_objected
from kbnav.agents.common.state import Ending, State, room, used
from kbnav.runs.trajectory import FINISH, Call, Dropped, Stop
from kbnav.settings.model import Budget


class Sorted(NamedTuple):
    """A turn's calls: those to run now, and those that are not run, with the reason."""

    run: list[Call]
    dropped: list[tuple[Call, Dropped]]


def sort_out(state: State, ending: Ending, budget: Budget) -> Sorted:
    """Decide on the pending calls, which are those of one turn.

    Nothing to run means a rollback: every call repeats a step of the path, or the finish is premature. Where a turn
    holds fresh calls beside repeats, the policy is not going round in circles: the fresh ones run, the repeats are
    only dropped; what was not answered in time may be tried again, and so
    may a finish that was objected to. A finish beside other calls is not run: what they
    show is to be looked at first. A repeat that names its result as the answer is an action like others. Without the
    rollback rule a step of the path may be taken again; without the rule on premature finishes no finish is one. Calls
    that the budget has no room for are dropped.
    """
    path = state["path"]
    known = {step.call.key for step in settled(path) if not is_objected(step)} if budget.rollback else set()
    fresh: list[Call] = []
    finishes: list[Call] = []
    repeats: list[tuple[Call, Dropped]] = []
    asked: set[str] = set()
    affordable = within_budget(state["pending"], state, ending, budget)
    for call in affordable:
        if call.key in known and (call.key in asked or not ending.chosen(call, path)):
            repeats.append((call, "repeat"))
        elif call.tool == FINISH and not call.problem:
            finishes.append(call)
        else:
            fresh.append(call)
        known.add(call.key)
        asked.add(call.key)
    over: list[tuple[Call, Dropped]] = [
        (call, "over budget") for call in state["pending"] if not any(call is one for one in affordable)
    ]
    if fresh:
        return Sorted(fresh, [*repeats, *((call, "not alone") for call in finishes), *over])
    if finishes and not premature(finishes[0], state, ending, budget):
        return Sorted(finishes[:1], [*repeats, *((call, "repeat") for call in finishes[1:]), *over])
    refused: list[tuple[Call, Dropped]] = [
        (call, "premature finish" if call.tool == FINISH else "repeat") for call in affordable
    ]
    return Sorted([], [*refused, *over])


def within_budget(calls: Sequence[Call], state: State, ending: Ending, budget: Budget) -> list[Call]:
    """The calls of a turn that the budget has room for; a finish needs none, but must be accepted where there is none.

    None are left where the budget is used up.
    """
    kept: list[Call] = []
    room_left = left = room(state, budget)
    for call in calls:
        free = budget.free_finish and call.tool == FINISH and not call.problem
        if room_left > 0 and (free or left > 0):
            kept.append(call)
            left -= not free
        elif room_left <= 0 and free and not premature(call, state, ending, budget):
            return [call]
    return kept


def why_stopped(state: State, budget: Budget) -> Stop | None:
    """Why a run ends here; None where it goes on."""
    path = state["path"]
    if path and path[-1].call.tool == FINISH and path[-1].ok:
        return "finish"
    left = room(state, budget)
    return used_up(state, budget) if left < 0 or (left == 0 and not budget.free_finish) else None


def used_up(state: State, budget: Budget) -> Stop:
    """Which budget is used up."""
    return "step budget" if used(state) >= budget.steps else "action budget"


def premature(finish: Call, state: State, ending: Ending, budget: Budget) -> bool:
    """Whether a finish must be dropped."""
    return budget.premature_finish and ending.premature(finish, state["path"], state["history"])


def second_tries(calls: Sequence[Call], state: State) -> list[Call]:
    """What was not answered in time and is tried again, where a policy would say that there is no answer."""
    finish = calls[0] if len(calls) == 1 and calls[0].tool == FINISH else None
    if calls and not (finish and (finish.arguments.get("no_answer") or finish.arguments.get("nodes") == [])):
        return []
    if not calls and any(step.rows for step in (*state["path"], *state["discarded"])):
        return []  # there is something to answer with; what is open is said beside it
    lost = to_try_again([*state["path"], *state["discarded"]])
    return [replace(call, thought=AGAIN, id=f"{call.id}-again", turn=0) for call in lost]
