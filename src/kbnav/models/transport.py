"""HTTP clients for the openai library that bound what an endpoint may do.

A reply may be so large once unpacked, and take so long as a whole; a redirect may not lead to another host. The
library's own clients have a time limit between two pieces of a reply only, unpack whatever comes, and follow redirects
anywhere, the prompt in hand. And what a request's Authorization header holds is left out of the reply to it, for an
error text that echoes a key is soon on a talk page.
"""

from __future__ import annotations

import asyncio
import base64
import math
import time
import weakref
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, Literal
from urllib.parse import urlsplit

from kbnav.models.cancellation import shared_loop, within

Purpose = Literal["", "step", "answer"]
"""What a reply is for: the next step of a run, the answer in words, or nothing that anybody wants to hear."""


@dataclass(frozen=True)
class Draft:
    """A reply as far as it has come: its words, and the call that it is writing; ``arguments`` is JSON cut off."""

    purpose: Purpose
    text: str = ""
    tool: str = ""
    arguments: str = ""


Listener = Callable[[Draft], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_PURPOSE: ContextVar[Purpose] = ContextVar("purpose", default="")


def streaming_to(listener: Listener) -> AbstractContextManager[None]:
    """Have a listener, who is called from any thread, told of the replies that are asked for within."""
    return within(_LISTENER, listener)


def reply_purpose(purpose: Purpose) -> AbstractContextManager[None]:
    """Say what the replies that are asked for within are for."""
    return within(_PURPOSE, purpose)


def current_listener() -> Callable[[str, str, str], None] | None:
    """How the listener is told of text, tool and arguments of a reply; None where nobody listens, or to this."""
    listener, purpose = _LISTENER.get(), _PURPOSE.get()
    if listener is None or not purpose:
        return None
    return lambda text, tool, arguments: listener(Draft(purpose, text, tool, arguments))


MIB = 1024 * 1024
HIDDEN = b"[hidden]"
SHORTEST = 6
"""Characters of a secret; what is shorter cannot be told from ordinary text."""
_PORTS = {"http": 80, "https": 443}
_HOME = "kbnav.home"


class TooMuch(ValueError):
    """A reply that is larger than anything that could be meant, or slower; the text says which."""


class TooSlow(TooMuch):
    """A reply that was not whole in time."""


class LedAway(ValueError):
    """A redirect to another host, port or scheme."""


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL, by which two URLs are at one place."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def bare(url: str) -> str:
    """A URL without the user and password that stand before its host."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@cache
def _trusted() -> Any:
    """The context of TLS of all clients, whose certificates take long to load."""
    return _library().create_ssl_context()


@lru_cache(16)
def client(place: str, seconds: float, proxy: str, largest: int) -> Any:  # noqa: ARG001 - the cache's key
    """An asynchronous client, as ``openai`` and ``langchain_openai`` take one, to ask at one ``place``.

    A request may take ``seconds`` as a whole, its reply have ``largest`` bytes once unpacked. ``proxy`` is a URL;
    empty: that of the environment. Requests raise TooMuch and LedAway, which the library passes on within its own
    APIConnectionError. The client is shared, and not to be closed.
    """
    import openai

    library = _library()
    of_loops: dict[asyncio.AbstractEventLoop, AsyncClient] = {}

    class AsyncClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **options: Any) -> Any:
            """Send by a client of the running loop's own, as one loop does not hear what comes for another."""
            request.extensions[_HOME] = origin(str(request.url))
            for closed in [loop for loop in list(of_loops) if loop.is_closed()]:
                of_loops.pop(closed, None)
            loop = asyncio.get_running_loop()
            if loop not in of_loops and loop is shared_loop():
                of_loops[loop] = made()
                transports = [of_loops[loop]._transport, *of_loops[loop]._mounts.values()]
                weakref.finalize(of_loops[loop], _close, transports).atexit = False
            elif loop not in of_loops:  # connections of a loop that may end are closed after each reply
                of_loops[loop] = made(limits=library.Limits(max_keepalive_connections=0))
            try:
                return await asyncio.wait_for(super(AsyncClient, of_loops[loop]).send(request, **options), seconds)
            except TimeoutError as error:
                raise library.ReadTimeout(_slow(seconds), request=request) from error

    async def to_home(request: Any) -> None:
        request.headers["Accept-Encoding"] = "gzip, deflate"
        home = request.extensions[_HOME]  # a redirect has the extensions of what was redirected
        if origin(str(request.url)) != home:
            raise LedAway(f"{home[1]} redirects to {request.url.host}, which is not followed")

    hooks: dict[str, list[Any]] = {"request": [to_home], "response": [_bounding(largest, seconds)]}
    shared: dict[str, Any] = {"timeout": seconds, "verify": _trusted(), **({"proxy": proxy} if proxy else {})}
    made = partial(AsyncClient, event_hooks=hooks, **shared)
    return made()


def _close(transports: Iterable[Any]) -> None:
    for transport in filter(None, transports):
        asyncio.run_coroutine_threadsafe(transport.aclose(), shared_loop())


def out_of_bounds(error: BaseException) -> str:
    """What an endpoint did that is not let pass, where that is why the openai library raised ``error``."""
    return str(error.__cause__) if isinstance(error.__cause__, (TooMuch, LedAway)) else ""


def _slow(seconds: float) -> str:
    return f"the reply was not whole after {seconds:g} s"


def _library() -> Any:
    import sys

    import openai

    return sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]


