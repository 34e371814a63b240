"""What every encoder is: texts in, float32 vectors [n, d] of length 1 out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

ONNX = ("onnx", "onnxruntime", "tokenizers")
"""What minilm needs beside its weights."""
Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """What an index of vectors needs. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """Names the model and all that changes its vectors; vectors of different names are never compared."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors, [len(texts), d], of length 1; zeros, similar to nothing, where an encoder knows nothing of it."""


@runtime_checkable
class TwoSided(Encoder, Protocol):
    """An encoder that encodes questions otherwise than the documents that answer them; ``encode`` is for documents."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, of the shape and length that ``encode`` gives."""


def encode_queries(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """The vectors of questions, to be compared with those of documents."""
    return encoder.encode_queries(texts) if isinstance(encoder, TwoSided) else encoder.encode(texts)


def normalised(vectors: npt.NDArray[np.floating]) -> Vectors:
    """The rows scaled to length 1; rows of zeros stay zeros."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return scaled
