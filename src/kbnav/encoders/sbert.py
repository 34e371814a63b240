"""Any model of the sentence-transformers library, by name or folder.

The library brings torch and is not installed with kbnav.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import UsageError
from kbnav.settings.plugins import missing


class Model(Protocol):
    """The part of ``sentence_transformers.SentenceTransformer`` that is used."""

    def encode(self, sentences: list[str], *, show_progress_bar: bool, convert_to_numpy: bool) -> Any:
        """Vectors of shape [len(sentences), d]."""
        ...


class SentenceTransformers:
    """Wraps a loaded model; pooling, prompts and the device are the model's own."""

    def __init__(self, model: Model, name: str) -> None:
        self.name = f"sentence-transformers:{name}"
        self._model = model

    @classmethod
    def load(cls, name: str) -> SentenceTransformers:
        """Load a model by its hub name or folder. Raises UsageError where library or model are missing."""
        if find_spec("sentence_transformers") is None:
            raise missing(f"the encoder sentence-transformers:{name}", "sentence-transformers")
        library = import_module("sentence_transformers")
        try:
            return cls(library.SentenceTransformer(name), name)
        except (OSError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise UsageError(f"the model {name} cannot be loaded: {first}") from error

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), d]."""
        return normalised(self._model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))