def _bounding(largest: int, seconds: float) -> Callable[[Any], Awaitable[None]]:
    """What lets a response give no more than ``largest`` bytes, unpacked here, and no piece after ``seconds``."""
    library = _library()

    class Body(library.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, inner: Any, read: _Reading) -> None:
            self._inner, self._read, self._ended = inner, read, False

        async def __aiter__(self) -> AsyncIterator[bytes]:
            if self._ended:  # the openai library reads on behind the last event, and httpx would never come back
                return
            async for piece in self._inner:
                yield self._read(piece)
            self._ended = True
            yield self._read.rest()

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def bound(response: Any) -> None:
        packed = response.headers.get("content-encoding", "").strip().lower()
        if packed in ("gzip", "deflate"):
            del response.headers["content-encoding"]
        secrets = credentials(response.request.headers.get("authorization", ""))
        response.stream = Body(response.stream, _Reading(packed, largest, secrets, seconds))

    return bound


def credentials(authorization: str) -> list[str]:
    """What an Authorization header holds that an endpoint may echo: the token, or the password and its Base64."""
    _, _, token = authorization.partition(" ")
    found = [token.strip()]
    with suppress(ValueError):
        found.append(base64.b64decode(token, validate=True).decode().partition(":")[2])
    return [one for one in found if len(one) >= SHORTEST]


def hidden_in(body: bytes, secrets: Sequence[str]) -> bytes:
    """A whole body without the secrets, as they are or as JSON may write them."""
    for secret in _forms(one for one in secrets if len(one) >= SHORTEST):
        body = body.replace(secret, HIDDEN)
    return body


def _forms(secrets: Iterable[str]) -> list[bytes]:
    return [form.encode() for one in secrets for form in {one, one.replace("/", "\\/")}]


class _Reading:
    """Reads a body piece by piece: unpacks it, counts, and leaves out what must never be told."""

    def __init__(self, packed: str, largest: int, secrets: Sequence[str], seconds: float = math.inf) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._inflate = zlib.decompressobj(wbits=47) if packed in ("gzip", "deflate") else None
        self._largest, self._left = largest, largest
        self._secrets = _forms(secrets)
        self._kept = b""  # what may be the start of a secret

    def __call__(self, piece: bytes) -> bytes:
        if time.monotonic() > self._end:
            raise TooSlow(_slow(self._seconds))
        # one byte more than is left, so that a body of just the limit is told from a larger one
        plain = self._inflate.decompress(piece, self._left + 1) if self._inflate else piece
        self._left -= len(plain)
        if self._left < 0:
            raise TooMuch(f"the reply is larger than {self._largest / MIB:g} MiB")
        seen = self._kept + plain
        for secret in self._secrets:
            seen = seen.replace(secret, HIDDEN)
        end = len(seen) - max((len(one) - 1 for one in self._secrets), default=0)
        self._kept = seen[max(end, 0) :]
        return seen[: max(end, 0)]

    def rest(self) -> bytes:
        """What was held back."""
        return self._kept
