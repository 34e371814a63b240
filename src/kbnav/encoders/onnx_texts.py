"""A transformer as onnxruntime reads it, over texts or pairs of texts: like lengths are computed together.

``kbnav.training.onnx`` writes such models. Their inputs are ``input_ids``, ``attention_mask`` and, where the tokenizer
gives them, ``types``: which of two texts a token is of. Each is [texts, tokens]; the one output is [texts, d].
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kbnav.encoders.base import Vectors
from kbnav.errors import DataError

TOKENIZER = "tokenizer.json"
_TOKENS_AT_ONCE = 2048
Text = str | tuple[str, str]


def installed() -> bool:
    """Whether what this module needs is there."""
    return all(find_spec(package) is not None for package in ("onnxruntime", "tokenizers"))


class OnnxTexts:
    """The model and its tokenizer. A call may come from several threads at once."""

    def __init__(self, model: Path, tokenizer: Path, longest: int) -> None:
        """``longest`` tokens are read; of a pair the second text's end is cut. Raises DataError."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            self._pairs, self._texts = (Tokenizer.from_file(str(tokenizer)) for _ in range(2))
        except Exception as error:  # both libraries raise what is no more than that
            raise DataError(f"{model.parent}: cannot be read: {str(error).splitlines()[0]}") from error
        self._wanted = {given.name for given in self._session.get_inputs()}
        self._width = self._session.get_outputs()[0].shape[-1]
        self._pairs.enable_truncation(longest, strategy="only_second")
        self._texts.enable_truncation(longest)
        for one in (self._pairs, self._texts):
            one.no_padding()

    def run(self, texts: Sequence[Text]) -> Vectors:
        """The output of each text or pair, [len(texts), d]."""
        tokenizer = self._pairs if texts and not isinstance(texts[0], str) else self._texts
        encodings = tokenizer.encode_batch(list(texts))
        order = sorted(range(len(texts)), key=lambda row: len(encodings[row].ids))
        found = np.zeros((len(texts), self._width), np.float32)
        for rows in _groups(order, [len(one.ids) for one in encodings]):
            width = len(encodings[rows[-1]].ids)
            inputs = {name: np.zeros((len(rows), width), np.int64) for name in ("input_ids", "attention_mask", "types")}
            for line, row in enumerate(rows):
                one = encodings[row]
                inputs["input_ids"][line, : len(one.ids)] = one.ids
                inputs["attention_mask"][line, : len(one.ids)] = 1
                inputs["types"][line, : len(one.ids)] = one.type_ids
            named = {name: values for name, values in inputs.items() if name in self._wanted}
            found[rows] = self._session.run(None, named)[0]
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
