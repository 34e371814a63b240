"""Vectors from an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from kbnav.encoders.base import Vectors, normalised
from kbnav.errors import BadResponse, CredentialsError, ServiceError
from kbnav.models.transport import MIB, bare, clients, out_of_bounds

LONGEST = 20_000
"""Characters of a text that are sent; in most languages this stays within 8,191 tokens, OpenAI's limit."""
_TEXTS_AT_ONCE = 64
LARGEST = 64 * MIB
"""Bytes of a reply: 64 vectors of 4,096 numbers are 6 MB as JSON."""


class Endpoint:
    """The encoder; d is the model's. Failed calls are retried with growing waits, as the endpoint asks."""

    def __init__(
        self, model: str, *, base_url: str = "", api_key: str = "", timeout: float = 60.0, retries: int = 4
    ) -> None:
        from openai import OpenAI, OpenAIError

        self.name = f"openai:{model}"
        self._model = model
        try:
            # An endpoint of one's own often wants no key, but the client insists on one.
            key = api_key or ("none" if base_url else None)
            client, _ = clients(base_url, timeout, os.environ.get("OPENAI_PROXY", ""), LARGEST)
            self._client = OpenAI(
                base_url=base_url or None, api_key=key, timeout=timeout, max_retries=retries, http_client=client
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
            response = self._client.embeddings.create(model=self._model, input=inputs, encoding_format="float")
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
