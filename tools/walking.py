"""The tools of agents that walk along links: on an SKB or on Wikidata, some with a model of their own.

A model's own word is never shown as the knowledge base's: what it generates is marked as such in the text, in
``Step.facts`` and, by these, in the answer (``kbnav.agents.common.walking``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kbnav.errors import BadArguments
from kbnav.knowledge.base import Direction, Edge, Entity, KnowledgeBase, Neighborhood
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.prompts import render
from kbnav.relevance import relevance
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut, entity_name
from kbnav.trajectory import Fact, Usage

CANDIDATES = 100
"""Neighbours that a model chooses from; of more, those whose names and documents fit the question best."""
INVERSE = "^"
NOT_THERE = "not in the knowledge base"
"""Said of a name that a model gives and no entity has."""
_GENERATED = 10
"""Facts that one call may generate."""
_KNOWN = 30
"""Lines of what was seen that are told to the model that generates."""
_SAME_NAME = 8
_PASSAGE = 160
"""Characters of a neighbour's document that are shown."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n(?=\w[\w ]{0,30}: )")
"""Where a document is divided: behind sentences, and before fields."""
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
    document: Callable[[str], str] | None = None
    """The document of a node by its id; neighbours are then shown with what in it fits best."""

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
        head = f"{entity_name(found.entity)}: {found.total} link{'s' if found.total != 1 else ''}"
        if found.total > len(edges):
            head += f", {len(edges)} kept {said}"
        lines = [f"{head}."]
        for fact in facts:
            lines.append(f"- {fact_text(fact)}")
            if self.document and (text := passage(query, self.document(fact.target))):
                lines.append(f"  “{text}”")
        return Observation("\n".join(lines), usage=usage, nodes=once(fact.target for fact in facts), facts=facts)

    def _kept(self, context: Context, thought: str, found: Neighborhood) -> tuple[Sequence[Edge], Usage, str]:
        """The edges that a model keeps, best first (ToG's way, as in PASemiQA, section 4.2)."""
        if len(found.edges) <= self.keep or self.ask is None:
            return found.edges[: self.keep], Usage(), "by their ranking against the question"
        prompt = render(
            "walking/neighbors.md",
            question=context.question,
            thought=thought,
            entity=entity_name(found.entity),
            facts=[fact_text(fact_of(found.entity, edge)) for edge in found.edges],
            keep=self.keep,
        )
        text, usage = self.ask(prompt, "keep neighbours")
        chosen = list(dict.fromkeys(int(number) for number in _NUMBER.findall(text)))
        kept = [found.edges[number - 1] for number in chosen if 0 < number <= len(found.edges)][: self.keep]
        if not kept:
            unread = "by their ranking, because the model named none"
            return found.edges[: self.keep], usage, unread
        return kept, usage, f"of the best {len(found.edges)}" if found.total > len(found.edges) else "as most related"

    def generate(self, context: Context, thought: str, request: str) -> Observation:
        """Add facts that the knowledge base lacks, from what you know yourself; they are marked as generated.

        Use it only where search_neighbors has shown that a link that is needed is missing.

        Args:
            thought: Why this step comes next, in one or two sentences.
            request: Which facts are needed, about which nodes, in one sentence.
        """
        if self.ask is None:
            raise BadArguments("generate: there is no model to ask.")
        lines = list(dict.fromkeys(line for line in context.seen.splitlines() if line.startswith("- ")))
        scores = relevance(request, lines)
        best = sorted(range(len(lines)), key=lambda place: -scores[place])[:_KNOWN]
        known = [lines[place] for place in sorted(best)]
        prompt = render("walking/generate.md", question=context.question, request=request, known=known, most=_GENERATED)
        text, usage = self.ask(prompt, "generate facts")
        linked: dict[str, Entity | None] = {}
        facts = tuple(
            generated_fact(context, *triple, linked) for triple in list(dict.fromkeys(_triples(text)))[:_GENERATED]
        )
        if not facts:
            return Observation("The model knows no such facts.", usage=usage)
        said = ["Generated by the model, not from the knowledge base:", *(f"- {fact_text(fact)}" for fact in facts)]
        ends = (end for fact in facts for end in (fact.target, fact.source))
        return Observation("\n".join(said), usage=usage, nodes=once(ends), facts=facts)


