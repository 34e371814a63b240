"""The mirror over HTTP: the paths, parameters and error bodies of Wikidata and its query service."""

from __future__ import annotations

import json
import logging
import re
import socket
import sqlite3
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from kbnav.errors import KbnavError, UsageError
from kbnav.knowledge.sparql.vocabulary import WIKIDATA, wikibase_prefixes
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.api import ActionApi
from kbnav.knowledge.wikidata.mirror.documents import Documents
from kbnav.knowledge.wikidata.mirror.endpoint import Reply, answer_query
from kbnav.knowledge.wikidata.mirror.search import Index
from kbnav.knowledge.wikidata.mirror.store import TRIPLES, MirrorInfo, open_store, read_info
from kbnav.knowledge.wikidata.mirror.worker import QueryPool
from kbnav.settings import Endpoints

DEFAULT_PORT = 7878
QUERY_TIMEOUT = 60.0
"""Seconds; that of Wikidata's query service."""
MEMORY_LIMIT = 2 << 30
"""Bytes of address space for one query."""
_MAX_BODY = 1 << 20
_IDLE_SECONDS = 60.0
_POLL = 0.05
"""Seconds between looks for a request to shut down: what closing waits for at most."""
_JSON = "application/json; charset=utf-8"
_TURTLE = "text/turtle; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_SPARQL_PATHS = frozenset({"/sparql", "/bigdata/namespace/wdq/sparql"})
_ENTITY_DATA = re.compile(r"/wiki/Special:EntityData/([^/.]+)(?:\.(\w+))?")
_PAGE = re.compile(r"/wiki/(?:Property:|Lexeme:)?([^/:]+)|/entity/([^/]+)")
# What reading a damaged or vanished store or index may raise, deep in code that is right for a sound one.
_BROKEN = (ArithmeticError, KbnavError, LookupError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error)
_log = logging.getLogger(__name__)


