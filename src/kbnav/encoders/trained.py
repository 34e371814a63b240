"""The encoders that ``kbnav train dense`` trained: one for questions and one for documents, or one for both.

``Trained`` gives a text one vector, ``Late`` one for each of its tokens.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np

from kbnav.encoders import onnx_texts
from kbnav.encoders.base import Vectors, normalised
from kbnav.encoders.onnx_texts import TOKENIZER, OnnxTexts
from kbnav.encoders.trained_card import MODEL, Card, Kind, check_files, read_card
from kbnav.errors import DataError, UsageError
from kbnav.settings.plugins import missing

KIND = "trained"
EXPORTED, SIDES = "exported.json", ("query", "document")
"""Beside a model that onnxruntime reads too: what it reads and, of two encoders, which one is which."""
_AT_ONCE = 64


class _Loaded(ABC):
    """A model in a trained folder."""

    kind: Kind

    def __init__(self, model: Any, folder: Path, card: Card) -> None:
        """``model`` is what ``_read`` gives."""
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
        check_files(folder / MODEL, card.files)
        return cls(cls._read(folder / MODEL), folder, card)

    @classmethod
    @abstractmethod
    def _read(cls, folder: Path) -> Any:
        """The model in a folder, as its kind is read."""

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Any:
        with self._lock:
            return encode(list(texts), batch_size=_AT_ONCE, show_progress_bar=False, convert_to_numpy=True)


class Trained(_Loaded):
    """One vector a text; see the module, and use ``load``. Where onnxruntime is installed, torch is not needed."""

    kind = "dense"

    @classmethod
    def _read(cls, folder: Path) -> Any:
        if (folder / EXPORTED).is_file() and onnx_texts.installed():
            return Exported(folder)
        return _of_library("SentenceTransformer", folder)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), d]."""
        return normalised(self._encoded(self._model.encode_document, texts))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape [len(texts), d]."""
        return normalised(self._encoded(self._model.encode_query, texts))


class Exported:
    """The encoders of questions and documents as onnxruntime reads them."""

    def __init__(self, folder: Path) -> None:
        """Raises DataError where the files cannot be read."""
        said = json.loads((folder / EXPORTED).read_bytes())
        models = [
            OnnxTexts(folder / f"{side}.onnx", folder / TOKENIZER, said["longest"]) for side in SIDES[: said["sides"]]
        ]
        self._query, self._document = models[0], models[-1]

    def encode_query(self, texts: Sequence[str], **_: Any) -> Vectors:
        """Vectors [len(texts), d] of questions; options of the library's are its own."""
        return self._query.run(texts)

    def encode_document(self, texts: Sequence[str], **_: Any) -> Vectors:
        """The same of documents."""
        return self._document.run(texts)


def _of_library(name: str, folder: Path) -> Any:
    """A model of sentence-transformers' class of this name. Raises UsageError without the library, DataError."""
    if find_spec("sentence_transformers") is None:
        raise missing(f"the encoder trained in {folder.parent}", "sentence-transformers", extra="train")
    import sentence_transformers

    try:
        return getattr(sentence_transformers, name)(str(folder))
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{folder}: cannot be read: {str(error).splitlines()[0]}") from error
