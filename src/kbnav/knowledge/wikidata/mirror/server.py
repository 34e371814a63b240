"""The mirror over HTTP: the paths, parameters and error bodies of Wikidata and its query service."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kbnav.errors import UsageError
from kbnav.knowledge.serving import Listening, failure, in_thread, parameters, sparql_route
from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.mirror import MEMORY_LIMIT, QUERY_TIMEOUT, Mirror
from kbnav.settings.model import Endpoints

_PAGE = re.compile(r"(?:Special:EntityData/|Property:)?(\w+)(?:\.json)?", re.ASCII)
_JSON = "application/json; charset=utf-8"


class MirrorServer(Listening):
    """Serves the mirror in a folder."""

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
        """Open the mirror and listen; limits are those of ``Mirror``, the rest is as ``Listening`` has it.

        Raises UsageError where there is no mirror or the address is taken, DataError where the mirror is damaged.
        """
        self.mirror = Mirror(path, query_timeout=query_timeout, memory_limit=memory_limit, workers=workers)
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
            body, code = self.mirror.api.answer(asked)
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
