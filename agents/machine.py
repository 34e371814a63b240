"""The state machine that every agent runs on: think, act, rollback, report.

Nodes return updates; the one router only chooses. Every action a policy asks for ends in ``path`` or in ``discarded``,
so the actions spent are always the sum of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, Protocol, TypedDict, TypeVar

from kbnav.agents.common.losses import AGAIN, settled, to_try_again, told
from kbnav.answers import encodable
from kbnav.errors import ServiceError, Stopped, StopRun
from kbnav.settings import Budget
from kbnav.stopping import Brake
from kbnav.tools.observation import Context, Observation
from kbnav.tools.toolbox import FINISH, Toolbox
from kbnav.trajectory import Call, Outcome, Step, Stop, Turn, Usage, side_by_side

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph, StateGraph
    from langgraph.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
Node = Literal["think", "act", "rollback", "report"]
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


@dataclass(frozen=True)
class Reply:
    """What a policy says: at least one call, or a refusal; neither where it gives up."""

    calls: Sequence[Call] = ()
    usage: Usage = Usage()
    refusal: str = ""


class Policy(Protocol):
    """Chooses the next actions from the state; raises StopRun only."""

    def __call__(self, state: State, context: Context) -> Reply:
        """One turn."""
        ...


class Ending(Protocol):
    """What an agent's answer is: when finishing is premature, and what the outcome of a run is."""

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """Whether this finish must be dropped, after the path's steps and the chat's earlier turns."""
        ...

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:
        """Whether a call that repeats a step of the path does so to name its result as the answer."""
        ...

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The outcome of a run that stopped; the best so far where it did not finish."""
        ...


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

    def hold(self, call: Callable[[], T], used: Usage | None = None) -> T:
        """The result of ``call``, unless the run is ended first.

        ``used`` is what the run has used so far, where ``call`` asks a model and the run's limit counts.
        """
        if self.brake is None:
            return call()
        self.brake.check(used)
        return self.brake.run(call)


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
    )


def spent(state: State) -> int:
    """Actions taken so far, those rolled back included."""
    return len(state["path"]) + len(state["discarded"])


def room(state: State, budget: Budget) -> int:
    """Actions that the budget leaves; below 0 where a finish that cost none was not accepted."""
    return min(budget.steps - len(state["path"]), budget.actions - spent(state))


def step_limit(budget: Budget) -> int:
    """A bound on graph steps that no run within the budget reaches, for LangGraph's ``recursion_limit``."""
    return 4 * budget.actions + 10


