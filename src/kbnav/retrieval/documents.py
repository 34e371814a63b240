"""``bm25``: documents ranked by the words they share with the query (STaRK; KAR, section 6.5)."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders import Encoder, Vectors
from kbnav.encoders.trained import Trained, check_schema, refuse_seen
from kbnav.errors import UsageError
from kbnav.knowledge.skb import vectors
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import compact_text, get_doc_info, get_rel_info, indexed_texts
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import VectorIndex, VectorSearch
from kbnav.models.calls import Blobs
from kbnav.retrieval.base import (
    NO_PROMPTS,
    RetrievalOptions,
    TrainedOptions,
    as_ranking,
    candidate_ranges,
    followed,
    hits_text,
    numbers,
)
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings


class BM25Options(RetrievalOptions):
    """Options of ``bm25``."""

    relations: bool | None = None
    """Whether a node's relations are a part of its document; None: where the SKB was built with such documents, but on
    STaRK's, whose published BM25 leaves them out."""
    name_weight: float = Field(default=0.0, ge=0.0)
    """What a match in a name counts besides that in the document, which has the name in it as STaRK's do; the search of
    ``SkbKB`` takes 2."""


class BM25:
    """BM25 over documents, each with its node's name in it; scores are sums over the words of the query."""

    name = "bm25"
    prompts = NO_PROMPTS

    def __init__(self, kb: SkbKB, options: BM25Options) -> None:
        """Raises UsageError where the SKB has no such index, or not the candidates' types."""
        unlike_stark = options.relations is None and kb.skb.meta.style == "plain"
        relational = kb.skb.relational_text if options.relations or unlike_stark else None
        index = relational or kb.skb.text
        if index is None or (options.relations and relational is None):
            what = "documents with relations: build it with --relations" if options.relations else "texts"
            raise UsageError(f"{kb.name} was built without an index of {what}")
        self._skb, self._index, self._relations = kb.skb, index, relational is not None
        self._ranges, self._name_weight = candidate_ranges(kb.skb, options), options.name_weight

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``; nodes that share no word with the query are left out."""
        with (trace or Trace()).step(self.name, query=query, relations=self._relations, limit=k) as seen:
            hits = self._index.search(query, limit=k, ranges=self._ranges, name_weight=self._name_weight)
            seen.text, seen.nodes = hits_text(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits)


class VSSOptions(RetrievalOptions):
    """Options of ``vss``."""

    relations: bool | None = None
    """Whether a node's relations are a part of its document, as in STaRK's; None: where the SKB was built with such
    documents."""


class VSS:
    """The cosine of the query's embedding with each document's; scores lie between -1 and 1."""

    name = "vss"
    prompts = NO_PROMPTS

    def __init__(self, kb: SkbKB, options: RetrievalOptions, vectors: tuple[VectorSearch, bool] | None = None) -> None:
        """``vectors``: others than the SKB's own, and whether with relations. Raises UsageError without them."""
        relations = options.relations if isinstance(options, VSSOptions) else None
        self._skb = kb.skb
        self.index, self._relations = vectors or document_vectors(kb, relations=relations)
        self._ranges = candidate_ranges(kb.skb, options)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        if not self.index.count:
            return Ranking()
        return self.nearest(self.index.embed(query), k, trace or Trace(), query)

    def nearest(self, vector: Vectors, k: int, trace: Trace, query: str = "") -> Ranking:
        """The nodes nearest to a vector [d] of length 1 that stands for the query."""
        with trace.step(self.name, query=query, relations=self._relations, limit=k) as seen:
            hits = self.index.search(vector, limit=k, ranges=self._ranges)
            seen.text, seen.nodes = hits_text(self._skb, hits), [self._skb.id(node) for node, _ in hits]
            if not vector.any():
                seen.text += f": {self.index.encoder_name.partition(':')[0]} knows no word of the query"
        return as_ranking(self._skb, hits)


def document_vectors(kb: SkbKB, *, relations: bool | None = None) -> tuple[VectorSearch, bool]:
    """The documents' vectors, and whether with ``relations``, as in ``VSSOptions``. Raises UsageError."""
    relational = kb.skb.relational_vectors if relations is not False else None
    if relational is not None:
        return relational, True
    if relations or kb.skb.vectors is None:
        what = "vectors of documents with relations: build it with --relations" if relations else "vectors"
        raise UsageError(f"{kb.name} was built without {what}")
    return kb.skb.vectors, False


FILE = "chunk-vectors.sqlite"
Aggregate = Literal["max", "mean", "mean3"]


class MultiVSSOptions(VSSOptions):
    """Options of ``multi-vss``."""

    first: int = Field(default=50, ge=1)
    """Nodes of ``vss`` that are ranked again."""
    aggregate: Aggregate = "max"
    """The score of a node: the largest cosine of its chunks, their mean, or the mean of the largest three."""
    chunks: Annotated[int, Field(ge=1)] | Literal["published"] = 200
    """Chunks of a node at most; of a hub with more the last relations are left out. ``published``: STaRK's chunks, all
    of them, of 256 characters of text and relations together."""


