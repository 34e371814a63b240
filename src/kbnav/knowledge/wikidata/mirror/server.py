"""The mirror over HTTP: the paths, parameters and error bodies of Wikidata and its query service."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from kbnav.errors import KbnavError, UsageError
from kbnav.knowledge.serving.http import PLAIN, Asked, Listening, Reply, failure
from kbnav.knowledge.sparql.vocabulary import WIKIDATA, wikibase_prefixes
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.api import ActionApi, Documents
from kbnav.knowledge.wikidata.mirror.endpoint import sparql_protocol
from kbnav.knowledge.wikidata.mirror.pool import QueryPool
from kbnav.knowledge.wikidata.mirror.search import Index
from kbnav.knowledge.wikidata.mirror.store import TRIPLES, MirrorInfo, open_store, read_info
from kbnav.settings.model import Endpoints

DEFAULT_PORT = 7878
QUERY_TIMEOUT = 60.0
"""Seconds; that of Wikidata's query service."""
MEMORY_LIMIT = 2 << 30
"""Bytes of address space for one query."""
_JSON = "application/json; charset=utf-8"
_TURTLE = "text/turtle; charset=utf-8"
_SPARQL_PATHS = frozenset({"/sparql", "/bigdata/namespace/wdq/sparql"})
_ENTITY_DATA = re.compile(r"/wiki/Special:EntityData/([^/.]+)(?:\.(\w+))?")
_PAGE = re.compile(r"/wiki/(?:Property:|Lexeme:)?([^/:]+)|/entity/([^/]+)")
# What reading a damaged or vanished store or index may raise, deep in code that is right for a sound one.
_BROKEN = (ArithmeticError, KbnavError, LookupError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error)


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
        names: Collection[str] = (),
    ) -> None:
        """Open the mirror in the folder ``path`` and listen at once.

        Args:
            path: folder of the mirror.
            host: address to listen on.
            port: port to listen on; 0: one that is free.
            query_timeout: seconds after which a query is stopped.
            memory_limit: bytes of address space that one query may use; 0: no limit.
            workers: queries that run at once.
            names: under which names, beside addresses and ``localhost``, it may be asked.
        """
        self.info = read_info(path)
        self._documents = Documents(open_store(path), self.info.concept_base)
        self.prefixes = wikibase_prefixes(self.info.concept_base)
        self._index = Index(path)
        self.pool = QueryPool(path / TRIPLES, size=workers, timeout=query_timeout, memory_limit=memory_limit)
        self.api = ActionApi(self._documents, self._index, self.info)
        try:
            self._listening = Listening(self, host, port, names=names)
        except UsageError:
            self.pool.close()
            self._index.close()
            raise

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        return self._listening.url

    @property
    def broken(self) -> tuple[type[BaseException], ...]:
        """See ``Site``."""
        return _BROKEN

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

    def answer(self, asked: Asked) -> Reply:
        """See ``Site``: the paths of Wikidata and of its query service."""
        if asked.path in _SPARQL_PATHS:
            return sparql_protocol(self.pool, asked, self.prefixes)
        if asked.path == "/w/api.php":
            body, code = self.api.answer(dict(asked.parameters))
            return Reply(200, _JSON, _dump(body), {"MediaWiki-API-Error": code} if code else {})
        if match := _ENTITY_DATA.fullmatch(asked.path):
            return self._entity_data(match[1].upper(), match[2] or "json")
        if match := _PAGE.fullmatch(asked.path):
            page = f"/wiki/Special:EntityData/{quote(match[1] or match[2])}.json"
            return Reply(303, PLAIN, b"", {"Location": page})
        if asked.path == "/":
            return Reply(200, PLAIN, _about(self.info))
        return failure(404, "there is nothing at this path")

    def _entity_data(self, entity_id: str, form: str) -> Reply:
        if form not in ("json", "ttl"):
            return failure(406, "a mirror has entity data as .json and .ttl only")
        if not v.is_entity_id(entity_id):
            return failure(400, f"not an id of an entity: {entity_id[:100]}")
        body = self.entity_data(entity_id) if form == "json" else self.entity_turtle(entity_id)
        missing = failure(404, f"no entity with the id {entity_id} was found")
        return missing if body is None else Reply(200, _JSON if form == "json" else _TURTLE, body)

    def close(self) -> None:
        """Stop listening, drop open connections and end the queries that run."""
        self._listening.close()
        self.pool.close()
        self._listening.drop()
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
    names: Collection[str] = (),
    ready: Callable[[MirrorServer], None] | None = None,
) -> None:
    """Serve a mirror until the process is interrupted; ``ready`` is called once it listens."""
    with MirrorServer(path, host, port, query_timeout=query_timeout, memory_limit=memory_limit, names=names) as server:
        if ready is not None:
            ready(server)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


def _dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _about(info: MirrorInfo) -> bytes:
    whose = "Wikidata" if info.concept_base == WIKIDATA else info.concept_base
    lines = [
        f"A mirror of {whose}, built {info.built:%Y-%m-%d}:",
        f"{info.triples:,} triples, {info.entities:,} named entities.",
        "/w/api.php  /wiki/Special:EntityData/  /sparql",
    ]
    return ("\n".join(lines) + "\n").encode()
