"""What a reader does with the sessions that are kept: another title, a copy to take along."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, HTTPException, Response
from pydantic import Field

from kbnav.answers.tables import encodable
from kbnav.apps.web.exports import MEDIA, Form, markdown, notebook, shared
from kbnav.apps.web.naming import attachment
from kbnav.apps.web.routes.common import REFUSALS, LanguageOf, PartsOf, VisitorOf, own_session
from kbnav.apps.web.routes.questions import Body, SessionData, SessionPage, run_data, session_data
from kbnav.apps.web.store import Session

router = APIRouter(prefix="/api/sessions", responses=REFUSALS)
_FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {} for kind in MEDIA.values()}}}


class Title(Body):
    """What a session is called."""

    title: str = Field(min_length=1, max_length=200)


@router.patch("/{session_id}")
def rename(session_id: str, given: Title, parts: PartsOf, visitor: VisitorOf) -> SessionData:
    """Call a session something else than its first question."""
    found = own_session(parts, visitor, session_id)
    title = " ".join(encodable(given.title).replace("\x00", "").split()) or found.title
    parts.store.rename(found.id, title)
    return session_data(own_session(parts, visitor, session_id))


@router.get("/{session_id}/{form}", responses=_FILES)
async def export(session_id: str, form: Form, parts: PartsOf, visitor: VisitorOf, language: LanguageOf) -> Response:
    """A session as a file: all of it as JSON, to read as Markdown, or as a notebook that runs its queries again.

    ``html`` is one page that fetches nothing, ``jsonld`` a description in the form of RO-Crate, ``zip`` a crate with
    page, runs, queries and tables.
    """
    found = await asyncio.to_thread(own_session, parts, visitor, session_id)
    text = await asyncio.to_thread(_written, parts, found, form, language)
    if text is None:
        raise HTTPException(404, "no answer of this session is kept any more")
    return Response(text, media_type=MEDIA[form], headers={"Content-Disposition": attachment(found.title, form)})


def _written(parts: Any, session: Session, form: Form, language: str) -> str | bytes | None:
    runs = parts.store.runs(session.id)
    if form in ("html", "jsonld", "zip"):
        return shared(parts.store.saved, runs, form, parts.settings.endpoints.query_page, parts.hide.hidden)
    if form == "json":
        told = [run_data(parts, run, language) for run in runs]
        page = SessionPage(**session_data(session).model_dump(), runs=told)
        return page.model_dump_json(indent=1)
    kept = []
    for run in runs:
        edited = parts.store.edits.of(run.id)
        kept.append((run, str((edited or run.answer or {}).get("query") or "")))
    return (markdown if form == "md" else notebook)(session, kept)
