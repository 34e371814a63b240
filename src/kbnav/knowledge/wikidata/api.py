"""The action API's reads, and Wikimedia's vector database: requests, and what their replies mean.

The vector service is ``GET {base}/item/query/`` and ``/property/query/`` with ``query``, ``K`` (at most 50), ``lang``,
``instanceof`` (classes, with commas between) and ``rerank``; it answers a JSON list of objects with ``QID`` or ``PID``,
``similarity_score`` and ``rrf_score``, 30 times a minute per User-Agent (https://github.com/wmde/WikidataSearch, 2026).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kbnav.errors import BadArguments, BadResponse, CredentialsError, ServiceError, UnknownId
from kbnav.knowledge.base import Entity
from kbnav.knowledge.replies import Again, Lagged, Reply, Request, check_status, one_line, read_json, retry_after
from kbnav.knowledge.wikidata.entities import ENTITY_ID, brief, entity_of, languages

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient

_LOGIN_CODES = {
    "badtoken", "assertuserfailed", "assertbotfailed", "assertnameduserfailed", "permissiondenied", "blocked",
    "autoblocked", "notloggedin", "readapidenied", "mustbeloggedin", "login-required",
}  # fmt: skip
LONGEST_SEARCH = 300
"""Characters of a full-text search (CirrusSearch)."""
_LATER_CODES = {"ratelimited", "readonly", "timeout", "cirrussearch-too-busy-error", "search-error"}
_ARGUMENT_CODES = re.compile(r"bad|invalid|param|unknown_|unrecognized|missing|toomany|no[a-z]+$")


def read_api(reply: Reply) -> Mapping[str, Any]:
    """A reply of the action API. Raises Again for lag and rate limits, UnknownId, CredentialsError, BadArguments."""
    check_status(reply)
    if reply.status != 200:
        raise ServiceError(f"{reply.host} answers {reply.status}: {one_line(reply.text)}")
    body = read_json(reply)
    if not isinstance(body, dict):
        raise BadResponse(f"{reply.host} answers with {type(body).__name__} where an object is promised")
    error = body.get("error")
    if not error and isinstance(body.get("errors"), list) and body["errors"]:
        error = body["errors"][0]
    if error:
        raise api_error(reply.host, error if isinstance(error, dict) else {"info": str(error)}, retry_after(reply))
    return body


def api_error(where: str, error: Mapping[str, Any], after: float | None = None) -> Exception:
    """The error that one of the action API stands for; ``after`` is how long the service asks to wait."""
    code = str(error.get("code", "unknown"))
    info = one_line(str(error.get("info") or error.get("text") or error.get("html") or error.get("*") or ""))
    if code == "maxlag":
        return Again(Lagged(f"{where} is lagged: {info}"), after or 5.0)
    if code in _LATER_CODES or code.startswith("internal_api_error"):
        return Again(ServiceError(f"{where}: {code}: {info}"), after)
    if code in ("no-such-entity", "no-such-entity-link", "unknown-entity"):
        return UnknownId(info or "no such entity")
    if code.startswith("mwoauth-"):
        return CredentialsError(f"{where} does not take the access token: {code}: {info}; check access_token")
    if code in _LOGIN_CODES:
        return CredentialsError(f"{where} refuses the request: {code}: {info}")
    if _ARGUMENT_CODES.match(code):
        return BadArguments(f"{where} does not take the arguments: {code}: {info}")
    return ServiceError(f"{where}: {code}: {info}")


def read_siteinfo(reply: Reply) -> Mapping[str, Any] | None:
    """A MediaWiki's ``general`` and more; None where the reply is no action API's. Raises as ``read_api``."""
    if reply.status == 429:
        check_status(reply)
    if reply.status != 200 and "mediawiki-api-error" not in reply.headers:
        return None
    try:
        body = read_json(reply)
    except BadResponse:
        return None
    if not isinstance(body, dict):
        return None
    if "mediawiki-api-error" in reply.headers:
        body = read_api(reply)
    query = body.get("query")
    return query if isinstance(query, dict) and isinstance(query.get("general"), dict) else None


BATCH = 50
MAXLAG = "5"
IMPATIENT = 600.0
"""Seconds for which lag is not asked about once it has outlasted the retries. On Wikidata that of the query service
counts, which can last for days; and a read does no harm."""
LARGEST = 2**31 - 1
"""Wikibase refuses a whole batch for one id with a larger number."""
NAMESPACES = {"item": "0", "property": "120"}


class ActionApi:
    """A Wikibase's ``api.php``, read only. ``clock`` gives seconds."""

    def __init__(
        self,
        url: str,
        http: HttpClient,
        *,
        namespaces: Mapping[str, str] = NAMESPACES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``namespaces`` has the number of each kind's pages."""
        self._namespaces = namespaces
        self._url = url
        self._http = http
        self._clock = clock
        self._impatient_until = -math.inf

    def call(self, **params: str) -> Mapping[str, Any]:
        """One request; ``params`` as the API has them. Raises what ``read_api`` raises."""
        plain = {**params, "format": "json"}
        if self._clock() >= self._impatient_until:
            try:
                return self._http.fetch(Request("api", self._url, {**plain, "maxlag": MAXLAG}), read_api)
            except Lagged:
                self._impatient_until = self._clock() + IMPATIENT
        return self._http.fetch(Request("api", self._url, plain), read_api)

    def document(self, entity_id: str, language: str) -> Mapping[str, Any]:
        """The document of one entity, redirects followed, terms in the languages a label may come in."""
        reply = self.call(
            action="wbgetentities",
            ids=entity_id,
            props="info|claims|labels|descriptions|aliases|datatype",
            languages="|".join(languages(language)),
            redirects="yes",
        )
        return entity_of(reply, entity_id)

    def brief(self, ids: Iterable[str], language: str) -> dict[str, Entity]:
        """Label, description and datatype by the id asked for, 50 ids a request; ids that do not exist are left out."""
        wanted = [one for one in dict.fromkeys(ids) if _possible(one)]
        found: dict[str, Entity] = {}
        for start in range(0, len(wanted), BATCH):
            found.update(self._batch(wanted[start : start + BATCH], language))
        return found

    def _batch(self, ids: Sequence[str], language: str) -> dict[str, Entity]:
        try:
            reply = self.call(
                action="wbgetentities",
                ids="|".join(ids),
                props="info|labels|descriptions|datatype",
                languages="|".join(languages(language)),
                redirects="yes",
            )
        except UnknownId:  # one id that the service does not take refuses the whole batch
            if len(ids) == 1:
                return {}
            half = len(ids) // 2
            return self._batch(ids[:half], language) | self._batch(ids[half:], language)
        documents = reply.get("entities") or {}
        if not isinstance(documents, dict):
            raise BadResponse("wbgetentities: entities is not an object")
        found: dict[str, Entity] = {}
        for key, document in documents.items():
            if not isinstance(document, dict):
                raise BadResponse(f"wbgetentities: {key} is not an object")
            if "missing" in document:
                continue
            entity = brief(document, language)
            redirect = document.get("redirects")
            source = str(redirect.get("from", "")) if isinstance(redirect, dict) else ""
            found.update({one: entity for one in (key, entity.id, source) if one})
        return found

    def search(self, text: str, *, kind: Literal["item", "property"], language: str, limit: int) -> list[Entity]:
        """Entities of one kind whose label or alias begins with a text (wbsearchentities)."""
        reply = self.call(
            action="wbsearchentities", search=text, type=kind, language=language, uselang=language, limit=str(limit)
        )
        return [_hit(hit, kind) for hit in _list(reply.get("search"), "search")][:limit]

    def full_text(
        self, text: str, *, kinds: Sequence[Literal["item", "property"]] = ("item",), limit: int
    ) -> tuple[list[str], str]:
        """Ids of entities whose page has a text's words (list=search), and the spelling that the service offers."""
        if len(text) > LONGEST_SEARCH:
            text = text[:LONGEST_SEARCH].rpartition(" ")[0].removesuffix(" OR")
        namespaces = "|".join(self._namespaces[kind] for kind in kinds)
        reply = self.call(
            action="query", list="search", srsearch=text, srnamespace=namespaces, srlimit=str(limit), srprop=""
        )
        query = reply.get("query") or {}
        titles = [str(hit.get("title", "")) for hit in _list(query.get("search"), "search") if isinstance(hit, dict)]
        ids = [title.rpartition(":")[2] for title in titles]
        info = query.get("searchinfo")
        suggestion = str(info.get("suggestion", "")) if isinstance(info, dict) else ""
        return [one for one in ids if _possible(one)][:limit], suggestion


def _possible(entity_id: str) -> bool:
    return bool(ENTITY_ID.fullmatch(entity_id)) and int(entity_id[1:].partition("-")[0]) <= LARGEST


def _list(value: Any, name: str) -> list[Any]:
    """A list of a reply; one that is missing is empty. Raises BadResponse where it is something else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadResponse(f"{name}: a list is promised, not {type(value).__name__}")
    return value


def _hit(hit: Any, kind: str) -> Entity:
    if not isinstance(hit, dict) or not isinstance(hit.get("id"), str):
        raise BadResponse("wbsearchentities: a hit without an id")
    display = hit.get("display")
    shown = display if isinstance(display, dict) else {}

    def text(name: str) -> str:
        value = hit.get(name) or shown.get(name) or ""
        return str(value.get("value", "")) if isinstance(value, dict) else str(value)

    label = text("label")
    match = hit.get("match")
    found_by = str(match.get("text") or "") if isinstance(match, dict) else ""
    alias = found_by if found_by.casefold() != label.casefold() else ""
    return Entity(hit["id"], label, text("description"), kind, str(hit.get("datatype") or ""), alias)


MOST_VECTORS = 50
LONGEST_TEXT = 1000
"""Characters of a text that are sent; it goes into the address."""
_CLASS = re.compile(r"Q[1-9]\d*(?:,Q[1-9]\d*)*")
VECTOR_KINDS = {"item": "QID", "property": "PID"}


def nearest(http: HttpClient, base: str, text: str, *, kind: str, limit: int, language: str) -> list[tuple[str, float]]:
    """Ids and similarities, best first; ``kind``: ``item``, ``property`` or a class's id. Raises BadArguments."""
    classes = kind if _CLASS.fullmatch(kind) else ""
    kind = "item" if classes else kind
    if kind not in VECTOR_KINDS:
        raise BadArguments(
            f"vector_query: kind is one of {', '.join(VECTOR_KINDS)} or a class such as Q5, not {kind!r}"
        )
    phrase = " ".join(text.split())[:LONGEST_TEXT]
    if not phrase:
        raise BadArguments("vector_query: the text is empty")
    params = {
        "query": phrase,
        "K": str(max(1, min(limit, MOST_VECTORS))),
        "lang": language.partition("-")[0],
        **({"instanceof": classes} if classes else {}),
    }
    request = Request("vector", f"{base.rstrip('/')}/{kind}/query/", params)
    return http.fetch(request, lambda reply: _read(reply, VECTOR_KINDS[kind]))[:limit]


def _read(reply: Reply, name: str) -> list[tuple[str, float]]:
    check_status(reply)
    if reply.status in (400, 422):
        raise BadArguments(f"{reply.host} does not take the arguments: {one_line(reply.text)}")
    if reply.status != 200:
        raise ServiceError(f"{reply.host} answers {reply.status}: {one_line(reply.text)}")
    hits: Any = read_json(reply)
    if not isinstance(hits, list):
        raise BadResponse(f"{reply.host} answers with {type(hits).__name__} where a list is promised")
    try:
        found = [(str(hit[name]), float(hit.get("similarity_score") or 0.0)) for hit in hits]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadResponse(f"{reply.host}: not a list of entities with scores: {error!r}") from error
    return [(one, score) for one, score in found if ENTITY_ID.fullmatch(one)]
