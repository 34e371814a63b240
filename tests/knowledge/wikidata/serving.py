"""A real HTTP server on the loopback that answers as a test says, and a client of it that never sleeps."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.settings.model import Limits, Settings
from tests.ending import running

JSON = "application/json; charset=utf-8"
ROWS = "application/sparql-results+json"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: str = ""


@dataclass(frozen=True)
class Answer:
    """One HTTP reply; a body of several pieces is sent piece by piece, as they come."""

    body: bytes | str | dict[str, Any] | list[Any] | Iterator[bytes] = b""
    status: int = 200
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


class Served:
    """The server's address and everything it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []

    def asked_for(self, **params: str) -> list[Asked]:
        return [one for one in self.asked if params.items() <= one.params.items()]


@contextmanager
def serving(answer: Callable[[Asked], Answer], port: int = 0) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each reply on a connection that is kept comes 40 ms later

        def do_GET(self) -> None:
            self.reply(urlsplit(self.path).query, "")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.reply(body, body)

        def reply(self, parameters: str, body: str) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            params = {name: " ".join(given) for name, given in parse_qs(parameters, keep_blank_values=True).items()}
            if headers.get("content-type", "").startswith("application/sparql-query"):
                params = {"query": parameters}
            asked = Asked(self.command, urlsplit(self.path).path, params, headers, body)
            served.asked.append(asked)
            said = answer(asked)
            self.send_response(said.status)
            for name, value in {"Content-Type": said.type, **said.headers}.items():
                self.send_header(name, value)
            pieces = said.body if isinstance(said.body, Iterator) else iter([said.bytes])
            if pieces is said.body:
                self.send_header("Connection", "close")
            else:
                self.send_header("Content-Length", said.headers.get("X-Length", str(len(said.bytes))))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a client may have read enough
                for piece in pieces:
                    self.wfile.write(piece)
            self.close_connection |= "X-Length" in said.headers

        def log_message(self, *_: Any) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        served = Served(f"http://127.0.0.1:{server.server_address[1]}")
        with running(lambda: server.serve_forever(0.02), server.shutdown):
            yield served


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    """Each answer once, then the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@dataclass
class Client:
    """A knowledge base over a served address, and the seconds it would have slept."""

    kb: WikidataKB
    http: HttpClient
    slept: list[float]


@contextmanager
def client(
    url: str, *, cache: HttpCache | None = None, throttle: Throttle | None = None, vector: str = "", **limits: Any
) -> Iterator[Client]:
    endpoints = endpoints_of(url).model_copy(update={"vector": vector})
    settings = Settings(endpoints=endpoints, limits=Limits(**limits))
    slept: list[float] = []
    http = HttpClient(settings, cache=cache, throttle=throttle, sleep=slept.append, jitter=lambda: 1.0)
    kb = WikidataKB.by_http(settings, http=http)
    try:
        yield Client(kb, http, slept)
    finally:
        kb.close()
