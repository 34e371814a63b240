"""get_entry: the outgoing edges of one entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbnav.knowledge.base import Statement
from kbnav.relevance import relevance, words
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import entry_text

_OF_ANY = frozenset({"id", "ids", "identifier", "identifiers", "code", "number", "name"})
"""Words of an identifier's label that say nothing of which one it is."""
_IDENTIFIERS = 10
"""Identifiers that are shown."""


def get_entry(context: Context, thought: str, entity_id: str) -> Observation:
    """Read the page of one entity or property: its statements with qualifiers, cut to what matters for the question.

    Use it to see which properties an entity really has before writing a query with them. Edges that come in from other
    entities are not on this page. Of identifiers in other databases, those are shown that the question speaks of.

    Args:
        thought: Why this step comes next, in one or two sentences.
        entity_id: The id of the entity or property, such as Q42 or P31.
    """
    entry = context.kb.get_entry(entity_id, language=context.language)
    kept, usage = context.prune(entry, context.asked)
    kept = replace(kept, identifiers=_asked_for(entry.identifiers, f"{context.asked} {thought}"))
    return Observation(entry_text(entry, kept, context.shown), usage=usage)


def _asked_for(identifiers: Sequence[Statement], spoken: str) -> tuple[Statement, ...]:
    """The identifiers whose labels share a word with what is spoken of, the closest first."""
    labels = [" ".join(word for word in words(one.property.label) if word not in _OF_ANY) for one in identifiers]
    scores = relevance(spoken, labels)
    best = sorted(range(len(scores)), key=lambda place: -scores[place])
    return tuple(identifiers[place] for place in best[:_IDENTIFIERS] if scores[place] > 0)
