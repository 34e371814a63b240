"""Data on this machine, served over the SPARQL protocol with uvicorn: bounded in connections, bodies and time.

A page on the web can have a browser ask this machine under any name that its owner points here, so only addresses,
``localhost`` and names that are given are taken in the ``Host`` header.

``MirrorServer`` serves a mirror, with the paths, parameters and error bodies of Wikidata and its query service, and
``RdfServer`` RDF files: ``kbnav sparql serve``. They go into a store in a temporary folder; queries see the
default graph and all named graphs as one, and ``GRAPH`` sees named graphs apart.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import uvicorn
from pyoxigraph import Store
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, Router

from kbnav.errors import KbnavError, QueryRefused, QuerySyntaxError, UsageError
from kbnav.knowledge.connections import Deadlines, host_name, listening
from kbnav.knowledge.skb.importers.rdf import opened, rdf_format
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES, WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.mirror import BROKEN, Mirror, run_query
from kbnav.knowledge.wikidata.mirror.pool import LIMITS, Form, Gone, QueryError, QueryLimits, QueryPool
from kbnav.settings.model import Endpoints

MOST_CONNECTIONS = 128
"""Connections at once; further ones are refused with 503."""
MOST_FORM = 1 << 20
"""Bytes of a request's parameters."""
_IDLE_SECONDS = 60
_ROW_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("application/sparql-results+json", "application/json", "json"), "json"),
    **dict.fromkeys(("application/sparql-results+xml", "application/xml", "xml"), "xml"),
    **dict.fromkeys(("text/csv", "csv"), "csv"),
    **dict.fromkeys(("text/tab-separated-values", "tsv"), "tsv"),
}
_GRAPH_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("text/turtle", "application/x-turtle", "turtle"), "turtle"),
    **dict.fromkeys(("application/n-triples", "text/plain", "ntriples"), "ntriples"),
    **dict.fromkeys(("application/rdf+xml", "rdf", "xml"), "rdfxml"),
}
_EXECUTION = "java.util.concurrent.ExecutionException: "
_EXCEPTIONS: Mapping[str, str] = {
    "timeout": "java.util.concurrent.TimeoutException: ",
    "memory": f"{_EXECUTION}java.lang.OutOfMemoryError: ",
    "syntax": f"{_EXECUTION}org.openrdf.query.MalformedQueryException: ",
}


