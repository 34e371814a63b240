"""Pages for people, and whether the server is well."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from kbnav.apps.web.metrics import may_read
from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import PartsOf, RunnerOf, VisitorOf, own_session
from kbnav.runs.trajectory import versions

router = APIRouter(include_in_schema=False)


def front_page(request: Request, parts: Any, visitor: Any, session: str = "", share: str = "") -> HTMLResponse:
    """The chat page: empty, on a session, or on a run that is shared; with nothing to ask, a page that says so."""
    service = parts.service
    if not share and not service.kbs:
        absent = [parts.hide.hidden(f"{key}: {why}") for key, why in service.absent.items()]
        return page(request, "closed.html", 503, absent=absent)
    kbs = [
        {
            "key": kb.key,
            "systems": [one.name for one in service.systems(kb)],
            "about": {one.name: one.about for one in service.systems(kb)},
            "rankings": [one.name for one in service.systems(kb) if one.kind == "retriever"],
            "examples": service.examples(kb.key),
            "seconds": kb.settings.limits.query_timeout,
        }
        for kb in service.kbs.values()
    ]
    web = parts.settings.web
    offered = {
        "kbs": kbs if not share else [],
        "models": service.models if not share else [],
        "session": session,
        "share": share,
        "tiles": web.tiles,
        "tilesCredit": web.tiles_credit,
        "images": web.images,
    }
    name = visitor.name if visitor else ""
    return page(
        request,
        "page.html",
        offered=json.dumps(offered),
        user=name,
        share=bool(share),
        version=versions()["kbnav"],
        explore=any(kb.is_skb for kb in service.kbs.values()),
    )


@router.get("/s/{session_id}")
def session_page(session_id: str, request: Request, parts: PartsOf, visitor: VisitorOf) -> Response:
    """The page on one's own session."""
    return front_page(request, parts, visitor, session=own_session(parts, visitor, session_id).id)


@router.get("/share/{share}")
def shared_page(share: str, parts: PartsOf, request: Request) -> Response:
    """A run that somebody shares, to be read."""
    if parts.store.shared(share) is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return front_page(request, parts, request.state.visitor, share=share)


@router.get("/api")
def api_page(request: Request) -> Response:
    """The REST API, described on a page without files from elsewhere."""
    return page(request, "api.html")


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, parts: PartsOf) -> Response:
    """What was counted, for Prometheus; nothing is here unless ``web.metrics_token`` is set."""
    web = parts.settings.web
    if not web.metrics_token.get_secret_value():
        raise HTTPException(404, "Nothing is counted here: the operator sets web.metrics_token.")
    wrong, client = request.state.wrong, request.state.client
    if wait := wrong.wait(client):
        raise HTTPException(429, f"too many wrong tokens; try again in {wait:.0f} s")
    if not may_read(web, request.headers.get("authorization", "")):
        wrong.count(client)
        raise HTTPException(401, "send web.metrics_token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
    kbs = {key: not served.guard.problem for key, served in parts.service.kbs.items()}
    text = parts.metrics.text({**kbs, **dict.fromkeys(parts.service.absent, False)})
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/ready")
async def ready(parts: PartsOf, runner: RunnerOf) -> Response:
    """Questions can be asked: the database takes them, and a knowledge base answers. Looked at all the time, not now.

    Knowledge bases that are out of service are named; without any other the server is not ready.
    """
    problems = {key: served.guard.problem for key, served in parts.service.kbs.items()}
    out = {key: problem for key, problem in {**problems, **parts.service.absent}.items() if problem}
    well = [key for key in problems if key not in out]
    why = parts.hide.hidden(runner.problem)
    status = "not ready" if why or not well else "degraded" if out else "ok"
    document = {
        "status": status,
        "kbs": well,
        **({"out_of_service": list(out)} if out else {}),
        **({"why": why} if why else {}),
    }
    return JSONResponse(document, 503 if status == "not ready" else 200)
