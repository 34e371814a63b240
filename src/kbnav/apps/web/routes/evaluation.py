"""Pages for the human evaluation: questions that people write, and samples that they rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.auth import Visitor, cookie_header
from kbnav.apps.web.rendering import cookie_value, form_of, page
from kbnav.apps.web.routes.common import LOGGED_IN, PartsOf
from kbnav.apps.web.routes.explore import SHOWN
from kbnav.apps.web.service import Served
from kbnav.evaluation.human_evaluation import ASPECTS, HIGHEST, LOWEST, Collection, Judging

collect_router = APIRouter(dependencies=[LOGGED_IN], include_in_schema=False)
judge_router = APIRouter(dependencies=[LOGGED_IN], include_in_schema=False)
COOKIE = "kbnav_name"
LONGEST_NAME = 60
LONGEST_TEXT = 2000
TWO_HOPS = 8
"""Ways of two hops that are shown of a node."""
Batch = Annotated[int, Query(ge=0, le=10_000)]


async def _who(request: Request) -> str:
    """The name of who is logged in, else the one that was chosen; empty where none was."""
    visitor: Visitor | None = request.state.visitor
    if visitor is not None and visitor.name:
        return visitor.name
    return unquote(cookie_value(request.headers, COOKIE))[:LONGEST_NAME].strip()


WhoOf = Annotated[str, Depends(_who)]
FormOf = Annotated[Mapping[str, list[str]], Depends(form_of)]


def _field(form: Mapping[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0].strip()


@collect_router.post("/name")
@judge_router.post("/name")
def take_name(request: Request, form: FormOf) -> Response:
    """Keep the name that somebody chose in their browser."""
    name = " ".join(_field(form, "name").split())[:LONGEST_NAME]
    response = RedirectResponse("/", 303)
    cookie = cookie_header(quote(name, safe=""), secure=request.state.secure, name=COOKIE)
    response.headers.append("Set-Cookie", cookie)
    return response


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
