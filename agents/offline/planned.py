"""A plan followed without a model: its paths from the nodes named, what most of them lead to, ranked by text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kbnav.agents.common.planned import planned
from kbnav.agents.common.state import Reply, State
from kbnav.agents.common.walking import call_for, room
from kbnav.agents.rog import FOLLOW, TEXT_SEARCH, followed, retrieval
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.runs.trajectory import FINISH, Step
from kbnav.settings.model import Budget
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

ANSWERS = 20
BY_TEXT = 50
"""Nodes that the question's text is searched for."""
_CALLS = 9
"""Paths followed, each from one node."""


@dataclass(frozen=True)
class PlanFollower:
    """After the plan: its paths are followed in one turn, the question's text is searched for, and the ends are ranked.

    The answer is what paths from the most of the question's names lead to, each by its likeliest path; nodes whose
    documents fit the question come first. A plan's probabilities only order its paths: spread evenly over the ends of a
    path, as in PASemiQA's equations 1 and 2, they favour paths with few ends, and answers are found less often.
    """

    kb: SkbKB
    toolbox: Toolbox
    budget: Budget

    def __call__(self, state: State, context: Context) -> Reply:
        """One turn."""
        path = state["path"]
        plan = planned(path)
        if plan is None:
            return Reply()
        done = [step for step in path if step.call.tool == FOLLOW]
        calls = retrieval(plan, self.kb, self.toolbox, self._text(plan, context))
        wanted = [call for call in calls if call[0] == FOLLOW]
        if wanted and not done:
            return call_for(state, self.toolbox, wanted[: min(_CALLS, max(1, room(state, self.budget) - 1))])
        texts = [step for step in path if step.call.tool == TEXT_SEARCH]
        if not texts and TEXT_SEARCH in self.toolbox.names and room(state, self.budget) > 0:
            given = {"text": self._text(plan, context), "node_type": self._asked(plan)}
            return call_for(state, self.toolbox, [(TEXT_SEARCH, "Which of them fit what the question says?", given)])
        nodes = self._chosen(plan, done, texts)
        said = "What the plan's paths lead to." if nodes else "The paths lead nowhere; what fits the words best."
        said = f"{said} {followed(len(done), len(wanted))}".strip()
        nodes = nodes or [node for step in texts for node in step.nodes][:1]
        return call_for(state, self.toolbox, [(FINISH, said, {"nodes": nodes[:ANSWERS]})])

    def _text(self, plan: Step, context: Context) -> str:
        """The question without the names of the plan's nodes, which say where paths begin and not what is asked for."""
        text = context.question
        for name in sorted(self.kb.labels(plan.call.arguments["nodes"]).values(), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", text, flags=re.IGNORECASE)
        return " ".join(text.split()) if re.search(r"\w", text) else context.question

    def _asked(self, plan: Step) -> str:
        """The type that the likeliest path ends at; any for the path ``text``."""
        paths = plan.call.arguments["paths"]
        return str(paths[0]["types"][-1]) if paths and paths[0]["types"] else ""

    def _chosen(self, plan: Step, done: Sequence[Step], texts: Sequence[Step]) -> list[str]:
        """The ends that the most names lead to, by each name's likeliest path; those that fit the text come first."""
        order = [(tuple(path["relations"]), tuple(path["types"])) for path in plan.call.arguments["paths"]]
        names = self.kb.labels([str(step.call.arguments["entity_id"]) for step in done])
        reached: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for step in done:
            given = step.call.arguments
            start, rank = str(given["entity_id"]), order.index((tuple(given["relations"]), tuple(given["types"])))
            for node in step.nodes:
                own = reached[node]
                own[names.get(start, start)] = min(rank, own.get(names.get(start, start), rank))
        place = {node: (-len(ranks), sum(ranks.values())) for node, ranks in reached.items()}
        near = [node for step in texts for node in step.nodes if node in place]
        fused = [node for node, _ in reciprocal_rank_fusion([*(step.nodes for step in done), near])]
        best = min(place.values(), default=None)
        return [node for node in fused if place[node] == best]
