"""The REST API of sessions, questions and answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from kbnav.answers.question import LONGEST_QUESTION
from kbnav.answers.tables import encodable
from kbnav.apps.web.routes.common import (
    REFUSALS,
    LanguageOf,
    PartsOf,
    RunnerOf,
    VisitorOf,
    finished,
    own_run,
    own_session,
    sse,
    sse_event,
)
from kbnav.apps.web.said import answer_said
from kbnav.apps.web.security import NOBODY
from kbnav.apps.web.store import Session, StoredRun, unguessable
from kbnav.errors import DataError
from kbnav.settings.systems import Need, SystemEntry

router = APIRouter(prefix="/api", responses=REFUSALS)


class Body(BaseModel):
    """What is sent; a misspelled field is an error."""

    model_config = ConfigDict(extra="forbid")


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


class Asked(Choice, Question):
    """A question without a session."""


class Opinion(Body):
    """What a reader thinks of an answer."""

    thumb: Literal["up", "down", ""]
    note: str = Field("", max_length=2000)


class SessionData(BaseModel):
    """A session; ``title`` is its first question."""

    id: str
    kb: str
    system: str
    model: str
    title: str
    made: float


class RunData(BaseModel):
    """A question, how far it is, what happened, and the answer once there is one; ``before``: how many come first.

    ``made``, ``now`` and ``at`` of an event are seconds by the server's clock.
    ``edited`` is the answer's query as its reader changed and ran it last, as ``POST /api/queries`` gave it.
    """

    id: str
    session: str
    kb: str
    system: str
    model: str
    question: str
    status: Literal["queued", "running", "done", "failed", "stopped"]
    made: float
    now: float = Field(default_factory=time.time)
    events: list[dict[str, Any]]
    answer: dict[str, Any] | None
    edited: dict[str, Any] | None = None
    thumb: str = ""
    note: str = ""
    share: str | None = None
    before: int = 0


class SessionPage(SessionData):
    """A session with its questions, oldest first."""

    runs: list[RunData]


class SystemData(BaseModel):
    """A system: its name, one line of what it does, what it needs and what it is better with."""

    name: str
    about: str
    needs: list[Need]
    uses: list[Need]


class Offered(BaseModel):
    """A knowledge base, and the systems that answer questions of it."""

    key: str
    systems: list[str]
    about: list[SystemData]


class Options(BaseModel):
    """What can be chosen."""

    kbs: list[Offered]
    models: list[str]
    user: str


class Shared(BaseModel):
    """The address of a run that is shared, to be read only."""

    share: str
    path: str


def session_data(session: Session) -> SessionData:
    """A session for its owner."""
    return SessionData(
        id=session.id, kb=session.kb, system=session.system, model=session.model, title=session.title, made=session.made
    )


def run_data(parts: Any, run: StoredRun, language: str, *, shared: bool = False, before: int = 0) -> RunData:
    """A run for its owner, or for those it is shared with, its notes in the reader's language.

    ``before`` are the questions whose turn comes first.
    """
    share = run.share if shared else None
    thumb, note = ("", "") if share else parts.store.opinions.of(run.id)
    return RunData(
        id=share or run.id,
        session="" if share else run.session,
        kb=run.kb,
        system=run.system,
        model=run.model,
        question=run.question,
        status=run.status,
        made=run.made,
        events=[{"id": event.number, **_event(event.data, share, language)} for event in parts.store.events(run.id)],
        answer=_answer(run.answer, share, language) if run.answer else None,
        edited=_edited(parts.store.edits.of(run.id), share),
        thumb=thumb,
        note=note,
        share=run.share,
        before=before,
    )


def _event(data: Mapping[str, Any], share: str | None, language: str) -> dict[str, Any]:
    """An event; the last one holds the answer."""
    ends = data.get("kind") == "end"
    return {**data, "answer": _answer(data["answer"], share, language)} if ends else dict(data)


def _answer(answer: Mapping[str, Any], share: str | None, language: str) -> dict[str, Any]:
    """An answer; one that is shared names neither its run nor its result, whose ids are the owner's."""
    answer = answer_said(answer, language)
    if share is None:
        return answer
    result = answer.get("result")
    return {**answer, "run": "", "result": {**result, "id": share} if result else None}


def _edited(edited: dict[str, Any] | None, share: str | None) -> dict[str, Any] | None:
    return {**edited, "result": {**edited["result"], "id": share}} if edited and share else edited


def _offered(key: str, systems: Sequence[SystemEntry]) -> Offered:
    about = [SystemData(name=one.name, about=one.about, needs=list(one.needs), uses=list(one.uses)) for one in systems]
    return Offered(key=key, systems=[one.name for one in systems], about=about)


@router.get("/options")
def options(parts: PartsOf, visitor: VisitorOf) -> Options:
    """Knowledge bases, systems and models to choose from."""
    service = parts.service
    return Options(
        kbs=[_offered(kb.key, service.systems(kb)) for kb in service.kbs.values()],
        models=list(service.models),
        user=visitor.name,
    )


@router.post("/ask")
async def ask(asked: Asked, request: Request, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf) -> dict[str, Any]:
    """Ask one question and wait for the answer. Hanging up stops it."""
    choice = parts.service.chosen(asked.kb, asked.system, asked.model)
    run = await asyncio.to_thread(runner.ask, visitor.owner, asked.question, choice)
    return await finished(runner, run, request)


