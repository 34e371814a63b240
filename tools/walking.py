"""The tools of agents that walk along links: on an SKB or on Wikidata, some with a model of their own.

Facts read the same wherever they are shown, and a model's own word among them is marked (``kbnav.tools.walking``).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbnav.answers.relevance import relevance
from kbnav.answers.tables import Ranking
from kbnav.errors import BadArguments, TellModel
from kbnav.knowledge.base import INVERSE, Capability, Direction, Edge, Entity, KnowledgeBase, Neighborhood, followed
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.kb import Relations, SkbKB
from kbnav.knowledge.skb.search import WALKED, Instances, instances
from kbnav.models.calls import Ask
from kbnav.prompts import render
from kbnav.runs.trajectory import Fact, Trace
from kbnav.tools.context import Context, Observation, Thought
from kbnav.tools.show import cut, entity_name

PAGE = 50
"""Links that one call shows, where none are chosen."""
CANDIDATES = 100
"""Neighbours that a model chooses from; of more, those whose names and documents fit the question best."""
NOT_THERE = "not in the knowledge base"
"""Said of a name that a model gives and no entity has."""
_UNFITTING = 5
"""Links by one relation that are named of those that do not match."""
_TOLD = 20
"""Relations that are told of a node that lacks the one asked for."""
_NUMBER = re.compile(r"\d+")
ITEM_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
"""What an item of a list begins with, in a model's reply."""


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
        thought: Thought,
        entity_id: str,
        relation: str = "",
        direction: Direction = "both",
        query: str = "",
        limit: int = 0,
        offset: int = 0,
    ) -> Observation:
        """Find what a node is linked to. Of many neighbours, those are kept that matter most for the question.

        Args:
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
        trace = Trace()
        if not found.edges:
            return Observation(
                f"{entity_name(found.entity)} has no such link.{_links_there_are(context.kb, entity_id)}"
            )
        facts = [fact_of(found.entity, edge) for edge in found.edges]
        lines = [fact_line(fact, edge.neighbor.description) for fact, edge in zip(facts, found.edges, strict=True)]
        if paged:
            places: Sequence[int] = range(len(facts))[offset:]
            said = f", {offset + 1} to {offset + len(places)} in the order of their fit" if places else ", no more"
            said = said if len(places) < found.total else ""
        else:
            places, said = self._kept(context, trace, query, found, lines)
        shown = [facts[place] for place in places]
        links = dict(zip(found.edges, lines, strict=True))
        ranked = paged or self.ask is None
        said_lines = link_lines([found.edges[place] for place in places], links.__getitem__, ranked=ranked)
        head = f"{entity_name(found.entity)}: {found.total} link{'s' if found.total != 1 else ''}{said}."
        if not paged and len(shown) < found.total:
            head += f" limit={min(found.total, PAGE)} shows more."
        return Observation(
            "\n".join([head, *said_lines]),
            usage=trace.usage,
            nodes=once(fact.target for fact in shown),
            facts=tuple(shown),
        )

    def _kept(
        self, context: Context, trace: Trace, query: str, found: Neighborhood, lines: Sequence[str]
    ) -> tuple[Sequence[int], str]:
        """Places of the edges that a model keeps, best first (ToG's way, as in PASemiQA, section 4.2)."""
        if self.ask is not None and found.total <= self.short:
            return range(len(lines)), ""
        some = range(min(self.keep, len(lines)))
        cut = f", {len(some)} kept" if len(some) < found.total else ""
        if len(lines) <= self.keep or self.ask is None:
            return some, cut and f"{cut} by their ranking against the question"
        prompt = render(
            "walking/neighbors.md",
            question=context.question,
            wanted=query,
            entity=entity_name(found.entity),
            facts=lines,
            keep=self.keep,
        )
        text = self.ask(prompt, trace, purpose="keep neighbours")
        chosen = dict.fromkeys(int(number) - 1 for number in _NUMBER.findall(text))
        kept = [place for place in chosen if 0 <= place < len(lines)][: self.keep]
        if not kept:
            return some, f"{cut} by their ranking, because the model named none"
        best = f"of the best {len(lines)}" if found.total > len(lines) else "as most related"
        return kept, f", {len(kept)} kept {best}" if len(kept) < found.total else ""


def neighborhood(
    context: Context, entity_id: str, relation: str, direction: Direction, query: str, limit: int
) -> Neighborhood:
    """Edges of an entity; ``^relation`` is the relation followed backwards, on every knowledge base."""
    relation, direction = followed(relation, direction)
    return context.kb.search_neighbors(
        entity_id,
        relation=relation or None,
        direction=direction,
        query=query,
        language=context.language,
        limit=limit,
    )


def link_lines(edges: Sequence[Edge], line: Callable[[Edge], str], *, ranked: bool, item: str = "- ") -> list[str]:
    """Links of one entity as lines, several by one relation below it, without what they have in common.

    A link that goes both ways comes once. ``ranked``: by a query, so that it is said where links stop matching it, and
    those that do not are only named. ``line`` words one link, ``item`` stands before it.
    """
    ways: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for edge in edges:
        ways[_far(edge)].add(edge.direction)
    once_each = {_far(edge): edge for edge in reversed(edges)}
    fitting = [edge for edge in edges if edge.score > 0 and once_each[_far(edge)] is edge]
    others = [edge for edge in edges if edge.score <= 0 and once_each[_far(edge)] is edge]
    if not (ranked and fitting and others):
        fitting, others = [edge for edge in edges if once_each[_far(edge)] is edge], []

    def grouped(some: Sequence[Edge]) -> Mapping[str, list[Edge]]:
        """By ``-- relation -->``, its ends as the link goes."""
        groups: defaultdict[str, list[Edge]] = defaultdict(list)
        for edge in some:
            way, name = ways[_far(edge)], entity_name(edge.relation)
            groups[f"{'<--' if 'in' in way else '--'} {name} {'-->' if 'out' in way else '--'}"].append(edge)
        return groups

    lines = []
    for head, own in grouped(fitting).items():
        if len(own) == 1 and len(ways[_far(own[0])]) == 1:
            lines.append(f"{item}{line(own[0])}")
            continue
        lines.append(head)
        for edge in own:
            name = end_text(edge.neighbor.id or edge.neighbor.text, edge.neighbor.text)
            lines.append(f"- {name}: {edge.neighbor.description}".removesuffix(": "))
    if others:
        lines.append("These do not match what was asked for:")
    for head, own in grouped(others).items():
        names = [end_text(edge.neighbor.id or edge.neighbor.text, edge.neighbor.text) for edge in own]
        more = [f"and {len(names) - _UNFITTING} more"] if len(names) > _UNFITTING + 1 else []
        lines.append(f"{head} {'; '.join([*(names[:_UNFITTING] if more else names), *more])}")
    return lines


def _far(edge: Edge) -> tuple[str, str]:
    return edge.relation.id, edge.neighbor.id or edge.neighbor.text


def fact_of(entity: Entity, edge: Edge) -> Fact:
    """An edge as seen from an entity; a value that is no entity stands for itself."""
    name = edge.relation.label if edge.relation.label != edge.relation.id else ""
    return Fact(
        source=entity.id,
        relation=edge.way,
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


def fact_line(fact: Fact, line: str) -> str:
    """A fact with a line on the node at its far end, which is named where it does not stand last."""
    if not line:
        return fact_text(fact)
    return f"{fact_text(fact)}{f'; {fact.target_name}' if fact.relation.startswith(INVERSE) else ''}: {line}"


def excerpts(kb: KnowledgeBase, ids: Iterable[str], about: str) -> Mapping[str, str]:
    """A line of what each node's document says, where the knowledge base has documents."""
    return kb.excerpts(ids, about) if isinstance(kb, SkbKB) else {}


def _links_there_are(kb: KnowledgeBase, entity_id: str) -> str:
    """The relations that a node of an SKB has, where one was asked for that it lacks; on Wikidata a tool shows them."""
    if not isinstance(kb, SkbKB):
        return ""
    _, *lines = kb.relations.of_node(entity_id, "", _TOLD)
    return f" It has: {'; '.join(line.removeprefix('- ') for line in lines)}." if lines else " It has no links at all."


def described(kb: SkbKB, ranking: Ranking, about: str) -> list[str]:
    """``name (id), score: type; a line of its document``, where it fits best, of each node of a ranking."""
    lines, typed = kb.excerpts(ranking.ids, about), len(kb.skb.type_names) > 1
    told = [(node, filter(None, [node.kind if typed else "", lines.get(node.id)])) for node in ranking.nodes]
    return [
        f"{cut(node.label or node.id, 200)} ({node.id}), score {node.score:.3f}: {'; '.join(said)}".removesuffix(": ")
        for node, said in told
    ]


def end_text(node: str, name: str) -> str:
    """``name (id)``, or the one where they are the same."""
    text = cut(name, 200)
    return f"{text} ({node})" if text and node != name else cut(node, 200)


def relation_text(fact: Fact) -> str:
    """``relation (its name)``, with ^ where it comes in."""
    return f"{fact.relation} ({fact.relation_name})" if fact.relation_name else fact.relation


def once(ids: Iterable[str | None]) -> tuple[str, ...]:
    """The ids, each once, without empty ones."""
    return tuple(dict.fromkeys(one for one in ids if one))


def fresh(facts: Iterable[Fact], known: Iterable[Fact]) -> list[Fact]:
    """The links that are not known yet, each once, from whichever end it was seen; a link to itself is none."""

    def key(fact: Fact) -> Triple:
        if fact.relation.startswith(INVERSE):
            return fact.target, fact.relation.removeprefix(INVERSE), fact.source
        return fact.source, fact.relation, fact.target

    seen = {key(fact) for fact in known}
    new = []
    for fact in facts:
        if fact.source != fact.target and key(fact) not in seen:
            seen.add(key(fact))
            new.append(fact)
    return new


TEMPERATURE = 0.7
"""Of facts that are generated several times over."""
_GENERATED = 10
"""Facts that one call may generate."""
_RECALLED = 100
"""Names of an answer from a model's own knowledge that are looked up."""
_KNOWN = 30
"""Lines of what was seen that are told to the model that generates."""
_DOCUMENTS = 10
"""Nodes whose documents are told to it."""
_CANDIDATES = 8
"""Entities that a name may stand for."""
_FURTHER = 5
"""Links of each node that a search further out shows."""
_ID = re.compile(r"\(([^()]+)\)")

Triple = tuple[str, str, str]


def recall(context: Context, thought: Thought, answers: list[str]) -> Observation:
    """Look up what a model answered from its own knowledge.

    Args:
        answers: Names, best first.
    """
    said = [name for name in answers if name.strip()]
    names = said[:_RECALLED]
    if not names:
        return Observation("The model knows no answer.")
    lines, facts = ["From the model's own knowledge, not from the knowledge base:"], list[Fact]()
    for name in names:
        sure, same = _candidates(context, name)
        entity = sure or next((one for one in same if one.label.casefold() == name.strip().casefold()), None)
        target, label = (entity.id, entity.label) if entity else (name, name)
        facts.append(Fact("", "answer", target, "", "", label, generated=True))
        lines.append(f"- {end_text(target, label)}{'' if entity else f' [{NOT_THERE}]'}")
    if len(said) > len(names):
        lines.append(f"{len(said) - len(names)} more names do not count: {_RECALLED} are looked up.")
    return Observation("\n".join(lines), nodes=once(fact.target for fact in facts), facts=tuple(facts))


@dataclass(frozen=True)
class GeneratingTools:
    """Tools that ask a model for facts: ``samples`` times, which are then verified together (GoG, section 3)."""

    ask: Ask
    samples: int = 3

    def generate(self, context: Context, thought: Thought, request: str) -> Observation:
        """Add facts that the knowledge base lacks, from what you know yourself; they are marked as generated.

        Use it only where a search has shown that a link that is needed is missing.

        Args:
            request: Which facts are needed, about which nodes, in one sentence.
        """
        trace = Trace()
        seen = list(dict.fromkeys(line for line in context.seen.splitlines() if line.startswith("- ")))
        scores = relevance(request, seen)
        best = sorted(range(len(seen)), key=lambda place: -scores[place])[:_KNOWN]
        known = [seen[place] for place in sorted(best)]
        ids = list(dict.fromkeys(_ID.findall("\n".join([request, *known]))))
        documents = list(excerpts(context.kb, ids, request).items())[:_DOCUMENTS]
        values = {"question": context.question, "request": request, "known": known, "documents": documents}
        counted: Counter[Triple] = Counter()
        prompt = render("walking/generate.md", **values, most=_GENERATED)
        for sample in range(self.samples):
            heat = TEMPERATURE if self.samples > 1 else None
            text = self.ask(prompt, trace, purpose="generate facts", temperature=heat, sample=sample)
            counted.update(list(dict.fromkeys(_triples(text))))
        triples = [triple for triple, _ in counted.most_common(_GENERATED)]
        if not triples:
            return Observation("The model knows no such facts.", usage=trace.usage)
        listed = [" | ".join(triple) for triple in triples]
        text = self.ask(render("walking/verify.md", **values, facts=listed), trace, purpose="verify facts")
        numbers = [int(number) for number in _NUMBER.findall(text)]
        readable = numbers or "none" in text.casefold()
        held = [one for number, one in enumerate(triples, 1) if number in numbers] if readable else triples
        if not held:
            said = f"The model named {len(triples)} facts, and held none of them when it was asked again."
            return Observation(said, usage=trace.usage)
        linked = _linked(context, held, partial(self.ask, trace=trace, purpose="link names"))
        facts, lines = list[Fact](), list[str]()
        for source, relation, target in held:
            start, end = linked[source] or Entity(source, source), linked[target] or Entity(target, target)
            named = Fact(start.id, relation, end.id, start.label, "", end.label, generated=True)
            fact, remark = _compared(context, named)
            facts.append(fact)
            lines.append(f"- {fact_text(fact)}{remark}")
        said = "Generated by the model, not from the knowledge base:"
        if not all(fact.generated for fact in facts):
            said = "Named by the model; what is not marked as generated is in the graph:"
        ends = (end for fact in facts for end in (fact.target, fact.source))
        return Observation("\n".join([said, *lines]), usage=trace.usage, nodes=once(ends), facts=tuple(facts))


def search_further(context: Context, thought: Thought, entity_ids: list[str]) -> Observation:
    """Take back what was generated, and see what nodes one hop further out are linked to.

    Args:
        entity_ids: The ids of the nodes.
    """
    lines, facts = ["What was generated is taken back. One hop further:"], list[Fact]()
    for entity_id in entity_ids:
        found = neighborhood(context, entity_id, "", "both", context.question, _FURTHER)
        for edge in found.edges:
            facts.append(fact_of(found.entity, edge))
            lines.append(f"- {fact_line(facts[-1], edge.neighbor.description)}")
        if found.total > len(found.edges):
            lines.append(f"  ({found.total - len(found.edges)} more links of {found.entity.label or entity_id})")
    return Observation("\n".join(lines), nodes=once(fact.target for fact in facts), facts=tuple(facts))


def _linked(context: Context, triples: Sequence[Triple], ask: Callable[[str], str]) -> Mapping[str, Entity | None]:
    """The entity that each end stands for: one of its name, or of those found for it that which is meant."""
    linked: dict[str, Entity | None] = {}
    open_: list[tuple[str, Triple, Entity]] = []
    for triple in triples:
        for name in (triple[0], triple[2]):
            if name in linked:
                continue
            linked[name], candidates = _candidates(context, name)
            if linked[name] is None:
                open_ += [(name, triple, one) for one in candidates]
    if open_:
        groups: dict[str, tuple[str, list[str]]] = {}
        for number, (name, triple, one) in enumerate(open_, 1):
            line = f"{number}. {one.label} ({one.id}): {one.description or one.kind}"
            groups.setdefault(name, (" | ".join(triple), []))[1].append(line)
        prompt = render("walking/link.md", groups=groups, question=context.question)
        for number in map(int, _NUMBER.findall(ask(prompt))):
            if 0 < number <= len(open_):
                name, _, one = open_[number - 1]
                linked[name] = linked[name] or one
    return linked


def _candidates(context: Context, name: str) -> tuple[Entity | None, list[Entity]]:
    """The entity that a name surely stands for: by an id shown, or the only one of the name; and those it may mean."""
    bare = name.strip()
    with_id = re.search(r"\(([^()]+)\)$", bare)
    for candidate in (with_id[1] if with_id else "", bare):
        if candidate and re.search(rf"\({re.escape(candidate)}\)", context.seen):
            label = context.kb.labels([candidate], language=context.language).get(candidate, "")
            return Entity(candidate, label), []
    found = context.kb.search_entities(bare, language=context.language, limit=_CANDIDATES).entities
    same = [one for one in found if one.label.casefold() == bare.casefold()]
    shown = [one for one in same if f"({one.id})" in context.seen]
    if shown or len(same) == 1:
        return (shown or same)[0], []
    likeness = relevance(bare, [one.label for one in found])
    return None, same or [one for one, score in zip(found, likeness, strict=True) if score > 0]


def _compared(context: Context, fact: Fact) -> tuple[Fact, str]:
    """The graph's own fact where it has this one, else the model's; and what the graph links the two by instead."""
    try:
        found = neighborhood(context, fact.source, "", "both", f"{fact.relation} {fact.target_name}", CANDIDATES)
    except TellModel:  # the model's subject is none of the graph's
        return fact, ""
    own = [fact_of(found.entity, edge) for edge in found.edges if edge.neighbor.id == fact.target]
    names = [(one.relation_name or one.relation.removeprefix(INVERSE)).replace("_", " ") for one in own]
    scores = relevance(fact.relation, names)
    best = max(range(len(own)), key=lambda place: scores[place], default=None)
    if best is None:
        return fact, ""
    if scores[best] > 0:
        return own[best], " [in the graph]"
    return fact, f" (the graph links them otherwise: {', '.join(dict.fromkeys(names))})"


def _triples(text: str) -> Iterator[Triple]:
    for line in text.splitlines():
        parts = [part.strip(' \t`*"“”[]') for part in ITEM_MARK.sub("", line).strip("|").split("|")]
        if len(parts) == 3 and all(parts) and not all(set(part) <= {"-", ":", " "} for part in parts):
            yield parts[0], parts[1], parts[2]


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
than relations, or none) and ``probability``.
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
        typed = len(self.kb.skb.type_names) > 1
        lines += [f"- {cut(one.label, 200)} ({one.id}){f': {one.kind}' if typed else ''}" for one in known.values()]
        if paths:
            lines.append("Relation paths that may lead to the answer, the most probable first:")
        for path in paths:
            lines.append(f"- {_path_text(path, self.kb.relations)} [{path['probability']:.2f}]")
        return Observation("\n".join(lines), nodes=tuple(known))

    def follow_path(
        self,
        context: Context,
        thought: Thought,
        entity_id: str,
        relations: list[str],
        types: list[str],
        query: str = "",
    ) -> Observation:
        """Follow a path of relations from a node, and see where it leads.

        Args:
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
                skb.name(source),
                "",
                skb.name(target),
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

    def vector_query(self, context: Context, thought: Thought, text: str, node_type: str = "") -> Observation:
        """Find the nodes whose documents are nearest to a description, which should say nothing of links.

        Args:
            text: A description of what is wanted, in a phrase or a sentence.
            node_type: The name of a node type, to see only its nodes.
        """
        ranking = self.kb.text_query(text, kind=node_type or "item", limit=self.keep, cosine=self.cosine)
        lines = described(self.kb, ranking, text)
        said = [BY_WORDS] if self.kb.skb.vectors is None else []
        return Observation("\n".join([*said, *(lines or ["Nothing was found."])]), nodes=tuple(ranking.ids))


def _path_text(path: PathGiven, names: Relations) -> str:
    """``person <--built by-- ship``, or that the text of documents leads there."""
    if not path["relations"]:
        return f"{TEXT}: nodes whose documents fit what the question describes"
    kinds = path["types"] or [""] * (len(path["relations"]) + 1)
    parts = [kinds[0] or "node"]
    for relation, kind in zip(path["relations"], kinds[1:], strict=True):
        name = names.display(relation.removeprefix(INVERSE))
        parts.append(f"<-- {name} --" if relation.startswith(INVERSE) else f"-- {name} -->")
        parts.append(kind or "node")
    return " ".join(parts)


_SAMPLED = 2_000
"""Edges of a node whose relations are listed."""
_RELATIONS = 60
"""Relations of one node that are listed."""
_ENTITIES = 20
"""Nodes whose relations one call lists."""
FOUND = 20
"""Neighbours of one node and relation that are looked at; ToG's authors draw 5 at random."""
_FOUND_IN_ALL = 100
_FEWEST = 5
"""Neighbours that each way shows, however many ways are followed at once."""

Way = dict[str, Any]
"""A relation to follow from a node, as plain data: ``entity_id``, ``relation`` (^: backwards) and its ``score``."""


def search_relations(context: Context, thought: Thought, entity_ids: list[str]) -> Observation:
    """See which relations some nodes have, in both directions, with an example of each.

    Args:
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


def follow_relations(context: Context, thought: Thought, ways: list[Way]) -> Observation:
    """Follow relations from nodes, each from its own node, and see what they lead to.

    Args:
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
        for edge in found.edges:
            fact = fact_of(found.entity, edge)
            lines.append(f"- {fact_line(fact, edge.neighbor.description)}")
            facts.append(fact)
    return Observation("\n".join(lines), nodes=once(fact.target for fact in facts), facts=tuple(facts))
