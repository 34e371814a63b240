"""``multi-vss``: the best of ``vss`` ranked again by the vectors of their chunks (STaRK, section 3.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders import Encoder, Vectors
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import compact_text, get_doc_info, get_rel_info
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import Blobs
from kbnav.retrieval.common import NO_PROMPTS, as_ranking, followed, numbers, told
from kbnav.retrieval.vss import VSS, VSSOptions
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

FILE = "chunk-vectors.sqlite"
Aggregate = Literal["max", "mean", "mean3"]


class MultiVSSOptions(VSSOptions):
    """Options of ``multi-vss``."""

    first: int = Field(default=50, ge=1)
    """Nodes of ``vss`` that are ranked again."""
    aggregate: Aggregate = "max"
    """The score of a node: the largest cosine of its chunks, their mean, or the mean of the largest three."""
    chunk_words: int = Field(default=128, ge=1)
    """Words of a chunk at most."""
    chunks: int = Field(default=200, ge=1)
    """Chunks of a node at most; of a hub with more the last relations are left out."""


class MultiVSS:
    """The cosines of the query with the chunks of a document, those of its text and those of its relations."""

    name = "multi-vss"

    def __init__(self, kb: SkbKB, vectors: Blobs, options: MultiVSSOptions) -> None:
        """Vectors of chunks are made when a query first needs them, and kept in ``vectors``. Raises as ``VSS``."""
        self._skb, self._vectors, self._options = kb.skb, vectors, options
        self._vss = VSS(kb, VSSOptions(candidates=options.candidates, relations=options.relations))

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return NO_PROMPTS

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Nodes behind the first so many follow in the order of ``vss``."""
        trace = trace or Trace()
        if not self._vss.index.count:
            return Ranking()
        vector = self._vss.index.embed(query)
        found = numbers(self._skb, self._vss.nearest(vector, max(k, self._options.first), trace, query))
        first, others = found[: self._options.first], found[self._options.first :]
        with trace.step(self.name, aggregate=self._options.aggregate, nodes=len(first)) as seen:
            whole = [list(chunks(self._skb, node, self._options.chunk_words)) for node in first]
            chunked = [texts[: self._options.chunks] for texts in whole]
            near = self._encoded([text for texts in chunked for text in texts], self._vss.index.encoder) @ vector
            ends = np.cumsum([len(texts) for texts in chunked])[:-1]
            parts = np.split(near, ends)
            scores = [aggregated(part, self._options.aggregate) for part in parts]
            order = sorted(range(len(first)), key=lambda place: -scores[place])
            hits = [(first[place], scores[place]) for place in order]
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
            cut = [
                f"{self._skb.id(node)} ({len(texts)} chunks)"
                for node, texts in zip(first, whole, strict=True)
                if len(texts) > self._options.chunks
            ]
            seen.text += f"\nonly {self._options.chunks} chunks were compared of {', '.join(cut)}" if cut else ""
        return as_ranking(self._skb, followed(hits, others)[:k])

    def _encoded(self, texts: Sequence[str], encoder: Encoder) -> Vectors:
        """Vectors of texts, shape [texts, d]: those kept from before, the others from the encoder in one batch."""
        keys = [hashlib.sha256(f"{encoder.name}\0{text}".encode("utf-8", "replace")).hexdigest() for text in texts]
        known = self._vectors.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = encoder.encode(list(missing.values()))
            new = {key: row.tobytes() for key, row in zip(missing, made, strict=True)}
            self._vectors.put(new)
            known |= new
        return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])


def chunks(skb: SKB, node: int, words: int) -> Iterator[str]:
    """The text of a node, then its relations, each cut into parts of at most so many words."""
    for text in (get_doc_info(skb, node, add_rel=False), get_rel_info(skb, node)):
        parts = compact_text(text).split()
        for first in range(0, len(parts), words):
            yield " ".join(parts[first : first + words])


def aggregated(cosines: Vectors, how: Aggregate) -> float:
    """One score of the cosines, shape [chunks], of a node's chunks."""
    if how == "max":
        return float(cosines.max())
    return float((cosines if how == "mean" else np.sort(cosines)[-3:]).mean())


def build_multi_vss(kb: SkbKB, settings: Settings, options: MultiVSSOptions) -> MultiVSS:
    """See ``MultiVSS``; the vectors of chunks are kept under ``home``."""
    return MultiVSS(kb, Blobs(settings.home / FILE, "the vectors of chunks"), options)
