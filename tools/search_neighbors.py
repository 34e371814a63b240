"""search_neighbors: edges in both directions, ranked."""

from __future__ import annotations

import re
from dataclasses import replace

from kbnav.errors import BadArguments
from kbnav.knowledge.base import Direction, Neighborhood
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import neighborhood_text

_FILTERED = 500
"""Edges whose other ends are looked at for what they must have."""
_CONDITION = re.compile(r"(?:wdt:)?(P[1-9]\d*)\s*=\s*(?:wd:)?(Q[1-9]\d*)", re.IGNORECASE)


def search_neighbors(
    context: Context,
    thought: str,
    entity_id: str,
    query: str = "",
    relation: str = "",
    direction: Direction = "both",
    having: str = "",
    offset: int = 0,
) -> Observation:
    """Find what an entity is linked to, in both directions, best match first; statements that are not truthy too.

    Often the fact is stated on the other entity and points to this one, where get_entry does not show it.

    Args:
        thought: Why this step comes next.
        entity_id: Its id, such as Q42.
        query: Words for the wanted relation or neighbour, to rank edges by.
        relation: Id of a property, to see only its edges.
        direction: "out" for edges that leave the entity, "in" for those that point to it.
        having: What the other end must have: "P27=Q36".
        offset: How many of the best edges to pass over.
    """
    offset = max(0, offset)
    found = context.kb.search_neighbors(
        entity_id,
        relation=relation or None,
        direction=direction,
        query=query or context.asked,
        language=context.language,
        limit=_FILTERED if having else offset + context.shown.edges,
    )
    asked = ""
    if having:
        wanted = _CONDITION.fullmatch(having.strip())
        if not wanted:
            raise BadArguments(f'search_neighbors: having must be a property and an item, as "P27=Q36", not {having!r}')
        found = _with(context, found, wanted[1].upper(), wanted[2].upper())
        asked = f" with {wanted[1].upper()}={wanted[2].upper()}"
    return Observation(neighborhood_text(found, context.shown, offset=offset, asked=asked))


def _with(context: Context, found: Neighborhood, property_id: str, value: str) -> Neighborhood:
    """The edges whose other end has a truthy statement."""
    ids = list(dict.fromkeys(edge.neighbor.id for edge in found.edges if edge.neighbor.id.startswith("Q")))
    if not ids:
        return replace(found, edges=(), total=0, relations=())
    listed = " ".join(f"wd:{one}" for one in ids)
    query = f"SELECT DISTINCT ?x {{ VALUES ?x {{ {listed} }} ?x wdt:{property_id} wd:{value} }}"
    table = context.kb.execute_query(query, language=context.language)
    kept = {row[0].entity_id for row in table.rows if row[0] is not None}
    edges = tuple(edge for edge in found.edges if edge.neighbor.id in kept)
    return replace(found, edges=edges, total=len(edges), relations=())
