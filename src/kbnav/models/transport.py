"""HTTP clients for the openai library that bound what an endpoint may do.

A reply may be so large once unpacked, and take so long as a whole; a redirect may not lead to another host. The
library's own clients have a time limit between two pieces of a reply only, unpack whatever comes, and follow redirects
anywhere, the prompt in hand. And what a request's Authorization header holds is left out of the reply to it, for an
error text that echoes a key is soon on a talk page.
"""

from __future__ import annotations

import asyncio
import base64
import json
import weakref
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from kbnav.models import cancellation
from kbnav.models.cancellation import OutOfTime

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


@contextmanager
def streaming_to(listener: Listener) -> Iterator[None]:
    """Have a listener, who is called from any thread, told of the replies that are asked for within."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def reply_purpose(purpose: Purpose) -> Iterator[None]:
    """Say what the replies that are asked for within are for."""
    token = _PURPOSE.set(purpose)
    try:
        yield
    finally:
        _PURPOSE.reset(token)


def current_listener() -> Callable[[str, str, str], None] | None:
    """How the listener is told of text, tool and arguments of a reply; None where nobody listens, or to this."""
    listener, purpose = _LISTENER.get(), _PURPOSE.get()
    if listener is None or not purpose:
        return None
    return lambda text, tool, arguments: listener(Draft(purpose, text, tool, arguments))


def as_stream(body: bytes) -> bytes | None:
    """A request for a completion as one for a stream; None for any other, and where several replies are asked for."""
    try:
        asked = json.loads(body)
    except ValueError:
        return None
    if not isinstance(asked, dict) or "messages" not in asked or asked.get("stream") or asked.get("n", 1) != 1:
        return None
    return json.dumps({**asked, "stream": True, "stream_options": {"include_usage": True}}).encode()


class Pieces:
    """Puts the pieces of a streamed completion together (OpenAI's chat completion chunks, as server-sent events)."""

    def __init__(self, tell: Callable[[str, str, str], None]) -> None:
        """``tell`` is told text, tool and arguments as far as they have come."""
        self._tell = tell
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}
        self._finish: str | None = None
        self.error: dict[str, Any] | None = None
        """What went wrong, where the endpoint says so in the middle."""
        self.over = False
        """Whether the endpoint said that this was all."""

    def line(self, line: str) -> None:
        """Take one line of the stream. Raises ValueError for one that is no piece."""
        if not line.startswith("data:"):
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.over = True
            return
        piece = json.loads(data)
        if piece.get("error"):
            self.error = {"error": piece["error"]}
            return
        self._head.update({name: piece[name] for name in ("id", "created", "model", "usage") if piece.get(name)})
        for choice in (piece.get("choices") or ())[:1]:
            self._finish = choice.get("finish_reason") or self._finish
            self._add(choice.get("delta") or {})
        self.over = self.over or bool(self._finish)

    def _add(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for call in value or ():
                    self._add_to_call(call)
            elif name != "role" and isinstance(value, str):
                self._message[name] = (self._message.get(name) or "") + value
        last = self._calls[-1]["function"] if self._calls else {"name": "", "arguments": ""}
        self._tell(self._message["content"] or "", last["name"], last["arguments"])

    def _add_to_call(self, piece: dict[str, Any]) -> None:
        """A piece belongs to the call of its index; without one, to the call of its id, or to the last."""
        key = piece.get("index", piece.get("id"))
        if not self._calls or (key is not None and key not in self._places):
            self._places[key] = len(self._calls)
            self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call = self._calls[-1 if key is None else self._places[key]]
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        given = function.get("arguments") or ""
        call["function"]["arguments"] += given if isinstance(given, str) else json.dumps(given)

    def whole(self) -> dict[str, Any]:
        """The completion, as an endpoint sends it that does not stream."""
        message = {**self._message, **({"tool_calls": self._calls} if self._calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": self._finish or "stop"}
        head = {"id": "", "created": 0, "model": "", **self._head}
        return {**head, "object": "chat.completion", "choices": [choice]}


MIB = 1024 * 1024
HIDDEN = b"[hidden]"
SHORTEST = 6
"""Characters of a secret; what is shorter cannot be told from ordinary text."""
_PORTS = {"http": 80, "https": 443}
_HOME = "kbnav.home"
_REFUSED = (400, 404, 405, 415, 422, 501)
"""Statuses with which an endpoint may refuse a stream that it does not know."""
T = TypeVar("T")


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


@lru_cache(16)
def clients(place: str, seconds: float, proxy: str, largest: int) -> tuple[Any, Any]:  # noqa: ARG001 - the cache's key
    """A client and an asynchronous one, as ``openai`` and ``langchain_openai`` take them, to ask at one ``place``.

    A request may take ``seconds`` as a whole, its reply have ``largest`` bytes once unpacked. ``proxy`` is a URL;
    empty: that of the environment. Requests raise TooMuch and LedAway, which the library passes on within its own
    APIConnectionError. The clients are shared, and not to be closed.
    """
    import openai

    library = _library()
    bounded = _bounding(largest)

    class Client(openai.DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            send = super().send
            request.extensions[_HOME] = origin(str(request.url))
            try:
                return in_time(lambda: send(request, **options), seconds)
            except TooSlow as error:  # as a time limit of the library's own, it is tried again
                raise library.ReadTimeout(str(error), request=request) from error

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            # Before the sockets go: a ``__del__`` may come after them where all are in one cycle of references.
            weakref.finalize(self, _hang_up, [self._transport, *self._mounts.values()])

        def __del__(self) -> None:
            """Leave the closing to what is said above."""

    class AsyncClient(openai.DefaultAsyncHttpxClient):
        streams = True
        """Whether the endpoint may be asked for streams: until it refuses one."""

        async def send(self, request: Any, **options: Any) -> Any:
            request.extensions[_HOME] = origin(str(request.url))
            try:
                return await asyncio.wait_for(self._heard(request, options), seconds)
            except TimeoutError as error:
                raise library.ReadTimeout(_slow(seconds), request=request) from error

        async def _heard(self, request: Any, options: dict[str, Any]) -> Any:
            """The reply, whole; where somebody listens, they are told of it as it comes."""
            tell = current_listener()
            asked = as_stream(request.content) if tell and self.streams else None
            if tell is None or asked is None:
                return await super().send(request, **options)
            headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
            extensions = dict(request.extensions)
            for_stream = library.Request(
                request.method, request.url, headers=headers, content=asked, extensions=extensions
            )
            response = await super().send(for_stream, **{**options, "stream": True})
            try:
                if response.status_code in _REFUSED:
                    again = await super().send(request, **options)
                    self.streams = again.status_code >= 400  # then it was not the stream that it refused
                    return again
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    await response.aread()
                    return response
                return await _together(response, request, Pieces(tell), library)
            finally:
                await response.aclose()

    def to_home(request: Any) -> None:
        request.headers["Accept-Encoding"] = "gzip, deflate"
        home = request.extensions[_HOME]  # a redirect has the extensions of what was redirected
        if origin(str(request.url)) != home:
            raise LedAway(f"{home[1]} redirects to {request.url.host}, which is not followed")

    async def to_home_async(request: Any) -> None:
        to_home(request)

    async def bounded_async(response: Any) -> None:
        bounded(response)

    shared: dict[str, Any] = {"timeout": seconds, **({"proxy": proxy} if proxy else {})}
    return (
        Client(event_hooks={"request": [to_home], "response": [bounded]}, **shared),
        AsyncClient(event_hooks={"request": [to_home_async], "response": [bounded_async]}, **shared),
    )


async def _together(response: Any, request: Any, pieces: Pieces, library: Any) -> Any:
    """A streamed completion as a response that came whole; one that breaks off is an error that is tried again."""
    async for line in response.aiter_lines():
        try:
            pieces.line(line)
        except (ValueError, LookupError, AttributeError, TypeError):  # no completion, as whoever reads it will say
            return library.Response(200, text=line, request=request)
        if pieces.error:
            return library.Response(500, json=pieces.error, request=request)
    if not pieces.over:
        raise library.RemoteProtocolError("the reply broke off", request=request)
    return library.Response(200, json=pieces.whole(), request=request)


def _hang_up(transports: Iterable[Any]) -> None:
    for transport in transports:
        with suppress(Exception):
            transport.close()


def out_of_bounds(error: BaseException) -> str:
    """What an endpoint did that is not let pass, where that is why the openai library raised ``error``."""
    return str(error.__cause__) if isinstance(error.__cause__, (TooMuch, LedAway)) else ""


def in_time(call: Callable[[], T], seconds: float) -> T:
    """The result of a call, left alone after so many seconds: a socket's own limit is one between two pieces.

    Raises TooSlow, and what ``call`` raises.
    """
    try:
        return cancellation.in_time(call, seconds)
    except OutOfTime as error:
        raise TooSlow(_slow(seconds)) from error


def _slow(seconds: float) -> str:
    return f"the reply was not whole after {seconds:g} s"


def _library() -> Any:
    import sys

    import openai

    return sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]


def _bounding(largest: int) -> Callable[[Any], None]:
    """What lets a response whose body is still to be read give no more than ``largest`` bytes, unpacked here."""
    library = _library()

    class Body(library.SyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, inner: Any, read: _Reading) -> None:
            self._inner, self._read = inner, read

        def __iter__(self) -> Iterator[bytes]:
            for piece in self._inner:
                yield self._read(piece)
            yield self._read.rest()

        def close(self) -> None:
            self._inner.close()

    class AsyncBody(library.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, inner: Any, read: _Reading) -> None:
            self._inner, self._read = inner, read

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                yield self._read(piece)
            yield self._read.rest()

        async def aclose(self) -> None:
            await self._inner.aclose()

    def bound(response: Any) -> None:
        packed = response.headers.get("content-encoding", "").strip().lower()
        if packed in ("gzip", "deflate"):
            del response.headers["content-encoding"]
        body = AsyncBody if isinstance(response.stream, library.AsyncByteStream) else Body
        secrets = credentials(response.request.headers.get("authorization", ""))
        response.stream = body(response.stream, _Reading(packed, largest, secrets))

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

    def __init__(self, packed: str, largest: int, secrets: Sequence[str]) -> None:
        self._inflate = zlib.decompressobj(wbits=47) if packed in ("gzip", "deflate") else None
        self._largest, self._left = largest, largest
        self._secrets = _forms(secrets)
        self._kept = b""  # what may be the start of a secret

    def __call__(self, piece: bytes) -> bytes:
        # one byte more than is left, so that a body of just the limit is told from a larger one
        plain = self._inflate.decompress(piece, self._left + 1) if self._inflate else piece
        self._left -= len(plain)
        if self._left < 0:
            raise TooMuch(f"the reply is larger than {self._largest / MIB:g} MiB")
        seen = self._without(self._kept + plain)
        end = len(seen) - max((len(one) - 1 for one in self._secrets), default=0)
        self._kept = seen[max(end, 0) :]
        return seen[: max(end, 0)]

    def rest(self) -> bytes:
        """What was held back."""
        return self._kept

    def _without(self, text: bytes) -> bytes:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text
