"""What a knowledge base holds: pages on which people look around in an SKB, pages and cards of entities, examples."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from kbnav.apps.web.examples import LONGEST, examples_of
from kbnav.apps.web.rendering import page
from kbnav.apps.web.routes.common import REFUSALS, Language, PartsOf, VisitorOf, look_up
from kbnav.apps.web.service import Served
from kbnav.errors import KbnavError, NotOffered
from kbnav.knowledge.skb.exploring import Explorer, NodePage
from kbnav.knowledge.skb.kb import as_skb
from kbnav.tools.show import cut

router = APIRouter(include_in_schema=False)
api_router = APIRouter(prefix="/api", responses=REFUSALS)
PAGE = 50
"""Nodes on a page."""
SHOWN = 10
"""Neighbours by one relation that a node's page shows."""
FOUND = 20
CARD_SECONDS = 10.0
WIDTH = 160
"""Characters of a line of a card."""
Text = Annotated[str, Query(max_length=500)]
Start = Annotated[int, Query(ge=0, le=2**31)]


def explorer_of(served: Served) -> Explorer:
    """What looks around in a knowledge base. Raises NotOffered where it is no SKB."""
    if not served.is_skb:
        raise NotOffered(f"{served.key} is no SKB, so that there is nothing to explore")
    return Explorer(as_skb(served.kb, "the explorer"))


@router.get("/explore/{kb}")
async def overview(
    kb: str, request: Request, parts: PartsOf, visitor: VisitorOf, q: Text = "", type: Text = "", relation: Text = "",
    start: Start = 0,
) -> Response:  # fmt: skip
    """What an SKB is made of; or what a search finds, the nodes of a type, or what a relation links."""
    served = parts.service.kb(kb)

    def look() -> Response:
        explorer = explorer_of(served)
        if q.strip():
            found = explorer.kb.search_entities(q.strip(), limit=FOUND)
            return page(request, "explore_found.html", served=served, found=found, q=q.strip())
        if type:
            return _listed(request, served, explorer.of_type(type, start, PAGE), start, kind=type)
        if relation:
            names, some = explorer.kb.relations, explorer.kb.get_property_examples(relation, limit=FOUND)
            number, _ = names.resolve(relation)
            of = {"relation": names.shown[number], "links": names.links(number), "examples": some}
            return page(request, "explore_relation.html", served=served, **of)
        meta, shown = explorer.skb.meta, explorer.kb.relations.display
        return page(request, "explore_kb.html", served=served, meta=meta, shown=shown, q="")

    return await look_up(request, parts, visitor.owner, served, look)


@router.get("/explore/{kb}/neighbors")
async def neighbors(
    kb: str, request: Request, parts: PartsOf, visitor: VisitorOf, node: Text, relation: Text, start: Start = 0
) -> Response:
    """The neighbours of a node by one relation, a page at a time."""
    served = parts.service.kb(kb)

    def look() -> Response:
        explorer = explorer_of(served)
        listed = explorer.neighbors(node, relation, start, PAGE)
        value = explorer.value(explorer.skb.number(node))
        return _listed(request, served, listed, start, node=value, relation=relation)

    return await look_up(request, parts, visitor.owner, served, look)


def _listed(request: Request, served: Served, listed: NodePage, start: int, **of: Any) -> Response:
    about = {"kind": "", "node": None, "relation": "", **of}
    address = request.url.include_query_params
    earlier = address(start=max(0, start - PAGE)).query if start else ""
    later = address(start=start + PAGE).query if start + PAGE < listed.total else ""
    return page(
        request, "explore_nodes.html", served=served, listed=listed, start=start, earlier=earlier, later=later, **about
    )


@router.get("/entry/{kb}/{entity_id:path}")
async def entry_page(kb: str, entity_id: str, request: Request, parts: PartsOf, visitor: VisitorOf) -> Response:
    """All that a knowledge base says of one entity; of an SKB, a node with its document and neighbours."""
    served = parts.service.kb(kb)
    language = "en" if parts.settings.language == "auto" else parts.settings.language

    def look() -> Response:
        if served.is_skb:
            explorer = explorer_of(served)
            if explorer.skb.nodes.ids.find(entity_id) < 0 and explorer.kb.relations.find(entity_id) is not None:
                return RedirectResponse(served.explore(relation=entity_id), 303)
            node, around = explorer.value(explorer.skb.number(entity_id)), explorer.around(entity_id, SHOWN)
            return page(
                request, "node.html", served=served, node=node, entry=explorer.kb.get_entry(entity_id), around=around
            )
        entry = served.kb.get_entry(entity_id, language=language)
        incoming = served.kb.search_neighbors(entity_id, direction="in", limit=50) if served.has_pages else None
        return page(request, "entry.html", kb=served.key, entry=entry, incoming=incoming, link=served.link)

    return await look_up(request, parts, visitor.owner, served, look)


class Card(BaseModel):
    """What an entity is: its first statements, or the beginning of its document."""

    id: str
    label: str
    about: str
    aliases: list[str]
    facts: list[tuple[str, str]]
    text: str
    href: str


@api_router.get("/entities/{kb}/{entity_id:path}")
async def card(
    kb: str, entity_id: str, request: Request, parts: PartsOf, visitor: VisitorOf, language: Language = "en"
) -> Card:
    """A few lines on one entity, to be shown where it is named."""
    served = parts.service.kb(kb)
    look = partial(served.kb.get_entry, entity_id, language=language)
    entry = await look_up(request, parts, visitor.owner, served, look, CARD_SECONDS)
    facts: dict[str, list[str]] = {}
    for one in entry.statements:
        facts.setdefault(one.property.label or one.property.id, []).append(one.value.text or one.value.id)
    return Card(
        id=entry.entity.id,
        label=entry.entity.label or entry.entity.id,
        about=cut(entry.entity.description, WIDTH),
        aliases=list(entry.aliases[:5]),
        facts=[(name, cut(", ".join(values), WIDTH)) for name, values in list(facts.items())[:6]],
        text=cut(entry.document, 2 * WIDTH),
        href=served.link(entry.entity.id),
    )


@api_router.get("/examples/{kb}")
async def examples(kb: str, parts: PartsOf) -> list[str]:
    """Questions that are known to be answered; made beside, and once, where none are given."""
    made = asyncio.wrap_future(examples_of(parts.service, parts.service.kb(kb)))
    try:
        return await asyncio.wait_for(asyncio.shield(made), LONGEST)
    except (KbnavError, TimeoutError):  # asked for again, they are made again
        return []
