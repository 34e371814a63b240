"""Pages on which people write questions of nodes that were drawn for them (STaRK, section 2.6 and appendix D)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import PartsOf, VisitorOf, looked_up
from kbnav.apps.web.routes.explore import SHOWN
from kbnav.apps.web.routes.people import WhoOf, form_of, one, take_name
from kbnav.apps.web.service import Served
from kbnav.evaluation.human_evaluation import Collection

router = APIRouter(include_in_schema=False)
router.add_api_route("/name", take_name, methods=["POST"])
TWO_HOPS = 8
"""Ways of two hops that are shown of a node."""
LONGEST = 2000
Batch = Annotated[int, Query(ge=0, le=10_000)]


def _served(parts: Any) -> Served:
    (served,) = parts.service.kbs.values()
    return served  # type: ignore[no-any-return]


@router.get("/")
async def front(request: Request, parts: PartsOf, visitor: VisitorOf, who: WhoOf, batch: Batch = 0) -> Response:
    """What is to be done, and the nodes that were drawn for somebody; who has no name yet is asked for one."""
    served, collection = _served(parts), request.app.state.collection
    if not who:
        return page(request, "collect_name.html")
    look = partial(_front, request, served, collection, who, batch)
    return await looked_up(request, parts, visitor, served.key, look)


def _front(request: Request, served: Served, collection: Collection, who: str, batch: int) -> Response:
    drawn = collection.drawn(who, batch, request.app.state.count)
    written = collection.of(who)
    of = {node.id: [one.question for one in written if one.meta["node"] == node.id] for node in drawn}
    return page(request, "collect.html", served=served, who=who, drawn=drawn, of=of, batch=batch, written=len(written))


@router.get("/write")
async def write(
    request: Request, parts: PartsOf, visitor: VisitorOf, who: WhoOf, node: str, batch: Batch = 0
) -> Response:
    """A node with its document, its neighbours and ways of two hops, and a form for a question."""
    if not who:
        return RedirectResponse("/", 303)
    served = _served(parts)
    look = partial(_write, request, served, node, batch)
    return await looked_up(request, parts, visitor, served.key, look)


def _write(
    request: Request, served: Served, node_id: str, batch: int, question: str = "", *, problem: bool = False
) -> Response:
    explorer = request.app.state.collection.explorer
    return page(
        request,
        "collect_write.html",
        422 if problem else 200,
        served=served,
        node=explorer.value(explorer.skb.number(node_id)),
        entry=explorer.kb.get_entry(node_id),
        around=explorer.around(node_id, SHOWN),
        hops=explorer.two_hops(node_id, TWO_HOPS, node_id),
        batch=batch,
        question=question,
        problem=problem,
    )


@router.post("/write")
async def written(request: Request, parts: PartsOf, visitor: VisitorOf, who: WhoOf) -> Response:
    """A question: to be mended, or shown with what may answer it as well; kept once that was looked through."""
    served, form = _served(parts), await form_of(request)
    if not who:
        return RedirectResponse("/", 303)
    look = partial(_written, request, served, who, form)
    return await looked_up(request, parts, visitor, served.key, look)


def _written(request: Request, served: Served, who: str, form: Any) -> Response:
    collection: Collection = request.app.state.collection
    node_id, question = one(form, "node"), " ".join(one(form, "question").split())[:LONGEST]
    batch = int(one(form, "batch")) if one(form, "batch").isdecimal() else 0
    if not question or collection.names(question, node_id):
        return _write(request, served, node_id, batch, question, problem=True)
    if one(form, "looked"):
        collection.add(who, question, node_id, form.get("fits", []), form.get("seen", []))
        return RedirectResponse(f"/?batch={batch}&saved={quote(node_id, safe='')}", 303)
    found = collection.candidates(question, node_id)
    node = collection.explorer.value(collection.explorer.skb.number(node_id))
    return page(request, "collect_fits.html", served=served, node=node, question=question, found=found, batch=batch)
