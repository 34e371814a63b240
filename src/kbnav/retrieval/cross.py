"""``cross``: the first nodes of several systems ranked again by a trained cross-encoder and where they came from.

It asks no language model. ``kbnav train cross`` trains it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders.trained import (
    MODEL,
    TOKENIZER,
    Card,
    OnnxTexts,
    check_files,
    check_schema,
    onnx_installed,
    read_card,
    refuse_seen,
)
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import ComposedOptions, Retriever, as_ranking, build_retriever, hits_text, numbers
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings
from kbnav.settings.plugins import missing

ONNX, HEAD = "model.onnx", "head.json"
"""In the folder of the model: the exported model, and what puts its score and the features together."""
Scores = npt.NDArray[np.float32]
Features = npt.NDArray[np.float32]


class Head:
    """A weighted sum of a cross-encoder's score and the features of where a node came from."""

    def __init__(self, means: Sequence[float], scales: Sequence[float], weights: Sequence[float]) -> None:
        """``means`` and ``scales`` are those of the columns where the ``weights`` were learned."""
        self.means, self.scales, self.weights = list(means), list(scales), list(weights)

    def __call__(self, scores: Scores, features: npt.NDArray[np.float32]) -> Scores:
        """One score [n] of each row, by its score [n] and its features [n, f]."""
        rows = np.column_stack([scores, features])
        return np.asarray((rows - self.means) / self.scales @ np.asarray(self.weights), np.float32)

    def save(self, folder: Path) -> None:
        """Write ``head.json``."""
        (folder / HEAD).write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Head:
        """Read it. Raises DataError."""
        try:
            return cls(**json.loads((folder / HEAD).read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{folder / HEAD}: cannot be read: {error}") from error


class CrossScorer:
    """The cross-encoder, which reads a question and a document together, as onnxruntime runs it."""

    def __init__(self, folder: Path, longest: int) -> None:
        """Raises DataError where the files cannot be read, UsageError where onnxruntime is missing."""
        if not onnx_installed():
            raise missing("the cross-encoder", "onnxruntime", "tokenizers", extra="vectors")
        self._model = OnnxTexts(folder / ONNX, folder / TOKENIZER, longest)

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """Scores [texts] of documents, higher for what answers the query."""
        return self._model.run([(query, text) for text in texts])[:, 0]


SYSTEMS = ("graph-rank", "bm25", "vss")
"""A plan's paths, words and meaning. Where a planner was trained, ``plan-rank`` may stand in the first's place."""
PER_SYSTEM = 2
"""Features of each system."""


class CandidateList(NamedTuple):
    """Node numbers, the best first by the fusion of the systems' ranks, and their features [nodes, 2 x systems]."""

    nodes: list[int]
    features: Features


class Candidates:
    """The systems; use ``open``."""

    def __init__(self, kb: SkbKB, systems: Sequence[Retriever], depth: int) -> None:
        self._skb, self.systems, self.depth = kb.skb, systems, depth

    @classmethod
    def open(
        cls, kb: SkbKB, settings: Settings, systems: Sequence[str], depth: int, options: Mapping[str, Mapping[str, Any]]
    ) -> Candidates:
        """Systems by name, each with its options. Raises as ``build_retriever``."""
        return cls(kb, [build_retriever(name, kb, settings, options.get(name, {})) for name in systems], depth)

    def find(self, query: str, trace: Trace | None = None) -> CandidateList:
        """The first ``depth`` nodes of all systems together. Raises as their ``retrieve``."""
        trace = trace or Trace()
        lists, scores = [], []
        for system in self.systems:
            ranking = system.retrieve(query, self.depth, trace)
            lists.append(numbers(self._skb, ranking))
            scores.append([one.score for one in ranking.nodes])
        nodes = [node for node, _ in reciprocal_rank_fusion(lists, limit=self.depth)]
        return CandidateList(nodes, _features(nodes, lists, scores))


def _features(nodes: Sequence[int], lists: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> Features:
    rows = {node: row for row, node in enumerate(nodes)}
    found = np.zeros((len(nodes), PER_SYSTEM * len(lists)), np.float32)
    for number, (listed, given) in enumerate(zip(lists, scores, strict=True)):
        reach = (given[0] - given[-1]) or 1.0 if given else 1.0
        for place, (node, score) in enumerate(zip(listed, given, strict=True)):
            if node in rows:
                found[rows[node], PER_SYSTEM * number] = 1 / (1 + place)
                found[rows[node], PER_SYSTEM * number + 1] = (score - given[-1]) / reach
    return found


class RerankedOptions(ComposedOptions):
    """Options of such a system; ``system`` is its name."""

    system: ClassVar[Literal["cross", "qagnn"]]
    trained: str = ""
    depth: int

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return tuple(read_card(Path(self.trained), self.system).settings["systems"]) if self.trained else SYSTEMS

    def opened(self, what: str) -> tuple[Path, Card]:
        """The folder that was trained, and its card. Raises UsageError where none is named: ``what`` is missing."""
        if not self.trained:
            name = self.system
            raise UsageError(
                f"{name} needs a {what}: kbnav train {name} makes one, --set trained=FOLDER names its folder"
            )
        folder = Path(self.trained)
        return folder, read_card(folder, self.system)

    def candidates_of(self, kb: SkbKB, settings: Settings) -> Candidates:
        """The systems whose nodes are ranked again. Raises as ``build_retriever``."""
        own = {name: {"candidates": self.candidates, **self.stages.get(name, {})} for name in self.made_of}
        return Candidates.open(kb, settings, self.made_of, self.depth, own)


class Reranked:
    """A retriever over the candidates of others, by what a folder holds."""

    def __init__(self, kb: SkbKB, folder: Path, card: Card, candidates: Candidates) -> None:
        """Raises UsageError where the folder was trained for another schema, DataError where it was changed."""
        check_schema(folder, card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        check_files(folder / MODEL, card.files)
        self._skb, self._folder, self._card, self._candidates = kb.skb, folder, card, candidates

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of the systems it is made of."""
        return {name: digest for system in self.stages for name, digest in system.prompts.items()}

    @property
    def stages(self) -> Sequence[Retriever]:
        """See ``refuse_seen``."""
        return self._candidates.systems

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """See ``refuse_seen``."""
        refuse_seen(self._folder, "it", (*self._card.training, *self._card.validation), questions)


def by_score(nodes: Sequence[int], scores: Sequence[float]) -> list[tuple[int, float]]:
    """Nodes with their scores, best first; equal ones in the order they came in."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    return [(nodes[place], scores[place]) for place in order]


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
        self._scorer, self._head = CrossScorer(folder / MODEL, longest), Head.load(folder / MODEL)
        self._text = lru_cache(_TEXTS_KEPT)(lambda node: document_text(kb.skb, node, longest))

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        found = self._candidates.find(query, trace)
        with trace.step(self.name, query=query, nodes=len(found.nodes), limit=k) as seen:
            scores = self._scorer.score(query, [self._text(node) for node in found.nodes])
            final = self._head(scores, found.features).tolist()
            hits = by_score(found.nodes, final)
            seen.text, seen.nodes = hits_text(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits[:k])


def document_text(skb: SKB, node: int, longest: int) -> str:
    """A document as the cross-encoder reads it: with a few of its relations, in one line."""
    text = get_doc_info(skb, node, add_rel=True, compact=True, n_rel=_NEIGHBORS)
    return text[: longest * _CHARACTERS]


def build_cross(kb: SkbKB, settings: Settings, options: CrossOptions) -> Cross:
    """See ``Cross``. Raises UsageError where nothing trained is named, and as ``build_retriever``."""
    folder, card = options.opened("cross-encoder")
    return Cross(kb, folder, card, options.candidates_of(kb, settings))
