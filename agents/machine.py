"""The state machine that every agent runs on: think, act, rollback, report (docs/state-machine.md).

It is a LangGraph graph. Nodes return updates; the one router only chooses. Every call that a policy asks for ends in
``path`` or in ``discarded``, so that nothing is lost; what the budget counts of them says ``state.actions_used``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Semaphore
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from kbnav.agents.common.answering import note_unanswered, without_retryable
from kbnav.agents.common.checks import with_doubts
from kbnav.agents.common.state import (
    Ending,
    Policy,
    State,
    Update,
    actions_used,
    all_steps,
    next_turn,
    seen_text,
    turns_left,
    turns_used,
)
from kbnav.answers.tables import Absence, encodable
from kbnav.errors import ServiceError, Stopped, StopRun
from kbnav.knowledge.base import TO_FINISH, counted_by
from kbnav.models.cancellation import Cancellation, OutOfTime, current_cancellation, in_thread
from kbnav.models.prices import cost_of
from kbnav.runs.trajectory import FINISH, JOIN, RUN_QUERIES, Call, Dropped, Outcome, Step, Stop, Usage, span
from kbnav.settings.model import Budget, Price
from kbnav.tools.context import Context, Observation, notes_on
from kbnav.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph, StateGraph
    from langgraph.runtime import Runtime
    from langgraph.types import Command

T = TypeVar("T")
Node = Literal["think", "act", "rollback", "report"]


@dataclass(frozen=True)
class Event:
    """Streamed while a run goes on: ``call`` before it is run, ``step`` when it was, ``dropped`` after a rollback."""

    kind: Literal["call", "step", "dropped"]
    call: Call | None = None
    steps: tuple[Step, ...] = ()


def _into_stream(event: Event) -> None:
    """Stands for the stream of the graph, which is known where a node begins."""


@dataclass
class RunContext:
    """What one run's nodes are given beside the state. ``failure`` holds the exception that stopped the run.

    A ``cancellation`` ends the run from outside, also in the middle of a node. ``tell`` is given what happens, in the
    thread where it does; by default that is the graph's own stream, for which LangGraph takes two threads a node.
    """

    tool_context: Context
    failure: list[StopRun] = field(default_factory=list)
    cancellation: Cancellation | None = None
    tell: Callable[[Event], None] = _into_stream
    until: float | None = None
    """When the run is to be over, by ``time.monotonic``; None: whenever it is."""

    @property
    def seconds_left(self) -> float | None:
        """Of the time that the run has; None where it has no limit."""
        return None if self.until is None else self.until - time.monotonic()

    def in_time(self, call: Callable[[], T], used: Usage | None = None) -> T:
        """The result of ``call`` within the time that is left, unless the run is ended first. Raises OutOfTime.

        ``used`` is what the run has used so far, where ``call`` asks a model and the run's limit counts.
        """
        left = self.seconds_left
        if self.cancellation is None:
            return call() if left is None else (current_cancellation() or Cancellation()).run(call, left)
        self.cancellation.check(used)
        return self.cancellation.run(call, left)


@dataclass(frozen=True)
class Machine:
    """The nodes and the router; SPINACH sections 4.1 and 4.2 with the rules of docs/state-machine.md."""

    policy: Policy
    toolbox: Toolbox
    ending: Ending
    budget: Budget
    checks: bool = True
    price: Price | None = None

    def graph(
        self, checkpointer: BaseCheckpointSaver[Any] | None = None
    ) -> CompiledStateGraph[State, RunContext, State, State]:
        """The machine as a LangGraph graph, whose ``context`` is the RunContext."""
        from langgraph.graph import END, START, StateGraph

        graph = StateGraph(State, context_schema=RunContext)
        self.build_into(graph, lambda _, runtime: runtime.context)
        graph.add_edge(START, "think")
        graph.add_edge("report", END)
        return graph.compile(checkpointer=checkpointer)

    def build_into(
        self,
        graph: StateGraph[Any, Any, Any, Any],
        context: Callable[[State, Runtime[Any]], RunContext],
        wrapped: Callable[[Callable[..., Command[Node]]], Any] = lambda node: node,
    ) -> None:
        """Add the nodes, which begin at ``think`` and end at ``report``; ``context`` gives that of a run.

        ``wrapped`` makes of the function of a state and a runtime what LangGraph is given.
        """
        from langgraph.types import Command

        def as_node(work: Callable[[State, RunContext], Update]) -> Callable[..., Command[Node]]:
            def node(state: State, runtime: Runtime[Any]) -> Command[Node]:
                run = context(state, runtime)
                run = replace(run, tell=runtime.stream_writer) if run.tell is _into_stream else run
                with counted_by(run.tool_context.meter):
                    update = work(state, run)
                after: Any = {**state, **update}
                return Command(update=update, goto=() if "outcome" in update else self.route(after))

            return node

        graph.add_node("think", wrapped(as_node(self.think)), destinations=("act", "rollback", "report"))
        graph.add_node("act", wrapped(as_node(self.act)), destinations=("think", "report"))
        graph.add_node("rollback", wrapped(as_node(self.rollback)), destinations=("think", "report"))
        graph.add_node("report", wrapped(as_node(self.report)))

    def route(self, state: State) -> Node:
        """Where to go from any node but ``report``."""
        if state["stop"]:
            return "report"
        if state["pending"]:
            return "act" if triage_calls(state, self.ending, self.budget).fresh else "rollback"
        return "report" if why_stopped(state, self.budget) else "think"

    def think(self, state: State, run: RunContext) -> Update:
        """One turn of the policy."""
        if over := self._over(state, run):
            return {"stop": over}
        try:
            reply = run.in_time(lambda: self.policy(state, run.tool_context), state["usage"])
        except OutOfTime:
            return {"stop": "time limit"}
        except StopRun as error:
            return _failed(error, run)
        usage = state["usage"] + reply.usage
        if reply.refusal:
            return {"usage": usage, "stop": "refusal", "failure": reply.refusal}
        known = {"usage": usage, **({"understood": reply.understood} if reply.understood else {})}
        calls = list(reply.calls if self.budget.holds("parallel") else reply.calls[:1])
        if not within_budget(calls, state, self.ending, self.budget):
            stop = "gave up" if turns_left(state, self.budget) > 0 else used_up(state, self.budget)
            return {**known, "stop": stop, "failure": reply.note}
        turn = next_turn(state)
        return {**known, "pending": [replace(call.encodable(), turn=turn) for call in calls]}

    def _over(self, state: State, run: RunContext) -> Stop | None:
        """Why no further turn is taken: no time is left, or no money for another turn like the others."""
        left, spent = run.seconds_left, state["usage"]
        if left is not None and left <= 0:
            return "time limit"
        cost = cost_of(spent, self.price) if self.budget.dollars else None
        if cost is not None and cost + cost / max(1, spent.calls) > self.budget.dollars:
            return "cost limit"
        return None

    def act(self, state: State, run: RunContext) -> Update:
        """Run the pending calls that are fresh; the others of the turn are dropped."""
        fresh, refused = triage_calls(state, self.ending, self.budget)
        first = len(all_steps(state)) + 1
        try:
            steps, usage, error = run.in_time(lambda: run_calls(fresh, first, self.toolbox, state, run))
        except (Stopped, OutOfTime) as stopped:
            why = str(stopped) or "The time for this question was over."
            steps = [Step(number, call, why, ok=False) for number, call in enumerate(fresh, first)]
            usage, error = Usage(), stopped if isinstance(stopped, Stopped) else None
        dropped = _as_steps(refused, first + len(steps))
        if dropped:
            run.tell(Event("dropped", steps=tuple(dropped)))
        update = {
            "path": [*state["path"], *steps],
            "discarded": [*state["discarded"], *dropped],
            "pending": [],
            "depth": self.budget.rollback_depth,
            "usage": state["usage"] + usage,
        }
        return update | (_failed(error, run) if error else {})

    def rollback(self, state: State, run: RunContext) -> Update:
        """Take steps off the path, and drop the pending calls."""
        keep = max(0, len(state["path"]) - (state["depth"] - 1) * self.budget.holds("rollback"))
        refused = _as_steps(triage_calls(state, self.ending, self.budget).dropped, len(all_steps(state)) + 1)
        if self.budget.published and any(step.dropped == "premature finish" for step in refused):
            keep = 0
        cut = [replace(step, dropped="rolled back") for step in state["path"][keep:]]
        run.tell(Event("dropped", steps=(*cut, *refused)))
        return {
            "path": state["path"][:keep],
            "discarded": [*state["discarded"], *cut, *refused],
            "pending": [],
            "depth": state["depth"] * (2 if self.budget.holds("escalate") else 1),
        }

    def report(self, state: State, run: RunContext) -> Update:
        """Make the outcome."""
        stop = state["stop"] or why_stopped(state, self.budget) or "error"
        try:
            outcome, usage = self._concluded(State(**{**state, "stop": stop}), run)
        except StopRun as error:
            outcome, usage = Outcome("failed", "error", note=str(error)), Usage()
            run.failure.append(error)
        read = state.get("understood")
        outcome = replace(outcome, understood=read, doubts=read.doubts if read else ())
        steps = all_steps(state)
        spent = next((step.observation for step in steps if not step.ok and step.observation.endswith(TO_FINISH)), "")
        if outcome.status == "no answer" and spent:
            outcome = replace(outcome, note=spent.removesuffix(TO_FINISH), understood=None)
        elif outcome.status == "no answer" and steps and steps[-1].dropped == "premature finish":
            outcome = outcome.noted(_TOO_EARLY)
        if self.checks:
            outcome = with_doubts(outcome, state["question"], run.tool_context)
        status = outcome.status
        outcome = note_unanswered(outcome, steps)
        if outcome.status != status:
            run.failure.append(ServiceError(outcome.note))
        if outcome.status == "failed" and not any(isinstance(error, Stopped) for error in run.failure):
            outcome = replace(outcome, absence=Absence("service failed"))
        return {"outcome": outcome, "stop": stop, "usage": state["usage"] + usage}

    def _concluded(self, state: State, run: RunContext) -> tuple[Outcome, Usage]:
        """The ending's outcome; where the run failed or is stopped now, that of what is there, and nothing is asked."""
        tools = run.tool_context
        if state["stop"] == "error":
            return self.ending.conclude(state, tools)
        try:
            return run.in_time(lambda: self.ending.conclude(state, tools))
        except OutOfTime:
            return self.ending.conclude(State(**{**state, "stop": "time limit"}), tools)
        except Stopped as stopped:
            return self.ending.conclude(State(**{**state, **_failed(stopped, run)}), tools)  # type: ignore[typeddict-item]


