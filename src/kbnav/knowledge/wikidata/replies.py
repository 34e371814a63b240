"""What the action API's answers mean: data, or one of kbnav's errors. Pure functions over ``Reply``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kbnav.errors import BadArguments, BadResponse, CredentialsError, ServiceError, UnknownId
from kbnav.knowledge.service.exchange import Again, Lagged, Reply
from kbnav.knowledge.service.replies import check_status, one_line, place, read_json, retry_after

_LOGIN_CODES = {
    "badtoken", "assertuserfailed", "assertbotfailed", "assertnameduserfailed", "permissiondenied", "blocked",
    "autoblocked", "notloggedin", "readapidenied", "mustbeloggedin", "login-required",
}  # fmt: skip
_LATER_CODES = {"ratelimited", "readonly", "timeout", "cirrussearch-too-busy-error", "search-error"}
_ARGUMENT_CODES = re.compile(r"bad|invalid|param|unknown_|unrecognized|missing|toomany|no[a-z]+$")


def read_api(reply: Reply) -> Mapping[str, Any]:
    """A reply of the action API. Raises Again for lag and rate limits, UnknownId, CredentialsError, BadArguments."""
    check_status(reply)
    if reply.status != 200:
        raise ServiceError(f"{place(reply)} answers {reply.status}: {one_line(reply.text)}")
    body = read_json(reply)
    if not isinstance(body, dict):
        raise BadResponse(f"{place(reply)} answers with {type(body).__name__} where an object is promised")
    error = body.get("error")
    if not error and isinstance(body.get("errors"), list) and body["errors"]:
        error = body["errors"][0]
    if error:
        _raise_api_error(reply, error if isinstance(error, dict) else {"info": str(error)})
    return body


def _raise_api_error(reply: Reply, error: Mapping[str, Any]) -> None:
    code = str(error.get("code", "unknown"))
    info = one_line(str(error.get("info") or error.get("text") or error.get("html") or error.get("*") or ""))
    where = place(reply)
    if code == "maxlag":
        raise Again(Lagged(f"{where} is lagged: {info}"), retry_after(reply) or 5.0)
    if code in _LATER_CODES or code.startswith("internal_api_error"):
        raise Again(ServiceError(f"{where}: {code}: {info}"), retry_after(reply))
    if code in ("no-such-entity", "no-such-entity-link", "unknown-entity"):
        raise UnknownId(info or "no such entity")
    if code.startswith("mwoauth-"):
        raise CredentialsError(f"{where} does not take the access token: {code}: {info}; check access_token")
    if code in _LOGIN_CODES:
        raise CredentialsError(f"{where} refuses the request: {code}: {info}")
    if _ARGUMENT_CODES.match(code):
        raise BadArguments(f"{where} does not take the arguments: {code}: {info}")
    raise ServiceError(f"{where}: {code}: {info}")


def siteinfo(reply: Reply) -> Mapping[str, Any] | None:
    """What a MediaWiki says of itself, ``general`` among it; None where the reply is none of its action API's.

    Raises as ``read_api``.
    """
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