def passage(query: str, document: str) -> str:
    """The sentence of a document that shares most with a query, else its longest; the lines at its head are no text."""
    text = "\n".join(line for line in document.splitlines() if not line.startswith("- ")).strip()
    parts = [part for part in _SENTENCE.split(text) if part]
    scores = relevance(query, parts)
    best = max(range(len(parts)), key=lambda place: (scores[place], len(parts[place])), default=None)
    return "" if best is None else cut(parts[best], _PASSAGE)


def recall(context: Context, thought: str, answers: list[str]) -> Observation:
    """Look up what a model answered from its own knowledge.

    Args:
        thought: Why this step comes next, in one or two sentences.
        answers: Names, best first.
    """
    linked: dict[str, Entity | None] = {}
    names = [name for name in answers[:_GENERATED] if name.strip()]
    facts = [generated_fact(context, "", "answer", name, linked) for name in names]
    if not facts:
        return Observation("The model knows no answer.")
    lines = ["From the model's own knowledge, not from the knowledge base:"]
    for name, fact in zip(names, facts, strict=True):
        lines.append(f"- {_end(fact.target, fact.target_name)}{'' if linked[name] else f' [{NOT_THERE}]'}")
    return Observation("\n".join(lines), nodes=once(fact.target for fact in facts), facts=tuple(facts))


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
    ends = _end(fact.source, fact.source_name), _end(fact.target, fact.target_name)
    first, last = reversed(ends) if fact.relation.startswith(INVERSE) else ends
    return f"{first} {name} --> {last}" + (" [generated]" if fact.generated else "")


def told(fact: Fact, line: str) -> str:
    """A fact with a line on the node at its far end."""
    return f"{fact_text(fact)}: {line}" if line else fact_text(fact)


def excerpts(kb: KnowledgeBase, ids: Iterable[str], about: str) -> Mapping[str, str]:
    """A line of what each node's document says, where the knowledge base has documents."""
    return kb.excerpts(ids, about) if isinstance(kb, SkbKB) else {}


def _end(node: str, name: str) -> str:
    text = cut(name, 200)
    return f"{text} ({node})" if text and node != name else cut(node, 200)


def relation_text(fact: Fact) -> str:
    """``relation (its name)``, with ^ where it comes in."""
    return f"{fact.relation} ({fact.relation_name})" if fact.relation_name else fact.relation


def generated_fact(context: Context, source: str, relation: str, target: str, linked: dict[str, Entity | None]) -> Fact:
    """A model's triple; an end that is the very name of an entity stands for it, any other for itself."""
    ends = []
    for name in (source, target):
        if name and name not in linked:
            linked[name] = _named(context, name)
        entity = linked.get(name)
        ends.append((entity.id, entity.label) if entity else (name, name))
    return Fact(ends[0][0], relation, ends[1][0], ends[0][1], "", ends[1][1], generated=True)


def _named(context: Context, name: str) -> Entity | None:
    """The entity of just this name or id; one that the run has shown comes before others of the name."""
    bare = name.strip()
    with_id = re.search(r"\(([^()]+)\)$", bare)
    for candidate in (with_id[1] if with_id else "", bare):
        if candidate and re.search(rf"\({re.escape(candidate)}\)", context.seen):
            label = context.kb.labels([candidate], language=context.language).get(candidate, "")
            return Entity(candidate, label)
    result = context.kb.search_entities(bare, language=context.language, limit=_SAME_NAME)
    same = [one for one in result.entities if one.label.casefold() == bare.casefold()]
    shown = [one for one in same if f"({one.id})" in context.seen]
    return next(iter([*shown, *same]), None)


def _triples(text: str) -> Iterator[tuple[str, str, str]]:
    """``subject | relation | object`` lines of a reply."""
    for line in text.splitlines():
        parts = [part.strip(' \t`*"“”[]') for part in ITEM_MARK.sub("", line).strip("|").split("|")]
        if len(parts) == 3 and all(parts) and not all(set(part) <= {"-", ":", " "} for part in parts):
            yield parts[0], parts[1], parts[2]


def once(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids, each once, without empty ones."""
    return tuple(dict.fromkeys(one for one in ids if one))
