"""The planner ``in-context``: a model that is shown the schema with an example of every edge (PASemiQA, 5.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.planning import mending
from kbnav.planning.base import TEXT, Hop, Plan
from kbnav.planning.path_text import parse_paths, path_text
from kbnav.planning.schema import Edge, PathSchema
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trace import Trace

MOST_EDGES = 80
"""Edges between types that a prompt shows, the most frequent first."""
MOST_NODES = 20
MOST_PATHS = 3
"""Paths that are asked for, and kept."""


class InContext:
    """The planner. The model's paths count 1, 1/2, 1/3 in its order."""

    name = "in-context"

    def __init__(self, skb: SKB, calls: ModelCalls) -> None:
        self._skb, self._calls = skb, calls
        self._schema = PathSchema.of(skb)

    @property
    def prompts(self) -> dict[str, str]:
        """SHA-256 of the prompt's file."""
        return prompt_hashes("planner")

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        """The model's paths, checked against the schema; no path where the reply has none, which the notes say.

        Raises as ``ModelCalls.ask`` does.
        """
        numbers = [self._skb.number(node) for node in nodes]
        starts = {self._skb.type_name(number) for number in numbers}
        reply = self._calls.ask(self._prompt(question, numbers), trace or Trace(), purpose="relation paths")
        proposed = [(path, 1 / rank) for rank, path in enumerate(parse_paths(reply)[:MOST_PATHS], 1)]
        if not proposed:
            return Plan(notes=("the model's reply has no path",))
        return mending.checked(proposed, self._schema, starts)

    def _prompt(self, question: str, nodes: Sequence[int]) -> str:
        first, second = Hop("relation"), Hop("other relation", "in")
        return render(
            "planner/paths.md",
            question=question,
            edges=self._edges,
            more=max(0, len(self._schema.edges) - MOST_EDGES),
            nodes=[
                {"name": self._skb.nodes.label(node), "kind": self._skb.type_name(node)} for node in nodes[:MOST_NODES]
            ],
            one=path_text([first]),
            two=path_text([first, second]),
            by_text=path_text(TEXT),
            longest=mending.LONGEST,
            most=MOST_PATHS,
        )

    @cached_property
    def _edges(self) -> list[dict[str, Any]]:
        shown = sorted(self._schema.edges, key=lambda edge: -edge.edges)[:MOST_EDGES]
        return [
            {"source": one.source, "relation": one.relation, "target": one.target, "example": self._example(one)}
            for one in shown
        ]

    def _example(self, edge: Edge) -> tuple[str, ...]:
        """The names of two nodes that the edge links."""
        skb = self._skb
        ranges = skb.type_range(edge.source), skb.type_range(edge.target)
        found = skb.graph.sample(skb.relation_number(edge.relation), *ranges, 1)
        return tuple(skb.nodes.label(node) for node in found[0]) if found else ()
