"""The state machine that every agent runs on: think, act, rollback, report.

Nodes return updates; the one router only chooses. Every call a policy asks for ends in ``path`` or in ``discarded``,
so that nothing is lost; what the budget counts of them says ``kbnav.agents.common.state.spent``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from kbnav.agents.common.doubting import doubted
from kbnav.agents.common.losses import told
from kbnav.agents.common.objecting import Critic, objected, objection
from kbnav.agents.common.rules import second_tries, sort_out, used_up, why_stopped, within_budget
from kbnav.agents.common.running import Event as Event
from kbnav.agents.common.running import RunContext as RunContext
from kbnav.agents.common.running import run_side_by_side
from kbnav.agents.common.state import Ending as Ending
from kbnav.agents.common.state import Policy as Policy
from kbnav.agents.common.state import Reply as Reply
from kbnav.agents.common.state import State as State
from kbnav.agents.common.state import Update as Update
from kbnav.agents.common.state import room as room
from kbnav.agents.common.state import seen_text as seen_text
from kbnav.agents.common.state import start as start
from kbnav.agents.common.state import step_limit as step_limit
from kbnav.agents.common.state import taken
from kbnav.answers.tables import Absence
from kbnav.errors import ServiceError, Stopped, StopRun
from kbnav.models.cancellation import OutOfTime
from kbnav.models.prices import cost_of
from kbnav.runs.trajectory import Outcome, Step, Stop, Usage
from kbnav.settings.model import Budget, Checks, Price
from kbnav.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph, StateGraph
    from langgraph.runtime import Runtime

Node = Literal["think", "act", "rollback", "report"]


def unkept(node: Node, state: State) -> None:
    """Where nothing is kept before the end."""


@dataclass(frozen=True)
class Machine:
    """The nodes and the router; SPINACH sections 4.1 and 4.2 with the rules of docs/state-machine.md.

    It is run as a LangGraph graph, ``graph``, or by itself, ``run``: the same states come of both.
    """

    policy: Policy
    toolbox: Toolbox
    ending: Ending
    budget: Budget
    checks: Checks = field(default_factory=Checks)
    critic: Critic | None = None
    price: Price | None = None

    def think(self, state: State, run: RunContext) -> Update:
        """One turn of the policy."""
        if over := self._over(state, run):
            return {"stop": over}
        try:
            reply = run.in_time(lambda: self.policy(state, run.tools), state["usage"])
        except OutOfTime:
            return {"stop": "time limit"}
        except StopRun as error:
            return _failed(error, run)
        usage = state["usage"] + reply.usage
        if reply.refusal:
            return {"usage": usage, "stop": "refusal", "failure": reply.refusal}
        known = {"usage": usage, **({"understood": reply.understood} if reply.understood else {})}
        calls = list(second_tries(reply.calls, state) or (reply.calls if self.budget.parallel else reply.calls[:1]))
        if not within_budget(calls, state, self.ending, self.budget):
            stop = "gave up" if room(state, self.budget) > 0 else used_up(state, self.budget)
            return {**known, "stop": stop, "failure": reply.note}
        turn = 1 + max((step.call.turn for step in (*state["path"], *state["discarded"])), default=0)
        return {**known, "pending": [replace(call.encodable(), turn=call.turn or turn) for call in calls]}

    def act(self, state: State, run: RunContext) -> Update:
        """Run the pending calls that are fresh; what is not run of those beside them is dropped."""
        fresh, refused = sort_out(state, self.ending, self.budget)
        first = taken(state) + 1
        try:
            steps, usage, error = run.in_time(lambda: run_side_by_side(fresh, first, self.toolbox, state, run))
        except (Stopped, OutOfTime) as stopped:
            why = str(stopped) or "The time for this question was over."
            steps = [Step(number, call, why, ok=False) for number, call in enumerate(fresh, first)]
            usage, error = Usage(), stopped if isinstance(stopped, Stopped) else None
        if error is None:
            steps, cost = self._judged(steps, state, run)
            usage += cost
        dropped = [
            Step(number, call, dropped=reason) for number, (call, reason) in enumerate(refused, first + len(steps))
        ]
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

    def _judged(self, steps: list[Step], state: State, run: RunContext) -> tuple[list[Step], Usage]:
        """A finish put to the critic, once a run and while there is room to mend what it finds."""
        after = State(**{**state, "path": [*state["path"], *steps]})
        finished = why_stopped(after, self.budget) == "finish"
        if self.critic is None or not finished or room(after, self.budget) < 1 or self._objection(state):
            return steps, Usage()
        critic = self.critic
        try:
            said, usage = run.in_time(lambda: critic(after, run.tools))
        except OutOfTime:
            return steps, Usage()
        return ([*steps[:-1], objected(steps[-1], said, self.checks.turns)] if said else steps), usage

    def _objection(self, state: State) -> Step | None:
        return objection([*state["path"], *state["discarded"]])

    def _over(self, state: State, run: RunContext) -> Stop | None:
        """Why no further turn is taken: time, money for another like the others, or the turns after an objection."""
        left, used = run.seconds_left, state["usage"]
        if left is not None and left <= 0:
            return "time limit"
        cost = cost_of(used, self.price) if self.budget.dollars else None
        if cost is not None and cost + cost / max(1, used.calls) > self.budget.dollars:
            return "cost limit"
        against = self._objection(state)
        last = max((step.call.turn for step in (*state["path"], *state["discarded"])), default=0)
        return "step budget" if against and last - against.call.turn >= self.checks.turns else None

    def rollback(self, state: State, run: RunContext) -> Update:
        """Take steps off the path, and drop the pending calls."""
        keep = max(0, len(state["path"]) - (state["depth"] - 1) * self.budget.rollback)
        cut = [step.drop("rolled back") for step in state["path"][keep:]]
        asked = sort_out(state, self.ending, self.budget).dropped
        refused = [Step(number, call, dropped=reason) for number, (call, reason) in enumerate(asked, taken(state) + 1)]
        run.tell(Event("dropped", steps=(*cut, *refused)))
        return {
            "path": state["path"][:keep],
            "discarded": [*state["discarded"], *cut, *refused],
            "pending": [],
            "depth": state["depth"] * (2 if self.budget.escalate else 1),
        }

    def report(self, state: State, run: RunContext) -> Update:
        """Make the outcome."""
        stop = state["stop"] or why_stopped(state, self.budget) or "error"
        try:
            outcome, usage = _conclude(self.ending, State(**{**state, "stop": stop}), run)
        except StopRun as error:
            outcome, usage = Outcome("failed", "error", note=str(error)), Usage()
            run.failure.append(error)
        outcome = replace(outcome, understood=state.get("understood"))
        if self.checks.by != "off":
            outcome = doubted(outcome, state["question"], run.tools)
            outcome = self.critic.kept(outcome, state) if self.critic else outcome
        outcome, found = told(outcome, [*state["path"], *state["discarded"]]), outcome
        if outcome.status != found.status:
            run.failure.append(ServiceError(outcome.note))
        if outcome.status == "failed":
            outcome = replace(outcome, absence=Absence("service failed"))
        return {"outcome": outcome, "stop": stop, "usage": state["usage"] + usage}

    def route(self, state: State) -> Node:
        """Where to go from any node but ``report``."""
        if state["stop"]:
            return "report"
        if state["pending"]:
            return "act" if sort_out(state, self.ending, self.budget).run else "rollback"
        return "report" if why_stopped(state, self.budget) else "think"

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
        graph.add_conditional_edges("act", self.route, ["think", "report"])
        graph.add_conditional_edges("rollback", self.route, ["think", "report"])

    def run(
        self, state: State, run: RunContext, node: Node = "think", after: Callable[[Node, State], None] = unkept
    ) -> State:
        """The last state of a run that begins at ``node``, without LangGraph, which takes longer than its look-ups.

        ``after`` is called with each node that is over and the state then.
        """
        while True:
            update = getattr(self, node)(state, run)
            state = State(**{**state, **update})
            after(node, state)
            if node == "report":
                return state
            node = self.route(state)


def _failed(error: StopRun, run: RunContext) -> Update:
    run.failure.append(error)
    return {"stop": "error", "failure": str(error)}


def _conclude(ending: Ending, state: State, run: RunContext) -> tuple[Outcome, Usage]:
    """The outcome; that of a failed run, which nothing is asked for, where the run is stopped now or was before."""
    tools = run.tools
    if state["stop"] == "error":
        return ending.conclude(state, tools)
    try:
        return run.in_time(lambda: ending.conclude(state, tools))
    except OutOfTime:
        return ending.conclude(State(**{**state, "stop": "time limit"}), tools)
    except Stopped as stopped:
        return ending.conclude(State(**{**state, **_failed(stopped, run)}), tools)  # type: ignore[typeddict-item]
