"""What is answered where something was refused or went wrong: a page to people, a line of JSON to programs."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from kbnav.apps.secrets import Secrets
from kbnav.apps.web.rendering import refusal
from kbnav.errors import (
    Busy,
    DamagedKB,
    KbnavError,
    LimitReached,
    NotAnswering,
    NotOffered,
    Overdue,
    QuerySyntaxError,
    ServiceError,
    Stopped,
)

_STATUS = (
    (NotOffered, 404),
    (Busy, 409),
    (Stopped, 409),
    (LimitReached, 429),
    (NotAnswering, 503),
    (DamagedKB, 503),
    (Overdue, 504),
    (ServiceError, 502),
    (KbnavError, 422),
)
"""Of an error, the first that fits: the caller's to mend, or a service's."""


def add_refusals(app: FastAPI) -> None:
    """Let an application answer to errors in this way."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(KbnavError, _went_wrong)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _answer(request, status, str(error.detail) if isinstance(error, HTTPException) else "")


async def _invalid(request: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    lines = [f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in found]
    return _answer(request, 422, "; ".join(lines))


async def _went_wrong(request: Request, error: Exception) -> Response:
    place = {"line": error.line, "column": error.column} if isinstance(error, QuerySyntaxError) else {}
    return _answer(request, next(status for kind, status in _STATUS if isinstance(error, kind)), str(error), **place)


def _answer(request: Request, status: int, why: str, **more: int) -> Response:
    hide: Secrets = request.app.state.parts.hide
    return refusal(request, status, hide.hidden(why), **more)
