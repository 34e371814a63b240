"""Templates as pages in the language of whoever asks for them."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kbnav.apps.web.parts import HERE
from kbnav.apps.web.said import said
from kbnav.apps.web.texts import FIRST, Texts, language_of, shown


@cache
def _environment() -> Environment:
    templates = FileSystemLoader(HERE / "templates")
    environment = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = shown
    return environment


_MISSING = {
    "s": ("problem.s", "problem.s_why"),
    "share": ("problem.share", "problem.share_why"),
    "entry": ("problem.entry", "problem.entry_why"),
    "explore": ("problem.entry", "problem.entry_why"),
}
"""What to say where there is nothing, by the first part of the path."""


def refusal(request: Request, status: int, why: str, **more: Any) -> Response:
    """What is answered to what is refused or went wrong: a page to people, a line of JSON to programs.

    Both say why in the language that is asked for; ``more`` is for programs.
    """
    path, language = request.url.path, language_of(request.headers)
    told = said(why, language)
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({**problem(path, status, told), **more}, status)
    missing = _MISSING.get(path.split("/")[1], ("problem.page", "problem.page_why"))
    head, body = missing if status == 404 else ("problem.other", "problem.other_why")
    spoken = language if told != why else FIRST
    return page(request, "problem.html", status, head=head, body=body, why=told, spoken=spoken)


def problem(path: str, status: int, why: str) -> dict[str, Any]:
    """An error as the API that was called writes it."""
    if path.startswith("/v1"):
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": why, "type": kind, "param": None, "code": None}}
    return {"detail": why}


def page(request: Request, name: str, status: int = 200, /, **values: object) -> HTMLResponse:
    """A page rendered in the language of who asks for it; whatever is put into it is escaped."""
    texts = Texts(language_of(request.headers))
    text = _environment().get_template(name).render(t=texts, **values)
    return HTMLResponse(text, status, {"Vary": "Accept, Accept-Language, Cookie"})
