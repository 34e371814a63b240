"""The REST API of sessions, questions and answers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from kbnav.answers.question import LONGEST_QUESTION
from kbnav.answers.tables import encodable
from kbnav.apps.bot.wikitext import reply_text
from kbnav.apps.sharing import shared_page
from kbnav.apps.web.auth import NOBODY
from kbnav.apps.web.downloads import SESSION_MEDIA, SessionForm, attachment
from kbnav.apps.web.routes.common import (
    REFUSALS,
    Body,
    ChatOf,
    ChatParts,
    OwnRun,
    OwnSession,
    SharedRun,
    VisitorOf,
    finished,
    offered,
    sse,
    sse_event,
)
from kbnav.apps.web.store import Session, Status, StoredRun
from kbnav.errors import DataError, KbnavError

router = APIRouter(prefix="/api", responses=REFUSALS)
EXPORT_SECONDS = 60.0
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for kind in SESSION_MEDIA.values()}}
}


class Choice(Body):
    """What is asked, left open for the first of each."""

    kb: str = Field("", max_length=200)
    system: str = Field("", max_length=200)
    model: str = Field("", max_length=200)


class Question(Body):
    """A question, in any language."""

    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)


class Next(Question):
    """The next question of a session; another system or model may answer it, which knows the earlier ones too."""

    system: str = Field("", max_length=200)
    model: str = Field("", max_length=200)


class SingleQuestion(Choice, Question):
    """A question without a session."""


class Beginning(Choice):
    """A session, with its first question where one is asked at once."""

    question: str = Field("", max_length=LONGEST_QUESTION)


class Title(Body):
    """What a session is called."""

    title: str = Field(min_length=1, max_length=200)


class SessionData(BaseModel):
    """A session; ``title`` is its first question."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    kb: str
    system: str
    model: str
    title: str
    made: float


class RunData(BaseModel):
    """A question, how far it is, what happened, and the answer once there is one; ``before``: how many come first.

    ``made``, ``now`` and ``at`` of an event are seconds by the server's clock.
    """

    id: str
    session: str
    kb: str
    system: str
    model: str
    question: str
    status: Status
    made: float
    now: float = Field(default_factory=time.time)
    events: list[dict[str, Any]]
    answer: dict[str, Any] | None
    share: str | None = None
    before: int = 0


class SessionPage(SessionData):
    """A session with its questions, oldest first."""

    runs: list[RunData]


def _run_data(parts: ChatParts, run: StoredRun, before: int = 0) -> RunData:
    events = [{"id": event.number, **event.data} for event in parts.store.events(run.id)]
    return RunData(**{**vars(run), "events": events, "before": before})


@router.get("/options")
def options(parts: ChatOf, visitor: VisitorOf) -> dict[str, Any]:
    """Knowledge bases, systems and models to choose from; of a system what it does, needs and is better with."""
    return offered(parts, visitor)


@router.post("/ask")
async def ask(asked: SingleQuestion, request: Request, parts: ChatOf, visitor: VisitorOf) -> dict[str, Any]:
    """Ask one question and wait for the answer. Hanging up stops it."""
    choice = parts.service.chosen(asked.kb, asked.system, asked.model)
    run = await asyncio.to_thread(parts.queue.ask, visitor.owner, asked.question, choice)
    return await finished(parts.queue, run, request)


@router.get("/sessions")
def sessions(parts: ChatOf, visitor: VisitorOf, find: Annotated[str, Query(max_length=200)] = "") -> list[SessionData]:
    """One's own sessions, newest first, or those with ``find`` in a question or answer; none without a cookie."""
    own = [] if visitor is NOBODY else parts.store.sessions(visitor.owner)
    found = parts.store.sessions_with(visitor.owner, find) if own and find else {one.id for one in own}
    return [SessionData.model_validate(one) for one in own if one.id in found]


@router.post("/sessions", status_code=201)
async def new_session(begun: Beginning, parts: ChatOf, visitor: VisitorOf) -> SessionPage:
    """Begin a session with one system on one knowledge base, by its first question if one is given."""
    chosen = parts.service.chosen(begun.kb, begun.system, begun.model)

    def begin() -> SessionPage:
        session = parts.store.add_session(visitor.owner, *chosen)
        if not begun.question:
            return SessionPage(**vars(session), runs=[])
        try:
            run = parts.queue.ask(visitor.owner, begun.question, chosen, session=session.id)
        except KbnavError:
            parts.queue.delete(session)
            raise
        named = parts.store.session(session.id) or session
        return SessionPage(**vars(named), runs=[RunData(**vars(run), events=[])])

    return await asyncio.to_thread(begin)


@router.get("/sessions/{session_id}")
def session(found: OwnSession, parts: ChatOf) -> SessionPage:
    """A session with everything that happened in it."""
    return _session_page(parts, found)


def _session_page(parts: ChatParts, session: Session) -> SessionPage:
    runs = [_run_data(parts, run) for run in parts.store.runs(session.id)]
    return SessionPage(**SessionData.model_validate(session).model_dump(), runs=runs)


@router.patch("/sessions/{session_id}")
def rename(found: OwnSession, given: Title, parts: ChatOf) -> SessionData:
    """Call a session something else than its first question."""
    title = " ".join(encodable(given.title).replace("\x00", "").split()) or found.title
    parts.store.rename(found.id, title)
    return SessionData.model_validate(replace(found, title=title))


