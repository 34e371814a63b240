"""Pages on which people watch runs of benchmarks while they go on, and read single samples."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf
from kbnav.errors import StopRun
from kbnav.evaluation.monitoring import Monitor, MonitoredRun, Sample
from kbnav.evaluation.report.page import answer_table, gold_table, undeclared

router = APIRouter(responses=REFUSALS, include_in_schema=False)
Name = Annotated[str, Query(max_length=1000)]


def _run(request: Request, name: str) -> MonitoredRun:
    following: Monitor = request.app.state.following
    found = following.runs().get(name)
    if found is None:
        raise HTTPException(404, f"no run {name!r}")
    return found


@router.get("/")
def index(request: Request, visitor: VisitorOf) -> Response:  # noqa: ARG001 - none but visitors
    """All runs."""
    return page(request, "view.html", folder=request.app.state.following.folder.name)


@router.get("/run")
def run(request: Request, visitor: VisitorOf, name: Name) -> Response:  # noqa: ARG001
    """One run: its questions under way, and those answered."""
    return page(request, "view_run.html", name=name, info=_run(request, name).info)


@router.get("/sample")
def sample(request: Request, visitor: VisitorOf, run: Name, id: Name) -> Response:  # noqa: ARG001
    """One question of a run: its gold answer, its answer and every step, or what it is at."""
    followed = _run(request, run)
    record, gold = followed.sample(id)
    at = next((one for one in followed.open or () if one["id"] == id), None)
    if record is None and at is None and id not in followed.info.questions:
        raise HTTPException(404, f"{run} has no question {id!r}")
    outcome = record.run.outcome if record else None
    score = next((one.score for one in followed.samples() if one.id == id), None)
    return page(
        request,
        "view_sample.html",
        name=run,
        id=id,
        record=record,
        gold=gold,
        at=at,
        score=score,
        metric=followed.metric,
        wanted=gold_table(gold) if gold else None,
        found=answer_table(outcome, gold) if outcome else None,
        query=undeclared(outcome.query) if outcome else "",
    )


@router.get("/api/runs")
def runs(request: Request, parts: PartsOf, visitor: VisitorOf) -> list[dict[str, Any]]:  # noqa: ARG001
    """What is known of every run now."""
    told = []
    for name, followed in request.app.state.following.runs().items():
        try:
            told.append(_told(name, followed))
        except StopRun as error:
            told.append({"name": name, "problem": parts.hide.hidden(str(error))})
    return told


@router.get("/api/run")
def one_run(request: Request, visitor: VisitorOf, name: Name, after: int = 0) -> dict[str, Any]:  # noqa: ARG001
    """One run, with the samples that came behind a version of it."""
    followed = _run(request, name)
    samples = followed.samples(after)
    return {
        **_told(name, followed),
        "version": followed.version,
        "open": followed.open or [],
        "samples": [asdict(one) for one in samples],
        "now": time.time(),
    }


def _told(name: str, followed: MonitoredRun) -> dict[str, Any]:
    """Sums over what was answered."""
    info, samples, going = followed.info, followed.samples(), followed.open
    done = len(samples)
    costs = [one.cost for one in samples if one.cost is not None]
    return {
        "name": name,
        "system": info.called,
        "model": info.model,
        "dataset": info.dataset,
        "started": info.started,
        "total": len(info.questions),
        "done": done,
        "failed": sum(bool(one.error) for one in samples),
        "under_way": len(going or ()),
        "state": "live" if going is not None else "over" if done >= len(info.questions) else "stopped",
        "cost": sum(costs) if costs else None,
        "tokens": sum(one.tokens for one in samples),
        "seconds": sum(one.seconds for one in samples) / done if done else None,
        "metric": followed.metric,
        "score": _mean(samples),
    }


def _mean(samples: list[Sample]) -> float | None:
    scores = [one.score for one in samples if one.score is not None]
    return sum(scores) / len(scores) if scores else None
