"""The functions of the API that compare texts by meaning and by words (Agent Retriever, section 3 and Figure 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from kbnav.answers.relevance import words as words_of
from kbnav.errors import BadArguments
from kbnav.programs.api.functions import Function, Phrase
from kbnav.programs.api.knowledge import Count
from kbnav.programs.api.source import NotHere, Source

if TYPE_CHECKING:
    from kbnav.encoders import Encoder, Vectors

MOST_TEXTS = 256
"""That one call may have encoded."""
_KEPT = 4_096
"""Vectors of texts that are kept between calls."""
WordCount = Annotated[int, Field(ge=5, le=1_000)]


class EmbeddingFunctions:
    """What texts have in common. Docstrings are what the writer of a program reads."""

    def __init__(self, source: Source, encoder: Encoder | None = None) -> None:
        """``encoder`` is for texts and, where the knowledge base has no vectors, for those of nodes."""
        self._source = source
        self._encoder = encoder or source.encoder
        self._vector = lru_cache(_KEPT)(self._encode)

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (cls.search, cls.similarity, cls.bm25, cls.embed, cls.best_chunk):
            yield Function("embedding", method)

    def search(self, query: Phrase, node_type: str = "", limit: Count = 100) -> dict[str, float]:
        """The nodes whose text fits the query best, with scores; best first.

        By words (BM25) and by meaning (vectors), their scores summed; either finds at most 200, whatever `limit` is.
        It knows nothing of relations, and `candidates` come from another search.
        """
        return self._source.search(query, node_type, limit)

    def similarity(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node from -1 to 1 how near its document is to the query in meaning."""
        near = self._source.similarity(query, ids)
        if near is not None:
            return dict(near)
        texts = self._source.texts(list(dict.fromkeys(ids)), own=True, relations=False)
        wanted, *others = np.array(self.embed([query, *texts.values()]))
        return {node: float(vector @ wanted) for node, vector in zip(texts, others, strict=True)}

    def bm25(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node the BM25 score of its document for the query, 0 where they share no word.

        The document has the relations where these are indexed too.
        """
        return self._source.bm25(query, ids)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text, at most 256 texts a call; sums of products are cosines."""
        if len(texts) > MOST_TEXTS:
            raise BadArguments(f"embed: {len(texts)} texts, {MOST_TEXTS} are allowed in one call")
        return [self._vector(text).tolist() for text in texts]

    def best_chunk(self, query: Phrase, ids: list[str], words: WordCount = 100) -> dict[str, str]:
        """From each node's document the part of so many words that shares most with the query, rare words first."""
        texts = self._source.texts(ids, own=True, relations=True)
        wanted = set(words_of(query))
        chunks = {
            node: [(part, wanted & set(words_of(part))) for part in _chunks(text, words)]
            for node, text in texts.items()
        }
        holders = Counter(word for parts in chunks.values() for _, shared in parts for word in shared)
        return {
            node: max(parts, key=lambda part: sum(1 / holders[word] for word in part[1]), default=("", set()))[0]
            for node, parts in chunks.items()
        }

    def _encode(self, text: str) -> Vectors:
        if self._encoder is None:
            raise NotHere("there is no encoder of texts for this knowledge base")
        vector: Vectors = self._encoder.encode([text])[0]
        return vector


def _chunks(text: str, words: int) -> list[str]:
    parts = text.split()
    return [" ".join(parts[first : first + words]) for first in range(0, len(parts), words)]