@dataclass(frozen=True)
class Machine:
    """The nodes and the router; SPINACH sections 4.1 and 4.2 with the rules of docs/state-machine.md.

    It is run as a LangGraph graph, ``graph``, or by itself, ``run``: the same states come of both.
    """

    policy: Policy
    toolbox: Toolbox
    ending: Ending
    budget: Budget

    def think(self, state: State, run: RunContext) -> Update:
        """One turn of the policy."""
        try:
            reply = run.hold(lambda: self.policy(state, run.tools), state["usage"])
        except StopRun as error:
            return _failed(error, run)
        usage = state["usage"] + reply.usage
        if reply.refusal:
            return {"usage": usage, "stop": "refusal", "failure": reply.refusal}
        calls = _affordable(_second_tries(reply.calls, state) or reply.calls, state, self.ending, self.budget)
        if not calls:
            return {"usage": usage, "stop": "gave up" if room(state, self.budget) > 0 else _used_up(state, self.budget)}
        turn = 1 + max((step.call.turn for step in (*state["path"], *state["discarded"])), default=0)
        return {"usage": usage, "pending": [replace(call.encodable(), turn=call.turn or turn) for call in calls]}

    def act(self, state: State, run: RunContext) -> Update:
        """Run the pending calls that are fresh; those beside them that repeat a step are dropped."""
        fresh, wait, repeats = sort_out(state, self.ending, self.budget)
        first = spent(state) + 1
        try:
            steps, usage, error = run.hold(lambda: _run_side_by_side(fresh, first, self.toolbox, state, run))
        except Stopped as stopped:
            steps = [Step(number, call, str(stopped), ok=False) for number, call in enumerate(fresh, first)]
            usage, error = Usage(), stopped
        dropped = [
            Step(number, call, dropped="repeat")
            for number, call in enumerate(repeats, start=spent(state) + len(steps) + 1)
        ]
        if dropped:
            run.tell(Event("dropped", steps=tuple(dropped)))
        update = {
            "path": [*state["path"], *steps],
            "discarded": [*state["discarded"], *dropped],
            "pending": wait,
            "depth": self.budget.rollback_depth,
            "usage": state["usage"] + usage,
        }
        return update | (_failed(error, run) if error else {})

    def rollback(self, state: State, run: RunContext) -> Update:
        """Take steps off the path, and drop the pending calls."""
        keep = max(0, len(state["path"]) - (state["depth"] - 1) * self.budget.rollback)
        cut = [step.drop("rolled back") for step in state["path"][keep:]]
        refused = [
            Step(number, call, dropped="premature finish" if call.tool == FINISH else "repeat")
            for number, call in enumerate(state["pending"], start=spent(state) + 1)
        ]
        run.tell(Event("dropped", steps=(*cut, *refused)))
        return {
            "path": state["path"][:keep],
            "discarded": [*state["discarded"], *cut, *refused],
            "pending": [],
            "depth": state["depth"] * (2 if self.budget.escalate else 1),
        }

    def report(self, state: State, run: RunContext) -> Update:
        """Make the outcome."""
        stop = state["stop"] or _why_stopped(state, self.budget) or "error"
        try:
            outcome, usage = _conclude(self.ending, State(**{**state, "stop": stop}), run)
        except StopRun as error:
            outcome, usage = Outcome("failed", "error", note=str(error)), Usage()
            run.failure.append(error)
        outcome, found = told(outcome, [*state["path"], *state["discarded"]]), outcome
        if outcome.status != found.status:
            run.failure.append(ServiceError(outcome.note))
        return {"outcome": outcome, "stop": stop, "usage": state["usage"] + usage}

    def route(self, state: State) -> Node:
        """Where to go from any node but ``report``."""
        if state["stop"]:
            return "report"
        if state["pending"]:
            return "act" if sort_out(state, self.ending, self.budget).run else "rollback"
        return "report" if _why_stopped(state, self.budget) else "think"

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
        self, graph: StateGraph[Any, Any, Any, Any], context: Callable[[State, Runtime[Any]], RunContext]
    ) -> None:
        """Add the nodes, which begin at ``think`` and end at ``report``; ``context`` finds what a run's are given."""

        def as_node(work: Callable[[State, RunContext], Update]) -> Callable[..., Update]:
            def node(state: State, runtime: Runtime[Any]) -> Update:
                # What the work tells goes into the graph's own stream.
                return work(state, replace(context(state, runtime), tell=runtime.stream_writer))

            return node

        for work in (self.think, self.act, self.rollback, self.report):
            graph.add_node(work.__name__, as_node(work))
        graph.add_conditional_edges("think", self.route, ["act", "rollback", "report"])
        graph.add_conditional_edges("act", self.route, ["think", "act", "rollback", "report"])
        graph.add_conditional_edges("rollback", self.route, ["think", "report"])

    def run(self, state: State, run: RunContext) -> State:
        """The last state of a run, without LangGraph: its import takes longer than an answer that asks no model."""
        node: Node = "think"
        while True:
            update = getattr(self, node)(state, run)
            state = State(**{**state, **update})
            if node == "report":
                return state
            node = self.route(state)


class Sorted(NamedTuple):
    """A turn's calls: those to run now, a finish that waits for them, and repeats that are not run."""

    run: list[Call]
    wait: list[Call]
    repeats: list[Call]


def sort_out(state: State, ending: Ending, budget: Budget) -> Sorted:
    """Decide on the pending calls, which are those of one turn.

    Nothing to run means a rollback: every call repeats a step of the path, or the finish is premature. Where a turn
    holds fresh calls beside repeats, the policy is not going round in circles: the fresh ones run, the repeats are
    only dropped; what was not answered in time may be tried again. A finish beside other calls waits until they have
    run. A repeat that names its result as the answer is an action like others. Without the rollback rule a step of the
    path may be taken again; without the rule on premature finishes no finish is one.
    """
    pending, path = state["pending"], state["path"]
    known = {step.call.key for step in settled(path)} if budget.rollback else set()
    fresh: list[Call] = []
    finishes: list[Call] = []
    repeats: list[Call] = []
    asked: set[str] = set()
    for call in pending:
        if call.key in known and (call.key in asked or not ending.chosen(call, path)):
            repeats.append(call)
        elif call.tool == FINISH and not call.problem:
            finishes.append(call)
        else:
            fresh.append(call)
        known.add(call.key)
        asked.add(call.key)
    if fresh:
        return Sorted(fresh, finishes[:1], repeats + finishes[1:])
    if finishes and not _premature(finishes[0], state, ending, budget):
        return Sorted(finishes[:1], [], repeats + finishes[1:])
    return Sorted([], [], list(pending))


WELL_KNOWN = "P31 P279"
"""instance of, subclass of: ids that every policy knows from its prompt."""


