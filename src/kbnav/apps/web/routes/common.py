"""What routes are given: the server's parts, who asks, what is theirs, and work in their turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from kbnav.apps.secrets import Secrets
from kbnav.apps.web.auth import Visitor
from kbnav.apps.web.queue import RunQueue
from kbnav.apps.web.service import Served, Service
from kbnav.apps.web.store import AWAY, Session, Store, StoredRun
from kbnav.errors import DatabaseAway, Overdue
from kbnav.knowledge.skb.kb import as_skb
from kbnav.settings.model import Settings
from kbnav.settings.systems import SystemEntry

T = TypeVar("T")


@dataclass(frozen=True)
class Parts:
    """What routes work with that only look things up."""

    settings: Settings
    service: Service
    hide: Secrets


@dataclass(frozen=True)
class ChatParts(Parts):
    """What the routes of the chat page work with."""

    store: Store
    queue: RunQueue


# Coroutines, because FastAPI has plain functions called in another thread, for each request.
async def _parts(request: Request) -> Any:
    return request.app.state.parts


async def _visitor(request: Request) -> Visitor:
    visitor: Visitor | None = request.state.visitor
    if visitor is None:
        raise HTTPException(401, "log in first")
    return visitor


PartsOf = Annotated[Parts, Depends(_parts)]
ChatOf = Annotated[ChatParts, Depends(_parts)]
LOGGED_IN = Depends(_visitor)
VisitorOf = Annotated[Visitor, LOGGED_IN]
Language = Annotated[str, Query(max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")]


class Body(BaseModel):
    """What is sent; a misspelled field is an error."""

    model_config = ConfigDict(extra="forbid")


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
    503: {"model": Problem, "description": "A knowledge base is out of service."},
}
"""What every route may answer instead."""


def own_session(session_id: str, parts: ChatOf, visitor: VisitorOf) -> Session:
    """A session of the visitor's. Raises HTTPException, the same for another's as for none."""
    session = parts.store.session(session_id)
    if session is None or session.owner not in visitor.owners:
        raise HTTPException(404, "you have no such session")
    return session


def own_run(run_id: str, parts: ChatOf, visitor: VisitorOf) -> StoredRun:
    """A run of the visitor's. Raises HTTPException, the same for another's as for none."""
    run = parts.store.run(run_id)
    if run is None or run.owner not in visitor.owners:
        raise HTTPException(404, "you have no such run")
    return run


def shared_run(share_id: str, parts: ChatOf) -> StoredRun:
    """The run that a link shares. Raises HTTPException."""
    run = parts.store.shared(share_id)
    if run is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return run


OwnSession = Annotated[Session, Depends(own_session)]
OwnRun = Annotated[StoredRun, Depends(own_run)]
SharedRun = Annotated[StoredRun, Depends(shared_run)]


def offered(parts: ChatParts, visitor: Visitor | None, kb: str = "") -> dict[str, Any]:
    """What can be asked: all knowledge bases, or one, with what is known of each and its systems; models; by whom."""
    service = parts.service
    kbs = [_offered_kb(one, service.systems(one)) for one in service.kbs.values() if kb in ("", one.key)]
    return {"kbs": kbs, "models": service.models, "user": visitor.name if visitor else ""}


def _offered_kb(served: Served, systems: Sequence[SystemEntry]) -> dict[str, Any]:
    mirror, title = (state := served.kb.state()).get("mirror", {}), served.settings.source.title or served.key
    return {
        "key": served.key,
        "systems": [one.name for one in systems],
        "about": [{"name": one.name, "about": one.about, "needs": one.needs, "uses": one.uses} for one in systems],
        "rankings": [one.name for one in systems if one.kind == "retriever"],
        "name": "Wikidata" if served.link("Q1").startswith("https://www.wikidata.org/") else title,
        "explore": served.explore() if served.is_skb else "",
        "types": as_skb(served.kb, "the page").skb.type_names if served.is_skb else (),
        **{size: mirror.get(size) or state.get(size, 0) for size in ("entities", "triples", "nodes", "edges")},
        "taken": mirror.get("newest", "")[:10],
        "seconds": served.settings.limits.query_timeout,
    }


def reader_of(request: Request) -> str:
    """The owner of work on what is shared; all who are not logged in are one."""
    visitor: Visitor | None = request.state.visitor
    return visitor.owner if visitor else "readers"


async def look_up(
    request: Request, parts: Parts, owner: str, served: Served, look: Callable[[], T], seconds: float | None = None
) -> T:
    """What ``look`` sees in a knowledge base, in its owner's turn, in so many ``seconds``.

    Without them it has those of a page, and a knowledge base that takes longer counts as failing.
    Raises LimitReached, NotAnswering, Stopped, Overdue, and as ``look``.
    """

    def watched() -> T:
        with served.breaker.watching():
            return look()

    try:
        return await parts.service.pages.run(
            owner, served.key, watched, gone=request.is_disconnected, seconds=seconds or parts.service.page_seconds,
            refuse=served.breaker.refuse,
        )  # fmt: skip
    except Overdue as error:
        if seconds is not None:
            raise
        served.breaker.failed()
        raise Overdue(f"the knowledge base {served.key} does not answer: {error}") from error


def sse(events: AsyncIterator[str]) -> StreamingResponse:
    """A stream of server-sent events that no proxy may hold back."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def sse_event(data: Mapping[str, Any] | str, number: int | None = None) -> str:
    """One event; JSON has no line breaks."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"id: {number}\ndata: {text}\n\n" if number is not None else f"data: {text}\n\n"


async def finished(queue: RunQueue, run: StoredRun, request: Request) -> dict[str, Any]:
    """A run's answer; a client that hangs up meanwhile stops the run. Raises DatabaseAway."""
    async with aclosing(queue.follow(run.id)) as following:
        async for events in following:
            if events and events[-1].data["kind"] == "end":
                answer: dict[str, Any] = events[-1].data["answer"]
                if answer.get("note") == AWAY:
                    raise DatabaseAway(AWAY)
                return answer
            if await request.is_disconnected():
                queue.stop_soon(run)
    raise HTTPException(409, "the question was deleted")
