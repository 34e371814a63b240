"""Pages for evaluation: runs of benchmarks while they go on, questions that people write or rate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, unquote

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.auth import Visitor
from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import LOGGED_IN, PartsOf
from kbnav.apps.web.routes.explore import SHOWN
from kbnav.apps.web.service import Served
from kbnav.errors import StopRun
from kbnav.evaluation.human_evaluation import ASPECTS, HIGHEST, LOWEST, Collection, Judging
from kbnav.evaluation.monitoring import Monitor, MonitoredRun
from kbnav.evaluation.report.page import answer_table, gold_table, undeclared

view_router = APIRouter(dependencies=[LOGGED_IN], include_in_schema=False)
collect_router = APIRouter(dependencies=[LOGGED_IN], include_in_schema=False)
judge_router = APIRouter(dependencies=[LOGGED_IN], include_in_schema=False)
COOKIE = "kbnav_name"
LONGEST_NAME = 60
LONGEST_TEXT = 2000
TWO_HOPS = 8
"""Ways of two hops that are shown of a node."""
_AGE = 30 * 24 * 3600
Name = Annotated[str, Query(max_length=1000)]
Batch = Annotated[int, Query(ge=0, le=10_000)]


async def _who(request: Request) -> str:
    """The name of who is logged in, else the one that was chosen; empty where none was."""
    visitor: Visitor | None = request.state.visitor
    if visitor is not None and visitor.name:
        return visitor.name
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return unquote(found.value)[:LONGEST_NAME].strip() if found else ""


WhoOf = Annotated[str, Depends(_who)]


async def _form(request: Request) -> Mapping[str, list[str]]:
    return parse_qs((await request.body()).decode("utf-8", "replace"))


FormOf = Annotated[Mapping[str, list[str]], Depends(_form)]


def _field(form: Mapping[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0].strip()


@collect_router.post("/name")
@judge_router.post("/name")
def take_name(request: Request, form: FormOf) -> Response:
    """Keep the name that somebody chose in their browser."""
    name = " ".join(_field(form, "name").split())[:LONGEST_NAME]
    response = RedirectResponse("/", 303)
    marks = "; Secure" if request.state.secure else ""
    cookie = f"{COOKIE}={quote(name, safe='')}; Path=/; Max-Age={_AGE}; HttpOnly; SameSite=Lax{marks}"
    response.headers.append("Set-Cookie", cookie)
    return response


# Runs of benchmarks


def _run(request: Request, name: str) -> MonitoredRun:
    following: Monitor = request.app.state.following
    found = following.runs().get(name)
    if found is None:
        raise HTTPException(404, f"no run {name!r}")
    return found


@view_router.get("/")
def runs_page(request: Request) -> Response:
    """All runs."""
    return page(request, "view.html", folder=request.app.state.following.folder.name)


@view_router.get("/run")
def run_page(request: Request, name: Name) -> Response:
    """One run: its questions under way, and those answered."""
    return page(request, "view_run.html", name=name, info=_run(request, name).info)


@view_router.get("/sample")
def sample_page(request: Request, run: Name, id: Name) -> Response:
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


@view_router.get("/api/runs")
def runs(request: Request, parts: PartsOf) -> list[dict[str, Any]]:
    """What is known of every run now."""
    documents = []
    for name, followed in request.app.state.following.runs().items():
        try:
            documents.append(_sums(name, followed))
        except StopRun as error:
            documents.append({"name": name, "problem": parts.hide.hidden(str(error))})
    return documents


@view_router.get("/api/run")
def one_run(request: Request, name: Name, after: int = 0) -> dict[str, Any]:
    """One run, with the samples that came behind a version of it."""
    followed = _run(request, name)
    samples = followed.samples(after)
    return {
        **_sums(name, followed),
        "version": followed.version,
        "open": followed.open or [],
        "samples": [asdict(one) for one in samples],
        "now": time.time(),
    }


def _sums(name: str, followed: MonitoredRun) -> dict[str, Any]:
    """Sums over what was answered."""
    info, samples, going = followed.info, followed.samples(), followed.open
    done = len(samples)
    costs = [one.cost for one in samples if one.cost is not None]
    scores = [one.score for one in samples if one.score is not None]
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
        "score": sum(scores) / len(scores) if scores else None,
    }


# Questions of nodes that were drawn for people (STaRK, section 2.6 and appendix D)


def _served(parts: PartsOf) -> Served:
    (served,) = parts.service.kbs.values()
    return served


ServedOf = Annotated[Served, Depends(_served)]


@collect_router.get("/")
def collect_page(request: Request, served: ServedOf, who: WhoOf, batch: Batch = 0) -> Response:
    """What is to be done, and the nodes that were drawn for somebody; who has no name yet is asked for one."""
    if not who:
        return page(request, "collect_name.html")
    collection: Collection = request.app.state.collection
    drawn = collection.drawn(who, batch, request.app.state.count)
    written = collection.of(who)
    of = {node.id: [one.question for one in written if one.meta["node"] == node.id] for node in drawn}
    return page(request, "collect.html", served=served, who=who, drawn=drawn, of=of, batch=batch, written=len(written))


@collect_router.get("/write")
def write_page(request: Request, served: ServedOf, who: WhoOf, node: str, batch: Batch = 0) -> Response:
    """A node with its document, its neighbours and ways of two hops, and a form for a question."""
    return _write_page(request, served, node, batch) if who else RedirectResponse("/", 303)


def _write_page(request: Request, served: Served, node_id: str, batch: int, refused: str | None = None) -> Response:
    """``refused`` is a question that is to be mended."""
    explorer = request.app.state.collection.explorer
    return page(
        request,
        "collect_write.html",
        200 if refused is None else 422,
        served=served,
        node=explorer.value(explorer.skb.number(node_id)),
        entry=explorer.kb.get_entry(node_id),
        around=explorer.around(node_id, SHOWN),
        hops=explorer.two_hops(node_id, TWO_HOPS, node_id),
        batch=batch,
        question=refused or "",
        problem=refused is not None,
    )


@collect_router.post("/write")
def write_question(request: Request, served: ServedOf, who: WhoOf, form: FormOf) -> Response:
    """A question: to be mended, or shown with what may answer it as well; kept once that was looked through."""
    if not who:
        return RedirectResponse("/", 303)
    collection: Collection = request.app.state.collection
    node_id, question = _field(form, "node"), " ".join(_field(form, "question").split())[:LONGEST_TEXT]
    batch = int(_field(form, "batch")) if _field(form, "batch").isdecimal() else 0
    if not question or collection.names(question, node_id):
        return _write_page(request, served, node_id, batch, question)
    if _field(form, "looked"):
        collection.add(who, question, node_id, form.get("fits", []), form.get("seen", []))
        return RedirectResponse(f"/?batch={batch}&saved={quote(node_id, safe='')}", 303)
    found = collection.candidates(question, node_id)
    node = collection.explorer.value(collection.explorer.skb.number(node_id))
    return page(request, "collect_fits.html", served=served, node=node, question=question, found=found, batch=batch)


# Ratings of samples of questions (STaRK, section 2.5)


@judge_router.get("/")
def judge_page(request: Request, who: WhoOf) -> Response:
    """The sample that is to be rated next; who has no name yet is asked for one."""
    return _sheet(request, who) if who else page(request, "judge_name.html")


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


@judge_router.post("/rate")
def rate(request: Request, who: WhoOf, form: FormOf) -> Response:
    """Keep what somebody thinks of a sample."""
    judging: Judging = request.app.state.judging
    dataset = _field(form, "dataset")
    if not who or dataset not in judging.left(who):
        return RedirectResponse("/", 303)
    given = {aspect: _field(form, aspect) for aspect in ASPECTS}
    if not all(given.values()):
        return _sheet(request, who, missing=True)
    if not all(value.isdecimal() and LOWEST <= int(value) <= HIGHEST for value in given.values()):
        raise HTTPException(422, f"rated from {LOWEST} to {HIGHEST}")
    scores = {aspect: int(value) for aspect, value in given.items()}
    judging.add(who, dataset, scores, _field(form, "note")[:LONGEST_TEXT])
    return RedirectResponse("/", 303)