class Listening:
    """An application served from a thread of this process until it is closed; a context manager."""

    def __init__(self, routes: Sequence[BaseRoute], host: str, port: int, names: Collection[str] = ()) -> None:
        """Listen at once, under ``names`` too; port 0: one that is free. Raises UsageError for a taken address."""
        self._socket = listening(host, port)
        self._address = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            _App(routes, names),
            http=Deadlines,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            headers=[("Server", "kbnav")],
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="kbnav-listening", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        host, port = self._address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def close(self) -> None:
        """Stop listening; what is under way has a second to end."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _App:
    """The routes; requests under another name than an address, ``localhost`` or a given one are refused."""

    def __init__(self, routes: Sequence[BaseRoute], names: Collection[str]) -> None:
        self._router, self._names = Router(routes), frozenset(name.casefold() for name in names)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        hosts = [value.decode("latin-1").strip() for name, value in scope["headers"] if name == b"host"]
        try:
            if len(hosts) > 1 or not all(map(self._is_named, hosts)):
                raise HTTPException(421, "this server is not asked under that name")
            await self._router(scope, receive, send)
        except HTTPException as error:
            await failure(error.status_code, error.detail, error.headers)(scope, receive, send)

    def _is_named(self, host: str) -> bool:
        name = host_name(host)
        if name == "localhost" or name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def failure(status: int, text: str, headers: Mapping[str, str] | None = None) -> PlainTextResponse:
    """An error as plain text."""
    return PlainTextResponse(f"{status}: {text}\n".encode(errors="replace"), status, headers)


async def parameters(request: Request) -> dict[str, str]:
    """Those of the address and of the body together. Raises HTTPException for a body that is not read."""
    found = _read(request.url.query)
    if request.method != "POST":
        return found
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        raise HTTPException(415, "send the parameters as application/x-www-form-urlencoded")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_FORM:
        raise HTTPException(413, f"the request is larger than {MOST_FORM} bytes", {"Connection": "close"})
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_FORM:
            raise HTTPException(413, f"the request is larger than {MOST_FORM} bytes", {"Connection": "close"})
    if kind in ("application/sparql-query", "application/sparql-update"):
        return found | {kind.removeprefix("application/sparql-"): body.decode(errors="replace")}
    return found | _read(body.decode("ascii", errors="replace"))


def _read(text: str) -> dict[str, str]:
    """Parameters by name, the last of each; but default graphs all, with spaces between."""
    found = parse_qs(text, keep_blank_values=True, errors="replace")
    return {name: " ".join(all_) if name == "default-graph-uri" else all_[-1] for name, all_ in found.items()}


_THREADS = ThreadPoolExecutor(MOST_CONNECTIONS, "kbnav-serving")


async def in_thread(call: Callable[[], Response]) -> Response:
    """The response that a call gives, made in a thread; where what is served is damaged, one that says so."""

    def work() -> Response:
        try:
            return call()
        except (*BROKEN, KbnavError) as error:  # not passed on: what its frames hold must not leave this thread
            return failure(500, f"the mirror failed: {type(error).__name__}: {error}")

    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def sparql_route(path: str, pool: QueryPool, prefixes: Mapping[str, str]) -> Route:
    """Queries over the SPARQL 1.1 protocol; ``prefixes`` need not be declared."""

    async def answer(request: Request) -> Response:
        asked = await parameters(request)
        if "update" in asked:
            return failure(405, "a mirror is read-only: updates are refused")
        if not asked.get("query", "").strip():
            return failure(400, 'the parameter "query" is missing')
        if "named-graph-uri" in asked:
            return failure(400, "named-graph-uri is not understood here: every named graph is there")
        accept = [asked.get("format", "").lower(), *_accepted(request.headers.get("accept", ""))]
        gone = threading.Event()

        async def hung_up() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            gone.set()

        waiting = asyncio.create_task(hung_up())
        try:
            return await in_thread(
                lambda: _answered(
                    pool, asked["query"], prefixes, accept, asked.get("default-graph-uri", ""), gone.is_set
                )
            )
        finally:
            waiting.cancel()

    return Route(path, answer, methods=["GET", "POST"])


def _answered(
    pool: QueryPool, query: str, prefixes: Mapping[str, str], accept: Sequence[str], graph: str, gone: Gone
) -> Response:
    """The reply to a query, errors and default forms (XML, RDF/XML) as Wikidata's service has them."""
    form: Form = next((_ROW_FORMS[name] for name in accept if name in _ROW_FORMS), "xml")
    graph_form: Form = next((_GRAPH_FORMS[name] for name in accept if name in _GRAPH_FORMS), "rdfxml")
    try:
        result = run_query(pool, query, prefixes, form=form, graph_form=graph_form, graph=graph, gone=gone)
    except (QuerySyntaxError, QueryRefused, QueryError) as error:
        reason = error.reason if isinstance(error, QueryError) else "syntax"
        if reason == "broken":  # without the query, which is not at fault
            return failure(500, f"the mirror failed: {error}")
        if reason == "busy":
            return failure(503, str(error))
        said = f"SPARQL-QUERY: queryStr={query}\n{_EXCEPTIONS.get(reason, _EXECUTION)}{error}\n"
        return PlainTextResponse(said.encode(errors="replace"), 400 if reason == "syntax" else 500)
    return Response(result.body, media_type=result.media_type)


def _accepted(accept: str) -> list[str]:
    found = []
    for part in accept.split(","):
        name, *given = (piece.strip().lower() for piece in part.split(";"))
        quality = next((piece[2:] for piece in given if piece.startswith("q=")), "1")
        with suppress(ValueError):
            found.append((-float(quality), name))
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


_PREFIXES = {name: iri for name, iri in STANDARD_PREFIXES.items() if "wikidata" not in iri and "bigdata" not in iri}


