"""What a knowledge base holds: pages on which people look around in an SKB, pages and cards of entities, examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from kbnav.apps.web.auth import Visitor
from kbnav.apps.web.examples import made_examples
from kbnav.apps.web.rendering import page
from kbnav.apps.web.results import StoredTable
from kbnav.apps.web.routes.common import (
    LOGGED_IN,
    REFUSALS,
    ChatParts,
    Language,
    Parts,
    PartsOf,
    VisitorOf,
    look_up,
    page_of,
)
from kbnav.apps.web.service import Served
from kbnav.apps.web.store import StoredEvent
from kbnav.errors import NotOffered
from kbnav.knowledge.skb.exploring import Explorer, NodePage
from kbnav.knowledge.skb.kb import as_skb
from kbnav.knowledge.skb.questions import read
from kbnav.tools.show import cut

router = APIRouter(include_in_schema=False)
api_router = APIRouter(prefix="/api", responses=REFUSALS)
PAGE = 50
"""Nodes on a page."""
SHOWN = 10
"""Neighbours by one relation that a node's page shows."""
FOUND = 20
EXAMPLES = 20
WAYS = 10
EXPLAINED_WAYS = 3
"""ShortestPaths from each node that the question names, where a node is explained."""
EXPLAINED_ROWS = 10_000
"""Rows of a table in which the node is looked for."""
CARD_SECONDS = 10.0
EXAMPLE_SECONDS = 60.0
WIDTH = 160
"""Characters of a line of a card."""
Text = Annotated[str, Query(max_length=500)]
Start = Annotated[int, Query(ge=0, le=2**31)]


def explorer_of(served: Served) -> Explorer:
    """What looks around in a knowledge base. Raises NotOffered where it is no SKB."""
    if not served.is_skb:
        raise NotOffered(f"{served.key} is no SKB, so that there is nothing to explore")
    return Explorer(as_skb(served.kb, "the explorer"))


@router.get("/explore", dependencies=[LOGGED_IN])
async def index(request: Request, parts: PartsOf) -> Response:
    """The SKBs to look around in; where there is one, that."""
    served = [one for one in parts.service.kbs.values() if one.is_skb]
    if len(served) == 1:
        return RedirectResponse(served[0].explore(), 303)
    return page(request, "explore.html", explorers=[(one, explorer_of(one).skb.meta) for one in served])


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
            return _relation(request, served, explorer, relation)
        meta, shown = explorer.skb.meta, explorer.kb.relations.display
        return page(request, "explore_kb.html", served=served, meta=meta, shown=shown, q="")

    return await page_of(request, parts, visitor, kb, look)


def _relation(request: Request, served: Served, explorer: Explorer, relation: str) -> Response:
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

    def look() -> Response:
        explorer = explorer_of(served)
        listed = explorer.neighbors(node, relation, start, PAGE)
        value = explorer.value(explorer.skb.number(node))
        return _listed(request, served, listed, start, node=value, relation=relation)

    return await page_of(request, parts, visitor, kb, look)


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
    kb: str, request: Request, parts: PartsOf, visitor: VisitorOf,
    begin: Annotated[str, Query(alias="from", max_length=500)],
    end: Annotated[str, Query(alias="to", max_length=500)] = "",
) -> Response:  # fmt: skip
    """The shortest ways from one node to another, which is given by its id or its name."""
    served, end = parts.service.kb(kb), end.strip()

    def look() -> Response:
        explorer = explorer_of(served)
        start = explorer.value(explorer.skb.number(begin))
        meant = explorer.find(end) if end else []
        ways = explorer.ways(begin, meant[0].id, WAYS) if len(meant) == 1 else None
        return page(request, "explore_path.html", served=served, start=start, asked=end, meant=meant, ways=ways)

    return await page_of(request, parts, visitor, kb, look)


