"""The tools of agents that walk along links: on an SKB or on Wikidata, some with a model of their own.

Facts read the same wherever they are shown, and a model's own word among them is marked (``kbnav.tools.generating``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kbnav.answers.tables import Ranking
from kbnav.errors import TellModel
from kbnav.knowledge.base import INVERSE, Direction, Edge, Entity, KnowledgeBase, Neighborhood
from kbnav.knowledge.wikidata.entities import term_value
from kbnav.prompts import render
from kbnav.runs.trajectory import Fact, Usage
from kbnav.settings.systems import kb_kind
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import cut, entity_name, value_text

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB

PAGE = 50
"""Links that one call shows, where none are chosen."""
CANDIDATES = 100
"""Neighbours that a model chooses from; of more, those whose names and documents fit the question best."""
NOT_THERE = "not in the knowledge base"
"""Said of a name that a model gives and no entity has."""
_TOLD = 20
"""Relations that are told of a node that lacks the one asked for."""
_NUMBER = re.compile(r"\d+")
_ITEM = re.compile(r"[QPL]\d+$")
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
        query: str = "",
        limit: int = 0,
        offset: int = 0,
    ) -> Observation:
        """Find what a node is linked to. Of many neighbours, those are kept that matter most for the question.

        Args:
            thought: Why this step comes next.
            entity_id: The id of the node, as results show it.
            relation: The name or id of a relation, to see only its links; with ^ before it, links that come in.
            direction: "out" for links that leave the node, "in" for links that point to it, or "both".
            query: Which neighbours are wanted, in words; they are chosen by it. Another query is another action.
            limit: How many links to see, at most 50, in the order of their fit with none chosen; 0: the best.
            offset: How many of the links in that order to pass over, to see those behind them.
        """
        offset = max(0, offset)
        paged = limit > 0 or offset > 0
        page = min(limit, PAGE) if limit > 0 else PAGE
        wanted = f"{context.question} {query}" if self.ask else query or context.question
        found = neighborhood(context, entity_id, relation, direction, wanted, offset + page if paged else CANDIDATES)
        if not found.edges:
            return Observation(
                f"{entity_name(found.entity)} has no such link.{_links_there_are(context.kb, entity_id)}"
            )
        qualified = qualifiers(context, found.entity, found.edges)
        facts = [
            fact_of(found.entity, edge)._replace(qualifiers=more)
            for edge, more in zip(found.edges, qualified, strict=True)
        ]
        lines = [told(fact, edge.neighbor.description) for fact, edge in zip(facts, found.edges, strict=True)]
        if paged:
            places: Sequence[int] = range(len(facts))[offset:]
            usage = Usage()
            said = f", {offset + 1} to {offset + len(places)} in the order of their fit" if places else ", no more"
            said = said if len(places) < found.total else ""
        else:
            places, usage, said = self._kept(context, query, found, lines)
        shown = [facts[place] for place in places]
        head = f"{entity_name(found.entity)}: {found.total} link{'s' if found.total != 1 else ''}{said}."
        if not paged and len(shown) < found.total:
            head += f" limit={min(found.total, PAGE)} shows more."
        observed = "\n".join([head, *(f"- {lines[place]}" for place in places)])
        return Observation(observed, usage=usage, nodes=once(fact.target for fact in shown), facts=tuple(shown))

    def _kept(
        self, context: Context, query: str, found: Neighborhood, lines: Sequence[str]
    ) -> tuple[Sequence[int], Usage, str]:
        """Places of the edges that a model keeps, best first (ToG's way, as in PASemiQA, section 4.2)."""
        if self.ask is not None and found.total <= self.short:
            return range(len(lines)), Usage(), ""
        some = range(min(self.keep, len(lines)))
        cut = f", {len(some)} kept" if len(some) < found.total else ""
        if len(lines) <= self.keep or self.ask is None:
            return some, Usage(), cut and f"{cut} by their ranking against the question"
        prompt = render(
            "walking/neighbors.md",
            question=context.question,
            wanted=query,
            entity=entity_name(found.entity),
            facts=lines,
            keep=self.keep,
        )
        text, usage = self.ask(prompt, "keep neighbours")
        chosen = dict.fromkeys(int(number) - 1 for number in _NUMBER.findall(text))
        kept = [place for place in chosen if 0 <= place < len(lines)][: self.keep]
        if not kept:
            return some, usage, f"{cut} by their ranking, because the model named none"
        best = f"of the best {len(lines)}" if found.total > len(lines) else "as most related"
        return kept, usage, f", {len(kept)} kept {best}" if len(kept) < found.total else ""


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
    more = f" [{fact.qualifiers}]" if fact.qualifiers else ""
    return f"{first} {name} --> {last}{more}" + (" [generated]" if fact.generated else "")


def told(fact: Fact, line: str) -> str:
    """A fact with a line on the node at its far end, which is named where it does not stand last."""
    if not line:
        return fact_text(fact)
    return f"{fact_text(fact)}{f'; {fact.target_name}' if fact.relation.startswith(INVERSE) else ''}: {line}"


def qualifiers(context: Context, entity: Entity, edges: Sequence[Edge]) -> list[str]:
    """What the statements behind some edges say more, ``property: value; …`` of each; empty where there are none.

    One query for all, where the knowledge base is Wikidata's kind and can be queried; edges to values that are no
    entities are left out. What a query cannot tell in time is left out too.
    """
    if kb_kind(context.kb) != "wikibase" or "execute_query" not in context.kb.capabilities:
        return [""] * len(edges)
    ends = [_statement(entity, edge) for edge in edges]
    wanted = list(dict.fromkeys(one for one in ends if one))
    if not wanted:
        return [""] * len(edges)
    rows = " ".join(f"(wd:{source} p:{relation} ps:{relation} wd:{target})" for source, relation, target in wanted)
    query = (
        f"SELECT ?s ?p ?o ?statement ?qualifier ?value WHERE {{ VALUES (?s ?p ?ps ?o) {{ {rows} }} "
        "?s ?p ?statement . ?statement ?ps ?o . ?statement ?pq ?value . ?qualifier wikibase:qualifier ?pq } LIMIT 1000"
    )
    try:
        table = context.kb.execute_query(query, language=context.language)
        ids = {cell.entity_id for row in table.rows for cell in row[4:] if cell and cell.entity_id}
        names = {**context.kb.labels(sorted(ids - set(table.labels)), language=context.language), **table.labels}
    except TellModel:
        return [""] * len(edges)
    found: dict[Key, dict[str, dict[str, None]]] = {}
    for s, p, o, statement, qualifier, value in table.rows:
        if s and p and o and statement and qualifier and value:
            key = (s.entity_id or "", p.value.rpartition("/")[2], o.entity_id or "")
            name = names.get(qualifier.entity_id or "", qualifier.entity_id or "")
            read = term_value(value, lambda one: names.get(one, one))
            line = f"{name}: {value_text(read, 100)}"
            found.setdefault(key, {}).setdefault(statement.value, {})[line] = None
    told_of = {
        key: " or ".join("; ".join(sorted(one)) for one in statements.values()) for key, statements in found.items()
    }
    return [told_of.get(one, "") if one else "" for one in ends]


Key = tuple[str, str, str]
"""Subject, property and object of a statement."""


def _statement(entity: Entity, edge: Edge) -> Key | None:
    ends = (entity.id, edge.neighbor.id) if edge.direction == "out" else (edge.neighbor.id, entity.id)
    return (ends[0], edge.relation.id, ends[1]) if all(_ITEM.match(one) for one in ends) else None


def excerpts(kb: KnowledgeBase, ids: Iterable[str], about: str) -> Mapping[str, str]:
    """A line of what each node's document says, where the knowledge base has documents."""
    from kbnav.knowledge.skb.kb import SkbKB  # brings NumPy, which an answer of Wikidata does without

    return kb.excerpts(ids, about) if isinstance(kb, SkbKB) else {}


def _links_there_are(kb: KnowledgeBase, entity_id: str) -> str:
    """The relations that a node of an SKB has, where one was asked for that it lacks; on Wikidata a tool shows them."""
    from kbnav.knowledge.skb.kb import SkbKB

    if not isinstance(kb, SkbKB):
        return ""
    _, *lines = kb.relations.of_node(entity_id, "", _TOLD)
    return f" It has: {'; '.join(line.removeprefix('- ') for line in lines)}." if lines else " It has no links at all."


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