def load(files: Sequence[Path], folder: Path) -> tuple[int, int]:
    """Read files into a new store in a folder, and give its numbers of statements and of named graphs.

    Raises UsageError, and DataError for one that does not read.
    """
    formats = {file: rdf_format(file) for file in files}
    store = Store(str(folder))
    for file, form in formats.items():
        with opened(file) as data:
            # Relative IRIs are the file's own; where it lies on this machine is nobody's business.
            store.bulk_load(data, form, base_iri=f"file:///{file.name.removesuffix('.gz')}")
    store.flush()
    return len(store), sum(1 for _ in store.named_graphs())


class RdfServer(Listening):
    """Serves RDF files at ``/sparql``; ``statements`` and named ``graphs`` are how many they hold."""

    def __init__(
        self,
        files: Sequence[Path],
        host: str = "127.0.0.1",
        port: int = 0,
        limits: QueryLimits = LIMITS,
        names: Collection[str] = (),
    ) -> None:
        """Load the files and listen. Raises as ``load``."""
        self._folder = Path(tempfile.mkdtemp(prefix="kbnav-sparql-"))
        try:
            store = self._folder / "store"
            self.statements, self.graphs = load(files, store)
            self._pool = QueryPool(store, limits, union=True)

            async def about(request: Request) -> Response:  # noqa: ARG001
                return PlainTextResponse(f"{self.statements:,} RDF statements at /sparql\n")

            super().__init__([sparql_route("/sparql", self._pool, _PREFIXES), Route("/", about)], host, port, names)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """Where queries go."""
        return f"{super().url}/sparql"

    def close(self) -> None:
        """End the queries that run, stop listening, and remove what was loaded."""
        self._pool.close()
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


_PAGE = re.compile(r"(?:Special:EntityData/|Property:)?(\w+)(?:\.json)?", re.ASCII)
_JSON = "application/json; charset=utf-8"


class MirrorServer(Listening):
    """Serves the mirror in a folder."""

    def __init__(
        self,
        path: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: QueryLimits = LIMITS,
        names: Collection[str] = (),
    ) -> None:
        """Open the mirror and listen, as ``Listening`` does.

        Raises UsageError where there is no mirror or the address is taken, DataError where the mirror is damaged.
        """
        self.mirror = Mirror(path, limits)
        self.info = self.mirror.info
        routes = [
            sparql_route("/sparql", self.mirror.pool, self.mirror.prefixes),
            Route("/w/api.php", self._api, methods=["GET", "POST"]),
            Route("/wiki/{name:path}", self._page),
            Route("/", self._about),
        ]
        try:
            super().__init__(routes, host, port, names)
        except UsageError:
            self.mirror.close()
            raise

    @property
    def endpoints(self) -> Endpoints:
        """The settings with which a client uses this server in place of Wikidata."""
        return Endpoints(
            sparql=f"{self.url}/sparql",
            api=f"{self.url}/w/api.php",
            query_page=f"{self.url}/sparql?format=json&query=",
            entity_page=f"{self.url}/wiki/",
        )

    def close(self) -> None:
        """End the queries that run, and stop listening."""
        self.mirror.pool.close()
        super().close()
        self.mirror.close()

    async def _api(self, request: Request) -> Response:
        asked = await parameters(request)

        def answer() -> Response:
            body, code = self.mirror.answer(asked)
            return Response(_dump(body), media_type=_JSON, headers={"MediaWiki-API-Error": code} if code else None)

        return await in_thread(answer)

    async def _page(self, request: Request) -> Response:
        """An entity's document, as Special:EntityData has it."""
        found = _PAGE.fullmatch(request.path_params["name"])
        entity_id = found[1].upper() if found else ""

        def answer() -> Response:
            documents = self.mirror.documents
            target = documents.resolve(entity_id) if v.is_entity_id(entity_id) else ""
            if target:
                return Response(_dump({"entities": {target: documents.document(target)}}), media_type=_JSON)
            return failure(404, "no entity is at this path")

        return await in_thread(answer)

    async def _about(self, request: Request) -> Response:  # noqa: ARG002 - as Starlette calls it
        whose = "Wikidata" if self.info.concept_base == WIKIDATA else self.info.concept_base
        return PlainTextResponse(
            f"A mirror of {whose}, built {self.info.built:%Y-%m-%d}:\n"
            f"{self.info.triples:,} triples, {self.info.entities:,} named entities.\n"
            "/w/api.php  /wiki/  /sparql\n"
        )


def _dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
