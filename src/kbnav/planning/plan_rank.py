"""``plan-rank``: a planner by itself as a retrieval system, its plan followed by PASemiQA's equations 1 and 2.

A node's score is the probability that the plan gives it: each path's is shared equally by the nodes that it leads to
from the matched ones. The path ``text`` leads to the nodes whose documents are nearest to the query, those that the
query names left out: what is named is seldom what is asked for. Nodes of equal
probability, which all ends of one path are, stand in the order of their texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.planning.open import open_planner
from kbnav.planning.paths import Plan, Planner, answers
from kbnav.planning.planners import Name, PlanOptions
from kbnav.retrieval.base import NO_PROMPTS, RetrievalOptions, as_ranking, candidate_ranges
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

_TEXTS = 200
"""Nodes that the query's text puts in order."""


class PlanRankOptions(PlanOptions, RetrievalOptions):
    """Options of ``plan-rank``."""

    planner: Name = "ranker"
    """What plans the relation paths; an untrained ranker goes by the words of the schema alone."""
    text_nodes: int = Field(default=20, ge=0)
    """The nodes nearest to the query that the path ``text`` leads to; 0: none, as equation 1 has it."""


class PlanRank:
    """See the module."""

    name = "plan-rank"

    def __init__(self, kb: SkbKB, planner: Planner, options: PlanRankOptions) -> None:
        """Raises UsageError for unknown types of candidates, and as ``NodeMatcher`` does."""
        self._kb, self._planner, self._options = kb, planner, options
        self._matcher = NodeMatcher(kb.skb, options.matching, nearest=options.nearest)
        self._ranges = candidate_ranges(kb.skb, options)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of the planner."""
        return getattr(self._planner, "prompts", NO_PROMPTS)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Raises as the planner does."""
        trace, skb = trace or Trace(), self._kb.skb
        with trace.step("match", query=query) as seen:
            matched = self._matcher.match(query)
            nodes = list(dict.fromkeys(node.id for node in matched))
            seen.text, seen.nodes = "\n".join(f"{node.label} ({node.id}): {node.kind}" for node in matched), nodes
        with trace.step("plan", planner=self._planner.name) as seen:
            plan = self._planner.plan(query, nodes, trace)
            seen.text = _plan_text(plan)
        with trace.step("text", query=query) as seen:
            named = {node.id for node in matched if node.how != "embedding"}
            near = self._kb.text_query(query, limit=_TEXTS).ids
            seen.nodes = [node for node in near if node not in named][: self._options.text_nodes]
        place = {skb.number(node): rank for rank, node in enumerate(near)}
        scored = answers(skb, plan, nodes, texts=[skb.number(node) for node in seen.nodes])
        hits = [hit for hit in scored if self._may_answer(hit[0])]
        # Shares of one path differ in their last digits once they are summed.
        hits.sort(key=lambda hit: (-round(hit[1], 12), place.get(hit[0], _TEXTS), hit[0]))
        return as_ranking(skb, hits[:k])

    def _may_answer(self, node: int) -> bool:
        return self._ranges is None or any(first <= node < end for first, end in self._ranges)


def _plan_text(plan: Plan) -> str:
    paths = [f"{path.probability:.3f} {' / '.join(map(str, path.hops)) or 'text'}" for path in plan.paths]
    return "\n".join([*plan.notes, *paths]) or "no path"


def build_plan_rank(kb: SkbKB, settings: Settings, options: PlanRankOptions) -> PlanRank:
    """See ``PlanRank``. Raises UsageError for a planner that is not there or not for this SKB."""
    from kbnav.models.calls import open_calls

    planner = open_planner(
        options.planner,
        kb.skb,
        trained=Path(options.trained) if options.trained else None,
        calls=lambda: open_calls(settings),
        matching=options.matching,
    )
    return PlanRank(kb, planner, options)
