"""Transformers run by onnxruntime: texts in, one vector a text out; torch is not needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from kbnav.encoders.base import Vectors
from kbnav.errors import DataError

TOKENS_AT_ONCE = 1024
"""Tokens of a batch, which keeps the widest array of a small model, [tokens, 1536], within a cache."""


def onnx_installed() -> bool:
    """Whether what ``OnnxTexts`` needs is there."""
    return all(find_spec(package) is not None for package in ("onnxruntime", "tokenizers"))


class OnnxTexts:
    """A transformer as onnxruntime reads it. Several threads may call it at once.

    Its inputs are ``input_ids``, ``attention_mask`` and, where the tokenizer gives them, ``types``, each
    [texts, tokens]; the one output is [texts, d].
    """

    def __init__(self, model: Path | bytes, tokenizer: Path, longest: int, threads: int | None = None) -> None:
        """``longest`` tokens of a text are read, ``threads`` compute (None: one a processor). Raises DataError."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        given = model if isinstance(model, bytes) else str(model)
        try:
            self._session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
            self.tokenizer = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both libraries raise what is no more than that
            raise DataError(f"{tokenizer.parent}: cannot be read: {str(error).splitlines()[0]}") from error
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count() or 1
        self._wanted = {given.name for given in self._session.get_inputs()}
        self._width = self._session.get_outputs()[0].shape[-1]
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.no_padding()

    def run(self, texts: Sequence[str]) -> Vectors:
        """The output of each text, [len(texts), d]; batches of similar lengths are computed side by side."""
        encodings = self.tokenizer.encode_batch(list(texts))

        def batch(rows: list[int]) -> Vectors:
            width = len(encodings[rows[-1]].ids)
            inputs = {name: np.zeros((len(rows), width), np.int64) for name in ("input_ids", "attention_mask", "types")}
            for line, row in enumerate(rows):
                one = encodings[row]
                inputs["input_ids"][line, : len(one.ids)] = one.ids
                inputs["attention_mask"][line, : len(one.ids)] = 1
                inputs["types"][line, : len(one.ids)] = one.type_ids
            named = {name: values for name, values in inputs.items() if name in self._wanted}
            found: Vectors = self._session.run(None, named)[0]
            return found

        vectors = np.zeros((len(texts), self._width), np.float32)
        batches = list(_batches([len(one.ids) for one in encodings]))
        with ThreadPoolExecutor(max(1, min(self._threads, len(batches)))) as threads:
            for rows, found in zip(batches, threads.map(batch, batches), strict=True):
                vectors[rows] = found
        return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in groups of few enough tokens, padding counted, the shortest texts first; one at least."""
    group: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[row] > TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(row)
    if group:
        yield group
