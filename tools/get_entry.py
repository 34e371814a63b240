"""get_entry: the statements of one entity, what comes in, and what the members of a class have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kbnav.answers.relevance import relevance, words
from kbnav.errors import TellModel, UnknownId
from kbnav.knowledge.base import Entry, Profiled, Statement
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, vocabulary_of
from kbnav.tools.context import Context, Observation, Shown
from kbnav.tools.show import class_text, entity_name, entry_text, incoming_text, statement_lines

_ID = re.compile(r"\bP[1-9]\d*\b", re.IGNORECASE)

_OF_ANY = frozenset({"id", "ids", "identifier", "identifiers", "code", "number", "name"})
"""Words of an identifier's label that say nothing of which one it is."""
_IDENTIFIERS = 10
"""Identifiers that are shown."""


def get_entry(context: Context, thought: str, entity_id: str, properties: str = "") -> Observation:
    """Read the page of an entity or property: its statements with qualifiers, cut to what matters for the question.

    It shows which properties an entity really has. Edges that come in are counted; of a class, what its instances have.

    Args:
        thought: Why this step comes next.
        entity_id: Its id, such as Q42 or P31.
        properties: Ids of properties to see whole, and nothing else: "P39 P166".
    """
    try:
        entry = context.kb.get_entry(entity_id, language=context.language)
    except UnknownId:  # a part of a knowledge base may have nothing of a thing but that others name it
        around = _around(context, entity_id.strip().rpartition(":")[2].upper())
        if not around:
            raise
        return Observation("\n".join([f"{entity_id} has no statements of its own here.", *around]))
    wanted = [one.upper() for one in _ID.findall(properties)]
    if wanted:
        return Observation(_of_properties(entry, wanted, context.shown))
    kept, usage = context.prune(entry, context.asked)
    kept = replace(kept, identifiers=_asked_for(entry.identifiers, f"{context.asked} {thought}"))
    lines = [entry_text(entry, kept, context.shown), *_around(context, entry.entity.id)]
    return Observation("\n".join(lines), usage=usage)


def _of_properties(entry: Entry, wanted: Sequence[str], shown: Shown) -> str:
    """All statements of some properties, identifiers among them."""
    found = [one for one in (*entry.statements, *entry.identifiers) if one.property.id in wanted]
    absent = [one for one in wanted if all(statement.property.id != one for statement in found)]
    lines = [entity_name(entry.entity), *statement_lines(found, shown)]
    if absent:
        lines.append(f"It has no statement of {', '.join(absent)}.")
    return "\n".join(lines)


def _around(context: Context, entity_id: str) -> list[str]:
    """What comes in, and of a class, what its instances have; nothing where that cannot be counted soon."""
    kb = context.kb
    if not (context.shown.profiles and isinstance(kb, Profiled) and entity_id.startswith("Q")):
        return []
    try:
        shares = kb.incoming(entity_id, language=context.language)
        told = vocabulary_of(kb).each((INSTANCE_OF, SUBCLASS_OF))
        classes = any(share.entity.id in told for share in shares)
        profile = kb.class_profile(entity_id, language=context.language) if classes else None
    except TellModel:
        return []
    return [line for line in (incoming_text(shares), class_text(profile, vocabulary_of(kb)) if profile else "") if line]


def _asked_for(identifiers: Sequence[Statement], spoken: str) -> tuple[Statement, ...]:
    """The identifiers whose labels share a word with what is spoken of, the closest first."""
    labels = [" ".join(word for word in words(one.property.label) if word not in _OF_ANY) for one in identifiers]
    scores = relevance(spoken, labels)
    best = sorted(range(len(scores)), key=lambda place: -scores[place])
    return tuple(identifiers[place] for place in best[:_IDENTIFIERS] if scores[place] > 0)
