"""Connections of a server before anybody is known: a request must be there whole in time, and few may be unfinished."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kbnav.errors import UsageError

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty where the header is anything else than these two."""
    found = _HOST.fullmatch(host)
    return found["name"].strip("[]").casefold().removesuffix(".") if found else ""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A reply goes out in two pieces, of which the second would wait 40 ms for word of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listener


class Deadlines(H11Protocol):
    """uvicorn's protocol, with a time for a request's head and another for its body.

    Without them a thousand connections that never finish their headers would take every file that the process may
    open. Of too many such connections, the oldest goes, unless it is new: where hundreds connect at the same moment,
    none of their requests was read yet. One whose request is there is never closed for others.
    """

    head_seconds: ClassVar[float] = 10.0
    body_seconds: ClassVar[float] = 30.0
    new_seconds: ClassVar[float] = 1.0
    most_unfinished: ClassVar[int] = 256

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._unfinished: dict[Deadlines, float] = vars(self.server_state).setdefault("unfinished", {})
        """The server's connections whose request is not there whole, and since when, the oldest first."""
        self._state: Any = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._look()
        self.loop.call_later(self.new_seconds, self._make_room)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        super().data_received(data)
        self._look(some=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        if len(self._unfinished) > self.most_unfinished:
            oldest, since = next(iter(self._unfinished.items()))
            if since <= self.loop.time() - self.new_seconds:
                oldest._stop()  # now, so that the next looks at another
                oldest.transport.abort()

    def _look(self, *, some: bool = False) -> None:
        """Start the clock where a head or a body is waited for, else stop it; ``some`` of the next ends uvicorn's."""
        state = self.conn.their_state
        if state is self._state and not (state is h11.IDLE and some and self._deadline is None):
            return
        self._stop()
        self._state = state
        seconds = {h11.IDLE: self.head_seconds, h11.SEND_BODY: self.body_seconds}.get(state)
        if seconds is not None:
            self._unfinished[self] = self.loop.time()
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        self._unfinished.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
