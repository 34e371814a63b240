"""Wikimedia's Wikidata vector database over HTTP: entities and properties nearest in meaning to a text.

``GET {base}/item/query/`` and ``/property/query/`` with ``query``, ``K`` (at most 50) and ``lang`` answer a JSON list
of objects with ``QID`` or ``PID`` and ``similarity_score``. It allows 30 requests a minute per User-Agent.
"""

from __future__ import annotations

from typing import Any

from kbnav.errors import BadArguments, BadResponse, ServiceError
from kbnav.knowledge.service.exchange import Reply, Request
from kbnav.knowledge.service.http import HttpClient
from kbnav.knowledge.service.replies import check_status, one_line, place, read_json
from kbnav.knowledge.wikidata.values import ENTITY_ID

MOST = 50
LONGEST = 1000
"""Characters of a text that are sent; it goes into the address."""
KINDS = {"item": "QID", "property": "PID"}


def nearest(http: HttpClient, base: str, text: str, *, kind: str, limit: int) -> list[tuple[str, float]]:
    """Ids and similarities, best first. Raises BadArguments for another kind than item and property."""
    if kind not in KINDS:
        raise BadArguments(f"vector_query: kind is one of {', '.join(KINDS)}, not {kind!r}")
    phrase = " ".join(text.split())[:LONGEST]
    if not phrase:
        raise BadArguments("vector_query: the text is empty")
    params = {"query": phrase, "K": str(max(1, min(limit, MOST)))}
    request = Request("vector", f"{base.rstrip('/')}/{kind}/query/", params)
    return http.fetch(request, lambda reply: _read(reply, KINDS[kind]))[:limit]


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
