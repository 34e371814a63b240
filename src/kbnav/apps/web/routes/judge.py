"""Pages on which people rate samples of questions (STaRK, section 2.5)."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import VisitorOf
from kbnav.apps.web.routes.people import WhoOf, form_of, one, take_name
from kbnav.evaluation.human_evaluation import ASPECTS, HIGHEST, LOWEST, Judging

router = APIRouter(include_in_schema=False)
router.add_api_route("/name", take_name, methods=["POST"])
LONGEST_NOTE = 2000


@router.get("/")
async def front(request: Request, visitor: VisitorOf, who: WhoOf) -> Response:  # noqa: ARG001 - none but visitors
    """The sample that is to be rated next; who has no name yet is asked for one."""
    if not who:
        return page(request, "judge_name.html")
    return _sheet(request, who)


def _sheet(request: Request, who: str, *, missing: bool = False) -> Response:
    judging: Judging = request.app.state.judging
    left = judging.left(who)
    sample = judging.sample(left[0], who) if left else []
    return page(
        request,
        "judge.html",
        422 if missing else 200,
        who=who,
        left=left,
        total=len(judging.datasets),
        sample=[question.text() for question in sample],
        scale=range(LOWEST, HIGHEST + 1),
        missing=missing,
    )


@router.post("/rate")
async def rate(request: Request, visitor: VisitorOf, who: WhoOf) -> Response:  # noqa: ARG001
    """Keep what somebody thinks of a sample."""
    judging, form = request.app.state.judging, await form_of(request)
    dataset = one(form, "dataset")
    if not who or dataset not in judging.left(who):
        return RedirectResponse("/", 303)
    given = {aspect: one(form, aspect) for aspect in ASPECTS}
    if not all(given.values()):
        return _sheet(request, who, missing=True)
    if not all(value.isdecimal() and LOWEST <= int(value) <= HIGHEST for value in given.values()):
        raise HTTPException(422, f"rated from {LOWEST} to {HIGHEST}")
    scores = {aspect: int(value) for aspect, value in given.items()}
    await asyncio.to_thread(judging.add, who, dataset, scores, one(form, "note")[:LONGEST_NOTE])
    return RedirectResponse("/", 303)
