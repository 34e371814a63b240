"""``plan-fuse``: a planner's paths from each name fused with words and meaning, by weights that follow the plan.

After arXiv 2605.30237, where fusion depends on the plan. Every name of the query is planned for by itself, from the
words around it; a node's evidence is what the paths give it and how its text fits the rest; weights that were learned,
and that depend on how sure the plan is, make one score of it (``kbnav.planning.fuse``). Of a query without a plan,
because it names nothing or no path is known, the rankings by words and by meaning are fused by their ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders.trained import refuse_seen
from kbnav.errors import UsageError
from kbnav.knowledge.skb.fusion import reciprocal_rank_fusion
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.planning.base import Plan
from kbnav.planning.fuse.clauses import Clause
from kbnav.planning.fuse.evidence import Gatherer
from kbnav.planning.fuse.saved import load
from kbnav.retrieval.base import NO_PROMPTS, Hits, RetrievalOptions, as_ranking, candidate_ranges, told
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings


class PlanFuseOptions(RetrievalOptions):
    """Options of ``plan-fuse``."""

    trained: str = ""
    """Folder of what was trained (``kbnav train fuse``)."""
    depth: int = Field(default=100, ge=1)
    """Nodes of each ranking that count where there is no plan."""


class PlanFuse:
    """See the module."""

    name = "plan-fuse"

    def __init__(self, kb: SkbKB, settings: Settings, options: PlanFuseOptions) -> None:
        """Raises UsageError without what was trained, or where that is for another SKB; DataError if it is damaged."""
        if not options.trained:
            raise UsageError("plan-fuse must be trained first: kbnav train fuse, then --set trained=FOLDER")
        self._skb, self._options, self._folder = kb.skb, options, Path(options.trained)
        self._ranges = candidate_ranges(kb.skb, options)
        self._card, planner, telling, self._weights, readers = load(self._folder, kb, settings)
        self._gatherer = Gatherer(kb.skb, planner, telling, self._ranges, readers)

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return NO_PROMPTS

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """See ``TrainedRetriever``."""
        refuse_seen(self._folder, self.name, [*self._card.training, *self._card.validation], questions)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        with trace.step("plan", query=query) as seen:
            planned = self._gatherer.plans(query)
            seen.nodes = [self._skb.id(node) for clause, _ in planned for node in clause.nodes]
            seen.text = "\n".join(_told(query, *one) for one in planned) or "nothing is named"
        with trace.step("fuse", query=query) as seen:
            if any(not path.is_text for _, plan in planned for path in plan.paths):
                hits = self._weighed(query, planned)
            else:
                hits = self._by_rank(query)
            seen.text, seen.nodes = told(self._skb, hits[:k]), [self._skb.id(node) for node, _ in hits[:k]]
        return as_ranking(self._skb, hits[:k])

    def _weighed(self, query: str, planned: Sequence[tuple[Clause, Plan]]) -> Hits:
        found = self._gatherer.gather(query, planned)
        scores = self._weights.scores(found)
        order = np.argsort(-scores, kind="stable")
        return list(zip(found.nodes[order].tolist(), scores[order].tolist(), strict=True))

    def _by_rank(self, query: str) -> Hits:
        skb, depth = self._skb, self._options.depth
        words = skb.relational_text or skb.text
        vectors = skb.relational_vectors or skb.vectors
        rankings = [words.search(query, limit=depth, ranges=self._ranges, name_weight=0.0)] if words else []
        rankings += [vectors.search(query, limit=depth, ranges=self._ranges)] if vectors else []
        return reciprocal_rank_fusion([[node for node, score in hits if score > 0] for hits in rankings])


def _told(query: str, clause: Clause, plan: Plan) -> str:
    best = [f"{path.probability:.2f} {' / '.join(map(str, path.hops)) or 'text'}" for path in plan.paths[:3]]
    return f"{query[clause.start : clause.end]}: {', '.join(best) or 'no path'}"


def build_plan_fuse(kb: SkbKB, settings: Settings, options: PlanFuseOptions) -> PlanFuse:
    """See ``PlanFuse``."""
    return PlanFuse(kb, settings, options)
