"""The evidence ``cross``: what a cross-encoder that ``kbnav train cross`` trained says of question and document."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbnav.knowledge.skb.store import SKB
from kbnav.planning.fuse.weighing import Floats
from kbnav.retrieval.cross import shown
from kbnav.retrieval.cross_model import open_scorer
from kbnav.trained import MODEL, Card, check_files, check_schema, read_card

READ = 50
"""Nodes of a question that are read: the best by the weights set by hand."""
_TEXTS_KEPT = 20_000


class Reader:
    """A cross-encoder, and the documents that it reads."""

    def __init__(self, skb: SKB, folder: Path, longest: int) -> None:
        """``folder`` holds the model below ``model``, which reads ``longest`` tokens of question and document.

        Raises UsageError where what runs it is not installed, DataError where it is damaged.
        """
        self.folder, self.longest = folder, longest
        self._scorer = open_scorer(folder, longest)
        self._text = lru_cache(_TEXTS_KEPT)(lambda node: shown(skb, node, longest))

    def evidence(self, question: str, nodes: npt.NDArray[np.int64], likely: Floats) -> Floats:
        """From 0 to 1 within the question, for the nodes that are most ``likely`` [nodes]; 0 of others."""
        found = np.zeros(len(nodes))
        read = np.argsort(-likely, kind="stable")[:READ]
        if len(read):
            scores = self._scorer.score(question, [self._text(node) for node in nodes[read].tolist()])
            lowest, reach = scores.min(), np.ptp(scores)
            found[read] = (scores - lowest) / reach if reach else 0.0
        return found

    def copy_to(self, folder: Path) -> None:
        """Put the model into a folder of its own below this one."""
        shutil.copytree(self.folder / MODEL, folder / MODEL)


def trained_reader(skb: SKB, folder: Path) -> tuple[Reader, Card]:
    """The cross-encoder in a folder of ``kbnav train cross``. Raises UsageError for another schema, DataError."""
    card = read_card(folder, "cross")
    check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
    check_files(folder / MODEL, card.files)
    return Reader(skb, folder, int(card.settings["longest"])), card
