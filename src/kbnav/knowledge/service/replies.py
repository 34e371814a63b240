"""What a service's answer means: data, or one of kbnav's errors. Pure functions over ``Reply``.

This page has what all services share; ``query_replies`` has query services, ``wikidata/replies.py`` the action API.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kbnav.errors import BadResponse, Banned, CredentialsError, ServiceError
from kbnav.knowledge.service.exchange import Again, Reply
from kbnav.knowledge.service.redirects import host_of

_HTML = re.compile(rb"^\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)
_RETRY_IN = re.compile(r"retry in (\d+) second", re.IGNORECASE)
_BAN = re.compile(r"\bbanned\b|\bblocked until\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_AGENT = re.compile(r"user.?agent|robot policy", re.IGNORECASE)


def check_status(reply: Reply) -> None:
    """Raise for a status that means the same at every service: 401, 403, 429 and 5xx; others pass."""
    where = place(reply)
    if reply.status == 429:
        seconds = retry_after(reply)
        raise Again(ServiceError(f"{where} answers 429, too many requests"), seconds)
    if reply.status == 403 and _BAN.search(reply.text):
        raise Banned(f"{where} has banned this client: {one_line(reply.text)}")
    if reply.status in (401, 403):
        hint = "set contact to a real address" if _AGENT.search(reply.text) else "check the credentials and the address"
        raise CredentialsError(f"{where} refuses access ({reply.status}: {one_line(reply.text)}); {hint}")
    if reply.status >= 500:
        raise Again(ServiceError(f"{where} fails with {reply.status}: {one_line(reply.text)}"), retry_after(reply))


def retry_after(reply: Reply, *, now: datetime | None = None) -> float | None:
    """Seconds to wait: from the header (seconds or a date) or, as the query service puts it, from the HTML text."""
    header = reply.headers.get("retry-after", "").strip()
    if header.isdecimal():
        return float(header)
    if header:
        try:
            when = parsedate_to_datetime(header)
        except ValueError:
            return None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    text = _RETRY_IN.search(reply.text[:5000])
    return float(text.group(1)) if text else None


def read_json(reply: Reply) -> Any:
    """The JSON body. Raises BadResponse for HTML, for JSON that is cut off, and for anything else."""
    where = place(reply)
    if _HTML.match(reply.body[:500]):
        raise BadResponse(f"{where} answers with a web page where JSON is promised: {one_line(reply.text)}")
    try:
        return json.loads(reply.body.decode("utf-8-sig"), strict=False)
    except (ValueError, RecursionError) as error:
        kind = "cut off" if _cut_off(reply.body, error) else "not JSON"
        sent = f", {reply.content_type}" if reply.content_type else ""
        raise BadResponse(f"{where} answers with a body that is {kind} ({len(reply.body)} bytes{sent})") from error


def place(reply: Reply) -> str:
    """The host that answered, for messages."""
    return host_of(reply.url) or "the service"


def one_line(text: str, *, limit: int = 200) -> str:
    """The start of a text in one line: a web page by its title, tags and runs of blanks dropped."""
    title = _TITLE.search(text)
    plain = _TAG.sub(" ", title.group(1) if title else text)
    line = " ".join(plain.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _cut_off(body: bytes, error: Exception) -> bool:
    """Whether the JSON begins well and ends too early."""
    if isinstance(error, UnicodeDecodeError):
        return error.end >= len(body)
    text = body.decode("utf-8-sig", "replace").strip()
    return text[:1] in ("{", "[") and (not text.endswith(("}", "]")) or text.count("{") > text.count("}"))
