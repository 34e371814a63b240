"""What the writer is told of the knowledge base, the first search and the API, which a training does not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import TypeTuple
from kbnav.programs.open import Parts
from kbnav.programs.writer import Setting
from kbnav.retrieval.expansion import structures

_TUPLES = 80
"""Relations that the writer is told of."""
_LOOKED_AT = 200
"""Nodes of a type among which an example of a relation is looked for."""
_LABEL = 60
"""Characters of a name in an example."""
_STAGES = {
    "plan-rank": "by relation paths from what the query names (plan-rank)",
    "bm25": "by words of the documents (bm25)",
    "vss": "by the meaning of the documents (vss)",
}


def described(kb: SkbKB, parts: Parts, language: str = "") -> Setting:
    """The knowledge base and the API as the writer reads them; ``language`` is the sandbox's."""
    meta = kb.skb.meta
    types = ", ".join(f"{one.name} ({one.count:,})" for one in meta.types)
    fields = [f"- {kind}: {', '.join(names)}" for kind, names in structures(kb.skb).items()]
    return Setting(
        f"{meta.name}: {meta.nodes:,} nodes and {meta.edges:,} edges. Nodes by type: {types}.",
        "\n".join(_relations(kb)),
        "\n".join(fields),
        parts.api.prompt,
        _first_search(parts.described),
        language,
    )


def _relations(kb: SkbKB) -> Iterator[str]:
    """A line for each kind of edge, with an edge of it by names, those with most edges first."""
    tuples = sorted(kb.skb.meta.tuples, key=lambda one: -one.count)
    for one in tuples[:_TUPLES]:
        found = _example(kb, one)
        such = f", as {found[0]} --> {found[1]}" if found else ""
        yield f"- {one.source} --{kb.relations.display(one.relation)}--> {one.target} ({one.count:,}){such}"
    if len(tuples) > _TUPLES:
        yield f"- and {len(tuples) - _TUPLES} more, each with fewer edges"


def _example(kb: SkbKB, one: TypeTuple) -> tuple[str, str] | None:
    """The names of two nodes with such an edge; None where none is among the first nodes of the type."""
    skb = kb.skb
    relation = skb.relation_number(one.relation)
    first, end = skb.type_range(one.source)
    for node in range(first, min(end, first + _LOOKED_AT)):
        for other in skb.graph.neighbors(node, relation, "out").tolist():
            if skb.type_name(other) == one.target:
                return skb.nodes.label(node)[:_LABEL], skb.nodes.label(other)[:_LABEL]
    return None


def _first_search(stage: Mapping[str, Any]) -> str:
    """What the first search is made of, with how much each part counts."""
    of = list(stage["of"])
    weights = list(stage["options"].get("weights") or [1.0] * len(of))
    counted = [(name, weight) for name, weight in zip(of, weights, strict=True) if weight]
    told = [f"{_STAGES.get(name, name)}{f' x {weight:g}' if len(counted) > 1 else ''}" for name, weight in counted]
    others = [_STAGES.get(name, name) for name, weight in zip(of, weights, strict=True) if not weight]
    rest = f"; what is found {' or '.join(others)} alone stands behind" if others else ""
    return f"{', '.join(told)}{rest}"
