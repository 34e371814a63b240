"""The evidence of what was trained to rank again: what a cross-encoder or a graph network says of a question's nodes.

``kbnav train cross`` and ``kbnav train qagnn`` train them.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kbnav.encoders.trained import CARD, MODEL, Card, check_files, check_schema, read_card
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.planning.fuse.weighing import Floats
from kbnav.retrieval.cross import open_scorer, shown
from kbnav.retrieval.qagnn import QAGNNOptions, build_qagnn
from kbnav.settings.model import Settings

SAID_AS = "log share"
"""How what readers say becomes evidence; weights that were learned of another are of no use."""
_FLOOR = 0.001
"""Shares far below it count as none."""
READ = 50
"""Nodes of a question that a cross-encoder reads: the best by the weights set by hand."""
_TEXTS_KEPT = 20_000
_QUESTIONS_KEPT = 1_000
"""With the scores of their nodes: a training asks for those of a question more than once."""


class Reader(ABC):
    """Something trained, in a folder with its card."""

    kind: ClassVar[str]

    def __init__(self, folder: Path, card: Card) -> None:
        self.card, self._folder = card, folder

    @abstractmethod
    def evidence(self, question: str, nodes: npt.NDArray[np.int64], likely: Floats) -> Floats:
        """``log_shares`` of the nodes that it scores; 0 of others.

        ``likely`` [nodes] are the scores by the weights set by hand.
        """

    def copy_to(self, folder: Path) -> None:
        """Put what was trained into a folder of its own, with its card."""
        shutil.copytree(self._folder / MODEL, folder / MODEL, dirs_exist_ok=True)  # of one that was killed
        shutil.copy(self._folder / CARD, folder)


class CrossReader(Reader):
    """A cross-encoder, and the documents that it reads."""

    kind = "cross"

    def __init__(self, kb: SkbKB, folder: Path, card: Card) -> None:
        """Raises UsageError for another schema and where what runs it is missing, DataError where it is damaged."""
        super().__init__(folder, card)
        check_schema(folder, card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        check_files(folder / MODEL, card.files)
        longest = int(card.settings["longest"])
        self._scorer = open_scorer(folder, longest)
        self._text = lru_cache(_TEXTS_KEPT)(lambda node: shown(kb.skb, node, longest))
        self._known = lru_cache(_QUESTIONS_KEPT)(lambda question: dict[int, float]())  # noqa: ARG005

    def evidence(self, question: str, nodes: npt.NDArray[np.int64], likely: Floats) -> Floats:
        """See ``Reader``: the nodes that are most ``likely`` are read."""
        places = np.argsort(-likely, kind="stable")[:READ]
        read, known = nodes[places].tolist(), self._known(question)
        if new := [node for node in read if node not in known]:
            scores = self._scorer.score(question, [self._text(node) for node in new])
            known.update(zip(new, scores.tolist(), strict=True))
        return log_shares(len(nodes), places, np.array([known[node] for node in read]))


class GraphReader(Reader):
    """A graph network, and the systems whose nodes it ranks."""

    kind = "qagnn"

    def __init__(self, kb: SkbKB, folder: Path, card: Card, settings: Settings) -> None:
        """Raises UsageError for another schema or encoder and where torch is missing, DataError where it is damaged."""
        super().__init__(folder, card)
        options = QAGNNOptions(trained=str(folder), depth=card.pool)
        self._skb, self._system = kb.skb, build_qagnn(kb, settings, options)
        self._scores = lru_cache(_QUESTIONS_KEPT)(self._scored)

    def evidence(self, question: str, nodes: npt.NDArray[np.int64], likely: Floats) -> Floats:  # noqa: ARG002
        """See ``Reader``: the nodes that the network finds by itself have a score."""
        scores = self._scores(question)
        scored = np.flatnonzero(np.isin(nodes, list(scores)))
        return log_shares(len(nodes), scored, np.array([scores[node] for node in nodes[scored].tolist()]))

    def _scored(self, question: str) -> Mapping[int, float]:
        ranking = self._system.retrieve(question, self.card.pool)
        return {self._skb.number(one.id): one.score for one in ranking.nodes}


def open_reader(kb: SkbKB, folder: Path, settings: Settings) -> Reader:
    """What was trained into a folder. Raises as ``CrossReader`` and ``GraphReader``."""
    card = read_card(folder, "cross", "qagnn")
    return CrossReader(kb, folder, card) if card.kind == "cross" else GraphReader(kb, folder, card, settings)


def log_shares(count: int, places: npt.NDArray[np.intp], scores: npt.NDArray[np.floating]) -> Floats:
    """``log(1 + p / 0.001)`` at the scores' places of ``count``, with p their share in a softmax; 0 elsewhere.

    So what is said counts by how sure it is: a node far above all others for more than the first of many alike.
    """
    found = np.zeros(count)
    if len(scores):
        shares = np.exp(scores - scores.max())
        found[places] = np.log1p(shares / shares.sum() / _FLOOR)
    return found
