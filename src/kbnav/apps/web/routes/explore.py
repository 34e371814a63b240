"""What a knowledge base holds: pages on which people look around in an SKB, pages and cards of entities, examples."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.answers.language import plural
from kbnav.apps.console import EXAMPLES
from kbnav.apps.web.rendering import page
from kbnav.apps.web.results import text_of
from kbnav.apps.web.routes.common import REFUSALS, Language, PartsOf, VisitorOf, look_up
from kbnav.apps.web.service import Served, Service
from kbnav.errors import KbnavError, NotOffered
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.skb.exploring import Explorer, NodePage
from kbnav.knowledge.skb.kb import as_skb
from kbnav.models.cancellation import in_thread
from kbnav.sessions.session import attempt
from kbnav.settings.model import OFFLINE
from kbnav.settings.systems import kb_kind, usual_agent
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
    about = {"kind": "", "node": None, "relation": "", "start": start, **of}
    address = request.url.include_query_params
    earlier = address(start=max(0, start - PAGE)).query if start else ""
    later = address(start=start + PAGE).query if start + PAGE < listed.total else ""
    return page(request, "explore_nodes.html", served=served, listed=listed, earlier=earlier, later=later, **about)


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
            entry = explorer.kb.get_entry(entity_id)
            return page(request, "node.html", served=served, node=node, entry=entry, around=around)
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


MOST = 3
TRIED = 8
"""Questions that are tried; each takes the time of an answer."""
ENOUGH = 15.0
"""Seconds after which one that is answered will do; none takes longer."""
LONGEST = 60.0
"""Seconds after which no other is tried."""
_PREPOSITIONS = frozenset({"as", "at", "by", "for", "from", "in", "of", "on", "to", "with"})
_STATED = """
SELECT ?name ?relation WHERE {
  { SELECT ?thing ?p WHERE {
      ?property wikibase:directClaim ?p ; wikibase:propertyType wikibase:WikibaseItem .
      ?thing ?p ?value . ?value rdfs:label ?any } LIMIT 20000 }
  ?property wikibase:directClaim ?p ; rdfs:label ?relation . FILTER(LANG(?relation) = "en")
  ?thing rdfs:label ?name . FILTER(LANG(?name) = "en")
} LIMIT 400
"""
"""Some names and relations of statements whose value has a label."""
_IRREGULAR = re.compile(r"(?i)(?:[^su]s|man|child|data|media|ware|fe?)$|\b(?:and|for|from|with|[a-z]{2})\b")
"""Names of classes whose plural is not known."""


def examples_of(service: Service, served: Served) -> Future[list[str]]:
    """A few questions that are known to be answered; where none are given, they are made of the data, beside, once."""
    made = service.examples.get(served.key)
    if made is None or (made.done() and made.exception()):
        made = service.examples[served.key] = in_thread(partial(_examples, served), service.ending)
    return made


def _examples(served: Served) -> list[str]:
    """Those that are given; else a few that the rules answer here by one query without leaving a word out."""
    good = list(EXAMPLES.get(served.key) or served.settings.source.examples)
    if good:
        return good
    settings = served.asking(usual_agent(served.kb), OFFLINE)
    budget = settings.budget.model_copy(update={"seconds": ENOUGH})
    agent = build_agent(served.kb, settings.model_copy(update={"budget": budget}))
    began, questions, tried = time.monotonic(), _questions(served.kb), 0
    while len(good) < MOST and time.monotonic() - began < (ENOUGH if good else LONGEST):
        if tried == TRIED or (ways := next(questions, None)) is None:
            break
        tried += bool(ways)
        good += islice((question for question in ways if _is_answered(agent, question)), 1)
    return good


def _is_answered(agent: Agent, question: str) -> bool:
    try:
        outcome = attempt(agent, question).run.outcome
    except KbnavError:
        return False
    return outcome.status == "answered" and outcome.understood is not None and not outcome.understood.unused


def _questions(kb: KnowledgeBase) -> Iterator[Sequence[str]]:
    """Questions to try, each in its ways: of edges of an SKB, the classes of an endpoint, statements of a mirror."""
    if kb_kind(kb) == "skb":
        counts: Counter[str] = Counter()
        for one in as_skb(kb, "making examples").skb.meta.tuples:
            counts[one.relation] += one.count
        for relation, _ in counts.most_common():
            for edge in kb.get_property_examples(relation, limit=1):
                subject, name = edge.subject, edge.property.label or relation
                yield _asked(subject.kind, name, subject.label, edge.value.text)
    elif isinstance(kb, EndpointKB):
        names = kb.label_predicates() or ["rdfs:label"]
        name = "|".join(names)
        for kind in [one.entity for one in sorted(kb.classes(), key=lambda one: -one.count)[:TRIED]]:
            relations = [share.entity for share in kb.class_profile(kind.id).properties if share.entity.id not in names]
            ways, number = list[str](), f"How many {plural(2, kind.label).removeprefix('2 ')} are there?"
            kept = f"?one a {kind.id} ; {name} ?name ; ?has ?value . FILTER(isIRI(?one) && !isBlank(?value))"
            some = [f"{{ SELECT * WHERE {{ VALUES ?has {{ {one.id} }} {kept} }} LIMIT 1 }}" for one in relations[:3]]
            table = kb.execute_query(f"SELECT ?has ?one ?value WHERE {{ {' UNION '.join(some) or 'FILTER(false)'} }}")
            for has, *cells in table.rows:  # none where no member has a name
                lacks = f'FILTER NOT EXISTS {{ ?word {name} ?own . FILTER(LANG(?own) IN ("", "en")) }}'
                words = f"VALUES ?word {{ {kind.id} {table.entity(has)} }} ?word {name} ?any . {lacks}"
                foreign = kb.execute_query(f"ASK {{ {words} }}").boolean
                asked, *given = (text_of(cell, table) for cell in (has, *cells))
                # of a language whose grammar is not known here
                ways += [f"{asked}: {given[0]}?"] if foreign else _asked(kind.label, asked, *given)
            yield ways
            yield [number] * (bool(ways) and not _IRREGULAR.search(kind.label))
    elif is_mirror(kb.state()):
        used: set[str] = set()
        for thing, stated in kb.execute_query(_STATED).rows:
            if thing and stated and used.isdisjoint((thing.value, stated.value)):
                used |= {thing.value, stated.value}
                yield _asked("", stated.value, thing.value, "")
    else:
        yield from ([one] for one in EXAMPLES["mini"])


def _asked(kind: str, relation: str, thing: str, value: str) -> list[str]:
    """What a person would ask: of a noun what it is, of a verb or a preposition who or which does it."""
    kind, relation = kind.replace("_", " ").casefold(), relation.replace("_", " ").strip() or relation
    noun = relation.removeprefix("has ")
    first, *_, last = relation.casefold().split(" ") * 2
    start, *_ = words = noun.casefold().split(" ")
    ends_in_s = start.endswith("s") and not start.endswith(("ss", "us", "is"))
    if last in _PREPOSITIONS or last.endswith("ed"):
        if not value or (ends_in_s and last == "of"):  # "members of"
            return []
        be = "" if last.endswith("ed") or first.endswith("s") else "was " if first == "born" else "is "
        people = ["Who"] * (kind in ("person", "people", "human"))
        return [f"{who} {be}{relation} {value}?" for who in (*people, f"Which {kind}")]
    inner = _PREPOSITIONS - {"for", "of"} & {*words}  # "office held by head of government"
    odd = ends_in_s or start.endswith("ed") or "(" in noun or inner  # "the cites of"
    return [f"What is the {noun} of {thing}?"] * (bool(thing) and not odd)
