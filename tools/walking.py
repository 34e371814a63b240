"""The tools of agents that walk along links: on an SKB or on Wikidata, some with a model of their own.

Facts read the same wherever they are shown, and a model's own word among them is marked (``kbnav.tools.generating``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kbnav.answers import Ranking
from kbnav.knowledge.base import INVERSE, Direction, Edge, Entity, KnowledgeBase, Neighborhood
from kbnav.prompts import render
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut, entity_name
from kbnav.trajectory import Fact, Usage

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB

CANDIDATES = 100
"""Neighbours that a model chooses from; of more, those whose names and documents fit the question best."""
NOT_THERE = "not in the knowledge base"
"""Said of a name that a model gives and no entity has."""
_NUMBER = re.compile(r"\d+")
ITEM_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
"""What an item of a list begins with, in a model's reply."""


class Ask(Protocol):
    """A model, at temperature 0 unless told: a prompt and what it is for; gives its text and what that cost."""

    def __call__(
        self, prompt: str, purpose: str, *, temperature: float | None = None, sample: int = 0
    ) -> tuple[str, Usage]:
        """One call; ``sample`` tells several replies to one prompt apart. Raises StopRun."""
        ...


@dataclass(frozen=True)
class WalkingTools:
    """Tools that need a model: ``ask``; without one, the best ``keep`` neighbours are kept by their ranking."""

    ask: Ask | None = None
    keep: int = 10
    short: int = 0
    """Lists up to so long are shown whole: to ask which to keep would cost more than it saves."""

    def search_neighbors(
        self,
        context: Context,
        thought: str,
        entity_id: str,
        relation: str = "",
        direction: Direction = "both",
    ) -> Observation:
        """Find what a node is linked to. Of many neighbours, those are kept that matter most for the question.

        Args:
            thought: Why this step comes next, and which neighbours are wanted; the neighbours are chosen by it.
            entity_id: The id of the node, as results show it.
            relation: The name or id of a relation, to see only its links; with ^ before it, links that come in.
            direction: "out" for links that leave the node, "in" for links that point to it, or "both".
        """
        query = f"{context.question} {thought}" if self.ask else context.question
        found = neighborhood(context, entity_id, relation, direction, query, CANDIDATES)
        if not found.edges:
            return Observation(f"{entity_name(found.entity)} has no such link.")
        edges, usage, said = self._kept(context, thought, found)
        facts = tuple(fact_of(found.entity, edge) for edge in edges)
        told_of = [told(fact, edge.neighbor.description) for fact, edge in zip(facts, edges, strict=True)]
        head = f"{entity_name(found.entity)}: {found.total} link{'s' if found.total != 1 else ''}"
        if found.total > len(edges):
            head += f", {len(edges)} kept {said}"
        lines = [f"{head}.", *(f"- {line}" for line in told_of)]
        return Observation("\n".join(lines), usage=usage, nodes=once(fact.target for fact in facts), facts=facts)

    def _kept(self, context: Context, thought: str, found: Neighborhood) -> tuple[Sequence[Edge], Usage, str]:
        """The edges that a model keeps, best first (ToG's way, as in PASemiQA, section 4.2)."""
        if self.ask is not None and found.total <= self.short:
            return found.edges, Usage(), ""
        if len(found.edges) <= self.keep or self.ask is None:
            return found.edges[: self.keep], Usage(), "by their ranking against the question"
        prompt = render(
            "walking/neighbors.md",
            question=context.question,
            thought=thought,
            entity=entity_name(found.entity),
            facts=[told(fact_of(found.entity, edge), edge.neighbor.description) for edge in found.edges],
            keep=self.keep,
        )
        text, usage = self.ask(prompt, "keep neighbours")
        chosen = list(dict.fromkeys(int(number) for number in _NUMBER.findall(text)))
        kept = [found.edges[number - 1] for number in chosen if 0 < number <= len(found.edges)][: self.keep]
        if not kept:
            unread = "by their ranking, because the model named none"
            return found.edges[: self.keep], usage, unread
        return kept, usage, f"of the best {len(found.edges)}" if found.total > len(found.edges) else "as most related"


def neighborhood(
    context: Context, entity_id: str, relation: str, direction: Direction, query: str, limit: int
) -> Neighborhood:
    """Edges of an entity; ``^relation`` is the relation followed backwards, on every knowledge base."""
    if relation.startswith(INVERSE):
        relation = relation.removeprefix(INVERSE)
        turned: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "in"}
        direction = turned[direction]
    return context.kb.search_neighbors(
        entity_id,
        relation=relation or None,
        direction=direction,
        query=query,
        language=context.language,
        limit=limit,
    )


def fact_of(entity: Entity, edge: Edge) -> Fact:
    """An edge as seen from an entity; a value that is no entity stands for itself."""
    name = edge.relation.label if edge.relation.label != edge.relation.id else ""
    return Fact(
        source=entity.id,
        relation=f"{INVERSE if edge.direction == 'in' else ''}{edge.relation.id}",
        target=edge.neighbor.id or edge.neighbor.text,
        source_name=entity.label,
        relation_name=name,
        target_name=edge.neighbor.text,
    )


def fact_text(fact: Fact) -> str:
    """``A (id) -- relation --> B (id)``; a link that comes in is turned, so that it reads in its own direction."""
    name = f"-- {fact.relation_name or fact.relation.removeprefix(INVERSE)}"
    ends = end_text(fact.source, fact.source_name), end_text(fact.target, fact.target_name)
    first, last = reversed(ends) if fact.relation.startswith(INVERSE) else ends
    return f"{first} {name} --> {last}" + (" [generated]" if fact.generated else "")


def told(fact: Fact, line: str) -> str:
    """A fact with a line on the node at its far end, which is named where it does not stand last."""
    if not line:
        return fact_text(fact)
    return f"{fact_text(fact)}{f'; {fact.target_name}' if fact.relation.startswith(INVERSE) else ''}: {line}"


def excerpts(kb: KnowledgeBase, ids: Iterable[str], about: str) -> Mapping[str, str]:
    """A line of what each node's document says, where the knowledge base has documents."""
    from kbnav.knowledge.skb.kb import SkbKB  # brings NumPy, which an answer of Wikidata does without

    return kb.excerpts(ids, about) if isinstance(kb, SkbKB) else {}


def described(kb: SkbKB, ranking: Ranking, about: str) -> list[str]:
    """``name (id): type; a line of its document`` of each node of a ranking."""
    lines = kb.excerpts(ranking.ids, about)
    return [
        f"{cut(node.label or node.id, 200)} ({node.id}): {'; '.join(filter(None, [node.kind, lines.get(node.id)]))}"
        for node in ranking.nodes
    ]


def end_text(node: str, name: str) -> str:
    """``name (id)``, or the one where they are the same."""
    text = cut(name, 200)
    return f"{text} ({node})" if text and node != name else cut(node, 200)


def relation_text(fact: Fact) -> str:
    """``relation (its name)``, with ^ where it comes in."""
    return f"{fact.relation} ({fact.relation_name})" if fact.relation_name else fact.relation


def once(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids, each once, without empty ones."""
    return tuple(dict.fromkeys(one for one in ids if one))
