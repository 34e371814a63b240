"""The encoder that ``kbnav train dense`` trained: one for questions and one for documents, or one for both."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import DataError, UsageError
from kbnav.extras import missing
from kbnav.trained import MODEL, Card, check_files, read_card

KIND = "trained"
_AT_ONCE = 64


class Trained:
    """See the module; use ``load``."""

    def __init__(self, model: Any, folder: Path, card: Card) -> None:
        """``model`` is a ``SentenceTransformer``."""
        self.card = card
        self.name = f"{KIND}:{folder.resolve()}@{card.digest}"
        self._model = model
        self._lock = threading.Lock()  # a tokenizer of the library serves one thread at a time

    @classmethod
    def load(cls, folder: Path, digest: str = "") -> Trained:
        """Read a trained folder; with ``digest`` it must be of the model named so.

        Raises UsageError where nothing is trained there, it is another model or the extra ``train`` is not installed,
        DataError where its files are not those that were written.
        """
        card = read_card(folder, "dense")
        if digest and card.digest != digest:
            raise UsageError(f"{folder} holds the model {card.digest}, not {digest} that the vectors are of")
        if find_spec("sentence_transformers") is None:
            raise missing(f"the encoder trained in {folder}", "sentence-transformers", extra="train")
        check_files(folder / MODEL, card.files)
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(str(folder / MODEL))
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{folder / MODEL}: cannot be read: {str(error).splitlines()[0]}") from error
        return cls(model, folder, card)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), d]."""
        return self._encoded(self._model.encode_document, texts)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape [len(texts), d]."""
        return self._encoded(self._model.encode_query, texts)

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Vectors:
        with self._lock:
            return normalised(encode(list(texts), batch_size=_AT_ONCE, show_progress_bar=False, convert_to_numpy=True))
