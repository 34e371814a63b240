"""The way in and out, which every server of pages has: logging in and out, and whether the process answers."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.rendering import page
from kbnav.apps.web.security import COOKIE, Identities, cookie_header

router = APIRouter(include_in_schema=False)


@router.get("/login")
def login_page(request: Request) -> Response:
    """Where a token is given."""
    if not request.state.identities.by_token:
        return RedirectResponse("/", 303)
    return page(request, "login.html", wrong=False)


@router.post("/login")
async def login(request: Request) -> Response:
    """Check a token, and keep in the browser that it was right."""
    identities: Identities = request.state.identities
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    state = request.state
    if wait := state.wrong.wait(state.client):
        raise HTTPException(429, f"too many wrong tokens; try again in {wait:.0f} s")
    name = identities.by_secret(form.get("token", [""])[0].strip())
    if not name:
        state.wrong.count(state.client)
        return page(request, "login.html", 403, wrong=True)
    state.wrong.forget(state.client)
    response = RedirectResponse("/", 303)
    response.headers.append("Set-Cookie", cookie_header(identities.cookie_of(name), secure=request.state.secure))
    return response


@router.post("/logout")
def logout(request: Request) -> Response:
    """Forget who this is, and let the cookie open nothing any more."""
    request.state.identities.logout(request.headers)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


@router.get("/favicon.ico")
def icon() -> Response:
    """Browsers ask for it whatever a page says."""
    return RedirectResponse("/static/icon.svg", 308)


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers; in the loop itself, so that nothing that is under way can keep it waiting."""
    return {"status": "ok"}
