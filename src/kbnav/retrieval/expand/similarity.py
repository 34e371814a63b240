"""How well documents, or names, fit a query: by the SKB's vectors, or by BM25 (KAR, sections 4 and 6.5)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from kbnav.answers.relevance import relevance
from kbnav.errors import UsageError
from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextSearch
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.retrieval.common import Hits
from kbnav.retrieval.expand.neighbours import Scorer, Scores

Place = tuple[Sequence[tuple[int, int]] | None, Collection[int] | None]
"""Where to search: ranges of node numbers, and single ones; None is everywhere."""

_WORD_HITS = 20_000
"""Nodes that BM25 scores for a query; those behind them count as not similar."""


class Similarity(Protocol):
    """Scores of documents and of names. Calls are made from several threads at once."""

    def documents(self, query: str) -> Scorer:
        """Scores nodes by their documents, which are not encoded for it."""
        ...

    def names(self, query: str) -> Scorer:
        """Scores nodes by their names (KAR's ablation without document-based relation filtering)."""
        ...

    def nearest(self, texts: Sequence[str], places: Sequence[Place], limit: int) -> list[Hits]:
        """For each text the nodes in its place whose documents are most like it."""
        ...


class Meaning:
    """By cosines of vectors: those of documents are the stored ones, those of names are made when first asked for."""

    def __init__(self, skb: SKB, index: VectorSearch) -> None:
        self._skb, self._index = skb, index
        self._named = np.full(index.count, -1, np.int32)
        self._names = np.empty((0, index.dimensions), np.float32)
        self._lock = threading.Lock()

    def documents(self, query: str) -> Scorer:
        """See ``Similarity``. One pass over all vectors is cheaper than to gather the rows of most of them."""
        return self._index.scorer(self._index.embed(query))

    def names(self, query: str) -> Scorer:
        """See ``Similarity``. Names that no query met before are encoded: slow behind hubs, and kept in memory."""
        vector = self._index.embed(query)

        def score(nodes: NodeNumbers) -> Scores:
            with self._lock:
                new = nodes[self._named[nodes] < 0]
                if len(new):
                    labels = [self._skb.nodes.label(node) for node in new.tolist()]
                    rows = self._index.encoder.encode(labels)
                    self._named[new] = np.arange(len(self._names), len(self._names) + len(new))
                    self._names = np.concatenate([self._names, rows])
                scores: Scores = self._names[self._named[nodes]] @ vector
            return scores

        return score

    def nearest(self, texts: Sequence[str], places: Sequence[Place], limit: int) -> list[Hits]:
        """See ``Similarity``; the texts are encoded together."""
        if not texts:
            return []
        vectors = self._index.encoder.encode(texts)
        return [
            self._index.nearest(vector, limit=limit, ranges=ranges, among=among)
            for vector, (ranges, among) in zip(vectors, places, strict=True)
        ]


class Words:
    """By BM25; names, by the words they share with the query.

    Documents are scored as the system ``bm25`` does; a node for an entity is looked up as ``SkbKB`` does it, where a
    word in a name counts more.
    """

    def __init__(self, skb: SKB, index: TextSearch) -> None:
        self._skb, self._index = skb, index

    def documents(self, query: str) -> Scorer:
        """See ``Similarity``."""
        scores = np.zeros(len(self._skb.nodes), np.float32)
        hits = self._index.search(query, limit=_WORD_HITS, name_weight=0.0)
        scores[[node for node, _ in hits]] = [score for _, score in hits]
        return lambda nodes: scores[nodes]

    def names(self, query: str) -> Scorer:
        """See ``Similarity``."""
        return lambda nodes: np.array(
            relevance(query, [self._skb.nodes.label(node) for node in nodes.tolist()]), np.float32
        )

    def nearest(self, texts: Sequence[str], places: Sequence[Place], limit: int) -> list[Hits]:
        """See ``Similarity``."""
        return [
            self._index.search(text, limit=limit, ranges=ranges, among=among)
            for text, (ranges, among) in zip(texts, places, strict=True)
        ]


def similarity_for(skb: SKB, base: str) -> Similarity:
    """The vectors; BM25 where it is the base retriever, and where there are no vectors.

    Raises UsageError where the SKB has neither.
    """
    if skb.vectors is not None and skb.vectors.count and (base != "bm25" or skb.text is None):
        return Meaning(skb, skb.vectors)
    if skb.text is None:
        raise UsageError(f"{skb.meta.name} was built without vectors and without an index of texts")
    return Words(skb, skb.text)
