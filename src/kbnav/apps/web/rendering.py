"""Pages and refusals in each reader's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from kbnav.apps.texts import FIRST, Texts, books, number_text
from kbnav.errors import (
    Busy,
    DamagedKB,
    DatabaseAway,
    KbnavError,
    LimitReached,
    NotAnswering,
    NotOffered,
    Overdue,
    QuerySyntaxError,
    QueryTimeout,
    ServiceError,
    Stopped,
    TooBusy,
    UnknownId,
)

HERE = Path(__file__).parent
"""Where templates, texts and static files are."""
COOKIE = "kbnav_language"
"""What a reader chose on the page; without it, what the browser asks for counts."""
MOST_FIELDS = 1_000
"""Of a form."""
TOLD = 20
"""Problems of one request that are told."""
_ASKED = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?")
_STATUS: tuple[tuple[type[KbnavError] | tuple[type[KbnavError], ...], int], ...] = (
    ((NotOffered, UnknownId), 404),
    ((Busy, Stopped), 409),
    ((TooBusy, NotAnswering, DatabaseAway, DamagedKB), 503),
    (LimitReached, 429),
    ((Overdue, QueryTimeout), 504),
    (ServiceError, 502),
    (KbnavError, 422),
)
"""Of an error, the first that fits: the caller's to mend, or a service's."""
_MISSING = {
    "s": ("problem.s", "problem.s_why"),
    "share": ("problem.share", "problem.share_why"),
    "entry": ("problem.entry", "problem.entry_why"),
    "explore": ("problem.entry", "problem.entry_why"),
}
"""What to say where there is nothing, by the first part of the path."""


def cookie_value(headers: Headers, name: str) -> str:
    """The value of a cookie; empty where there is none."""
    pairs = (one.partition("=") for one in headers.get("cookie", "").split(";"))
    return next((value.strip().strip('"') for key, _, value in pairs if key.strip() == name), "")


async def form_of(request: Request) -> Mapping[str, list[str]]:
    """The fields of a form that was sent. Raises HTTPException where there are too many."""
    try:
        return parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(422, f"a form of more than {MOST_FIELDS} fields") from error


def language_of(headers: Headers) -> str:
    """The language to speak to a reader: the one chosen, else the first that the browser asks for, else English."""
    if (chosen := cookie_value(headers, COOKIE)) in books():
        return chosen
    asked = [found for one in headers.get("accept-language", "").split(",") if (found := _ASKED.fullmatch(one))]
    wanted = sorted(asked, key=lambda one: -float(one[2] or 1))
    return next((code for one in wanted if (code := one[1].lower()) in books() and one[2] != "0"), FIRST)


@cache
def _environment() -> Environment:
    templates = FileSystemLoader(HERE / "templates")
    environment = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = number_text
    return environment


def page(request: Request, name: str, status: int = 200, /, **values: object) -> HTMLResponse:
    """A page rendered in the reader's language; whatever is put into it is escaped."""
    texts, theme = Texts(language_of(request.headers)), cookie_value(request.headers, "kbnav_theme")
    text = _environment().get_template(name).render(t=texts, theme=theme, **values)
    return HTMLResponse(text, status, {"Vary": "Accept, Accept-Language, Cookie"})


def refusal(request: Request, status: int, why: str, **more: Any) -> Response:
    """What is refused or went wrong: a page to people, a line of JSON, with ``more`` in it, to programs."""
    path = request.url.path
    headers = {"Retry-After": "5"} if status == 503 else {}
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        document: dict[str, Any] = {"detail": why}
        if path.startswith("/v1"):  # OpenAI's form
            kind = "invalid_request_error" if status < 500 else "server_error"
            document = {"error": {"message": why, "type": kind, "param": None, "code": None}}
        return JSONResponse({**document, **more}, status, headers)
    missing = _MISSING.get(path.split("/")[1], ("problem.page", "problem.page_why"))
    head, body = missing if status == 404 else ("problem.other", "problem.other_why")
    found = page(request, "problem.html", status, head=head, body=body, why=why)
    found.headers.update(headers)
    return found


def add_refusals(app: FastAPI) -> None:
    """Let an application answer to errors in this way, without the secrets that ``app.state.parts.hide`` knows."""

    def answer(request: Request, status: int, why: str, **more: int) -> Response:
        return refusal(request, status, request.app.state.parts.hide.hidden(why), **more)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return answer(request, error.status_code, str(error.detail))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        lines = [f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in error.errors()[:TOLD]]
        return answer(request, 422, "; ".join(lines)[:2_000])

    async def went_wrong(request: Request, error: Exception) -> Response:
        place = {"line": error.line, "column": error.column} if isinstance(error, QuerySyntaxError) else {}
        return answer(request, next(status for kind, status in _STATUS if isinstance(error, kind)), str(error), **place)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(KbnavError, went_wrong)