class MultiVSS:
    """The cosines of the query with the chunks of a document, those of its text and those of its relations."""

    name = "multi-vss"
    prompts = NO_PROMPTS

    def __init__(self, kb: SkbKB, settings: Settings, options: MultiVSSOptions) -> None:
        """Vectors of chunks are made when a query first needs them, and kept under ``home``. Raises as ``VSS``."""
        self._skb, self._vectors = kb.skb, Blobs(settings.home / FILE, "the vectors of chunks")
        self._options = options
        self._vss = VSS(kb, VSSOptions(candidates=options.candidates, relations=options.relations))

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Nodes behind the first so many follow in the order of ``vss``."""
        trace = trace or Trace()
        if not self._vss.index.count:
            return Ranking()
        vector = self._vss.index.embed(query)
        found = numbers(self._skb, self._vss.nearest(vector, max(k, self._options.first), trace, query))
        if not found:
            return Ranking()
        first, others = found[: self._options.first], found[self._options.first :]
        with trace.step(self.name, aggregate=self._options.aggregate, nodes=len(first)) as seen:
            most = None if self._options.chunks == "published" else self._options.chunks
            whole = [
                list(
                    published_chunks(get_doc_info(self._skb, node, compact=True))
                    if most is None
                    else chunks(self._skb, node)
                )
                for node in first
            ]
            chunked = [texts[:most] for texts in whole]
            near = self._encoded([text for texts in chunked for text in texts], self._vss.index.encoder) @ vector
            ends = np.cumsum([len(texts) for texts in chunked])[:-1]
            parts = np.split(near, ends)
            scores = [aggregated(part, self._options.aggregate) for part in parts]
            order = sorted(range(len(first)), key=lambda place: -scores[place])
            hits = [(first[place], scores[place]) for place in order]
            seen.text, seen.nodes = hits_text(self._skb, hits), [self._skb.id(node) for node, _ in hits]
            cut = [
                f"{self._skb.id(node)} ({len(texts)} chunks)"
                for node, texts in zip(first, whole, strict=True)
                if most is not None and len(texts) > most
            ]
            seen.text += f"\nonly {most} chunks were compared of {', '.join(cut)}" if cut else ""
        return as_ranking(self._skb, followed(hits, others)[:k])

    def _encoded(self, texts: Sequence[str], encoder: Encoder) -> Vectors:
        keys = [hashlib.sha256(f"{encoder.name}\0{text}".encode("utf-8", "replace")).hexdigest() for text in texts]
        known = self._vectors.get(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = encoder.encode(list(missing.values()))
            new = {key: row.tobytes() for key, row in zip(missing, made, strict=True)}
            self._vectors.put(new)
            known |= new
        return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])


def chunks(skb: SKB, node: int, words: int = 128) -> Iterator[str]:
    """The text of a node, then its relations, each cut into parts of at most so many words."""
    for text in (get_doc_info(skb, node, add_rel=False), get_rel_info(skb, node)):
        parts = compact_text(text).split()
        for first in range(0, len(parts), words):
            yield " ".join(parts[first : first + words])


def published_chunks(text: str, size: int = 256) -> Iterator[str]:
    """STaRK's chunks of a line: words up to ``size`` characters, at most a fifth of them repeated in the next chunk.

    As LangChain's ``RecursiveCharacterTextSplitter`` cuts a line; a word as long as a chunk is cut between letters.
    """
    overlap = size // 5
    kept: list[str] = []
    for word in re.findall(r" ?[^ ]+", text):
        long = len(word) >= size
        if kept and (long or len("".join([*kept, word])) > size):
            yield "".join(kept).strip()
            while kept and (long or len("".join(kept)) > overlap or len("".join([*kept, word])) > size):
                kept.pop(0)
        if long:
            yield from (word[first : first + size].strip() for first in range(0, len(word) - overlap, size - overlap))
        else:
            kept.append(word)
    if kept:
        yield "".join(kept).strip()


def aggregated(cosines: Vectors, how: Aggregate) -> float:
    """One score of the cosines, shape [chunks], of a node's chunks."""
    if how == "max":
        return float(cosines.max())
    return float((cosines if how == "mean" else np.sort(cosines)[-3:]).mean())


VECTORS = "vectors"
"""Folder of an SKB's vectors, beside the model that made them."""
_OF = "of.json"
_PART = "vectors.part"


class Dense(VSS):
    """The cosine of the query's embedding with each document's, by encoders of their own."""

    name = "dense"

    def __init__(self, kb: SkbKB, options: TrainedOptions) -> None:
        """Raises UsageError where nothing is named that was trained for the SKB, or where it has no vectors of it."""
        folder = options.folder(self.name, "dense")
        encoder = Trained.load(folder)
        check_schema(folder, encoder.card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        super().__init__(kb, options, (vectors_of(folder, kb.skb, encoder), encoder.card.relations))
        self.refuse_seen = partial(refuse_seen, folder, "it", encoder.card.seen)


def vectors_of(folder: Path, skb: SKB, encoder: Encoder) -> VectorIndex:
    """The vectors of an SKB beside the model. Raises UsageError where there are none, or of another build of it."""
    of = folder / VECTORS / _OF
    if not of.is_file() or json.loads(of.read_bytes())["data"] != skb.meta.data:
        why = "are of another build of it" if of.is_file() else "are missing"
        raise UsageError(
            f"{folder}: the vectors of {skb.meta.name} {why}: "
            f"kbnav train embed --out {folder} --kb {skb.place} makes them"
        )
    return vectors.open(folder / VECTORS, encoder)


def embed(folder: Path, skb: SKB, progress: Progress = no_progress) -> None:
    """Make or go on with an SKB's vectors beside the model, unchanged ones taken over. Raises UsageError."""
    encoder = Trained.load(folder)
    card = encoder.card
    check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
    part, done = folder / _PART, folder / VECTORS
    part.mkdir(exist_ok=True)
    vectors.build(
        lambda: indexed_texts(skb, relations=card.relations),
        part,
        type_start=skb.meta.type_start,
        encoder=encoder,
        previous=done if done.is_dir() else None,
        progress=progress,
    )
    write_whole(part / _OF, json.dumps({"skb": skb.meta.name, "data": skb.meta.data}))
    shutil.rmtree(done, ignore_errors=True)
    part.rename(done)