@router.get("/entry/{kb}/{entity_id:path}")
async def entry_page(
    kb: str, entity_id: str, request: Request, parts: PartsOf, visitor: VisitorOf, run: str = ""
) -> Response:
    """All that a knowledge base says of one entity; of an SKB's node also why it is an answer of one's own ``run``."""
    served = parts.service.kb(kb)
    language = "en" if parts.settings.language == "auto" else parts.settings.language

    def look() -> Response:
        if served.is_skb:
            return _node(request, parts, served, visitor, entity_id, run)
        entry = served.kb.get_entry(entity_id, language=language)
        incoming = served.kb.search_neighbors(entity_id, direction="in", limit=50) if served.has_pages else None
        return page(request, "entry.html", kb=served.key, entry=entry, incoming=incoming, link=served.link)

    return await page_of(request, parts, visitor, kb, look)


def _node(request: Request, parts: Parts, served: Served, visitor: Visitor, node_id: str, run_id: str) -> Response:
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
        why=_explanation(parts, explorer, served.key, visitor, run_id, node_id),
    )


def _explanation(
    parts: Parts, explorer: Explorer, kb: str, visitor: Visitor, run_id: str, node_id: str
) -> dict[str, Any] | None:
    """Why a node is an answer of a run; nothing for another's, or one that has not ended. Raises UnknownId.

    ``named`` are ways to it from the nodes that the question names.
    """
    if not isinstance(parts, ChatParts) or not run_id:
        return None
    run = parts.store.run(run_id)
    if run is None or run.owner != visitor.owner or run.kb != kb or run.under_way:
        return None
    found, answer = parts.store.results.find(run_id), run.answer or {}
    node = explorer.skb.number(node_id)
    reading = read(run.question, explorer.skb, answer.get("language") or "en")
    starts = dict.fromkeys(one.nodes[0] for one in reading.mentions if node not in one.nodes)
    return {
        "run": run,
        "place": _place(found[1], node_id) if found else None,
        "query": str(answer.get("query") or ""),
        "steps": _steps(parts.store.events(run_id), node_id),
        "sentence": explorer.kb.excerpts([node_id], run.question).get(node_id, ""),
        "named": [
            (explorer.value(start), explorer.ways(explorer.skb.id(start), node_id, EXPLAINED_WAYS)) for start in starts
        ],
    }


def _place(table: StoredTable, node_id: str) -> dict[str, Any] | None:
    """Where a node stands in an answer: its rank and score, or its row from 1 on and its column, of ``total``."""
    for rank, one in enumerate(table.ranking.nodes if table.ranking else (), 1):
        if one.id == node_id:
            return {"number": rank, "total": table.count, "score": one.score, "column": ""}
    for number, row in enumerate(table.rows(0, EXPLAINED_ROWS) if not table.ranking else (), 1):
        for column, cell in zip(table.columns, row, strict=True):
            if table.head.entity(cell) == node_id:
                return {"number": number, "total": table.count, "score": None, "column": column}
    return None


def _steps(events: Sequence[StoredEvent], node_id: str) -> list[dict[str, Any]]:
    """The steps on the path whose observation has the node's id as a word of its own."""
    shows = re.compile(rf"(?<![\w:-]){re.escape(node_id)}(?![\w-])").search
    recorded = [one.data for one in events]
    calls: Mapping[int, Mapping[str, Any]] = {one["call"]: one for one in recorded if one["kind"] == "call"}
    dropped = {step["call"] for one in recorded if one["kind"] == "dropped" for step in one["steps"]}
    found = []
    for one in recorded:
        if one["kind"] == "step" and one["call"] not in dropped and shows(one["observation"]):
            call = calls.get(one["call"], {"tool": "", "arguments": {}})
            values = [str(value) for value in call["arguments"].values() if value]
            found.append({"number": one["number"], "tool": call["tool"], "arguments": cut(", ".join(values), 200)})
    return found


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
async def examples(kb: str, request: Request, parts: PartsOf, visitor: VisitorOf) -> list[str]:
    """Questions that are known to be answered; where none are given, they are made once of the data, of a mirror's."""
    served = parts.service.kb(kb)
    if given := parts.service.examples(kb):
        return list(given)
    look = partial(made_examples, served)
    # A question that fails is no fault of the knowledge base: its circuit breaker does not count here.
    found = await parts.service.pages.run(
        visitor.owner, kb, look, gone=request.is_disconnected, seconds=EXAMPLE_SECONDS,
        refuse=served.breaker.refuse,
    )  # fmt: skip
    parts.service.keep_examples(kb, found)
    return list(found)
