"""Tools for many nodes at once: what several lead to together, and a few fields of each. SKBs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Annotated

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from kbnav.answers.relevance import relevance
from kbnav.errors import BadArguments
from kbnav.knowledge.base import INVERSE
from kbnav.knowledge.skb.graph import Hop, NodeNumbers
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut

_PATHS, _LONGEST, _NODES = 6, 4, 50
"""Paths of a call, relations of a path, nodes of a call."""
_COUNTED = 100_000
"""Nodes whose links are counted, to see those with the most first."""
_REACHED = 1_000_000
"""Nodes that one hop reaches at most."""
_SHOWN = 20
_RANKED = 500
"""Nodes whose documents are compared with the question; of more, those with the most links."""
_FIELD = 200
"""Characters of a field that are shown."""


class PathFrom(TypedDict):
    """A path of relations from any of some nodes."""

    entity_ids: Annotated[list[str], Field(description="Ids of the nodes it begins at, of which any may do.")]
    relations: Annotated[
        list[str], Field(description="Relations to follow in order, 1 to 4, with ^ before one followed backwards.")
    ]


def follow_paths(
    context: Context,
    thought: str,
    paths: list[PathFrom] = [],  # noqa: B006 - read only, and what the schema tells a model
    node_type: str = "",
    most_by: str = "",
    limit: int = 20,
    offset: int = 0,
) -> Observation:
    """Follow relation paths from nodes, count the different nodes that all of these paths lead to, and see them.

    For what both A by one relation and B by another lead to, give two paths; with one path it is simply followed; with
    none the nodes are all of node_type.

    Args:
        thought: Why this step comes next, in one or two sentences.
        paths: Up to 6 paths.
        node_type: The name of a node type, to count and see only its nodes.
        most_by: A relation, with ^ before it to count backwards: the nodes with the most links by it come first, each
            with its number; empty to see those first that fit the question best.
        limit: How many nodes to see, at most 50.
        offset: How many of the first to pass over, to see those behind them.
    """
    kb = as_skb(context.kb, "follow_paths")
    if len(paths) > _PATHS or not (paths or node_type):
        raise BadArguments(f"follow_paths: give one to {_PATHS} paths, or a node_type to see all its nodes.")
    ends = [_ends(kb, path) for path in paths]
    common = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), ends) if ends else None
    if node_type:
        first, last = kb.skb.type_range(node_type)
        inside = np.arange(first, last, dtype=np.int32)
        common = inside if common is None else common[(common >= first) & (common < last)]
    nodes = [] if common is None else common.tolist()
    counts = _counted(kb, nodes, most_by) if most_by else {}
    ordered = sorted(nodes, key=lambda node: -counts[node]) if most_by else _by_fit(kb, nodes, context.question)
    offset = max(0, offset)
    ids = [kb.skb.id(node) for node in ordered[offset : offset + max(1, min(limit, _NODES))]]
    about, known = kb.excerpts(ids, context.question), kb.entities(ids)
    lines = [
        f"{cut(known[one].label, 100)} ({one}): "
        + "; ".join(filter(None, [known[one].kind, _links(counts, kb.skb.number(one), most_by), about.get(one)]))
        for one in ids
    ]
    said = [
        f"- {' or '.join(path['entity_ids'])} by {' / '.join(path['relations'])}: {_number(len(end))}"
        for path, end in zip(paths, ends, strict=True)
    ]
    own = ["Each path by itself:", *said] if len(said) > 1 else []
    return Observation(
        "\n".join([_head(len(nodes), len(paths), offset, len(ids), most_by), *lines, *own]), nodes=tuple(ids)
    )


def _head(found: int, paths: int, offset: int, shown: int, most_by: str) -> str:
    """How many nodes there are, and which of them are shown."""
    head = f"{_number(found)}{' that all paths lead to' if paths > 1 else ''}"
    if shown < found:
        which = f"{offset + 1:,} to {offset + shown:,}" if shown else "none"
        order = f"with the most links by {most_by} first" if most_by else "those that fit the question best first"
        head += f"; {which} shown, {order}"
    return f"{head}."


def _number(nodes: int) -> str:
    return f"{nodes:,} node{'s' if nodes != 1 else ''}"


def _links(counts: Mapping[int, int], node: int, relation: str) -> str:
    return f"{counts[node]:,} links by {relation}" if relation else ""


def _counted(kb: SkbKB, nodes: Sequence[int], relation: str) -> dict[int, int]:
    """How many links by a relation each node has. Raises BadArguments for more nodes than can be counted."""
    if len(nodes) > _COUNTED:
        raise BadArguments(f"follow_paths: most_by counts links of up to {_COUNTED:,} nodes, not of {len(nodes):,}.")
    number, way = kb.relations.number(relation), relation.startswith(INVERSE)
    return {node: len(kb.skb.graph.neighbors(node, number, "in" if way else "out")) for node in nodes}


def get_fields(context: Context, thought: str, entity_ids: list[str], fields: list[str]) -> Observation:
    """Read some fields of the documents of many nodes at once, one line a node.

    Args:
        thought: Why this step comes next, in one or two sentences.
        entity_ids: The ids of the nodes, at most 50.
        fields: The names of the fields; where a node lacks one, it is left out.
    """
    kb = as_skb(context.kb, "get_fields")
    if not 0 < len(entity_ids) <= _NODES:
        raise BadArguments(f"get_fields: give one to {_NODES} ids.")
    wanted = {field.casefold().replace("_", " ") for field in fields}
    lines, met = list[str](), dict[str, None]()
    for one in entity_ids:
        node = kb.skb.number(one)
        document = kb.skb.documents[node]
        met |= dict.fromkeys(document)
        parts = [
            f"{key}: {cut(', '.join(map(str, value)) if isinstance(value, list) else str(value), _FIELD)}"
            for key, value in document.items()
            if key.casefold().replace("_", " ") in wanted
        ]
        lines.append(f"{cut(kb.skb.nodes.label(node), 100)} ({one}): {'; '.join(parts) or 'none of these'}")
    unknown = sorted(wanted - {key.casefold().replace("_", " ") for key in met})
    if unknown:
        lines.append(f"No field {', '.join(unknown)} here; there are: {', '.join(met) or 'none'}.")
    return Observation("\n".join(lines), nodes=tuple(dict.fromkeys(entity_ids)))


def _ends(kb: SkbKB, path: PathFrom) -> NodeNumbers:
    """The nodes at the end of a path, sorted. Raises UnknownId, and BadArguments for a path too short or too long."""
    ids, relations = path["entity_ids"], path["relations"]
    if not ids or not 0 < len(relations) <= _LONGEST:
        raise BadArguments(f"follow_paths: give each path its entity_ids, and one to {_LONGEST} relations.")
    nodes = np.array([kb.skb.number(one) for one in ids], np.int32)
    for name in relations:
        hop = Hop(kb.relations.number(name), "in" if name.startswith(INVERSE) else "out")
        nodes = kb.skb.graph.expand(nodes, hop, _REACHED)
    return np.unique(nodes)


def _by_fit(kb: SkbKB, nodes: Sequence[int], question: str) -> list[int]:
    """Nodes in the order of their fit: those whose names and documents have the question's words, then by links."""
    linked = sorted(nodes, key=lambda node: -kb.skb.graph.degree(node))
    few = linked[:_RANKED]
    if len(few) <= _SHOWN:
        return linked
    scores = relevance(question, [f"{kb.skb.nodes.label(node)} {kb.skb.nodes.text(node)[:2000]}" for node in few])
    return [few[place] for place in sorted(range(len(few)), key=lambda place: -scores[place])] + linked[_RANKED:]