@router.delete("/sessions/{session_id}", status_code=204, response_class=Response)
def delete_session(found: OwnSession, parts: ChatOf) -> None:
    """Delete a session; a question under way is stopped."""
    parts.queue.delete(found)


@router.get("/sessions/{session_id}/{form}", responses=_FILES)
async def export(found: OwnSession, form: SessionForm, request: Request, parts: ChatOf) -> Response:
    """A session as a file: all of it as JSON, one page of HTML that fetches nothing, or its replies as wikitext."""
    text = await parts.service.exports.run(
        found.owner, "", partial(_exported, parts, found, form), gone=request.is_disconnected, seconds=EXPORT_SECONDS
    )
    headers = {"Content-Disposition": attachment(found.title, form)}
    return Response(text, media_type=SESSION_MEDIA[form], headers=headers)


def _exported(parts: ChatParts, found: Session, form: SessionForm) -> bytes:
    if form == "json":
        text = _session_page(parts, found).model_dump_json(indent=1, exclude={"runs": {"__all__": {"now"}}})
    else:
        runs = parts.store.runs(found.id)
        saved = [parts.store.saved(run.answer["run"]) for run in runs if run.answer and run.answer.get("run")]
        kept = [record for record in saved if record]
        if not kept:
            raise HTTPException(404, "no answer of this session is kept any more")
        if form == "html":
            text = shared_page([(record, None) for record in kept], parts.settings.endpoints.query_page)
        else:
            text = "\n".join(reply_text(record, parts.settings, alone=True) for record in kept)
        text = parts.hide.hidden(text)
    return text.encode("utf-8", "replace")


@router.post("/sessions/{session_id}/questions", status_code=202)
async def ask_next(found: OwnSession, asked: Next, parts: ChatOf) -> RunData:
    """Ask the next question of a session; it knows the earlier ones."""
    choice = parts.service.chosen(found.kb, asked.system or found.system, asked.model or found.model)
    run = await asyncio.to_thread(parts.queue.ask, found.owner, asked.question, choice, session=found.id)
    return RunData(**vars(run), events=[])


@router.get("/runs/{run_id}")
def run(found: OwnRun, parts: ChatOf) -> RunData:
    """A question with everything that happened so far."""
    return _run_data(parts, found, parts.queue.before(found.id))


@router.get(
    "/runs/{run_id}/events",
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
    response_class=StreamingResponse,
)
async def events(
    found: OwnRun,
    parts: ChatOf,
    after: Annotated[int, Query(ge=0, le=1 << 31)] = 0,
    last_event_id: Annotated[str, Header(max_length=20, pattern=r"^[0-9]{0,9}$")] = "",
) -> Response:
    """What happens, as it happens, up to the event ``end``: from the beginning, or behind an event's number.

    Two have no number: ``waiting`` says now and then how many questions come first, ``draft`` what a model is writing.
    Told as it happens, ``end`` has the first ``rows`` of a result as well, unless their labels must be looked up.

    ``Last-Event-ID``, which browsers send when they connect again, wins over ``after``.
    """

    async def stream() -> AsyncIterator[str]:
        text = "retry: 500\n\n"
        try:
            async with aclosing(parts.queue.follow(found.id, int(last_event_id or after))) as following:
                async for events in following:
                    text += "".join(sse_event(event.data, event.number or None) for event in events)
                    if not events:
                        before = parts.queue.before(found.id)
                        text += sse_event({"kind": "waiting", "before": before}) if before else ": waiting\n\n"
                    yield text
                    text = ""
        except DataError as error:
            yield sse_event({"kind": "end", "status": "failed", "answer": {"status": "failed", "note": str(error)}})

    return sse(stream())


@router.post("/runs/{run_id}/stop", status_code=204, response_class=Response)
def stop(found: OwnRun, parts: ChatOf) -> None:
    """End a run at once, also in the middle of a model's call."""
    parts.queue.stop(found)


@router.post("/runs/{run_id}/share")
def share(found: OwnRun, parts: ChatOf) -> dict[str, str]:
    """Make an unguessable link by which anybody who reaches this server can read the run."""
    if found.under_way:
        raise HTTPException(409, "it can be shared once it has ended")
    link = found.share or secrets.token_urlsafe(12)
    parts.store.share(found.id, link)
    return {"share": link, "path": f"/share/{link}"}


@router.delete("/runs/{run_id}/share", status_code=204, response_class=Response)
def unshare(found: OwnRun, parts: ChatOf) -> None:
    """Take the link back."""
    parts.store.share(found.id, None)


@router.get("/shared/{share_id}")
def shared(found: SharedRun, parts: ChatOf) -> RunData:
    """A run that is shared, without what is its owner's alone: ids of the run, its session and its results."""
    data, share = _run_data(parts, found), found.share or ""

    def hidden(answer: Any) -> dict[str, Any] | None:
        if not isinstance(answer, dict):  # somebody else has changed what is kept
            return None
        result = answer.get("result")
        return {**answer, "run": "", "result": {**result, "id": share} if isinstance(result, dict) else None}

    events = [{**one, "answer": hidden(one["answer"])} if "answer" in one else one for one in data.events]
    return data.model_copy(update={"id": share, "session": "", "events": events, "answer": hidden(data.answer)})
