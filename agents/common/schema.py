"""What a prompt says of a local graph: of types and relations those that fit the question, and an example query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.knowledge.skb.schema import TypeTuple
from kbnav.relevance import relevance

ALL_TUPLES, TUPLES = 30, 20
"""Up to the first a prompt lists all kinds of links; of more, the second that fit best, and a tool finds the others."""
TYPES = 15
_EXAMPLES = 2
"""Nodes of each type that a prompt names."""
_NAME = 40
"""Characters of each."""


@dataclass(frozen=True)
class Schema:
    """The schema of one SKB as prompts show it, asked anew for each question."""

    kb: SkbKB

    def __call__(self, question: str) -> dict[str, Any]:
        """The variables of ``walking/schema.md``, and ``example``: a SPARQL query that has an answer in this graph."""
        meta = self.kb.skb.meta
        ranked = [one for one, _ in self.kb.relations.ranked(question)]
        tuples = ranked[: TUPLES if len(ranked) > ALL_TUPLES else ALL_TUPLES]
        sizes = {kind.name: (start, kind.count) for kind, start in zip(meta.types, meta.type_start, strict=False)}
        told = [end for one in tuples for end in (one.source, one.target)]
        scores = dict(zip(sizes, relevance(question, list(sizes)), strict=True))
        ordered = sorted(sizes, key=lambda name: (-scores[name], name not in told, -sizes[name][1]))
        return {
            "nodes": meta.nodes,
            "edges": meta.edges,
            "types": [
                {"name": name, "count": sizes[name][1], "examples": self._examples(*sizes[name])}
                for name in ordered[:TYPES]
            ],
            "more_types": max(0, len(ordered) - TYPES),
            "tuples": [self._shown(one) for one in tuples],
            "more_tuples": len(ranked) - len(tuples),
            "example": self._example(tuples),
        }

    def _shown(self, one: TypeTuple) -> dict[str, Any]:
        return {**one.model_dump(), "relation": self.kb.relations.display(one.relation)}

    def _example(self, tuples: Sequence[TypeTuple]) -> str:
        """``SELECT ?x WHERE { ?x a type:Drug ; rel:treats node:D12 }``, of an edge that there is."""
        skb = self.kb.skb
        for one in tuples:
            ends = skb.type_range(one.source), skb.type_range(one.target)
            for _, target in skb.graph.sample(skb.relation_number(one.relation), *ends, 1):
                kind = dict(zip(skb.type_names, local_names(skb.type_names), strict=True))[one.source]
                relation = self.kb.relations.display(one.relation)
                return f"SELECT ?x WHERE {{ ?x a type:{kind} ; rel:{relation} node:{local_name(skb.id(target))} }}"
        return "SELECT ?x WHERE { ?x rdfs:label ?name } LIMIT 20"

    def _examples(self, start: int, count: int) -> Sequence[str]:
        """Names from the beginning and the middle of a type's nodes."""
        places = sorted({start + count * part // _EXAMPLES for part in range(_EXAMPLES)}) if count else []
        return [" ".join(self.kb.skb.nodes.label(node).split())[:_NAME] for node in places]
