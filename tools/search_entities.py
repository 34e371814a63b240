"""search_entities: from words to ids."""

from __future__ import annotations

from kbnav.knowledge.base import SearchKind
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import search_text


def search_entities(context: Context, thought: str, query: str, kind: SearchKind = "any") -> Observation:
    """Find entities and properties by name: "Marie Curie", "doctoral advisor". A whole question finds nothing.

    Args:
        thought: Why this step comes next.
        query: A name, or one to four words.
        kind: "property" or "item": only those. "value": statements and qualifiers with this text (a title, a role) as
            their value.
    """
    limit = context.shown.entities
    result = context.kb.search_entities(query, language=context.language, limit=limit, kind=kind)
    return Observation(search_text(result, query, context.shown, begins=True))
