"""The REST API of dates: how precise those in a result are."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf, own_run, reader_of
from kbnav.apps.web.routes.evidence import Edited
from kbnav.apps.web.store import StoredRun
from kbnav.knowledge.wikidata.queries import date_precisions
from kbnav.settings.systems import kb_kind

router = APIRouter(prefix="/api", responses=REFUSALS)
MOST_ROWS = 100
SECONDS = 15.0
Numbers = Annotated[list[int], Query(max_length=MOST_ROWS, description="Numbers of the rows, from 0 on.")]


@router.get("/runs/{run_id}/dates")
async def dates(
    run_id: str, row: Numbers, request: Request, parts: PartsOf, visitor: VisitorOf, edited: Edited = False
) -> list[dict[str, int]]:
    """For each row, the precision of its dates at the first of a month, by their text: 11 is a day, 9 a year."""
    run = await asyncio.to_thread(own_run, parts, visitor, run_id)
    return await _dates(request, parts, visitor.owner, run, row, edited)


@router.get("/shared/{share_id}/dates")
async def shared_dates(
    share_id: str, row: Numbers, request: Request, parts: PartsOf, edited: Edited = False
) -> list[dict[str, int]]:
    """As for one's own, of a run that is shared."""
    run = await asyncio.to_thread(parts.store.shared, share_id)
    if run is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return await _dates(request, parts, reader_of(request), run, row, edited)


async def _dates(
    request: Request, parts: Any, owner: str, run: StoredRun, rows: list[int], edited: bool
) -> list[dict[str, int]]:
    served, web = parts.service.kb(run.kb), parts.settings.web
    if kb_kind(served.kb) != "wikibase":
        return [{} for _ in rows]
    look = partial(_found, parts, served, run, rows, edited)
    turn = {"gone": request.is_disconnected, "wait": web.wait_seconds, "refuse": served.guard.refuse}
    found: list[dict[str, int]] = await parts.service.pages.run(owner, served.key, look, seconds=SECONDS, **turn)
    return found


def _found(parts: Any, served: Any, run: StoredRun, rows: list[int], edited: bool) -> list[dict[str, int]]:
    asked = (parts.store.edits.of(run.id) if edited else run.answer) or {}
    kept = parts.store.results.find(asked["result"]["id"]) if asked.get("query") and asked.get("result") else None
    if kept is None:
        raise HTTPException(404, "you have no such result")
    query, (_, result) = str(asked["query"]), kept
    chosen = [number for number in rows if 0 <= number < result.count]
    with served.guard.watching():
        found = date_precisions(served.kb, query, result.head, result.at(chosen))
    return [{date.removesuffix("T00:00:00Z"): precision for date, precision in one.items()} for one in found]
