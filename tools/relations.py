"""The tools of an agent that explores by relations: which there are at some nodes, and what some of them lead to."""

from __future__ import annotations

from typing import Any

from kbnav.errors import BadArguments
from kbnav.knowledge.skb.kb import as_skb
from kbnav.runs.trajectory import Fact
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import cut, entity_name
from kbnav.tools.walking import fact_of, neighborhood, once, qualifiers, relation_text, told

_SAMPLED = 2_000
"""Edges of a node whose relations are listed."""
_RELATIONS = 60
"""Relations of one node that are listed."""
_LIKE = 20
"""Relations that a search by words shows."""
_ENTITIES = 20
"""Nodes whose relations one call lists."""
FOUND = 20
"""Neighbours of one node and relation that are looked at; ToG's authors draw 5 at random."""
_FOUND_IN_ALL = 100
_FEWEST = 5
"""Neighbours that each way shows, however many ways are followed at once."""

Way = dict[str, Any]
"""A relation to follow from a node, as plain data: ``entity_id``, ``relation`` (^: backwards) and its ``score``."""


def search_relations(context: Context, thought: str, entity_ids: list[str]) -> Observation:
    """See which relations some nodes have, in both directions, with an example of each.

    Args:
        thought: Why this step comes next, in one or two sentences.
        entity_ids: The ids of the nodes.
    """
    lines, facts = list[str](), list[Fact]()
    for entity_id in entity_ids[:_ENTITIES]:
        found = neighborhood(context, entity_id, "", "both", "", _SAMPLED)
        counted: dict[str, list[Fact]] = {}
        for edge in found.edges:
            fact = fact_of(found.entity, edge)
            counted.setdefault(fact.relation, []).append(fact)
        lines.append(f"{entity_name(found.entity)}{':' if counted else ' has no links.'}")
        for own in list(counted.values())[:_RELATIONS]:
            example = own[0].target_name or own[0].target
            lines.append(f"- {relation_text(own[0])}: {len(own)}, such as {cut(example, 60)}")
            facts.append(own[0]._replace(target="", target_name=""))
    return Observation("\n".join(lines), facts=tuple(facts))


def find_relations(context: Context, thought: str, query: str = "", entity_id: str = "") -> Observation:
    """Find relations by words, or see those of one node with their number of links.

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: Words that the relation, or the types it links, may have.
        entity_id: The id of a node, to see which relations it has.
    """
    kb = as_skb(context.kb, "find_relations")
    if entity_id:
        return Observation("\n".join(kb.relations.of_node(entity_id, query, _RELATIONS)))
    if not query.strip():
        raise BadArguments("find_relations: give words, or the id of a node")
    lines = kb.relations.kinds_like(query, _LIKE)
    return Observation("\n".join(lines) or f'No relation has words of "{cut(query, 60)}". Try others, or a node.')


def follow_relations(context: Context, thought: str, ways: list[Way]) -> Observation:
    """Follow relations from nodes, each from its own node, and see what they lead to.

    Args:
        thought: Why this step comes next, in one or two sentences.
        ways: The nodes with the relations to follow.
    """
    limit = max(_FEWEST, min(FOUND, _FOUND_IN_ALL // max(1, len(ways))))
    lines, facts = list[str](), list[Fact]()
    for way in ways:
        found = neighborhood(context, way["entity_id"], way["relation"], "out", context.question, limit)
        head = f"{entity_name(found.entity)}, {way['relation']}: {found.total} link{'s' if found.total != 1 else ''}"
        if found.total > len(found.edges):
            head += f", those {len(found.edges)} that fit the question best"
        lines.append(f"{head}.")
        for edge, more in zip(found.edges, qualifiers(context, found.entity, found.edges), strict=True):
            fact = fact_of(found.entity, edge)._replace(qualifiers=more)
            lines.append(f"- {told(fact, edge.neighbor.description)}")
            facts.append(fact)
    return Observation("\n".join(lines), nodes=once(fact.target for fact in facts), facts=tuple(facts))
