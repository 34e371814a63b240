"""The first stage: which nodes a program ranks, and the ranking that stands where a program fails.

AvaTaR's programs rank the first 50 nodes of ``vss``, and its candidates on STaRK's Prime hold an answer for 52 % of the
queries; no program passes that. Here the candidates are the first 200 of ``graph-rank``, which follows relations and
compares words and vectors. ``oracle_recall`` says what that leaves possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import open_calls
from kbnav.programs.api import API_VERSION, Api
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.graph_rank import GraphRank, GraphRankOptions
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings

SIZE = 200
"""Candidates of a query."""
KEPT = 100
"""Nodes of a ranking that are scored, as many as a run keeps."""


def oracle_recall(stage: Iterable[tuple[Collection[str], Collection[str]]]) -> float:
    """What the best program could reach: the mean share of answers among candidates; 0 without answers."""
    shares = [len(set(answers) & set(candidates)) / max(1, len(set(answers))) for candidates, answers in stage]
    return sum(shares) / max(1, len(shares))


@dataclass(frozen=True)
class Parts:
    """What programs run with. ``first`` gives candidates' ids, best first."""

    first: Callable[[str, Trace | None], Sequence[str]]
    api: Api

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of those of the functions that ask a model, where there is one."""
        return prompt_hashes("programs") if self.api.model else {}


def open_parts(kb: SkbKB, settings: Settings, *, candidates: Sequence[str] = (), api_model: str = "") -> Parts:
    """The parts; programs ask ``api_model``, and none where it is empty. Raises UsageError, CredentialsError."""
    model = open_calls(settings.asking(api_model)) if api_model else None
    stage = GraphRank(kb, GraphRankOptions(candidates=tuple(candidates)))
    return Parts(lambda query, trace: stage.retrieve(query, SIZE, trace).ids, Api(kb, model=model))


def bound_to(kb: SkbKB) -> dict[str, Any]:
    """What programs depend on, by name, as plain data."""
    return {
        "api": API_VERSION,
        "schema": kb.skb.meta.schema_sha256,
        "encoder": kb.skb.meta.encoder,
        "first stage": {"system": GraphRank.name, "size": SIZE},
    }