@router.get("/sessions")
def sessions(parts: PartsOf, visitor: VisitorOf) -> list[SessionData]:
    """One's own sessions, newest first. Clients without a cookie or a token have no list."""
    return [] if visitor is NOBODY else [session_data(one) for one in parts.store.sessions(visitor.owner)]


@router.post("/sessions", status_code=201)
def new_session(choice: Choice, parts: PartsOf, visitor: VisitorOf) -> SessionData:
    """Begin a session with one system on one knowledge base."""
    kb, system, model = parts.service.chosen(choice.kb, choice.system, choice.model)
    return session_data(parts.store.add_session(visitor.owner, kb, system, model))


@router.get("/sessions/{session_id}")
def session(session_id: str, parts: PartsOf, visitor: VisitorOf, language: LanguageOf) -> SessionPage:
    """A session with everything that happened in it."""
    found = own_session(parts, visitor, session_id)
    runs = [run_data(parts, run, language) for run in parts.store.runs(found.id)]
    return SessionPage(**session_data(found).model_dump(), runs=runs)


@router.delete("/sessions/{session_id}", status_code=204)
def delete_session(session_id: str, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf) -> Response:
    """Forget a session; a question under way is stopped."""
    runner.forget(own_session(parts, visitor, session_id))
    return Response(status_code=204)


@router.post("/sessions/{session_id}/questions", status_code=202)
def ask_next(
    session_id: str, asked: Next, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf, language: LanguageOf
) -> RunData:
    """Ask the next question of a session; it knows the earlier ones."""
    found = own_session(parts, visitor, session_id)
    choice = parts.service.chosen(found.kb, asked.system or found.system, asked.model or found.model)
    return run_data(parts, runner.ask(visitor.owner, asked.question, choice, session=found.id), language)


@router.get("/runs/{run_id}")
def run(run_id: str, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf, language: LanguageOf) -> RunData:
    """A question with everything that happened so far."""
    return run_data(parts, own_run(parts, visitor, run_id), language, before=runner.before(run_id))


@router.get(
    "/runs/{run_id}/events",
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
    response_class=StreamingResponse,
)
def events(
    run_id: str,
    parts: PartsOf,
    runner: RunnerOf,
    visitor: VisitorOf,
    language: LanguageOf,
    after: Annotated[int, Query(ge=0, le=1 << 31)] = 0,
    last_event_id: Annotated[str, Header(max_length=20, pattern=r"^[0-9]{0,9}$")] = "",
) -> Response:
    """What happens, as it happens, up to the event ``end``: from the beginning, or behind an event's number.

    Two have no number: ``waiting`` says now and then how many questions come first, ``draft`` what a model is writing.

    ``Last-Event-ID``, which browsers send when they connect again, wins over ``after``.
    """
    found = own_run(parts, visitor, run_id)
    last = int(last_event_id) if last_event_id else after

    async def stream() -> AsyncIterator[str]:
        yield "retry: 500\n\n"
        try:
            async with aclosing(runner.follow(found.id, last)) as told:
                async for event in told:
                    if event is not None:
                        yield sse_event(_event(event.data, None, language), event.number or None)
                    else:
                        before = runner.before(found.id)
                        yield sse_event({"kind": "waiting", "before": before}) if before else ": waiting\n\n"
        except DataError as error:
            yield sse_event({"kind": "end", "status": "failed", "answer": {"status": "failed", "note": str(error)}})

    return sse(stream())


@router.post("/runs/{run_id}/stop", status_code=204)
def stop(run_id: str, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf) -> Response:
    """End a run at once, also in the middle of a model's call."""
    runner.stop(own_run(parts, visitor, run_id))
    return Response(status_code=204)


@router.put("/runs/{run_id}/opinion", status_code=204)
def set_opinion(run_id: str, opinion: Opinion, parts: PartsOf, visitor: VisitorOf) -> Response:
    """Say whether an answer was good; the last word counts."""
    note = encodable(opinion.note).replace("\x00", "")
    parts.store.opinions.keep(own_run(parts, visitor, run_id).id, opinion.thumb, note)
    return Response(status_code=204)


@router.post("/runs/{run_id}/share")
def share(run_id: str, parts: PartsOf, visitor: VisitorOf) -> Shared:
    """Make an unguessable link by which anybody who reaches this server can read the run."""
    found = own_run(parts, visitor, run_id)
    if found.under_way:
        raise HTTPException(409, "it can be shared once it has ended")
    link = found.share or unguessable("share")
    parts.store.share(found.id, link)
    return Shared(share=link, path=f"/share/{link}")


@router.delete("/runs/{run_id}/share", status_code=204)
def unshare(run_id: str, parts: PartsOf, visitor: VisitorOf) -> Response:
    """Take the link back."""
    parts.store.share(own_run(parts, visitor, run_id).id, None)
    return Response(status_code=204)


@router.get("/shared/{share_id}")
def shared(share_id: str, parts: PartsOf, language: LanguageOf) -> RunData:
    """A run that is shared, without what is its owner's alone."""
    found = parts.store.shared(share_id)
    if found is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return run_data(parts, found, language, shared=True)
