"""``bm25``: documents ranked by the words they share with the query (STaRK; KAR, section 6.5)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.common import NO_PROMPTS, RetrievalOptions, as_ranking, candidate_ranges, told
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings


class BM25Options(RetrievalOptions):
    """Options of ``bm25``."""

    relations: bool | None = None
    """Whether a node's relations are a part of its document, as in STaRK's; None: where the SKB was built with such
    documents."""
    name_weight: float = Field(default=0.0, ge=0.0)
    """What a match in a name counts besides that in the document, which has the name in it as STaRK's do; the search of
    ``SkbKB`` takes 2."""


class BM25:
    """BM25 over documents, each with its node's name in it; scores are sums over the words of the query."""

    name = "bm25"

    def __init__(self, kb: SkbKB, options: BM25Options) -> None:
        """Raises UsageError where the SKB has no such index, or not the candidates' types."""
        relational = kb.skb.relational_text if options.relations is not False else None
        index = relational or kb.skb.text
        if index is None or (options.relations and relational is None):
            what = "documents with relations: build it with --relations" if options.relations else "texts"
            raise UsageError(f"{kb.name} was built without an index of {what}")
        self._skb, self._index, self._relations = kb.skb, index, relational is not None
        self._ranges, self._name_weight = candidate_ranges(kb.skb, options), options.name_weight

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return NO_PROMPTS

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``; nodes that share no word with the query are left out."""
        with (trace or Trace()).step(self.name, query=query, relations=self._relations, limit=k) as seen:
            hits = self._index.search(query, limit=k, ranges=self._ranges, name_weight=self._name_weight)
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
            if left_out := self._index.unread(query):
                seen.text += f"\n{left_out} words of the query were left out: it is too long"
        return as_ranking(self._skb, hits)


def build_bm25(kb: SkbKB, settings: Settings, options: BM25Options) -> BM25:  # noqa: ARG001 - no setting concerns it
    """See ``BM25``."""
    return BM25(kb, options)
