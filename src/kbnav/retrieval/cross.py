"""``cross``: the first nodes of several systems ranked again by a trained cross-encoder and where they came from.

It asks no language model. ``kbnav train cross`` trains it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders.trained_card import MODEL, Card
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.common import as_ranking, told
from kbnav.retrieval.cross_candidates import Candidates
from kbnav.retrieval.cross_model import Head, open_scorer
from kbnav.retrieval.reranked import Reranked, RerankedOptions, by_score
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

_NEIGHBORS = 5
"""Of each kind that a document shows: the cross-encoder reads few tokens."""
_CHARACTERS = 12
"""Of a document for each token that is read."""
_TEXTS_KEPT = 20_000


class CrossOptions(RerankedOptions):
    """Options of ``cross``."""

    system = "cross"

    trained: str = ""
    """The folder that ``kbnav train cross`` wrote."""
    depth: int = Field(default=100, ge=1)
    """Nodes that are ranked again."""


class Cross(Reranked):
    """See the module."""

    name = "cross"

    def __init__(self, kb: SkbKB, folder: Path, card: Card, candidates: Candidates) -> None:
        """Raises UsageError where the folder was trained for another schema, DataError where it was changed."""
        super().__init__(kb, folder, card, candidates)
        longest = int(card.settings["longest"])
        self._scorer, self._head = open_scorer(folder, longest), Head.load(folder / MODEL)
        self._text = lru_cache(_TEXTS_KEPT)(lambda node: shown(kb.skb, node, longest))

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        found = self._candidates.find(query, trace)
        with trace.step(self.name, query=query, nodes=len(found.nodes), limit=k) as seen:
            scores = self._scorer.score(query, [self._text(node) for node in found.nodes])
            final = self._head(scores, found.features).tolist()
            hits = by_score(found.nodes, final)
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits[:k])


def shown(skb: SKB, node: int, longest: int) -> str:
    """A document as the cross-encoder reads it: with a few of its relations, in one line."""
    text = get_doc_info(skb, node, add_rel=True, compact=True, n_rel=_NEIGHBORS)
    return text[: longest * _CHARACTERS]


def build_cross(kb: SkbKB, settings: Settings, options: CrossOptions) -> Cross:
    """See ``Cross``. Raises UsageError where nothing trained is named, and as ``build_retriever``."""
    folder, card = options.opened("cross-encoder")
    return Cross(kb, folder, card, options.candidates_of(kb, settings))
