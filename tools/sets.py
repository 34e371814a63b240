"""Tools for many nodes at once: what several lead to together, and a few fields of each. SKBs only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbnav.errors import BadArguments
from kbnav.knowledge.base import INVERSE
from kbnav.knowledge.skb.graph import Hop, Nodes
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.relevance import relevance
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut

_PATHS, _LONGEST, _NODES = 6, 4, 50
"""Paths of a call, relations of a path, nodes of a call."""
_REACHED = 1_000_000
"""Nodes that one hop reaches at most."""
_SHOWN = 20
_RANKED = 500
"""Nodes whose documents are compared with the question; of more, those with the most links."""
_FIELD = 200
"""Characters of a field that are shown."""


PathFrom = dict[str, Any]
"""``entity_ids`` to begin at, of which any may do, and ``relations`` to follow in order, ^ before one backwards."""


def follow_paths(context: Context, thought: str, paths: list[PathFrom], node_type: str = "") -> Observation:
    """Follow relation paths from nodes, and see the nodes that all of these paths lead to.

    For what both A by one relation and B by another lead to, give two paths; with one path it is simply followed.

    Args:
        thought: Why this step comes next, in one or two sentences.
        paths: Each with the ids it begins at (entity_ids) and the relations to follow in order (relations), with ^
            before one that is followed backwards.
        node_type: The name of a node type, to see only its nodes.
    """
    kb = as_skb(context.kb, "follow_paths")
    if not 0 < len(paths) <= _PATHS:
        raise BadArguments(f"follow_paths: give one to {_PATHS} paths.")
    ends = [_ends(kb, path) for path in paths]
    common = ends[0]
    for other in ends[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    if node_type:
        first, last = kb.skb.type_range(node_type)
        common = common[(common >= first) & (common < last)]
    said = [f"- {' or '.join(path['entity_ids'])} by {' / '.join(path['relations'])}: {len(end)} nodes"
            for path, end in zip(paths, ends, strict=True)]  # fmt: skip
    best = _best(kb, common.tolist(), context.question)
    ids = [kb.skb.id(node) for node in best]
    about, known = kb.excerpts(ids, context.question), kb.entities(ids)
    head = f"{len(common)} node{'s' if len(common) != 1 else ''}{' that all paths lead to' if len(paths) > 1 else ''}"
    if len(common) > len(best):
        head += f"; the {len(best)} that fit the question best"
    lines = [
        f"{cut(known[one].label, 100)} ({one}): {'; '.join(filter(None, [known[one].kind, about.get(one)]))}"
        for one in ids
    ]
    return Observation("\n".join([f"{head}.", *lines, "Each path by itself:", *said]), nodes=tuple(ids))


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


def _ends(kb: SkbKB, path: PathFrom) -> Nodes:
    """The nodes at the end of a path, sorted. Raises UnknownId, and BadArguments for a path too short or too long."""
    ids, relations = path.get("entity_ids"), path.get("relations")
    if not isinstance(ids, list) or not isinstance(relations, list) or not ids or not 0 < len(relations) <= _LONGEST:
        raise BadArguments(f"follow_paths: give each path its entity_ids, and one to {_LONGEST} relations.")
    nodes = np.array([kb.skb.number(one) for one in ids], np.int32)
    for name in relations:
        hop = Hop(kb.relations.number(name), "in" if name.startswith(INVERSE) else "out")
        nodes = kb.skb.graph.expand(nodes, hop, _REACHED)
    return np.unique(nodes)


def _best(kb: SkbKB, nodes: Sequence[int], question: str) -> list[int]:
    """The nodes whose names and documents fit a question best."""
    few = sorted(nodes, key=lambda node: -kb.skb.graph.degree(node))[:_RANKED]
    texts = (
        [f"{kb.skb.nodes.label(node)} {kb.skb.nodes.text(node)[:2000]}" for node in few] if len(few) > _SHOWN else []
    )
    scores = relevance(question, texts) if texts else [0.0] * len(few)
    return [few[place] for place in sorted(range(len(few)), key=lambda place: -scores[place])[:_SHOWN]]