def seen_text(state: State) -> str:
    """Everything a policy has been shown of a run, as one text; what was taken back was seen too."""
    parts = [WELL_KNOWN, state["question"]]
    for turn in state["history"]:
        parts += [turn.question, turn.outcome.query, *(step.observation for step in turn.steps)]
    parts += [step.observation for step in (*state["path"], *state["discarded"])]
    return "\n".join(parts)


def _why_stopped(state: State, budget: Budget) -> Stop | None:
    path = state["path"]
    if path and path[-1].call.tool == FINISH and path[-1].ok:
        return "finish"
    left = room(state, budget)
    return _used_up(state, budget) if left < 0 or (left == 0 and not budget.free_finish) else None


def _used_up(state: State, budget: Budget) -> Stop:
    return "step budget" if len(state["path"]) >= budget.steps else "action budget"


def _affordable(calls: Sequence[Call], state: State, ending: Ending, budget: Budget) -> list[Call]:
    """The calls of a turn that the budget has room for; a finish needs none, but must be accepted where there is none.

    None are left where the budget is used up.
    """
    taken: list[Call] = []
    room_left = left = room(state, budget)
    for call in calls if budget.parallel else calls[:1]:
        free = budget.free_finish and call.tool == FINISH and not call.problem
        if room_left > 0 and (free or left > 0):
            taken.append(call)
            left -= not free
        elif room_left <= 0 and free and not _premature(call, state, ending, budget):
            return [call]
    return taken


def _premature(finish: Call, state: State, ending: Ending, budget: Budget) -> bool:
    return budget.premature_finish and ending.premature(finish, state["path"], state["history"])


def _second_tries(calls: Sequence[Call], state: State) -> list[Call]:
    """What was not answered in time and is tried again, where a policy would say that there is no answer."""
    finish = calls[0] if len(calls) == 1 and calls[0].tool == FINISH else None
    if calls and not (finish and (finish.arguments.get("no_answer") or finish.arguments.get("nodes") == [])):
        return []
    if not calls and any(step.rows for step in (*state["path"], *state["discarded"])):
        return []  # there is something to answer with; what is open is said beside it
    lost = to_try_again([*state["path"], *state["discarded"]])
    return [replace(call, thought=AGAIN, id=f"{call.id}-again", turn=0) for call in lost]


def _failed(error: StopRun, run: RunContext) -> Update:
    run.failure.append(error)
    return {"stop": "error", "failure": str(error)}


def _conclude(ending: Ending, state: State, run: RunContext) -> tuple[Outcome, Usage]:
    """The outcome; that of a failed run, which nothing is asked for, where the run is stopped now or was before."""
    tools = run.tools
    if state["stop"] == "error":
        return ending.conclude(state, tools)
    try:
        return run.hold(lambda: ending.conclude(state, tools))
    except Stopped as stopped:
        return ending.conclude(State(**{**state, **_failed(stopped, run)}), tools)  # type: ignore[typeddict-item]


def _run_side_by_side(
    calls: Sequence[Call], first: int, toolbox: Toolbox, state: State, run: RunContext
) -> tuple[list[Step], Usage, StopRun | None]:
    """Run the calls of one turn; steps come back in the order asked for, and are streamed in the order they end."""
    contexts = _contexts(calls, first, state, run.tools)
    for call in calls:
        run.tell(Event("call", call=call))
    numbered = list(enumerate(calls, start=first))
    with ThreadPoolExecutor(max_workers=len(calls)) if len(calls) > 1 else _Inline() as pool:
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


def _contexts(calls: Sequence[Call], first: int, state: State, tools: Context) -> list[Context]:
    """What each call of a turn is given; the queries before it count as seen, so that no id is named twice a turn."""
    seen = [seen_text(state)]
    ran = {step.number: step for step in (*state["path"], *state["discarded"]) if step.rows is not None}
    earlier = tuple(turn.question for turn in state["history"])
    contexts = []
    for number, call in enumerate(calls, first):
        contexts.append(replace(tools, seen="\n".join(seen), number=number, ran=ran, earlier=earlier))
        seen.append(str(call.arguments.get("query", "")))
    return contexts


class _Inline(Executor):
    """Runs a single call in the caller's thread: starting a thread for it costs more than the call's own overhead."""

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
            seen = toolbox.run(context, call.tool, call.thought, call.arguments)
        except StopRun as stopped:
            seen, error = Observation(str(stopped), ok=False), stopped
    seconds = round(time.monotonic() - began, 3)
    text = encodable(seen.text)
    step = Step(number, call, text, seen.ok, seen.rows, seconds, nodes=seen.nodes, facts=seen.facts, lost=seen.lost)
    return step, seen.usage, error
