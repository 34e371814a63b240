"""Wikimedia's Wikidata vector database over HTTP: entities and properties nearest in meaning to a text.

``GET {base}/item/query/`` and ``/property/query/`` with ``query``, ``K`` (at most 50), ``lang`` (Arabic, English,
French and German have vectors of their own; a text in another is translated, and looked for in all), ``instanceof``
(classes, with commas between) and ``rerank`` answer a JSON list of objects with ``QID`` or ``PID``,
``similarity_score`` and ``rrf_score``. It allows 30 requests a minute per User-Agent
(https://github.com/wmde/WikidataSearch, 2026).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kbnav.errors import BadArguments, BadResponse, ServiceError
from kbnav.knowledge.service.exchange import Reply, Request
from kbnav.knowledge.service.http import HttpClient
from kbnav.knowledge.service.replies import check_status, one_line, place, read_json
from kbnav.knowledge.wikidata.values import ENTITY_ID

MOST = 50
LONGEST = 1000
"""Characters of a text that are sent; it goes into the address."""
_CLASS = re.compile(r"Q[1-9]\d*(?:,Q[1-9]\d*)*")
KINDS = {"item": "QID", "property": "PID"}


@dataclass(frozen=True)
class Asked:
    """What is looked for; ``kind`` is ``item``, ``property``, or the id of a class: its instances."""

    text: str
    kind: str = "item"
    limit: int = 10
    language: str = "en"
    rerank: bool = False


def nearest(http: HttpClient, base: str, asked: Asked) -> list[tuple[str, float]]:
    """Ids and similarities, best first. Raises BadArguments for another kind than item, property and a class."""
    classes = asked.kind if _CLASS.fullmatch(asked.kind) else ""
    kind = "item" if classes else asked.kind
    if kind not in KINDS:
        raise BadArguments(f"vector_query: kind is one of {', '.join(KINDS)} or a class such as Q5, not {asked.kind!r}")
    phrase = " ".join(asked.text.split())[:LONGEST]
    if not phrase:
        raise BadArguments("vector_query: the text is empty")
    params = {
        "query": phrase,
        "K": str(max(1, min(asked.limit, MOST))),
        "lang": asked.language.partition("-")[0],
        **({"instanceof": classes} if classes else {}),
        **({"rerank": "true"} if asked.rerank else {}),
    }
    request = Request("vector", f"{base.rstrip('/')}/{kind}/query/", params)
    return http.fetch(request, lambda reply: _read(reply, KINDS[kind]))[: asked.limit]


def _read(reply: Reply, name: str) -> list[tuple[str, float]]:
    check_status(reply)
    if reply.status in (400, 422):
        raise BadArguments(f"{place(reply)} does not take the arguments: {one_line(reply.text)}")
    if reply.status != 200:
        raise ServiceError(f"{place(reply)} answers {reply.status}: {one_line(reply.text)}")
    hits: Any = read_json(reply)
    if not isinstance(hits, list):
        raise BadResponse(f"{place(reply)} answers with {type(hits).__name__} where a list is promised")
    try:
        found = [(str(hit[name]), float(hit.get("similarity_score") or 0.0)) for hit in hits]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadResponse(f"{place(reply)}: not a list of entities with scores: {error!r}") from error
    return [(one, score) for one, score in found if ENTITY_ID.fullmatch(one)]
