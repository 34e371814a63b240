"""``rrf``: any systems fused by the ranks that they give (reciprocal rank fusion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Annotated

from pydantic import Field, field_validator

from kbnav.answers.tables import Ranking
from kbnav.errors import FATAL, StopRun, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import RANK_CONSTANT, reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import ComposedOptions, Retriever, as_ranking, build_stage, hits_text, numbers
from kbnav.runs.trace import Observed, Trace
from kbnav.settings.model import Settings


class RRFOptions(ComposedOptions):
    """Options of ``rrf``."""

    of: tuple[str, ...] = Field(default=("bm25", "vss"), min_length=1)
    """The systems that are fused."""
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = ()
    """A weight for each of them, not all 0; none given: 1."""
    depth: int = Field(default=100, ge=1)
    """Nodes of each ranking that count."""
    constant: int = Field(default=RANK_CONSTANT, ge=0)
    """How slowly the weight of a place falls."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return self.of

    @field_validator("weights")
    @classmethod
    def _weighing(cls, weights: tuple[float, ...]) -> tuple[float, ...]:
        if weights and not any(weights):
            raise ValueError("one at least must be above 0")
        return weights


class RRF:
    """The sum over systems of ``weight / (constant + rank)``."""

    name = "rrf"

    def __init__(self, skb: SKB, systems: Sequence[Retriever], options: RRFOptions) -> None:
        """Raises UsageError where there is not a weight for each system."""
        if options.weights and len(options.weights) != len(systems):
            raise UsageError(f"rrf: {len(options.weights)} weights for {len(systems)} systems")
        self._skb, self.stages, self._options = skb, systems, options
        self.prompts: Mapping[str, str] = {name: sha for system in systems for name, sha in system.prompts.items()}

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. A system that failed is left out.

        Raises the first error where every system failed, and any error after which no call of a model can go well.
        """
        trace = trace or Trace()
        found = self._retrieved(query, max(k, self._options.depth), trace)
        with trace.step(self.name, of=[self.stages[place].name for place in found], limit=k) as seen:
            hits = reciprocal_rank_fusion(
                [numbers(self._skb, ranking) for ranking in found.values()],
                weights=[self._options.weights[place] for place in found] if self._options.weights else None,
                limit=k,
                constant=self._options.constant,
            )
            seen.text, seen.nodes = hits_text(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits)

    def _retrieved(self, query: str, depth: int, trace: Trace) -> dict[int, Ranking]:
        traces = [Trace() for _ in self.stages]
        pool = ThreadPoolExecutor(len(self.stages), thread_name_prefix="kbnav-rrf")
        try:
            jobs = [
                pool.submit(copy_context().run, system.retrieve, query, depth, own)
                for system, own in zip(self.stages, traces, strict=True)
            ]
            wait(jobs)
        finally:  # a person who interrupts does not wait for them
            pool.shutdown(wait=False, cancel_futures=True)
        found: dict[int, Ranking] = {}
        failures: list[StopRun] = []
        for place, (job, own) in enumerate(zip(jobs, traces, strict=True)):
            trace.add(own)
            try:
                found[place] = job.result()
            except StopRun as error:
                trace.record(self.stages[place].name, Observed(str(error), ok=False))
                failures.append(error)
        hopeless = [error for error in failures if isinstance(error, FATAL)]
        if hopeless or not found:
            raise (hopeless or failures)[0]
        return found


def build_rrf(kb: SkbKB, settings: Settings, options: RRFOptions) -> RRF:
    """See ``RRF``. Raises as ``build_retriever``."""
    return RRF(kb.skb, [build_stage(name, kb, settings, options) for name in options.of], options)