def _failed(error: StopRun, run: RunContext) -> Update:
    run.failure.append(error)
    return {"stop": "error", "failure": str(error)}


# Which of a turn's calls are run, dropped, or end the run


_COMPARED = 4
"""Actions that SPINACH's published program compares a new one with."""


class Triage(NamedTuple):
    """A turn's calls: those to run now, and those that are not run, with the reason."""

    fresh: list[Call]
    dropped: list[tuple[Call, Dropped]]


def triage_calls(state: State, ending: Ending, budget: Budget) -> Triage:
    """Decide on the pending calls, which are those of one turn.

    Nothing to run means a rollback: every call repeats a step of the path, or the finish is premature. Where a turn
    holds fresh calls beside repeats, the policy is not going round in circles: the fresh ones run, the repeats are
    only dropped; what was not answered in time may be tried again. A finish beside other calls is not run: what
    they show is to be looked at first. A repeat that names its result as the answer is an action like others.
    Without the rollback rule a step of the path may be taken again; without the rule on premature finishes no
    finish is one. Calls that the budget has no room for are dropped.
    """
    path = state["path"]
    compared = path[-_COMPARED:] if budget.published else path
    known = {step.call.key for step in without_retryable(compared)} if budget.holds("rollback") else set()
    fresh: list[Call] = []
    finishes: list[Call] = []
    repeats: list[tuple[Call, Dropped]] = []
    before: set[str] = set()
    affordable = within_budget(state["pending"], state, ending, budget)
    for call in affordable:
        if call.key in known and (call.key in before or not ending.chosen(call, path)):
            repeats.append((call, "repeat"))
        elif call.tool == FINISH and not call.problem:
            finishes.append(call)
        else:
            fresh.append(call)
        known.add(call.key)
        before.add(call.key)
    over: list[tuple[Call, Dropped]] = [
        (call, "over budget") for call in state["pending"] if not any(call is one for one in affordable)
    ]
    if fresh:
        return Triage(fresh, [*repeats, *((call, "not alone") for call in finishes), *over])
    if finishes and not premature(finishes[0], state, ending, budget):
        return Triage(finishes[:1], [*repeats, *((call, "repeat") for call in finishes[1:]), *over])
    refused: list[tuple[Call, Dropped]] = [
        (call, "premature finish" if call.tool == FINISH else "repeat") for call in affordable
    ]
    return Triage([], [*refused, *over])


