"""The calls of one turn are run, side by side, and told of as they begin and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Literal, ParamSpec, TypeVar

from kbnav.agents.common.state import State, seen_text
from kbnav.answers.tables import encodable
from kbnav.errors import StopRun
from kbnav.models.cancellation import Brake, in_time
from kbnav.runs.tracing import span
from kbnav.runs.trajectory import Call, Step, Usage, side_by_side
from kbnav.tools.notes import note_lines
from kbnav.tools.observation import Context, Observation
from kbnav.tools.toolbox import QUERY, Toolbox

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """Streamed while a run goes on: ``call`` before it is run, ``step`` when it was, ``dropped`` after a rollback."""

    kind: Literal["call", "step", "dropped"]
    call: Call | None = None
    steps: tuple[Step, ...] = ()


def unheard(event: Event) -> None:
    """Where nobody listens."""


@dataclass
class RunContext:
    """What one run's nodes are given beside the state. ``failure`` keeps the exception that stopped the run.

    With a ``brake``, the run can be ended from outside, also in the middle of a node. ``tell`` is given what happens.
    """

    tools: Context
    failure: list[StopRun] = field(default_factory=list)
    brake: Brake | None = None
    tell: Callable[[Event], None] = unheard
    until: float | None = None
    """When the run is to be over, by ``time.monotonic``; None: whenever it is."""
    at_hand: bool = False
    """Whether all that is asked is here and takes moments, or looks at the brake by itself, as a mirror's queries do.

    Then a node is waited for to its end: a thread for each would wait for its turn twice where others are at work."""

    @property
    def seconds_left(self) -> float | None:
        """Of the time that the run has; None where it has all."""
        return None if self.until is None else self.until - time.monotonic()

    def in_time(self, call: Callable[[], T], used: Usage | None = None) -> T:
        """As ``hold``, within the time that is left. Raises OutOfTime."""
        left = self.seconds_left
        return self.hold(call, used) if left is None else in_time(lambda: self.hold(call, used), left)

    def hold(self, call: Callable[[], T], used: Usage | None = None) -> T:
        """The result of ``call``, unless the run is ended first.

        ``used`` is what the run has used so far, where ``call`` asks a model and the run's limit counts.
        """
        if self.brake is None:
            return call()
        self.brake.check(used)
        if not self.at_hand:
            return self.brake.run(call)
        result = self.brake.within(call)
        self.brake.check()
        return result


def run_side_by_side(
    calls: Sequence[Call], first: int, toolbox: Toolbox, state: State, run: RunContext
) -> tuple[list[Step], Usage, StopRun | None]:
    """Run the calls of one turn; steps come back in the order asked for, and are streamed in the order they end."""
    contexts = _contexts(calls, state, run.tools)
    for call in calls:
        run.tell(Event("call", call=call))
    numbered = list(enumerate(calls, start=first))
    beside = len(calls) > 1 and not run.at_hand
    with ThreadPoolExecutor(max_workers=len(calls)) if beside else _Inline() as pool:
        futures = [
            pool.submit(copy_context().run, _run_one, number, call, toolbox, context)
            for (number, call), context in zip(numbered, contexts, strict=True)
        ]
        for future in as_completed(futures):
            run.tell(Event("step", steps=(future.result()[0],)))
    results = [future.result() for future in futures]
    errors = [error for _, _, error in results if error]
    used = side_by_side(usage for _, usage, _ in results)
    return [step for step, _, _ in results], used, errors[0] if errors else None


def _contexts(calls: Sequence[Call], state: State, tools: Context) -> list[Context]:
    """What each call of a turn is given; the queries before it count as seen, so that no id is named twice a turn.

    Each query has a number for its result. Where one beside others has none, its number is left out.
    """
    seen = [seen_text(state)]
    steps = (*state["path"], *state["discarded"])
    ran = {step.result or step.number: step for step in steps if step.rows is not None}
    result = max((step.result for step in steps), default=0)
    earlier = tuple(turn.question for turn in state["history"])
    contexts = []
    for call in calls:
        result += call.tool == QUERY
        contexts.append(replace(tools, seen="\n".join(seen), number=result, ran=ran, earlier=earlier))
        seen.append(str(call.arguments.get("query", "")))
    return contexts


class _Inline(Executor):
    """Runs calls in the caller's thread: starting a thread costs more than a call's own overhead."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _run_one(number: int, call: Call, toolbox: Toolbox, context: Context) -> tuple[Step, Usage, StopRun | None]:
    began, error = time.monotonic(), None
    if call.problem:
        seen = Observation(call.problem, ok=False)
    else:
        try:
            with span("execute_tool", call.tool, tool_name=call.tool):
                seen = toolbox.run(context, call.tool, call.thought, call.arguments)
        except StopRun as stopped:
            seen, error = Observation(str(stopped), ok=False), stopped
    seconds = round(time.monotonic() - began, 3)
    told = context.notes.on(f"{call.arguments.get('query', '')}\n{seen.text}", context.seen) if seen.ok else []
    step = Step(
        number,
        call,
        encodable("\n\n".join(filter(None, (seen.text, note_lines(told))))),
        seen.ok,
        seen.rows,
        seconds,
        nodes=seen.nodes,
        facts=seen.facts,
        lost=seen.lost,
        result=seen.result or (context.number if call.tool == QUERY and seen.rows else 0),
    )
    return step, seen.usage, error
