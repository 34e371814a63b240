"""The cross-encoder of ``cross``: it reads a question and a document together and gives one score.

Where onnxruntime is installed, it runs the exported model, whose weights are bytes; else torch runs the trained one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError
from kbnav.extras import missing
from kbnav.trained import MODEL

ONNX, TOKENIZER, HEAD = "model.onnx", "tokenizer.json", "head.json"
"""In the folder of the model: the exported model, its tokenizer, and what puts its score and the features together."""
_TOKENS_AT_ONCE = 2048
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
    if find_spec("onnxruntime") is not None and find_spec("tokenizers") is not None:
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
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / ONNX), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # both libraries raise what is no more than that
            raise DataError(f"{folder}: cannot be read: {str(error).splitlines()[0]}") from error
        self._tokenizer.enable_truncation(longest, strategy="only_second")
        self._tokenizer.no_padding()

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See ``Scorer``; texts of like lengths are computed together."""
        encodings = self._tokenizer.encode_batch([(query, text) for text in texts])
        order = sorted(range(len(texts)), key=lambda row: len(encodings[row].ids))
        found = np.zeros(len(texts), np.float32)
        for rows in _groups(order, [len(one.ids) for one in encodings]):
            width = len(encodings[rows[-1]].ids)
            inputs = {name: np.zeros((len(rows), width), np.int64) for name in ("input_ids", "attention_mask", "types")}
            for line, row in enumerate(rows):
                one = encodings[row]
                inputs["input_ids"][line, : len(one.ids)] = one.ids
                inputs["attention_mask"][line, : len(one.ids)] = 1
                inputs["types"][line, : len(one.ids)] = one.type_ids
            wanted = {given.name for given in self._session.get_inputs()}
            named = {name: values for name, values in inputs.items() if name in wanted}
            found[rows] = self._session.run(None, named)[0][:, 0]
        return found


def _groups(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Rows in groups of few enough tokens, padding counted; the order is by length."""
    groups: list[list[int]] = []
    for row in order:
        if groups and (len(groups[-1]) + 1) * lengths[row] <= _TOKENS_AT_ONCE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
