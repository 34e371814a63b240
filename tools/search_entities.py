"""search_entities: from words to ids."""

from __future__ import annotations

from kbnav.knowledge.base import SearchKind
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import search_text


def search_entities(context: Context, thought: str, query: str, kind: SearchKind = "any") -> Observation:
    """Find entities and properties by name, as the search box of the knowledge base does.

    Short names work best ("Marie Curie", "capital"); a whole question finds nothing. Use it for properties too: search
    for the relation in one or two words ("doctoral advisor"). Results are shown as "label (ID): description".

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: A name, or a short phrase of one to four words.
        kind: "property" or "item" to see only those; "value" to find statements and qualifiers that have a text, as
            a title or the name of a role, as their value.
    """
    limit = context.shown.entities
    result = context.kb.search_entities(query, language=context.language, limit=limit, kind=kind)
    return Observation(search_text(result, query, context.shown))
