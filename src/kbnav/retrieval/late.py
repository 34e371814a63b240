"""``dense`` by late interaction: a vector for each token of a document, compared with each of the question's.

The score of a document is the sum over the question's tokens of the greatest cosine with one of the document's tokens
(ColBERT, Khattab and Zaharia, 2020). All documents are compared, none is passed over by an approximate index: this is
for SKBs of some ten thousand nodes. ``kbnav train dense --kind late`` trains it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kbnav.answers.tables import Ranking
from kbnav.encoders import Vectors
from kbnav.encoders.trained import Late as LateEncoder
from kbnav.encoders.trained_card import check_schema, refuse_seen
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import load
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.common import NO_PROMPTS, Hits, RetrievalOptions, as_ranking, candidate_ranges, told
from kbnav.runs.journal import write_whole
from kbnav.runs.trace import Trace

TOKENS = "tokens"
"""Folder of the vectors, beside the model that made them: pieces of some nodes each, and which they are."""
_OF = "of.json"
_NODES_AT_ONCE = 1024
_Item = TypeVar("_Item")
_Scores = npt.NDArray[np.float32]


class Piece(NamedTuple):
    """The vectors [tokens, d] of consecutive nodes from ``first`` on, float16, and where each node's begin [nodes]."""

    first: int
    vectors: npt.NDArray[np.float16]
    starts: npt.NDArray[np.int64]

    def scores(self, question: Vectors) -> _Scores:
        """The score of each node [nodes], for the vectors of a question's tokens [q, d]."""
        likeness = self.vectors.astype(np.float32) @ question.T
        best: _Scores = np.maximum.reduceat(likeness, self.starts, axis=0).sum(axis=1)
        return best


class Late:
    """See the module."""

    name = "dense"

    def __init__(self, kb: SkbKB, folder: Path, options: RetrievalOptions) -> None:
        """Raises UsageError where the folder holds nothing that was trained for the SKB, or no vectors of it."""
        self._encoder = LateEncoder.load(folder)
        self._skb, self._folder, self._card = kb.skb, folder, self._encoder.card
        check_schema(folder, self._card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        self._pieces = _opened(folder, kb.skb)
        self._ranges = candidate_ranges(kb.skb, options)

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return NO_PROMPTS

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """See ``TrainedRetriever``."""
        refuse_seen(self._folder, "it", (*self._card.training, *self._card.validation), questions)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        with (trace or Trace()).step("late", query=query, relations=self._card.relations, limit=k) as seen:
            hits = self._nearest(self._encoder.encode_queries([query])[0], k)
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits)

    def _nearest(self, question: Vectors, k: int) -> Hits:
        scores = np.full(self._skb.meta.nodes, -np.inf, np.float32)
        for piece in self._pieces:
            last = piece.first + len(piece.starts)
            if self._ranges is None or any(first < last and end > piece.first for first, end in self._ranges):
                scores[piece.first : last] = piece.scores(question)
        if self._ranges is not None:
            for node, end in _gaps(self._ranges, len(scores)):
                scores[node:end] = -np.inf
        order = np.argsort(-scores, kind="stable")[:k]
        return [(int(node), float(scores[node])) for node in order if scores[node] > -np.inf]


def embed(folder: Path, skb: SKB, progress: Progress = no_progress) -> None:
    """Make the vectors of an SKB's tokens beside the model; pieces whose texts did not change are kept.

    What was cut off goes on. Raises UsageError where the SKB has another schema than that trained for.
    """
    encoder = LateEncoder.load(folder)
    check_schema(folder, encoder.card, skb.meta.name, skb.meta.schema_sha256)
    place = folder / TOKENS
    place.mkdir(exist_ok=True)
    made: list[str] = []
    documents = (node.document for node in indexed_texts(skb, relations=encoder.card.relations))
    for texts in _runs(documents, _NODES_AT_ONCE):
        progress("vectors", _NODES_AT_ONCE * len(made), skb.meta.nodes)
        name = hashlib.sha256("\0".join((encoder.card.digest, *texts)).encode()).hexdigest()[:24]
        if not all((place / f"{name}{end}.npy").is_file() for end in ("-counts", "")):
            _write(place, name, encoder.encode(texts))
        made.append(name)
    progress("vectors", skb.meta.nodes, skb.meta.nodes)
    write_whole(place / _OF, json.dumps({"skb": skb.meta.name, "data": skb.meta.data, "pieces": made}))
    for path in place.glob("*.npy"):
        if path.stem.removesuffix("-counts") not in made:
            path.unlink()


def _write(place: Path, name: str, vectors: Sequence[Vectors]) -> None:
    """Write a piece; the vectors last, so that they say that it is whole. Raises UsageError."""
    width = max(one.shape[1] for one in vectors)
    some = [one if len(one) else np.zeros((1, width), np.float32) for one in vectors]  # a node has a token at least
    counts = np.array([len(one) for one in some], np.int64)
    try:
        for end, array in (("-counts", counts), ("", np.concatenate(some).astype(np.float16))):
            part = place / f"{name}{end}.part"
            with part.open("wb") as file:
                np.save(file, array)
            part.replace(place / f"{name}{end}.npy")
    except OSError as error:
        raise UsageError(f"{place}: cannot be written: {error.strerror}; the same command goes on") from error


def _opened(folder: Path, skb: SKB) -> list[Piece]:
    """The vectors of an SKB beside the model. Raises UsageError where they are missing, DataError where damaged."""
    of = folder / TOKENS / _OF
    known = json.loads(of.read_bytes()) if of.is_file() else {"data": "", "pieces": []}
    if known["data"] != skb.meta.data:
        why = "are of another build of it" if of.is_file() else "are missing"
        raise UsageError(
            f"{folder}: the vectors of {skb.meta.name} {why}: kbnav train embed {folder} --kb {skb.place} makes them"
        )
    pieces: list[Piece] = []
    first = 0
    for name in known["pieces"]:
        try:
            counts = load(of.parent / f"{name}-counts.npy", None)
            vectors = load(of.parent / f"{name}.npy").view(np.ndarray)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{of.parent}: {error}") from error
        pieces.append(Piece(first, vectors, np.cumsum(counts) - counts))
        first += len(counts)
    if first != skb.meta.nodes:
        raise DataError(f"{of.parent}: vectors of {first:,} nodes, where {skb.meta.name} has {skb.meta.nodes:,}")
    return pieces


def _gaps(ranges: Iterable[tuple[int, int]], end: int) -> Iterator[tuple[int, int]]:
    """What lies between ranges of numbers below ``end``."""
    last = 0
    for first, until in sorted(ranges):
        yield last, first
        last = until
    yield last, end


def _runs(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while run := list(islice(rest, size)):
        yield run
