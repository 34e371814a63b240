"""What pages for people who write or judge questions share: the name that somebody goes by."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, unquote

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

COOKIE = "kbnav_name"
LONGEST_NAME = 60
_AGE = 30 * 24 * 3600


async def _who(request: Request) -> str:
    """The name of who is logged in, else the one that was chosen; empty where none was."""
    visitor: Any = request.state.visitor
    if visitor is not None and visitor.name:
        return str(visitor.name)
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return unquote(found.value)[:LONGEST_NAME].strip() if found else ""


WhoOf = Annotated[str, Depends(_who)]


async def form_of(request: Request) -> Mapping[str, list[str]]:
    """The fields of a form that was sent."""
    return parse_qs((await request.body()).decode("utf-8", "replace"))


def one(form: Mapping[str, list[str]], name: str) -> str:
    """A field of a form, empty where it was not given."""
    return form.get(name, [""])[0].strip()


async def take_name(request: Request) -> Response:
    """Keep the name that somebody chose in their browser."""
    name = " ".join(one(await form_of(request), "name").split())[:LONGEST_NAME]
    response = RedirectResponse("/", 303)
    marks = "; Secure" if request.state.secure else ""
    kept = f"{COOKIE}={quote(name, safe='')}; Path=/; Max-Age={_AGE}; HttpOnly; SameSite=Lax{marks}"
    response.headers.append("Set-Cookie", kept)
    return response