_TOO_EARLY = (
    "finish was not accepted: it came too early. The answer is rows of a query or a tool, or nodes of an SKB; "
    "a tool's text is none."
)


def _as_steps(refused: Sequence[tuple[Call, Dropped]], first: int) -> list[Step]:
    told = {"premature finish": _TOO_EARLY}
    return [
        Step(number, call, told.get(reason, ""), ok=reason not in told, dropped=reason)
        for number, (call, reason) in enumerate(refused, first)
    ]


def within_budget(calls: Sequence[Call], state: State, ending: Ending, budget: Budget) -> list[Call]:
    """The calls that the budget has room for; a finish needs none, but must be accepted where there is none."""
    kept: list[Call] = []
    turns, actions = turns_left(state, budget), budget.actions - actions_used(state)
    for call in calls:
        free = budget.holds("free_finish") and call.tool == FINISH and not call.problem
        if turns > 0 and (free or actions > 0):
            kept.append(call)
            actions -= not free
        elif turns <= 0 and free and not premature(call, state, ending, budget):
            return [call]
    return kept


def why_stopped(state: State, budget: Budget) -> Stop | None:
    """Why a run ends here; None where it goes on."""
    path = state["path"]
    if path and path[-1].call.tool == FINISH and path[-1].ok:
        return "finish"
    left = turns_left(state, budget)
    return used_up(state, budget) if left < 0 or (left == 0 and not budget.holds("free_finish")) else None


