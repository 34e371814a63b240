"""The encoders that ``kbnav train dense`` trained: one for questions and one for documents, or one for both.

``Trained`` gives a text one vector, ``Late`` one for each of its tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import DataError, UsageError
from kbnav.extras import missing
from kbnav.trained import MODEL, Card, Kind, check_files, read_card

KIND = "trained"
_AT_ONCE = 64


class _Loaded:
    """A model of sentence-transformers in a trained folder."""

    kind: Kind
    _class: str

    def __init__(self, model: Any, folder: Path, card: Card) -> None:
        """``model`` is what the library loaded."""
        self.card = card
        self.name = f"{KIND}:{folder.resolve()}@{card.digest}"
        self._model = model
        self._lock = threading.Lock()  # a tokenizer of the library serves one thread at a time

    @classmethod
    def load(cls, folder: Path, digest: str = "") -> Self:
        """Read a trained folder; with ``digest`` it must be of the model named so.

        Raises UsageError where nothing is trained there, it is another model or the extra ``train`` is not installed,
        DataError where its files are not those that were written.
        """
        card = read_card(folder, cls.kind)
        if digest and card.digest != digest:
            raise UsageError(f"{folder} holds the model {card.digest}, not {digest} that the vectors are of")
        if find_spec("sentence_transformers") is None:
            raise missing(f"the encoder trained in {folder}", "sentence-transformers", extra="train")
        check_files(folder / MODEL, card.files)
        import sentence_transformers

        try:
            model = getattr(sentence_transformers, cls._class)(str(folder / MODEL))
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{folder / MODEL}: cannot be read: {str(error).splitlines()[0]}") from error
        return cls(model, folder, card)

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Any:
        with self._lock:
            return encode(list(texts), batch_size=_AT_ONCE, show_progress_bar=False, convert_to_numpy=True)


class Trained(_Loaded):
    """One vector a text; see the module, and use ``load``."""

    kind, _class = "dense", "SentenceTransformer"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), d]."""
        return normalised(self._encoded(self._model.encode_document, texts))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape [len(texts), d]."""
        return normalised(self._encoded(self._model.encode_query, texts))


class Late(_Loaded):
    """A vector a token; see the module, and use ``load``."""

    kind, _class = "late", "MultiVectorEncoder"

    def encode(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each document's tokens, [tokens, d] each, of length 1; punctuation has none."""
        return [np.asarray(one, np.float32) for one in self._encoded(self._model.encode_document, texts)]

    def encode_queries(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each question's tokens, [tokens, d] each, of length 1."""
        return [np.asarray(one, np.float32) for one in self._encoded(self._model.encode_query, texts)]
