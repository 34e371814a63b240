"""search_neighbors: edges in both directions, ranked."""

from __future__ import annotations

from kbnav.knowledge.base import Direction
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import neighborhood_text


def search_neighbors(
    context: Context,
    thought: str,
    entity_id: str,
    query: str = "",
    relation: str = "",
    direction: Direction = "both",
) -> Observation:
    """Find what an entity is linked to, in both directions, best match first.

    Use it where get_entry does not show the link: often the fact is stated on the other entity and points to this one.

    Args:
        thought: Why this step comes next, in one or two sentences.
        entity_id: The id of the entity, such as Q42.
        query: Words that describe the wanted relation or neighbour; edges are ranked against them.
        relation: The id of a property, to see only its edges.
        direction: "out" for edges that leave the entity, "in" for edges that point to it, or "both".
    """
    neighborhood = context.kb.search_neighbors(
        entity_id,
        relation=relation or None,
        direction=direction,
        query=query or context.asked,
        language=context.language,
        limit=context.shown.edges,
    )
    return Observation(neighborhood_text(neighborhood, context.shown))
