"""What the query editor asks for: names to complete, labels to show, a query laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf
from kbnav.apps.web.routes.questions import Body
from kbnav.apps.web.routes.results import LONGEST_QUERY
from kbnav.knowledge.base import Entity, KnowledgeBase
from kbnav.knowledge.skb.rdf import local_name
from kbnav.knowledge.sparql.presentation import formatted
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, STANDARD_PREFIXES
from kbnav.settings.systems import kb_kind

router = APIRouter(prefix="/api", responses=REFUSALS)
MOST_IDS = 50
MOST_NAMES = 12
SECONDS = 5.0
"""Longest wait for what only helps."""
Text = Annotated[str, Query(min_length=1, max_length=200)]
Kind = Annotated[Literal["any", "item", "property"], Query()]
Language = Annotated[str, Query(max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")]
Ids = Annotated[list[str], Query(max_length=MOST_IDS)]
T = TypeVar("T")


class Name(BaseModel):
    """What a name may stand for; ``written``: how queries write it, empty: some prefix and its id."""

    id: str
    label: str
    description: str
    kind: str
    written: str


class Unformatted(Body):
    """A query to be laid out."""

    query: str = Field(min_length=1, max_length=LONGEST_QUERY)


class Formatted(BaseModel):
    """The query laid out."""

    query: str


@router.get("/kbs/{kb}/names")
async def names(
    kb: str, text: Text, request: Request, parts: PartsOf, visitor: VisitorOf, kind: Kind = "any",
    language: Language = "en",
) -> list[Name]:  # fmt: skip
    """Entities and properties by a part of their names, best first."""
    served = parts.service.kb(kb)
    found = await _look(
        parts, request, visitor, served,
        lambda: served.kb.search_entities(text, language=language, limit=MOST_NAMES, kind=kind),
    )  # fmt: skip
    return [_name(served.kb, one) for one in (*found.properties, *found.entities)][: 2 * MOST_NAMES]


@router.get("/kbs/{kb}/labels")
async def labels(
    kb: str, request: Request, parts: PartsOf, visitor: VisitorOf, id: Ids, language: Language = "en"
) -> Mapping[str, str]:
    """Labels of ids; those without one are left out."""
    served = parts.service.kb(kb)
    found: Mapping[str, str] = await _look(
        parts, request, visitor, served, lambda: served.kb.labels(id, language=language)
    )
    return found


@router.get("/kbs/{kb}/prefixes")
def prefixes(kb: str, parts: PartsOf, visitor: VisitorOf) -> Mapping[str, str]:  # noqa: ARG001 - logged in
    """The prefixes that a query need not declare, with what they stand for."""
    return _prefixes(parts.service.kb(kb).kb)


@router.post("/queries/format")
def format_query(given: Unformatted, visitor: VisitorOf) -> Formatted:  # noqa: ARG001 - logged in
    """The query laid out, a pattern a line; comments stay."""
    return Formatted(query=formatted(given.query).rstrip("\n"))


async def _look(parts: Any, request: Request, visitor: Any, served: Any, look: Callable[[], T]) -> T:
    turn = {"gone": request.is_disconnected, "wait": parts.settings.web.wait_seconds, "refuse": served.guard.refuse}
    watched = partial(_watched, served, look)
    return await parts.service.pages.run(visitor.owner, served.key, watched, seconds=SECONDS, **turn)  # type: ignore[no-any-return]


def _watched(served: Any, look: Callable[[], T]) -> T:
    with served.guard.watching():
        return look()


def _prefixes(kb: KnowledgeBase) -> Mapping[str, str]:
    if kb_kind(kb) == "skb":
        return SKB_PREFIXES
    vocabulary = getattr(kb, "vocabulary", None)
    own = vocabulary.prefixes if vocabulary is not None else kb.state().get("prefixes", {})
    return {**STANDARD_PREFIXES, **own}


def _name(kb: KnowledgeBase, entity: Entity) -> Name:
    written = ""
    if kb_kind(kb) == "skb":
        written = f"{'rel' if entity.kind == 'property' else 'node'}:{local_name(entity.id)}"
    elif kb_kind(kb) != "wikibase":
        written = entity.id
    return Name(id=entity.id, label=entity.label, description=entity.description, kind=entity.kind, written=written)
