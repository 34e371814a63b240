"""Requests that are hung up when the run that they belong to is ended, so that the service can end its work too."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from kbnav.models.cancellation import Brake, current_brake

_LINE: ContextVar[Line | None] = ContextVar("line", default=None)


def current_line() -> Line | None:
    """The line of the request that this code makes, if it has one."""
    return _LINE.get()


class Line:
    """The connections of one request, redirects and all, which another thread may close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._over = False

    def add(self, connected: socket.socket) -> None:
        """A connection was made. Raises ConnectionAbortedError where it is not wanted any more."""
        with self._lock:
            self._sockets.append(connected)
            over = self._over
        if over:
            self.hang_up()
            raise ConnectionAbortedError("the run was ended")

    def drop(self) -> None:
        """Forget them: a reply is read, and its connection may be another request's by now."""
        with self._lock:
            self._sockets.clear()

    def hang_up(self) -> None:
        """Close them, from any thread: whoever reads from one finds its end."""
        with self._lock:
            self._over = True
            open_ones = list(self._sockets)
        for one in open_ones:
            with suppress(OSError):  # it has just ended by itself
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS, whose own would wait for the other side

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """What urllib makes connections with, so that they are known here."""
        line = self

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                line.add(self.sock)

        class Secure(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                line.add(self.sock)

        class ByPlain(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Plain, req)

        class BySecure(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Secure, req)

        return [ByPlain(), BySecure()]


@contextmanager
def hung_up_with_the_run() -> Iterator[Line]:
    """A line that is hung up when the run is ended that this code is a part of.

    Whatever went wrong then went wrong because of it: raises what the run's brake does.
    """
    line, brake = Line(), current_brake()
    if brake is None:
        yield line
        return
    token = _LINE.set(line)
    try:
        with brake.telling(line.hang_up):
            yield line
    except Exception:
        brake.check()
        raise
    finally:
        _LINE.reset(token)


def check_the_run() -> None:
    """Raise Stopped, or CancelledError, where the run is over that this code is a part of."""
    brake: Brake | None = current_brake()
    if brake is not None:
        brake.check()
