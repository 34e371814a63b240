"""A small SPARQL endpoint on the loopback address, which counts what it is asked and may refuse some of it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyoxigraph

ROWS, TRIPLES = "application/sparql-results+json", "application/n-triples"


@dataclass
class Served:
    """What listens: ``requests`` are the paths and queries that came, oldest first."""

    store: pyoxigraph.Store
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    refuse: Callable[[str], tuple[int, str] | None] = lambda query: None
    """From a query to a status and a text, where it is refused."""
    get_only: bool = False
    at_once: int = 0
    most_at_once: int = 0
    rows: int = 0
    """The most rows that a result has, as an endpoint has it that does not say so; 0: all."""

    @property
    def queries(self) -> list[str]:
        return [query for path, query in self.requests if path == "/sparql"]

    @contextmanager
    def counting(self) -> Iterator[None]:
        """A query that is asked meanwhile."""
        with _LOCK:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        yield
        with _LOCK:
            self.at_once -= 1


_LOCK = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._answer(parts.path, parse_qs(parts.query))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.served.get_only:
            return self._send(405, "text/plain", "Method Not Allowed")
        direct = self.headers.get("Content-Type", "").startswith("application/sparql-query")
        return self._answer(self.path, {"query": [body]} if direct else parse_qs(body))

    def _answer(self, path: str, parameters: Mapping[str, list[str]]) -> None:
        query = parameters.get("query", [""])[0]
        self.served.requests.append((path, query))
        self.served.headers.append({name.lower(): value for name, value in self.headers.items()})
        if path != "/sparql":
            return self._send(404, "text/html", "<html><title>Not here</title></html>")
        with self.served.counting():
            refused = self.served.refuse(query)
        if refused:
            return self._send(refused[0], "text/plain", refused[1])
        graph = parameters.get("default-graph-uri", [""])[0]
        options: dict[str, Any] = {"default_graph": pyoxigraph.NamedNode(graph)} if graph else {}
        try:
            result = self.served.store.query(query, **options)
            triples = isinstance(result, pyoxigraph.QueryTriples)
            kind = pyoxigraph.RdfFormat.N_TRIPLES if triples else pyoxigraph.QueryResultsFormat.JSON
            body = result.serialize(format=kind)
            if self.served.rows and not triples:
                document = json.loads(body or b"")
                bindings = document.get("results", {}).get("bindings", [])
                del bindings[self.served.rows :]
                body = json.dumps(document).encode()
        except (SyntaxError, ValueError, RuntimeError) as error:
            return self._send(400, "text/plain", f"MalformedQueryException: {error}")
        return self._send(200, TRIPLES if triples else ROWS, body)

    def _send(self, status: int, kind: str, body: str | bytes) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(*turtle: str | bytes) -> Iterator[Served]:
    """Some Turtle, served meanwhile."""
    store = pyoxigraph.Store()
    for one in turtle:
        store.bulk_load(input=one.encode() if isinstance(one, str) else one, format=pyoxigraph.RdfFormat.TRIG)
    served = Served(store)
    handler = type("Handler", (_Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}/sparql"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
