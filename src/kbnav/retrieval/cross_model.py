"""The cross-encoder of ``cross``: it reads a question and a document together and gives one score.

Where onnxruntime is installed, it runs the exported model, whose weights are bytes; else torch runs the trained one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kbnav.encoders import onnx_texts
from kbnav.encoders.onnx_texts import TOKENIZER, OnnxTexts
from kbnav.encoders.trained_card import MODEL
from kbnav.errors import DataError
from kbnav.settings.plugins import missing

ONNX, HEAD = "model.onnx", "head.json"
"""In the folder of the model: the exported model, and what puts its score and the features together."""
Scores = npt.NDArray[np.float32]
Features = npt.NDArray[np.float32]


class Scorer(Protocol):
    """What gives documents their scores."""

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """Scores [texts] of documents, higher for what answers the query."""
        ...


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


def open_scorer(folder: Path, longest: int) -> Scorer:
    """The model in a trained folder. Raises UsageError where neither onnxruntime nor the extra ``train`` is there."""
    if onnx_texts.installed():
        return Exported(folder / MODEL, longest)
    if find_spec("sentence_transformers") is None:
        raise missing("the cross-encoder", "onnxruntime", extra="train")
    return Torch(folder / MODEL)


class Torch:
    """The model as it was trained."""

    def __init__(self, folder: Path) -> None:
        from sentence_transformers import CrossEncoder

        self._model: Any = CrossEncoder(str(folder))

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See ``Scorer``."""
        import torch

        pairs = [(query, text) for text in texts]
        found = self._model.predict(pairs, show_progress_bar=False, activation_fn=torch.nn.Identity())
        return np.asarray(found, np.float32)


class Exported:
    """The model as onnxruntime reads it."""

    def __init__(self, folder: Path, longest: int) -> None:
        """Raises DataError where the files cannot be read."""
        self._model = OnnxTexts(folder / ONNX, folder / TOKENIZER, longest)

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See ``Scorer``."""
        return self._model.run([(query, text) for text in texts])[:, 0]
