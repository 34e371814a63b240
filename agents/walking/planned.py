"""The first step of the agents with a plan: the nodes that the question names, and the paths that a planner gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbnav.agents.common.state import Policy, Reply, State
from kbnav.agents.walking.base import call_for
from kbnav.knowledge.ranking import in_turn
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NEAREST, MatchedNode, NodeMatcher, Variant, alike, unmatched_names
from kbnav.planning.paths import Plan, PlannedPath, Planner
from kbnav.planning.planners import PlanOptions, open_planner
from kbnav.runs.trajectory import Step, Trace
from kbnav.settings.model import Settings
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import FROM_BEFORE, PathGiven

PLAN = "plan"
NO_PLAN = "There is no plan (planner=none): trained=FOLDER gives one, or another planner."
"""What is said of a run without one."""
_UNKNOWN, _NEAR = 3, 3
"""Names that no node has which are told, and nodes that are told as near to each."""
_BEHIND = 2
"""Words behind a name in capitals that may belong to it, as in "Parkinsons disease"."""
_EARLIER = 3
"""Nodes of the answer before that a question may go on from."""


class Matched(NamedTuple):
    """The nodes of a question; ``named``: it names some, as they are called; ``alike``: or as they are spelled nearly.

    ``notes`` say which of its names no node has, or has only as another name.
    """

    nodes: Sequence[str]
    named: bool
    notes: Sequence[str] = ()
    alike: bool = False


Match = Callable[[str], Matched]


@dataclass(frozen=True)
class Planned:
    """Makes a plan, writes it down as the run's first step (PASemiQA, section 4.1), then lets another policy choose.

    Without a ``planner``, what is written down is only the nodes. A plan that a rollback took back is written down
    again, not made anew. ``paths`` is how many of the plan's paths are kept.
    """

    match: Match
    planner: Planner | None
    then: Policy
    toolbox: Toolbox
    paths: int

    def __call__(self, state: State, context: Context) -> Reply:
        """The plan, where it is not on the path yet."""
        if planned(state["path"]):
            return self.then(state, context)
        before = planned(state["discarded"])
        if before:
            return call_for(state, self.toolbox, [(PLAN, before.call.thought, before.call.arguments)])
        nodes, notes = self._nodes(state)
        trace = Trace()
        plan = self.planner.plan(state["question"], nodes, trace) if self.planner else Plan()
        arguments = {
            "nodes": nodes,
            "paths": [_given(path) for path in plan.paths[: self.paths]],
            "notes": [*notes, *plan.notes],
        }
        thought = "Nodes by name." if self.planner is None else said_of(self.planner)
        return call_for(state, self.toolbox, [(PLAN, thought, arguments)], trace.usage)

    def _nodes(self, state: State) -> tuple[Sequence[str], list[str]]:
        """The nodes to begin with and a note; a question that names none goes on from the answer before."""
        nodes, named, notes, alike = self.match(state["question"])
        earlier = [] if named or alike else _earlier(state)
        if earlier:
            return earlier, [*notes, FROM_BEFORE]
        nearest = ["The question names no node; these are the nearest by meaning."] if nodes and not named else []
        return nodes, [*notes, *nearest]


def planned(steps: Sequence[Step]) -> Step | None:
    """The step that wrote the plan down, if it is among these."""
    return next((step for step in steps if step.call.tool == PLAN), None)


def said_of(planner: Planner) -> str:
    """How a plan is made; that there is none is said once in every run, and to its reader alone."""
    if planner.name == "none":
        return f"Nodes by name. {NO_PLAN}"
    return f"Nodes by name, paths by the planner {planner.name}."


def open_match(kb: SkbKB, variant: Variant, nearest: int = NEAREST) -> Match:
    """Node matching in an SKB, the first node of every name before the second. Raises as ``NodeMatcher``."""
    matcher = NodeMatcher(kb.skb, variant, nearest=nearest)
    by_name = NodeMatcher(kb.skb, "exact") if variant == "embedding" and kb.skb.names is not None else matcher

    def match(question: str) -> Matched:
        found = matcher.match(question)
        exact = found if by_name is matcher else by_name.match(question)
        named = [node for node in exact if node.how != "embedding"]
        unknown = _unknown(kb, question, named, variant == "hybrid")
        near = [node for _, nodes in unknown for node in nodes]
        # Names spelled alike stand in for the nearest by meaning only where there are no vectors.
        turns = in_turn(found, lambda one: one.end)  # names do not overlap; of nodes by meaning all ends are 0
        nodes = [one.id for one in turns] or list(dict.fromkeys(near))
        return Matched(nodes, bool(named or (near and not found)), [note for note, _ in unknown], bool(near))

    return match


def _unknown(kb: SkbKB, question: str, found: Sequence[MatchedNode], spelled: bool) -> list[tuple[str, list[str]]]:
    """The names in a question that no node has: what is said of each; if ``spelled``, nodes spelled like it."""
    if kb.skb.names is None:
        return []
    told = []
    for name in unmatched_names(question, found)[:_UNKNOWN]:
        behind = question[question.index(name) + len(name) :].split()[:_BEHIND]
        longer = [" ".join([name, *behind[:count]]).rstrip("?.!,;:") for count in range(len(behind), 0, -1)]
        found_near = (alike(one, kb.skb) for one in (*longer, name) if spelled)
        near = [kb.skb.id(node) for node in next(filter(None, found_near), [])[:_NEAR]]
        listed = ", ".join(f"{one.label} ({node})" for node, one in kb.entities(near).items())
        told.append((f"No node is called “{name}”{f'; nearest by name: {listed}' if listed else ''}.", near))
    return told


def open_planned(
    kb: SkbKB, settings: Settings, options: PlanOptions, planner: Planner | None = None
) -> tuple[Match, Planner]:
    """The matcher and planner of options, or the one given. Raises UsageError where it does not fit, DataError."""
    match = open_match(kb, options.matching, options.nearest)
    return match, planner or open_planner(options, kb.skb, settings)


def planned_starts(arguments: Mapping[str, Any], path: PathGiven, kinds: Mapping[str, str]) -> list[str]:
    """The nodes of a plan that one of its paths may begin at; ``kinds`` are their types."""
    first = path["types"][0] if path["types"] else ""
    return [node for node in arguments["nodes"] if first in ("", kinds.get(node))]


def _earlier(state: State) -> list[str]:
    rankings = [turn.outcome.ranking for turn in state["history"] if turn.outcome.ranking]
    return [node.id for node in rankings[-1].chosen[:_EARLIER]] if rankings else []


def _given(path: PlannedPath) -> PathGiven:
    return {
        "relations": [str(hop) for hop in path.hops],
        "types": list(path.types),
        "probability": round(path.probability, 4),
    }
