"""Pages on which people look around in an SKB: search, types and relations, nodes, neighbours, ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from kbnav.apps.web.parts import Base, Parts
from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import PartsOf, VisitorOf, looked_up
from kbnav.apps.web.security import Visitor
from kbnav.apps.web.service import Served
from kbnav.apps.web.why import Why, why
from kbnav.errors import NotOffered
from kbnav.knowledge.skb.exploring import Explorer, NodePage
from kbnav.knowledge.skb.kb import as_skb

router = APIRouter(include_in_schema=False)
PAGE = 50
"""Nodes on a page."""
SHOWN = 10
"""Neighbours by one relation that a node's page shows."""
FOUND = 20
EXAMPLES = 20
WAYS = 10
Text = Annotated[str, Query(max_length=500)]
Start = Annotated[int, Query(ge=0, le=2**31)]


def explorer_of(served: Served) -> Explorer:
    """What looks around in a knowledge base. Raises NotOffered where it is no SKB."""
    if not served.is_skb:
        raise NotOffered(f"{served.key} is no SKB, so that there is nothing to explore")
    return Explorer(as_skb(served.kb, "the explorer"))


@router.get("/explore")
async def index(request: Request, parts: PartsOf, visitor: VisitorOf) -> Response:  # noqa: ARG001 - none but visitors
    """The SKBs to look around in; where there is one, that."""
    served = [one for one in parts.service.kbs.values() if one.is_skb]
    if len(served) == 1:
        return RedirectResponse(served[0].explore(), 303)
    return page(request, "explore.html", explorers=[(one, explorer_of(one).skb.meta) for one in served])


@router.get("/explore/{kb}")
async def overview(
    kb: str,
    request: Request,
    parts: PartsOf,
    visitor: VisitorOf,
    q: Text = "",
    type: Text = "",
    relation: Text = "",
    start: Start = 0,
) -> Response:
    """What an SKB is made of; or what a search finds, the nodes of a type, or what a relation links."""
    served = parts.service.kb(kb)
    look = _overview
    if q.strip():
        look = partial(_found, q=q.strip())
    elif type:
        look = partial(_of_type, kind=type, start=start)
    elif relation:
        look = partial(_relation, relation=relation)
    return await looked_up(request, parts, visitor, kb, partial(look, request, served))


def _overview(request: Request, served: Served) -> Response:
    explorer = explorer_of(served)
    meta, shown = explorer.skb.meta, explorer.kb.relations.display
    return page(request, "explore_kb.html", served=served, meta=meta, shown=shown, q="")


def _found(request: Request, served: Served, q: str) -> Response:
    found = explorer_of(served).kb.search_entities(q, limit=FOUND)
    return page(request, "explore_found.html", served=served, found=found, q=q)


def _of_type(request: Request, served: Served, kind: str, start: int) -> Response:
    listed = explorer_of(served).of_type(kind, start, PAGE)
    return _listed(request, served, listed, start, kind=kind)


def _relation(request: Request, served: Served, relation: str) -> Response:
    explorer = explorer_of(served)
    number = explorer.kb.relations.number(relation)
    name = explorer.skb.relation_names[number]
    links = sorted((one for one in explorer.skb.meta.tuples if one.relation == name), key=lambda one: -one.count)
    examples = explorer.kb.get_property_examples(relation, limit=EXAMPLES)
    shown = explorer.kb.relations.shown[number]
    return page(request, "explore_relation.html", served=served, relation=shown, links=links, examples=examples)


@router.get("/explore/{kb}/neighbors")
async def neighbors(
    kb: str, request: Request, parts: PartsOf, visitor: VisitorOf, node: Text, relation: Text, start: Start = 0
) -> Response:
    """The neighbours of a node by one relation, a page at a time."""
    served = parts.service.kb(kb)
    return await looked_up(
        request, parts, visitor, kb, partial(_neighbors, request, served, node=node, relation=relation, start=start)
    )


