"""The tools of agents with a plan: the plan written down as a step of the run, its paths followed, texts searched.

SKBs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.errors import BadArguments
from kbnav.knowledge.base import INVERSE, Capability
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.kb import RelationNames, SkbKB
from kbnav.knowledge.skb.search import WALKED, Instances, instances
from kbnav.runs.trajectory import Fact
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut
from kbnav.tools.walking import described, fact_text

SHOWN = 50
"""Instances of a path that are shown."""
TEXT = "text"
FROM_BEFORE = "The question names no node; these answered the one before."
"""A note of a plan that goes on from an earlier answer, which may have been a model's own word."""
_LONGEST = 4
"""Relations of a path that is followed."""


PathGiven = dict[str, Any]
"""A path of a plan as plain data.

``relations`` (^ before one that is followed backwards; none: the path ``text``), ``types`` (of the nodes met, one more
than relations, or none), ``start`` (the type it begins at; empty for any) and ``probability``.
"""


@dataclass(frozen=True)
class PlanningTools:
    """Tools that know the schema and the graph of one SKB."""

    kb: SkbKB

    def plan(
        self, context: Context, thought: str, nodes: list[str], paths: list[PathGiven], notes: list[str]
    ) -> Observation:
        """Write down the nodes that a question names and the relation paths that may lead from them to the answer.

        Args:
            thought: How it was made.
            nodes: Ids of the nodes.
            paths: The paths, the most probable first.
            notes: What was mended.
        """
        known = self.kb.entities(nodes)
        lines = [f"Note: {note}" for note in notes]
        lines.append("The nodes to begin with:" if known else "The question names no node of the knowledge base.")
        lines += [f"- {cut(one.label, 200)} ({one.id}): {one.kind}" for one in known.values()]
        if paths:
            lines.append("Relation paths that may lead to the answer, the most probable first:")
        for path in paths:
            lines.append(f"- {_path_text(path, self.kb.relations)} [{path['probability']:.2f}]")
        return Observation("\n".join(lines), nodes=tuple(known))

    def follow_path(
        self,
        context: Context,
        thought: str,
        entity_id: str,
        relations: list[str],
        types: list[str],
        query: str = "",
    ) -> Observation:
        """Follow a path of relations from a node, and see where it leads.

        Args:
            thought: Why this step comes next.
            entity_id: The id of the node to begin with.
            relations: The relations in order, with ^ before one that is followed backwards.
            types: The node types on the way, the first node's included; empty for any.
            query: What the ends are ranked by; the question where it is empty.
        """
        found = self.walk(entity_id, relations, types, query or context.question)
        skb = self.kb.skb
        if not found.walks:
            return Observation("The path leads nowhere from there.")
        facts = [
            Fact(
                skb.id(source),
                self.kb.relations.display(relation),
                skb.id(target),
                skb.nodes.label(source),
                "",
                skb.nodes.label(target),
            )
            for walk in found.walks
            for source, relation, target in zip(walk, relations, walk[1:], strict=False)
        ]
        size = len(relations)
        lines = [
            "- " + " ; ".join(fact_text(fact) for fact in facts[first : first + size])
            for first in range(0, len(facts), size)
        ]
        head = f"{len(found.ends)} node{'s' if len(found.ends) != 1 else ''} at its end"
        if found.cut:
            head += f", counting only the first {WALKED:,} ways"
        shown = dict.fromkeys(walk[-1] for walk in found.walks)
        if len(found.ends) > len(shown):
            head += f"; those that fit the question best, {len(shown)}, are shown"
        return Observation(
            "\n".join([f"{head}.", *lines]), nodes=tuple(skb.id(end) for end in shown), facts=tuple(facts)
        )

    def walk(self, entity_id: str, relations: Sequence[str], types: Sequence[str], query: str) -> Instances:
        """The instances of a path. Raises UnknownId, and BadArguments for a path that is too short or too long."""
        if not 0 < len(relations) <= _LONGEST:
            raise BadArguments(f"follow_path: give one to {_LONGEST} relations.")
        if types and len(types) != len(relations) + 1:
            raise BadArguments("follow_path: give one type more than relations, or none.")
        skb = self.kb.skb
        hops = [
            Hop(
                skb.relation_number(name.removeprefix(INVERSE)),
                "in" if name.startswith(INVERSE) else "out",
                skb.type_range(kind) if kind else None,
            )
            for name, kind in zip(relations, list(types[1:]) or [""] * len(relations), strict=True)
        ]
        return instances(skb, skb.number(entity_id), hops, query=query, limit=SHOWN)


BY_WORDS = "Note: this knowledge base has no vectors: these are found by their words (BM25), not by meaning."


@dataclass(frozen=True)
class TextQuery:
    """PASemiQA's Query (section 4.2): always the ``keep`` nearest nodes.

    By words and meaning; with ``cosine`` by the cosine of embeddings alone, as in the paper. Where there are no vectors
    it goes by words and says so.
    """

    kb: SkbKB
    keep: int
    cosine: bool = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the tool can do on this SKB though it has no vectors."""
        return frozenset({"vector_query"} if self.kb.skb.text or self.kb.skb.vectors else ())

    def vector_query(self, context: Context, thought: str, text: str, node_type: str = "") -> Observation:
        """Find the nodes whose documents are nearest to a description, which should say nothing of links.

        Args:
            thought: Why this step comes next, in one or two sentences.
            text: A description of what is wanted, in a phrase or a sentence.
            node_type: The name of a node type, to see only its nodes.
        """
        ranking = self.kb.text_query(text, kind=node_type or "item", limit=self.keep, cosine=self.cosine)
        lines = described(self.kb, ranking, text)
        said = [BY_WORDS] if self.kb.skb.vectors is None else []
        return Observation("\n".join([*said, *(lines or ["Nothing was found."])]), nodes=tuple(ranking.ids))


def _path_text(path: PathGiven, names: RelationNames) -> str:
    """``person <--built by-- ship``, or that the text of documents leads there."""
    if not path["relations"]:
        return f"{TEXT}: nodes whose documents fit what the question describes"
    kinds = path["types"] or [""] * (len(path["relations"]) + 1)
    parts = [path["start"] or kinds[0] or "node"]
    for relation, kind in zip(path["relations"], kinds[1:], strict=True):
        name = names.display(relation.removeprefix(INVERSE))
        parts.append(f"<-- {name} --" if relation.startswith(INVERSE) else f"-- {name} -->")
        parts.append(kind or "node")
    return " ".join(parts)
