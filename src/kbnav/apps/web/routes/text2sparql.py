"""The interface of the Text2SPARQL challenge, which shares its address with the page."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response

from kbnav.answers.question import LONGEST_QUESTION
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, RunnerOf, VisitorOf, finished
from kbnav.apps.web.routes.pages import front_page

router = APIRouter(responses=REFUSALS)


@router.get(
    "/",
    responses={
        200: {"content": {"application/json": {}, "text/html": {}}, "description": "The query, or the page."},
    },
)
async def query_for(
    request: Request,
    parts: PartsOf,
    runner: RunnerOf,
    visitor: VisitorOf,
    question: Annotated[str | None, Query(max_length=LONGEST_QUESTION)] = None,
    dataset: Annotated[str, Query(max_length=2000, description="From web.datasets, or a knowledge base.")] = "",
) -> Response:
    """The SPARQL query that answers a question; without a question, the page."""
    if question is None:
        return front_page(request, parts, visitor)
    kb = parts.settings.web.datasets.get(dataset, dataset)
    run = await asyncio.to_thread(runner.ask, visitor.owner, question, parts.service.chosen(kb))
    answer: dict[str, Any] = await finished(runner, run, request)
    if not answer["query"]:
        raise HTTPException(422, answer["note"] or "no query answers this question")
    return JSONResponse({"dataset": dataset, "question": question, "query": answer["query"]})
