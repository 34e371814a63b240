"""vector_query: entities by meaning."""

from __future__ import annotations

from kbnav.tools.context import Context, Observation
from kbnav.tools.show import ranking_text


def vector_query(context: Context, thought: str, text: str, kind: str = "item") -> Observation:
    """Find entities whose description is near in meaning to a text, also where they share no word with it.

    Use it when a search by name finds nothing and you can describe what you look for.

    Args:
        thought: Why this step comes next, in one or two sentences.
        text: A description of what is wanted, in a phrase or a sentence.
        kind: "item" or "property", or the id of a class, such as Q5, for its instances; in a local knowledge base the
            type of node.
    """
    ranking = context.kb.vector_query(text, kind=kind, limit=context.shown.entities, language=context.language)
    return Observation(ranking_text(ranking))
