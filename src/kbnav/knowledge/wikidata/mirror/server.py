"""The mirror over HTTP: the paths, parameters and error bodies of Wikidata and its query service."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kbnav.errors import UsageError
from kbnav.knowledge.serving import Listening, failure, in_thread, parameters, sparql_route
from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.mirror import MEMORY_LIMIT, QUERY_TIMEOUT, Mirror
from kbnav.knowledge.wikidata.mirror.store import MirrorInfo
from kbnav.settings.model import Endpoints

_SPARQL_PATHS = ("/sparql", "/bigdata/namespace/wdq/sparql")
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
            *(sparql_route(one, self.mirror.pool, self.mirror.prefixes) for one in _SPARQL_PATHS),
            Route("/w/api.php", self._api, methods=["GET", "POST"]),
            Route("/wiki/Special:EntityData/{name}", self._entity_data),
            Route("/wiki/{name}", self._page),
            Route("/entity/{name}", self._page),
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

    async def _entity_data(self, request: Request) -> Response:
        name, _, form = request.path_params["name"].partition(".")
        entity_id = name.upper()
        if form not in ("", "json"):
            return failure(406, "a mirror has entity data as .json only")
        if not v.is_entity_id(entity_id):
            return failure(400, f"not an id of an entity: {entity_id[:100]}")

        def answer() -> Response:
            if (document := self.mirror.entity_data(entity_id)) is not None:
                return Response(_dump(document), media_type=_JSON)
            return failure(404, f"no entity with the id {entity_id} was found")

        return await in_thread(answer)

    async def _page(self, request: Request) -> Response:
        entity_id = request.path_params["name"].removeprefix("Property:")
        if ":" in entity_id:
            return failure(404, "there is nothing at this path")
        return Response(status_code=303, headers={"Location": f"/wiki/Special:EntityData/{quote(entity_id)}.json"})

    async def _about(self, request: Request) -> Response:  # noqa: ARG002 - as Starlette calls it
        return PlainTextResponse(_about(self.info))


def _dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _about(info: MirrorInfo) -> str:
    whose = "Wikidata" if info.concept_base == WIKIDATA else info.concept_base
    return (
        f"A mirror of {whose}, built {info.built:%Y-%m-%d}:\n"
        f"{info.triples:,} triples, {info.entities:,} named entities.\n"
        "/w/api.php  /wiki/Special:EntityData/  /sparql\n"
    )
