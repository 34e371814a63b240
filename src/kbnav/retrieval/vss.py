"""``vss``: vector similarity search (STaRK, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from kbnav.answers.tables import Ranking
from kbnav.encoders import Vectors, Windowed
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.retrieval.common import NO_PROMPTS, RetrievalOptions, as_ranking, candidate_ranges, told
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings


class VSSOptions(RetrievalOptions):
    """Options of ``vss``."""

    relations: bool | None = None
    """Whether a node's relations are a part of its document, as in STaRK's; None: where the SKB was built with such
    documents."""


class VSS:
    """The cosine of the query's embedding with each document's; scores lie between -1 and 1."""

    name = "vss"

    def __init__(self, kb: SkbKB, options: RetrievalOptions, vectors: tuple[VectorSearch, bool] | None = None) -> None:
        """``vectors`` are others than the SKB's own, and whether they are of documents with relations.

        Raises UsageError where the SKB has no such vectors, or not the candidates' types.
        """
        relations = options.relations if isinstance(options, VSSOptions) else None
        self._skb = kb.skb
        self.index, self._relations = vectors or document_vectors(kb, relations=relations)
        self._ranges = candidate_ranges(kb.skb, options)

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return NO_PROMPTS

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        if not self.index.count:
            return Ranking()
        return self.nearest(self.index.embed(query), k, trace or Trace(), query)

    def nearest(self, vector: Vectors, k: int, trace: Trace, query: str = "") -> Ranking:
        """The nodes nearest to a vector [d] of length 1 that stands for the query."""
        with trace.step(self.name, query=query, relations=self._relations, limit=k) as seen:
            hits = self.index.nearest(vector, limit=k, ranges=self._ranges)
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
            encoder = self.index.encoder
            if isinstance(encoder, Windowed) and (left_out := encoder.unread(query)):
                seen.text += f"\nthe last {left_out} characters of the query lie behind what {encoder.name} reads"
        return as_ranking(self._skb, hits)


def document_vectors(kb: SkbKB, *, relations: bool | None = None) -> tuple[VectorSearch, bool]:
    """The vectors of the documents, and whether the documents have relations; ``relations`` as in ``VSSOptions``.

    Raises UsageError where the SKB has none.
    """
    relational = kb.skb.relational_vectors if relations is not False else None
    if relational is not None:
        return relational, True
    if relations or kb.skb.vectors is None:
        what = "vectors of documents with relations: build it with --relations" if relations else "vectors"
        raise UsageError(f"{kb.name} was built without {what}")
    return kb.skb.vectors, False


def build_vss(kb: SkbKB, settings: Settings, options: VSSOptions) -> VSS:  # noqa: ARG001 - no setting concerns it
    """See ``VSS``."""
    return VSS(kb, options)