def _neighbors(request: Request, served: Served, node: str, relation: str, start: int) -> Response:
    explorer = explorer_of(served)
    listed = explorer.neighbors(node, relation, start, PAGE)
    value = explorer.value(explorer.skb.number(node))
    return _listed(request, served, listed, start, node=value, relation=relation)


def _listed(request: Request, served: Served, listed: NodePage, start: int, **of: Any) -> Response:
    about = {"kind": "", "node": None, "relation": "", **of}
    address = request.url.include_query_params
    earlier = address(start=max(0, start - PAGE)).query if start else ""
    later = address(start=start + PAGE).query if start + PAGE < listed.total else ""
    return page(
        request, "explore_nodes.html", served=served, listed=listed, start=start, earlier=earlier, later=later, **about
    )


@router.get("/explore/{kb}/path")
async def path(
    kb: str,
    request: Request,
    parts: PartsOf,
    visitor: VisitorOf,
    begin: Annotated[str, Query(alias="from", max_length=500)],
    end: Annotated[str, Query(alias="to", max_length=500)] = "",
) -> Response:
    """The shortest ways from one node to another, which is given by its id or its name."""
    look = partial(_path, request, parts.service.kb(kb), begin, end.strip())
    return await looked_up(request, parts, visitor, kb, look)


def _path(request: Request, served: Served, begin: str, end: str) -> Response:
    explorer = explorer_of(served)
    start = explorer.value(explorer.skb.number(begin))
    meant = explorer.find(end) if end else []
    ways = explorer.ways(begin, meant[0].id, WAYS) if len(meant) == 1 else None
    return page(request, "explore_path.html", served=served, start=start, asked=end, meant=meant, ways=ways)


@router.get("/entry/{kb}/{entity_id:path}")
async def entry_page(
    kb: str, entity_id: str, request: Request, parts: PartsOf, visitor: VisitorOf, run: str = ""
) -> Response:
    """All that a knowledge base says of one entity; of an SKB's node also why it is an answer of one's own ``run``."""
    served = parts.service.kb(kb)
    chosen = parts.settings.language
    language = "en" if chosen == "auto" else chosen
    look = partial(_entry, request, served, entity_id, language)
    if served.is_skb:
        look = partial(_node, request, served, entity_id, lambda: _why(parts, served, visitor, run, entity_id))
    return await looked_up(request, parts, visitor, kb, look)


def _why(parts: Base, served: Served, visitor: Visitor, run_id: str, node_id: str) -> Why | None:
    """Why a node is an answer of a run; nothing for another's, or one that has not ended."""
    if not isinstance(parts, Parts) or not run_id:
        return None
    run = parts.store.run(run_id)
    if run is None or run.owner != visitor.owner or run.kb != served.key or run.under_way:
        return None
    found = parts.store.results.find(run_id)
    language = (run.answer or {}).get("language") or "en"
    return why(explorer_of(served), run, parts.store.events(run_id), found[1] if found else None, node_id, language)


def _entry(request: Request, served: Served, entity_id: str, language: str) -> Response:
    entry = served.kb.get_entry(entity_id, language=language)
    incoming = served.kb.search_neighbors(entity_id, direction="in", limit=50) if served.has_pages else None
    return page(request, "entry.html", kb=served.key, entry=entry, incoming=incoming, link=served.link)


def _node(request: Request, served: Served, node_id: str, because: Callable[[], Why | None]) -> Response:
    """A node: its document, its neighbours by relation, and why it is an answer. Raises UnknownId."""
    explorer = explorer_of(served)
    if explorer.skb.nodes.ids.find(node_id) < 0 and explorer.kb.relations.find(node_id) is not None:
        return RedirectResponse(served.explore(relation=node_id), 303)
    return page(
        request,
        "node.html",
        served=served,
        node=explorer.value(explorer.skb.number(node_id)),
        entry=explorer.kb.get_entry(node_id),
        around=explorer.around(node_id, SHOWN),
        why=because(),
    )
