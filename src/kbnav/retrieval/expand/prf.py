"""Pseudo-relevance feedback: the documents found first are added to the query (KAR, section 5.2; no model)."""

from __future__ import annotations

from collections.abc import Mapping

from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.expand.documents import searched
from kbnav.retrieval.expand.expansion import INITIAL
from kbnav.runs.trace import Trace


class PRF:
    """The top documents of a first retrieval, whole, as the expansion."""

    name = "prf"
    prompts: Mapping[str, str] = {}

    def __init__(self, skb: SKB, base: Retriever, *, initial: int = INITIAL) -> None:
        self._skb = skb
        self._base = base
        self._initial = initial

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``."""
        found = self._base.retrieve(query, self._initial, trace)
        return [searched(self._skb, self._skb.number(node)) for node in found.ids]
