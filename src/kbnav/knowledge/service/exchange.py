"""What is sent to a Wikibase's services, and what comes back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode

from kbnav.errors import KbnavError, ServiceError

Service = Literal["api", "sparql", "vector"]

LONGEST_GET = 2000
"""Characters of parameters up to which GET is used, so that caches on the way work; longer ones are posted."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer, unpacked."""
GRACE = 10.0
"""Seconds waited beyond the query service's own time limit, so that its message arrives."""
SIMPLER = "start from the most specific pattern, drop paths of any length such as wdt:P279*, add a LIMIT"
TIMED_OUT = f"the query service stopped the query at its time limit; make it simpler: {SIMPLER}"


@dataclass(frozen=True)
class Request:
    """Where, what, and which of the services it goes to; ``post`` for what changes something, which no cache keeps."""

    service: Service
    url: str
    params: Mapping[str, str]
    accept: str = "application/json"
    post: bool = False

    @property
    def method(self) -> Literal["GET", "POST"]:
        """POST where it is asked for and for long parameters; the vector service has GET only."""
        long = self.service != "vector" and len(urlencode(self.params)) > LONGEST_GET
        return "POST" if long or self.post else "GET"

    @property
    def key(self) -> str:
        """What the cache knows the request by."""
        parts = [self.method, self.url, sorted(self.params.items()), self.accept]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Reply:
    """An answer as it came: header names are in lower case, the body is decoded from its transfer form."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    @property
    def content_type(self) -> str:
        """The media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def partial(self) -> bool:
        """Whether the service says, outside the body, that this is a part of the result only: as Virtuoso does."""
        return self.status == 206 or "x-sparql-maxrows" in self.headers or "x-sql-state" in self.headers

    @property
    def text(self) -> str:
        """The body for messages and patterns, undecodable bytes replaced."""
        return self.body.decode("utf-8", "replace")


Nearby = Callable[[Request], Reply | None]
"""What answers requests in this process, within limits of its own; None for what goes elsewhere."""


class Again(Exception):
    """Raised by a reader: the same request may work later, after ``after`` seconds where the service says so."""

    def __init__(self, error: KbnavError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


class Lagged(ServiceError):
    """The service's copies of its data are behind, and stayed so; a read may be asked for without ``maxlag``."""
