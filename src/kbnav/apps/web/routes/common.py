"""What routes are given: the server's parts, who asks, and what is theirs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from kbnav.apps.web.runner import Runner
from kbnav.apps.web.security import Visitor
from kbnav.apps.web.store import Session, StoredRun
from kbnav.apps.web.texts import language_of
from kbnav.errors import Overdue, UnknownId

if TYPE_CHECKING:
    from kbnav.apps.web.parts import Base, Parts

T = TypeVar("T")


# Coroutines, because FastAPI has plain functions called in another thread, for each request.
async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


async def _visitor(request: Request) -> Visitor:
    visitor: Visitor | None = request.state.visitor
    if visitor is None:
        raise HTTPException(401, "log in first")
    return visitor


async def _language(request: Request) -> str:
    return language_of(request.headers)


PartsOf = Annotated[Any, Depends(_parts)]
RunnerOf = Annotated[Any, Depends(_runner)]
VisitorOf = Annotated[Any, Depends(_visitor)]
LanguageOf = Annotated[str, Depends(_language)]
"""The language of the page that a request is for."""


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
    line: int | None = Field(None, description="Of a query that cannot be read, where it goes wrong, from 1 on.")
    column: int | None = None


REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "Nobody is logged in."},
    404: {"model": Problem, "description": "There is none, or it is another's."},
    409: {"model": Problem, "description": "Not now: the session is at another question, or the run has not ended."},
    422: {"model": Problem, "description": "The request is not as described, or cannot be done."},
    429: {"model": Problem, "description": "A limit is reached."},
    502: {"model": Problem, "description": "A service that is needed failed."},
    503: {"model": Problem, "description": "The server is shutting down."},
}
"""What every route may answer instead."""


def own_session(parts: Parts, visitor: Visitor, session_id: str) -> Session:
    """A session of the visitor's. Raises HTTPException, the same for another's as for none."""
    session = parts.store.session(session_id)
    if session is None or session.owner != visitor.owner:
        raise HTTPException(404, "you have no such session")
    return session


def own_run(parts: Parts, visitor: Visitor, run_id: str) -> StoredRun:
    """A run of the visitor's. Raises HTTPException, the same for another's as for none."""
    run = parts.store.run(run_id)
    if run is None or run.owner != visitor.owner:
        raise HTTPException(404, "you have no such run")
    return run


def reader_of(request: Request) -> str:
    """Who reads what is shared; all who are not logged in are one."""
    visitor: Visitor | None = request.state.visitor
    return visitor.owner if visitor else "readers"


async def looked_up(request: Request, parts: Base, visitor: Visitor, kb: str, look: Callable[[], T]) -> T:
    """What somebody who reads a page sees in a knowledge base, in their turn.

    Raises HTTPException where it has no such entity, Overdue, and as ``look``.
    """
    served, web = parts.service.kb(kb), parts.settings.web
    turn = {"gone": request.is_disconnected, "wait": web.wait_seconds, "refuse": served.guard.refuse}

    def watched() -> T:
        with served.guard.watching():
            return look()

    try:
        return await parts.service.pages.run(visitor.owner, kb, watched, seconds=web.page_seconds, **turn)  # type: ignore[arg-type]
    except UnknownId as error:
        raise HTTPException(404, str(error)) from error
    except Overdue as error:
        served.guard.failed()
        raise Overdue(f"the knowledge base {kb} does not answer: {error}") from error


def sse(events: AsyncIterator[str]) -> StreamingResponse:
    """A stream of server-sent events that no proxy may hold back."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def sse_event(data: Mapping[str, Any] | str, number: int | None = None) -> str:
    """One event; JSON has no line breaks."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"id: {number}\ndata: {text}\n\n" if number is not None else f"data: {text}\n\n"


async def finished(runner: Runner, run: StoredRun, request: Request) -> dict[str, Any]:
    """A run's answer; a client that hangs up meanwhile stops the run."""
    async with aclosing(runner.ending(run.id)) as news:
        async for answer in news:
            if answer is not None:
                return answer
            if await request.is_disconnected():
                runner.stop_soon(run)
    raise HTTPException(503, "the server is shutting down")
