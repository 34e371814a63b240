"""A small HTTP server for data on this machine: bounded in threads, bodies and time, and closed to other sites' pages.

A page on the web can have a browser ask this machine under any name that its owner points here, so only addresses,
``localhost`` and names that are given are taken in the ``Host`` header.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import select
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from kbnav.errors import UsageError

MOST_CONNECTIONS = 128
"""Connections at once; further ones are told to come later."""
PLAIN = "text/plain; charset=utf-8"
MOST_FORM = 1 << 20
"""Bytes of a request's parameters."""
_IDLE_SECONDS = 60.0
_POLL = 0.05
"""Seconds between looks for a request to shut down: what closing waits for at most."""
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reply:
    """An HTTP response."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request: the path, the parameters of address and body together, and what the client takes.

    ``gone`` says whether the client has hung up, so that what was asked need not be answered any more.
    """

    path: str
    parameters: Mapping[str, str]
    accept: str
    gone: Callable[[], bool] = lambda: False


class Site(Protocol):
    """What answers requests."""

    def answer(self, asked: Asked) -> Reply:
        """The reply; ``broken`` errors of a damaged store may be raised."""
        ...

    @property
    def broken(self) -> tuple[type[BaseException], ...]:
        """What reading damaged data may raise: the client hears of it, and the server goes on."""
        ...


class Listening:
    """A site served from threads of this process until it is closed."""

    def __init__(self, site: Site, host: str, port: int, *, names: Collection[str] = ()) -> None:
        """Listen at once.

        Args:
            site: answers.
            host: address to listen on.
            port: port to listen on; 0: one that is free.
            names: under which names, beside addresses and ``localhost``, it may be asked.

        Raises UsageError where the address is taken.
        """
        try:
            self._http = _HttpServer((host, port), site, names)
        except OSError as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL,), name="kbnav-listening", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        host, port = self._http.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def close(self) -> None:
        """Stop listening and drop open connections; queries that run are ended by whoever runs them, before."""
        self._http.shutdown()
        self._thread.join()

    def drop(self) -> None:
        """Drop what is still open, and let the address go."""
        self._http.drop_connections()
        self._http.server_close()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], site: Site, names: Collection[str]) -> None:
        self.site = site
        self.names = frozenset(name.casefold() for name in names)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's looks the host's name up, which can take seconds
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the request, or a word that there is none left."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        try:
            request.sendall(_BUSY)
        except OSError:  # the client has gone
            _log.debug("%s did not wait to be refused", client_address)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in this thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def may_be_asked_as(self, host: str) -> bool:
        """Whether a Host header is an address, ``localhost`` or one of the names."""
        found = _HOST.fullmatch(host)
        name = found["name"].casefold() if found else ""
        if name == "localhost" or name in self.names:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def remember(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def drop_connections(self) -> None:
        """End connections that clients keep open, so that their threads end."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has just ended by itself
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 # as the base class has it
        # The client hears of it; a traceback would land amid what the process that serves itself shows a person.
        _log.debug("a request of %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "kbnav"
    sys_version = ""
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _HttpServer

    def setup(self) -> None:
        super().setup()
        self.server.remember(self.connection)

    def finish(self) -> None:
        self.server.forget(self.connection)
        try:
            super().finish()
        except OSError:  # the client has gone, and what was left of the reply cannot be written
            _log.debug("%s did not wait for the reply", self.client_address)
        finally:
            self.rfile.close()  # which keeps the connection's file open, whatever became of it

    def do_GET(self) -> None:
        self._respond({})

    def do_HEAD(self) -> None:
        self._respond({})

    def do_POST(self) -> None:
        form = self._read_form()
        if form is not None:
            self._respond(form)

    def _read_form(self) -> dict[str, str] | None:
        """The parameters in the body; None where it cannot be read, and the client was told."""
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,12}", length, re.ASCII):
            self._refuse(411, "the request needs a Content-Length")
            return None
        if int(length) > MOST_FORM:
            self._refuse(413, f"the request is larger than {MOST_FORM} bytes")
            return None
        body = self.rfile.read(int(length))
        kind = self.headers.get_content_type()
        if kind == "application/sparql-query":
            return {"query": body.decode(errors="replace")}
        if kind == "application/sparql-update":
            return {"update": body.decode(errors="replace")}
        if kind == "multipart/form-data":
            self._refuse(415, "send the parameters as application/x-www-form-urlencoded")
            return None
        return _parameters(body.decode("ascii", errors="replace"))

    def _respond(self, form: dict[str, str]) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1 or not all(self.server.may_be_asked_as(host.strip()) for host in hosts):
            self._send(failure(421, "this server is not asked under that name"))
            return
        address = urlsplit(self.path)
        parameters, accept = _parameters(address.query) | form, self.headers.get("Accept", "")
        asked = Asked(unquote(address.path), parameters, accept, self._gone)
        self._send(answered(self.server.site, asked))

    def _gone(self) -> bool:
        try:
            return _readable(self.connection) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def _refuse(self, status: int, text: str) -> None:
        """Reply without having read the body, which makes the connection useless for another request."""
        self.close_connection = True
        self._send(replace(failure(status, text), headers={"Connection": "close"}))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            self.wfile.flush()
        except ConnectionError:  # the client did not wait
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("%s %s", self.address_string(), format % args)


def _readable(connection: socket.socket) -> bool:
    """Whether something can be read, or the other side has hung up. Raises OSError, ValueError."""
    if not hasattr(select, "poll"):
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()  # a process with more than 1,024 files open has some that select does not take
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _parameters(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True, errors="replace"))


def answered(site: Site, asked: Asked) -> Reply:
    """A site's reply; an error of damaged data is one too."""
    try:
        return site.answer(asked)
    except site.broken as error:
        _log.debug("%s failed", asked.path, exc_info=True)
        return failure(500, f"the mirror failed: {type(error).__name__}: {error}")


def failure(status: int, text: str) -> Reply:
    """An error as plain text."""
    return Reply(status, PLAIN, f"{status}: {text}\n".encode(errors="replace"))
