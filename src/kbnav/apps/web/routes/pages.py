"""Pages for people, the way in and out, and whether the server is well."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from kbnav.answers.question import LONGEST_QUESTION, SPARQL
from kbnav.apps.web.auth import COOKIE, WRONG_TOKENS, Identities, Visitor, cookie_header
from kbnav.apps.web.rendering import form_of, page
from kbnav.apps.web.routes.common import (
    REFUSALS,
    ChatOf,
    ChatParts,
    OwnSession,
    SharedRun,
    VisitorOf,
    finished,
    offered,
)
from kbnav.runs.trajectory import versions

login_router = APIRouter(include_in_schema=False)
"""What every server of pages has."""
router = APIRouter(include_in_schema=False)
text2sparql_router = APIRouter(responses=REFUSALS)


@login_router.get("/login")
def login_page(request: Request) -> Response:
    """Where a token is given."""
    if not request.state.identities.by_token:
        return RedirectResponse("/", 303)
    return page(request, "login.html", wrong=False)


@login_router.post("/login")
async def login(request: Request) -> Response:
    """Check a token, and keep in the browser that it was right."""
    state = request.state
    identities: Identities = state.identities
    form = await form_of(request)
    name = identities.by_secret(form.get("token", [""])[0].strip())
    if not name:
        if wait := state.wrong.another(state.client):
            raise HTTPException(429, f"{WRONG_TOKENS} in {wait:.0f} s")
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", 303)
    response.headers.append("Set-Cookie", cookie_header(identities.cookie_of(name), secure=state.secure))
    return response


@login_router.post("/logout")
def logout(request: Request) -> Response:
    """Take the login back, for copies of the cookie too."""
    request.state.identities.logout(request.headers)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


@login_router.get("/favicon.ico")
def icon() -> Response:
    """Browsers ask for it whatever a page says."""
    return RedirectResponse("/static/icon.svg", 308)


@login_router.get("/health")
async def health() -> dict[str, str]:
    """The process answers; in the loop itself, so that nothing that is under way can keep it waiting."""
    return {"status": "ok"}


@text2sparql_router.get(
    "/",
    responses={
        200: {"content": {"application/json": {}, "text/html": {}}, "description": "The query, or the page."},
    },
)
async def query_for(
    request: Request,
    parts: ChatOf,
    visitor: VisitorOf,
    question: Annotated[str | None, Query(max_length=LONGEST_QUESTION)] = None,
    dataset: Annotated[str, Query(max_length=2000, description="From web.datasets, or a knowledge base.")] = "",
) -> Response:
    """The SPARQL query that answers a question (Text2SPARQL challenge); without a question, the page."""
    if question is None:
        return _front_page(request, parts, visitor)
    kb = parts.settings.web.datasets.get(dataset, dataset)
    run = await asyncio.to_thread(parts.queue.ask, visitor.owner, question, parts.service.chosen(kb))
    answer = await finished(parts.queue, run, request)
    if not answer["query"]:
        raise HTTPException(422, answer["note"] or "no query answers this question")
    return JSONResponse({"dataset": dataset, "question": question, "query": answer["query"]})


@router.head("/")
def there() -> Response:
    """For monitors, which ask for no more than that the page is there."""
    return Response(media_type="text/html")


@router.get("/s/{session_id}")
def session_page(session: OwnSession, request: Request, parts: ChatOf, visitor: VisitorOf) -> Response:
    """The page on one's own session."""
    return _front_page(request, parts, visitor, session=session.id)


@router.get("/share/{share_id}")
def shared_page(run: SharedRun, parts: ChatOf, request: Request, embed: bool = False) -> Response:
    """A run that somebody shares, to be read; ``embed``: the answer alone, for a frame of another site's page."""
    return _front_page(request, parts, request.state.visitor, share=run.share or "", kb=run.kb, embed=embed)


def _front_page(
    request: Request, parts: ChatParts, visitor: Visitor | None, session: str = "", share: str = "", kb: str = "",
    embed: bool = False,
) -> HTMLResponse:  # fmt: skip
    """The chat page: empty, on a session, on a run of ``kb`` that is shared; or that there is nothing to ask."""
    if not share and not parts.service.kbs:
        absent = [parts.hide.hidden(f"{key}: {why}") for key, why in parts.service.absent.items()]
        return page(request, "closed.html", 503, absent=absent)
    given = offered(parts, visitor, kb)
    return page(
        request,
        "page.html",
        offered=json.dumps({**given, "session": session, "share": share, "sparql": SPARQL.pattern}),
        **given,
        kb=kb,
        share=share,
        embed=embed,
        version=versions()["kbnav"],
    )


@router.get("/api")
def api_page(request: Request) -> Response:
    """The REST API, described on a page without files from elsewhere."""
    return page(request, "api.html", described=request.app.openapi())


@router.get("/ready")
async def ready(parts: ChatOf) -> Response:
    """Questions can be asked: the database takes them, and a knowledge base answers. Looked at all the time, not now.

    Knowledge bases that are out of service are named; without any other the server is not ready.
    """
    problems = {key: served.breaker.problem for key, served in parts.service.kbs.items()}
    out = {key: problem for key, problem in {**problems, **parts.service.absent}.items() if problem}
    well = [key for key in problems if key not in out]
    why = parts.hide.hidden(parts.queue.problem)
    status = "not ready" if why or not well else "degraded" if out else "ok"
    document = {
        "status": status,
        "kbs": well,
        **({"out_of_service": list(out)} if out else {}),
        **({"why": why} if why else {}),
    }
    return JSONResponse(document, 503 if status == "not ready" else 200)
