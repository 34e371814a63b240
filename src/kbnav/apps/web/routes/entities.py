"""The REST API of what a knowledge base holds: a card that says what an entity is, questions that can be asked."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from kbnav.apps.web.examples import made_examples
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf
from kbnav.tools.show import cut

router = APIRouter(prefix="/api", responses=REFUSALS)
CARD_SECONDS = 10.0
EXAMPLE_SECONDS = 60.0
MOST_FACTS = 6
MOST_ALIASES = 5
WIDTH = 160
"""Characters of a line of a card."""
Language = Annotated[str, Query(max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")]


class Card(BaseModel):
    """What an entity is: its first statements, or the beginning of its document."""

    id: str
    label: str
    about: str
    aliases: list[str]
    facts: list[tuple[str, str]]
    text: str
    href: str


@router.get("/entities/{kb}/{entity_id:path}")
async def card(
    kb: str, entity_id: str, request: Request, parts: PartsOf, visitor: VisitorOf, language: Language = "en"
) -> Card:
    """A few lines on one entity, to be shown where it is named."""
    served = parts.service.kb(kb)
    look = partial(_card, served, entity_id, language)
    web = parts.settings.web
    turn = {"gone": request.is_disconnected, "wait": web.wait_seconds, "refuse": served.guard.refuse}
    found: Card = await parts.service.pages.run(visitor.owner, kb, look, seconds=CARD_SECONDS, **turn)
    return found


def _card(served: Any, entity_id: str, language: str) -> Card:
    with served.guard.watching():
        entry = served.kb.get_entry(entity_id, language=language)
    facts: dict[str, list[str]] = {}
    for one in entry.statements:
        values = facts.setdefault(one.property.label or one.property.id, [])
        values.append(one.value.text or one.value.id)
    return Card(
        id=entry.entity.id,
        label=entry.entity.label or entry.entity.id,
        about=cut(entry.entity.description, WIDTH),
        aliases=list(entry.aliases[:MOST_ALIASES]),
        facts=[(name, cut(", ".join(values), WIDTH)) for name, values in list(facts.items())[:MOST_FACTS]],
        text=cut(entry.document, 2 * WIDTH),
        href=served.link(entry.entity.id),
    )


@router.get("/examples/{kb}")
async def examples(kb: str, request: Request, parts: PartsOf, visitor: VisitorOf) -> list[str]:
    """Questions that are known to be answered; where none are given, they are made once of the data, of a mirror's."""
    served = parts.service.kb(kb)
    if given := parts.service.examples(kb):
        return list(given)
    turn = {"gone": request.is_disconnected, "wait": parts.settings.web.wait_seconds, "refuse": served.guard.refuse}
    look = partial(made_examples, served)
    found = await parts.service.pages.run(visitor.owner, kb, look, seconds=EXAMPLE_SECONDS, **turn)
    parts.service.keep_examples(kb, found)
    return list(found)
