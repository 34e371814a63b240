"""The first stage: which nodes a program ranks, and the ranking that stands where a program fails.

AvaTaR's programs rank the first 50 nodes of ``vss``, and its candidates on STaRK's Prime hold an answer for 52 % of the
queries; no program passes that. Here the candidates are the best of three systems that miss different nodes: a plan's
relation paths, words, and vectors. ``Recall`` says what that leaves possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.base import ComposedOptions, build_stage
from kbnav.retrieval.rrf import RRF, RRFOptions
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

SIZE = 200
"""Candidates of a query."""
_NEEDS_VECTORS = ("plan-rank", "vss")


class FirstStageOptions(ComposedOptions):
    """Options of the first stage."""

    of: tuple[str, ...] = Field(default=("plan-rank", "bm25", "vss"), min_length=1)
    """The systems whose rankings are united; those by vectors are left out where the SKB has none."""
    size: int = Field(default=SIZE, ge=1)
    """Candidates of a query, and nodes of each ranking that count."""

    weights: tuple[float, ...] = ()
    """How much each of those that are there counts; none given: 1."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return self.of

    def described(self) -> dict[str, Any]:
        """As plain data; weights only where there are some, as in folders of before."""
        return self.model_dump(mode="json", exclude=None if self.weights else {"weights"})


class FirstStage:
    """The union of several rankings, cut to its size by the sums of their reciprocal ranks."""

    name = "first-stage"

    def __init__(self, kb: SkbKB, settings: Settings, options: FirstStageOptions | None = None) -> None:
        """Raises UsageError for an unknown system, and where the SKB has no index that one of them needs."""
        self.options = options or FirstStageOptions()
        self.of = tuple(name for name in self.options.of if _can(name, kb))
        if not self.of:
            raise UsageError(f"{kb.name} has neither texts nor vectors indexed: build it with one of them")
        stages = [build_stage(name, kb, settings, self.options) for name in self.of]
        fusion = RRFOptions(of=self.of, weights=self.options.weights, depth=self.options.size)
        self._fused = RRF(kb.skb, stages, fusion)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of its systems."""
        return self._fused.prompts

    def retrieve(self, query: str, k: int = SIZE, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. The ids of the best ``options.size`` are a program's candidates."""
        return self._fused.retrieve(query, min(k, self.options.size), trace)

    def rankings(self, query: str) -> list[Ranking]:
        """What each of its systems finds."""
        return [stage.retrieve(query, self.options.size) for stage in self._fused.stages]


def _can(name: str, kb: SkbKB) -> bool:
    if name == "bm25":
        return kb.skb.text is not None
    return kb.skb.vectors is not None or name not in _NEEDS_VECTORS


@dataclass(frozen=True)
class Recall:
    """What the best program could reach with the candidates it is given."""

    queries: int = 0
    mean: float = 0.0
    """The share of a query's answers that are candidates, over all queries."""
    any: float = 0.0
    """The share of queries with an answer among their candidates: no program has a higher hit@k."""


def oracle_recall(stage: Iterable[tuple[Collection[str], Collection[str]]]) -> Recall:
    """Of the candidates and the answers of each query; one without answers counts as found nowhere, as in metrics."""
    shares = [len(set(answers) & set(candidates)) / max(1, len(set(answers))) for candidates, answers in stage]
    if not shares:
        return Recall()
    return Recall(len(shares), sum(shares) / len(shares), sum(share > 0 for share in shares) / len(shares))