class MirrorServer:
    """Serves one mirror from threads of this process; a context manager, and closed at its end.

    Raises UsageError where there is no mirror or the address is taken, DataError where the mirror is damaged.
    """

    def __init__(
        self,
        path: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        query_timeout: float = QUERY_TIMEOUT,
        memory_limit: int = MEMORY_LIMIT,
        workers: int = 4,
    ) -> None:
        """Open the mirror in the folder ``path`` and listen at once.

        Args:
            path: folder of the mirror.
            host: address to listen on.
            port: port to listen on; 0: one that is free.
            query_timeout: seconds after which a query is stopped.
            memory_limit: bytes of address space that one query may use; 0: no limit.
            workers: queries that run at once.
        """
        self.info = read_info(path)
        self._documents = Documents(open_store(path), self.info.concept_base)
        self.prefixes = wikibase_prefixes(self.info.concept_base)
        self._index = Index(path)
        self.pool = QueryPool(path / TRIPLES, size=workers, timeout=query_timeout, memory_limit=memory_limit)
        self.api = ActionApi(self._documents, self._index, self.info)
        try:
            self._http = _HttpServer((host, port), self)
        except OSError as error:
            self.pool.close()
            self._index.close()
            raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL,), name="kbnav-mirror", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        host, port = self._http.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    @property
    def endpoints(self) -> Endpoints:
        """The settings with which a client uses this server in place of Wikidata."""
        return Endpoints(
            sparql=f"{self.url}/sparql",
            api=f"{self.url}/w/api.php",
            entity_data=f"{self.url}/wiki/Special:EntityData/",
            query_page=f"{self.url}/sparql?format=json&query=",
            entity_page=f"{self.url}/wiki/",
        )

    def entity_data(self, entity_id: str) -> bytes | None:
        """The body of Special:EntityData for an id, redirects followed; None where there is no such entity."""
        target = self._documents.resolve(entity_id) if v.is_entity_id(entity_id) else ""
        document = self._documents.document(target) if target else None
        return None if document is None else _dump({"entities": {target: document}})

    def entity_turtle(self, entity_id: str) -> bytes | None:
        """The triples of an entity, without those of its statements' nodes, and the usual prefixes."""
        target = self._documents.resolve(entity_id)
        return self._documents.turtle(target, self.prefixes) if target else None

    def close(self) -> None:
        """Stop listening, drop open connections and end the queries that run."""
        self._http.shutdown()
        self._thread.join()
        self.pool.close()
        self._http.drop_connections()
        self._http.server_close()
        self._index.close()

    def __enter__(self) -> MirrorServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(
    path: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    query_timeout: float = QUERY_TIMEOUT,
    memory_limit: int = MEMORY_LIMIT,
    ready: Callable[[MirrorServer], None] | None = None,
) -> None:
    """Serve a mirror until the process is interrupted; ``ready`` is called once it listens."""
    with MirrorServer(path, host, port, query_timeout=query_timeout, memory_limit=memory_limit) as server:
        if ready is not None:
            ready(server)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], mirror: MirrorServer) -> None:
        self.mirror = mirror
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's looks the host's name up, which can take seconds
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

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
        super().finish()

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
        if int(length) > _MAX_BODY:
            self._refuse(413, f"the request is larger than {_MAX_BODY} bytes")
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
        try:
            reply, headers = self._answer(form)
        except _BROKEN as error:
            _log.debug("%s failed", self.path, exc_info=True)
            reply, headers = _failure(500, f"the mirror failed: {type(error).__name__}: {error}"), {}
        self._send(reply, headers)

    def _answer(self, form: dict[str, str]) -> tuple[Reply, dict[str, str]]:
        """The reply, and headers beside the usual ones."""
        address = urlsplit(self.path)
        path, parameters = unquote(address.path), _parameters(address.query) | form
        if path in _SPARQL_PATHS:
            return self._sparql(parameters), {}
        if path == "/w/api.php":
            body, code = self.server.mirror.api.answer(parameters)
            return Reply(200, _JSON, _dump(body)), {"MediaWiki-API-Error": code} if code else {}
        if match := _ENTITY_DATA.fullmatch(path):
            return self._entity_data(match[1].upper(), match[2] or "json"), {}
        if match := _PAGE.fullmatch(path):
            page = f"/wiki/Special:EntityData/{quote(match[1] or match[2])}.json"
            return Reply(303, _TEXT, b""), {"Location": page}
        if path == "/":
            return Reply(200, _TEXT, _about(self.server.mirror.info)), {}
        return _failure(404, "there is nothing at this path"), {}

    def _sparql(self, parameters: dict[str, str]) -> Reply:
        if "update" in parameters:
            return _failure(405, "a mirror is read-only: updates are refused")
        if not parameters.get("query", "").strip():
            return _failure(400, 'the parameter "query" is missing')
        accept = self.headers.get("Accept", "")
        mirror = self.server.mirror
        query, form = parameters["query"], parameters.get("format", "")
        return answer_query(mirror.pool, query, accept=accept, form=form, prefixes=mirror.prefixes)

    def _entity_data(self, entity_id: str, form: str) -> Reply:
        if form not in ("json", "ttl"):
            return _failure(406, "a mirror has entity data as .json and .ttl only")
        if not v.is_entity_id(entity_id):
            return _failure(400, f"not an id of an entity: {entity_id[:100]}")
        mirror = self.server.mirror
        body = mirror.entity_data(entity_id) if form == "json" else mirror.entity_turtle(entity_id)
        missing = _failure(404, f"no entity with the id {entity_id} was found")
        return missing if body is None else Reply(200, _JSON if form == "json" else _TURTLE, body)

    def _refuse(self, status: int, text: str) -> None:
        """Reply without having read the body, which makes the connection useless for another request."""
        self.close_connection = True
        self._send(_failure(status, text), {"Connection": "close"})

    def _send(self, reply: Reply, headers: dict[str, str] | None = None) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in (headers or {}).items():
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


def _parameters(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True, errors="replace"))


def _dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _failure(status: int, text: str) -> Reply:
    return Reply(status, _TEXT, f"{status}: {text}\n".encode(errors="replace"))


def _about(info: MirrorInfo) -> bytes:
    whose = "Wikidata" if info.concept_base == WIKIDATA else info.concept_base
    lines = [
        f"A mirror of {whose}, built {info.built:%Y-%m-%d}:",
        f"{info.triples:,} triples, {info.entities:,} named entities.",
        "/w/api.php  /wiki/Special:EntityData/  /sparql",
    ]
    return ("\n".join(lines) + "\n").encode()