def used_up(state: State, budget: Budget) -> Stop:
    """Which budget is used up."""
    return "step budget" if turns_used(state) >= budget.steps else "action budget"


def premature(finish: Call, state: State, ending: Ending, budget: Budget) -> bool:
    """Whether a finish must be dropped."""
    return budget.holds("premature_finish") and ending.premature(finish, state["path"], state["history"])


# Running a turn's calls

_SIDE_BY_SIDE = 8
"""Calls of a turn that run at once; the others wait."""
_Ran = tuple[Step, Usage, StopRun | None]


def run_calls(
    calls: Sequence[Call], first: int, toolbox: Toolbox, state: State, run: RunContext
) -> tuple[list[Step], Usage, StopRun | None]:
    """Run the calls of one turn side by side; steps come in the order asked for, and are streamed as they end.

    A call that takes up rows of a result waits for the calls before it, one of which may give these.
    """
    joins = [place for place, call in enumerate(calls) if call.tool == JOIN and place]
    if joins:
        steps, usage, error = run_calls(calls[: joins[0]], first, toolbox, state, run)
        if error:
            return steps, usage, error
        seen = State(**{**state, "path": [*state["path"], *steps]})
        more, spent, error = run_calls(calls[joins[0] :], first + len(steps), toolbox, seen, run)
        return [*steps, *more], usage + spent, error
    for call in calls:
        run.tell(Event("call", call=call))
    contexts = _contexts(calls, toolbox, state, run.tool_context)
    work = [
        partial(_run_one, number, call, toolbox, context)
        for number, (call, context) in enumerate(zip(calls, contexts, strict=True), first)
    ]
    if len(work) == 1:
        results = [work[0]()]
        run.tell(Event("step", steps=(results[0][0],)))
    else:
        room = Semaphore(_SIDE_BY_SIDE)

        def in_turn(one: Callable[[], _Ran]) -> _Ran:
            with room:
                return one()

        futures = [in_thread(partial(in_turn, one)) for one in work]
        for future in as_completed(futures):
            run.tell(Event("step", steps=(future.result()[0],)))
        results = [future.result() for future in futures]
    errors = [error for _, _, error in results if error]
    return [step for step, _, _ in results], sum((usage for _, usage, _ in results), Usage()), next(iter(errors), None)


def _contexts(calls: Sequence[Call], toolbox: Toolbox, state: State, tools: Context) -> list[Context]:
    """What each call of a turn is given: queries before it count as seen, and each has a number for its result.

    Numbers go on through a conversation; a query that fails has one too.
    """
    seen = [seen_text(state)]
    steps = all_steps(state)
    before = [step for turn in state["history"] for step in turn.steps]
    highest = max((turn.results for turn in state["history"]), default=0)
    result = max((highest, *(step.result for step in (*before, *steps))))
    named = (*(step for step in before if step.call.tool in RUN_QUERIES), *steps)
    results = {step.result: step for step in named if step.rows is not None and step.result}
    earlier = tuple(turn.question for turn in state["history"])
    contexts = []
    for call in calls:
        result += call.tool in RUN_QUERIES or toolbox.owns(call.tool)
        contexts.append(replace(tools, seen="\n".join(seen), number=result, results=results, earlier=earlier))
        seen.append(str(call.arguments.get("query", "")))
    return contexts


def _run_one(number: int, call: Call, toolbox: Toolbox, context: Context) -> _Ran:
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
    context.found[number] = seen.data
    shown = f"{call.arguments.get('query', '')}\n{seen.text}"
    notes = notes_on(context.notes, shown, context.seen) if seen.ok and context.notes else []
    lines = "\n".join(f"Note on {note.about}: {note.text}" for note in notes)
    step = Step(
        number,
        call,
        encodable("\n\n".join(filter(None, (seen.text, lines)))),
        seen.ok,
        seen.rows,
        seconds,
        nodes=seen.nodes,
        facts=seen.facts,
        lost=seen.lost,
        result=seen.result or (context.number if call.tool in RUN_QUERIES else 0),
        ran=seen.ran,
    )
    return step, seen.usage, error
