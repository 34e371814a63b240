"""An SKB behind the protocol of knowledge bases, and the names of its relations.

A relation has one name wherever it is shown, written or looked up, as short as tells it apart: of a path
(``/people/person/place_of_birth``) the last part, without ``_`` at its ends, and with ``_`` for a space, as SPARQL
writes it. Where two would be the same, both keep their whole names.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np

from kbnav.answers.relevance import relevance
from kbnav.answers.tables import SKB_NODE, AnswerTable, Ranked, Ranking
from kbnav.errors import BadArguments, UnknownId, UsageError
from kbnav.knowledge.base import (
    INVERSE,
    Capability,
    Direction,
    Edge,
    Entity,
    Entry,
    Example,
    KnowledgeBase,
    Neighborhood,
    SearchKind,
    SearchResult,
    Statement,
    Value,
    followed,
)
from kbnav.knowledge.ranking import in_turn
from kbnav.knowledge.skb.files import reading
from kbnav.knowledge.skb.graph import WAYS, NodeNumbers, ways
from kbnav.knowledge.skb.rdf import SparqlStore, local_names, node_ids
from kbnav.knowledge.skb.rendering import excerpt, get_doc_info
from kbnav.knowledge.skb.schema import TypeTuple
from kbnav.knowledge.skb.search import CANDIDATES, SENTENCE, reciprocal_rank_fusion, search_both
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, names_in
from kbnav.settings.systems import NEEDS_SKB

_NAMED = 20
"""Relations that are named where one is asked for that is none."""
_MEMORY = 4 << 30
"""Bytes of address space for a SPARQL query."""
_EXAMPLE = 60
"""Characters of a node's name that stands for others."""


class Relations:
    """The relations of one SKB: by the names that are shown, what else is understood for them, words, or a node."""

    def __init__(self, skb: SKB) -> None:
        self._skb, names = skb, skb.relation_names
        parts = (re.split(r"[/#]", name.rstrip("/#"))[-1].strip("_ ") for name in names)
        whole = [name.replace(" ", "_") for name in names]
        short = [part.replace(" ", "_") or full for part, full in zip(parts, whole, strict=True)]
        spread = Counter([*short, *whole])
        # A short name counts for itself and, where it is the whole one too, once more.
        self.shown = tuple(
            brief if spread[brief] == 1 + (brief == full) else (full if whole.count(full) == 1 else name)
            for name, brief, full in zip(names, short, whole, strict=True)
        )
        self._numbers: dict[str, int] = {}
        for forms in (self.shown, names, whole, local_names(names)):
            for number, form in enumerate(forms):
                self._numbers.setdefault(form, number)
        stored = dict(zip(self.shown, local_names(names), strict=True))
        self._stored = {one: local for one, local in stored.items() if one != local}
        longest = sorted(map(re.escape, self._stored), key=len, reverse=True)
        self._written = re.compile(rf"\brel:({'|'.join(longest)})(?![\w:%-]|\.\w)") if longest else None

    def find(self, name: str) -> int | None:
        """The number of a relation by any of its names, spaces for ``_`` allowed; None where there is none."""
        wanted = name.strip().removeprefix("rel:")
        return next((self._numbers[one] for one in (wanted, wanted.replace(" ", "_")) if one in self._numbers), None)

    def display(self, name: str) -> str:
        """Any name of a relation as it is shown, with the ``^`` that may stand before it; unknown ones as they are."""
        back = "^" if name.startswith("^") else ""
        number = self.find(name.removeprefix(back))
        return name if number is None else f"{back}{self.shown[number]}"

    def stored(self, query: str) -> str:
        """A SPARQL query with ``rel:`` and a name as it is shown put as the store has it."""
        return self._written.sub(lambda found: f"rel:{self._stored[found[1]]}", query) if self._written else query

    def resolve(self, name: str, otherwise: str = "") -> tuple[int, bool]:
        """A relation's number (``rel:``, ``_`` accepted), and whether backwards. Raises UnknownId with the nearest."""
        number = self.find(name.removeprefix(INVERSE))
        if number is not None:
            return number, name.startswith(INVERSE)
        where = self._skb.meta.name
        if otherwise:
            raise UnknownId(f"{otherwise} in {where}")
        near = [one.id for one in self.like(name, _NAMED)] or self.shown[:_NAMED]
        raise UnknownId(f"there is no relation {name!r} in {where}; the nearest by name: {', '.join(near)}")

    def entity(self, relation: int, *, inverse: bool = False) -> Entity:
        """A relation as what entries and edges name."""
        name = self.directed(relation, "in" if inverse else "out")
        return Entity(name, name, kind="property")

    def text(self, relation: int) -> str:
        """What a relation links how often, a line for each pair of types."""
        name = self._skb.relation_names[relation]
        lines = [
            f"{item.source} -> {item.target}: {item.count} edges"
            for item in self._skb.meta.tuples
            if item.relation == name
        ]
        return "\n".join(lines)

    def like(self, query: str, limit: int) -> tuple[Entity, ...]:
        """The relations whose names or types have words of a query, best first."""
        entities = [self.entity(number) for number in range(len(self.shown))]
        described = [
            replace(entity, description=self.text(number).replace("\n", "; ")) for number, entity in enumerate(entities)
        ]
        texts = [f"{entity.label} {entity.description}" for entity in described]
        scored = sorted(zip(relevance(query, texts), described, strict=True), key=lambda pair: -pair[0])
        return tuple(entity for score, entity in scored if score > 0)[:limit]

    def ranked(self, query: str) -> list[tuple[TypeTuple, float]]:
        """All kinds of links with how well relation and types fit a query, best first, then those with most links."""
        tuples = sorted(self._skb.meta.tuples, key=lambda one: -one.count)
        texts = [f"{tuple_.relation} {tuple_.source} {tuple_.target}".replace("_", " ") for tuple_ in tuples]
        return sorted(zip(tuples, relevance(query, texts), strict=True), key=lambda pair: -pair[1])

    def leads_to(self, name: str, kind: str) -> list[str]:
        """The types that a relation (``^``: backwards) leads to from a type, most first. Raises UnknownId."""
        number, back = self.resolve(name)
        ends = [(one.target, one.source) if back else (one.source, one.target) for one in self.links(number)]
        return [far for near, far in ends if near == kind]

    def links(self, relation: int) -> list[TypeTuple]:
        """The types that a relation links, those with most edges first."""
        name = self._skb.relation_names[relation]
        return sorted((one for one in self._skb.meta.tuples if one.relation == name), key=lambda one: -one.count)

    def kinds_like(self, query: str, limit: int) -> list[str]:
        """``source -- relation --> target: count`` with words of a query; in a graph of one type no types."""
        typed = len(self._skb.type_names) > 1
        return [
            f"- {one.source} -- {self.display(one.relation)} --> {one.target}: {one.count:,}"
            if typed
            else f"- {self.display(one.relation)}: {one.count:,}"
            for one, score in self.ranked(query)[:limit]
            if score > 0
        ]

    def around(self, node: int) -> Iterator[tuple[Literal["out", "in"], int, NodeNumbers]]:
        """The direction and the relation of a node's edges, with the neighbours by them: outgoing edges first."""
        for way in WAYS:
            row = self._skb.graph.row(node, way)
            for relation in np.flatnonzero(np.bincount(row.relations)).tolist():
                yield way, relation, row.nodes[row.relations == relation]

    def directed(self, relation: int, way: Literal["out", "in"]) -> str:
        """The name of a relation, with ``^`` before it where it comes in."""
        return f"{INVERSE if way == 'in' else ''}{self.shown[relation]}"

    def of_node(self, entity_id: str, query: str, limit: int) -> list[str]:
        """A node's relations with counts and an example, those like the query first, cuts said. Raises UnknownId."""
        node = self._skb.number(entity_id)
        found = []
        for way, relation, nodes in self.around(node):
            name, example = self.directed(relation, way), self._skb.name(int(nodes[0]))[:_EXAMPLE]
            found.append((name, len(nodes), f"- {name}: {len(nodes):,}, such as {example}"))
        scores = relevance(query, [name.replace("_", " ") for name, _, _ in found])
        order = sorted(range(len(found)), key=lambda place: (-scores[place], -found[place][1]))
        head = f"{self._skb.name(node)} ({entity_id}){':' if found else ' has no links.'}"
        cut = [f"and {len(found) - limit} more, with fewer links"] if len(found) > limit else []
        return [head, *(found[place][2] for place in order[:limit]), *cut]


EDGES_PER_RELATION = 50
"""Edges of one relation and direction that an entry lists; ``omitted`` counts the rest."""
RANKED_BY_NAME = 2_000
"""Edges whose names are compared with a phrase one by one; of more, only the indexes' best are."""


_read = reading("the knowledge base")


class SkbKB:
    """A built SKB as a knowledge base. Ids are the nodes' own; a relation's id is its name."""

    def __init__(
        self,
        skb: SKB,
        *,
        query_timeout: float = 60.0,
        workers: int = 2,
    ) -> None:
        """Serve an open SKB.

        Args:
            skb: stays open as long as this is used; ``close`` closes it.
            query_timeout: seconds for a SPARQL query.
            workers: SPARQL queries that run at once.
        """
        self.skb = skb
        self.shows_documents = True
        self.relations = Relations(skb)
        self._sparql = (
            SparqlStore(skb, timeout=query_timeout, memory_limit=_MEMORY, size=workers) if skb.meta.sparql else None
        )

    def close(self) -> None:
        """End the query processes and close the SKB."""
        if self._sparql:
            self._sparql.close()
        self.skb.close()

    @property
    def name(self) -> str:
        """That of the SKB."""
        return self.skb.meta.name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the SKB was built with."""
        found: set[Capability] = {"get_entry", "get_property_examples", "search_neighbors"}
        if self.skb.text or self.skb.names:
            found.add("search_entities")
        if self._sparql:
            found.add("execute_query")
        if self.skb.vectors:
            found.add("vector_query")
        return frozenset(found)

    def state(self) -> Mapping[str, Any]:
        """Name, source, counts, encoder, and the checksums of all files; of STaRK's what was indexed, too."""
        meta = self.skb.meta
        return {
            **({"indexed": meta.indexed} if meta.style != "plain" else {}),
            "kind": "skb",
            "name": meta.name,
            "source": meta.source,
            "nodes": meta.nodes,
            "edges": meta.edges,
            "encoder": meta.encoder,
            "files": {name: file.sha256 for name, file in meta.files.items()},
        }

    @_read
    def search_entities(
        self,
        query: str,
        *,
        language: str = "en",  # noqa: ARG002 - as the protocol has it
        limit: int = 8,
        kind: SearchKind = "any",
    ) -> SearchResult:
        """Nodes by id or name, spelled alike too, then by text and meaning; relations by name. The rung says which."""
        if not query.strip():
            raise BadArguments("search_entities: the query is empty")
        named = self.skb.names.search(query, limit=limit) if self.skb.names else []
        exact = [node for node in (self.skb.nodes.ids.find(query.strip()),) if node >= 0]
        exact += [match.number for match in named if match.how != "fuzzy" and match.number not in exact]
        near = [match.number for match in named if match.how == "fuzzy"]
        fused = reciprocal_rank_fusion([near, [number for number, _ in search_both(self.skb, query)]])
        others = [number for number, _ in fused if number not in exact]
        if self.skb.text and len(query.split()) < SENTENCE:  # what only means something like a name pads what has it
            worded = {number for number, _ in self.skb.text.search(query, limit=CANDIDATES)}.union(near)
            others = [number for number in others if number in worded] or [
                number for number in others if not _begins(self.skb.name(number), query)
            ]
        wanted = [] if kind == "property" else [*exact, *others][:limit]
        found = tuple(self._described(number, query) for number in wanted)
        most = limit if kind == "property" else max(1, limit // 2)
        relations = self.relations.like(query, most) if kind != "item" else ()
        rung: Literal["exact", "fulltext", "none"] = "exact" if exact else "fulltext" if found or relations else "none"
        return SearchResult(found, relations, rung, query.strip() if exact else "")

    @_read
    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:  # noqa: ARG002
        """A node's document and edges, incoming ones under ``^relation``; of a relation, what it links how often."""
        node = self.skb.nodes.ids.find(entity_id)
        if node < 0:
            relation, _ = self.relations.resolve(entity_id, f"there is no node or relation {entity_id!r}")
            return Entry(self.relations.entity(relation), document=self.relations.text(relation))
        statements: list[Statement] = []
        omitted: dict[str, int] = {}
        for way, relation, nodes in self.relations.around(node):
            about = self.relations.entity(relation, inverse=way == "in")
            statements += [Statement(about, self.value(other)) for other in nodes[:EDGES_PER_RELATION].tolist()]
            if len(nodes) > EDGES_PER_RELATION:
                omitted[f"{about.id} edges"] = len(nodes) - EDGES_PER_RELATION
        document = get_doc_info(self.skb, node, add_rel=False)
        if len(self.skb.type_names) == 1:
            document = document.replace(f"- type: {self.skb.type(node)}\n", "", 1)
        return Entry(
            entity=self._entity(node),
            statements=tuple(statements),
            document=document,
            aliases=self.skb.nodes.aliases(node),
            omitted=omitted,
        )

    @_read
    def get_property_examples(
        self,
        property_id: str,
        *,
        language: str = "en",  # noqa: ARG002
        limit: int = 5,
    ) -> Sequence[Example]:
        """Edges of a relation, from every pair of node types it links where ``limit`` allows."""
        relation, _ = self.relations.resolve(property_id)
        about, tuples = self.relations.entity(relation), self.relations.links(relation)
        found: list[Example] = []
        for place, item in enumerate(tuples[:limit]):
            wanted = (limit - len(found)) // (min(len(tuples), limit) - place)
            edges = self.skb.graph.sample(
                relation, self.skb.type_range(item.source), self.skb.type_range(item.target), wanted
            )
            found += [Example(self._entity(source), about, self.value(target)) for source, target in edges]
        return found

    @_read
    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:  # noqa: ARG002
        """See ``KnowledgeBase``; the RDF view is described in ``kbnav.knowledge.skb.rdf``."""
        if self._sparql is None:
            raise BadArguments(f"{self.name} was built without SPARQL")
        table = self._sparql.query(self.relations.stored(query))
        named = (unquote(iri.removeprefix(SKB_NODE)) for iri in names_in(query, SKB_PREFIXES) if SKB_NODE in iri)
        return replace(table, labels=self.labels(list(dict.fromkeys([*named, *node_ids(table)]))))

    @_read
    def search_neighbors(
        self,
        entity_id: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        query: str = "",
        language: str = "en",  # noqa: ARG002
        limit: int = 20,
    ) -> Neighborhood:
        """See ``KnowledgeBase``; by ranks of names and documents, or relations in turns. ``^relation``: backwards."""
        node = self.skb.number(entity_id)
        relation, direction = followed(relation or "", direction)
        number = self.relations.resolve(relation)[0] if relation else None
        edges = [
            (way, kind, other)
            for way in ways(direction)
            for row in [self.skb.graph.row(node, way, number)]
            for kind, other in zip(row.relations.tolist(), row.nodes.tolist(), strict=True)
        ]
        turns = in_turn(edges, lambda one: one[:2])
        ranked = self._ranked(edges, query, limit) if query.strip() else [(edge, 0.0) for edge in turns]
        shown = tuple(
            Edge(way, self.relations.entity(kind), value, round(score, 4))
            for (way, kind, other), score in ranked[:limit]
            for value in [replace(self.value(other), description=self._excerpt(other, query))]
        )
        return Neighborhood(self._described(node, query), shown, len(edges))

    @_read
    def vector_query(
        self,
        text: str,
        *,
        kind: str = "item",
        limit: int = 10,
        language: str = "en",  # noqa: ARG002 - documents are in the language that they are in
        among: Sequence[str] | None = None,
    ) -> Ranking:
        """See ``KnowledgeBase``: scores of BM25 and vectors summed; ``kind``: a type or ``item``. Raises UnknownId."""
        if self.skb.vectors is None:
            raise BadArguments(f"{self.name} was built without vectors")
        return self.text_query(text, kind=kind, limit=limit, among=among)

    @_read
    def text_query(
        self,
        text: str,
        *,
        kind: str = "item",
        limit: int = 10,
        cosine: bool = False,
        among: Sequence[str] | None = None,
    ) -> Ranking:
        """As ``vector_query``, by the indexes there are (``cosine``: vectors). Raises BadArguments, UnknownId."""
        ranges = None if kind in ("item", "") else [self.skb.type_range(kind)]
        numbers = None if among is None else {self.skb.number(node) for node in among}
        if numbers is not None and ranges:
            numbers = {number for number in numbers if any(first <= number < last for first, last in ranges)}
            ranges = None
        if cosine and self.skb.vectors is not None:
            hits = self.skb.vectors.search(text, limit=limit, ranges=ranges, among=numbers)
        else:
            hits = search_both(self.skb, text, ranges=ranges, among=numbers)[:limit]
        found = [(self._entity(node), score) for node, score in hits]
        return Ranking(tuple(Ranked(entity.id, score, entity.label, entity.kind) for entity, score in found))

    @_read
    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:  # noqa: ARG002
        """See ``KnowledgeBase``."""
        names = {node_id: str(self.skb.nodes.names[number]) for node_id, number in self._numbers(ids).items()}
        return {node_id: name for node_id, name in names.items() if name}

    @_read
    def entities(self, ids: Sequence[str]) -> Mapping[str, Entity]:
        """Name and type of many nodes; ids that are none are left out."""
        return {node_id: self._entity(number) for node_id, number in self._numbers(ids).items()}

    @_read
    def named(self, ids: Sequence[str]) -> Mapping[str, Entity]:
        """As ``entities``; nodes without a name are called by how their texts begin."""
        found = self.entities(ids)
        unnamed = self.excerpts([one.id for one in found.values() if one.label == one.id])
        return {one: replace(entity, label=unnamed.get(one, entity.label)) for one, entity in found.items()}

    @_read
    def excerpts(self, ids: Iterable[str], about: str = "") -> dict[str, str]:
        """A line of what each node's document says, of ``about`` where it speaks of that; ids without one left out."""
        lines = {node_id: self._excerpt(number, about) for node_id, number in self._numbers(ids).items()}
        return {node_id: line for node_id, line in lines.items() if line}

    def _numbers(self, ids: Iterable[str]) -> dict[str, int]:
        numbers = {node_id: self.skb.nodes.ids.find(node_id) for node_id in ids}
        return {node_id: number for node_id, number in numbers.items() if number >= 0}

    def without_documents(self) -> SkbKB:
        """The same knowledge base, of whose documents nothing is shown; searches still find by them."""
        other = copy.copy(self)
        other.shows_documents = False
        return other

    def _excerpt(self, node: int, about: str = "") -> str:
        if not self.shows_documents:
            return ""
        return excerpt(
            self.skb.documents[node], str(self.skb.nodes.names[node]), about=about, without=self.skb.meta.alias_fields
        )

    def _entity(self, node: int) -> Entity:
        kind = self.skb.type(node)
        return Entity(self.skb.id(node), self.skb.name(node), kind if len(self.skb.type_names) > 1 else "", kind)

    def _described(self, node: int, about: str = "") -> Entity:
        entity, line = self._entity(node), self._excerpt(node, about)
        return replace(entity, description="; ".join(filter(None, (entity.description, line))))

    def value(self, node: int) -> Value:
        """A node by its number, its type as the datatype."""
        return Value(self.skb.name(node), self.skb.id(node), self.skb.type(node))

    def _ranked(self, edges: Sequence[_Edge], query: str, limit: int) -> list[tuple[_Edge, float]]:
        by_node: dict[int, list[_Edge]] = {}
        for edge in edges:
            by_node.setdefault(edge[2], []).append(edge)
        hits = search_both(self.skb, query, among=by_node, depth=max(CANDIDATES, limit)) if edges else []
        by_text = [edge for node, _ in hits for edge in by_node[node]]
        near = edges if len(edges) <= RANKED_BY_NAME else by_text
        texts = [f"{self.skb.relation_names[kind]} {self.skb.name(other)}" for _, kind, other in near]
        scores = relevance(query, [text.replace("_", " ") for text in texts])
        named = sorted(range(len(near)), key=lambda place: -scores[place])
        by_name = [near[place] for place in named if scores[place] > 0]
        fused = reciprocal_rank_fusion([by_text, by_name])
        # Something is near to any query; where words of it are found, that alone does not match.
        likeness = relevance(query, [self.skb.nodes.text(node)[:_READ] for node, _ in hits])
        worded = {node for (node, _), score in zip(hits, likeness, strict=True) if score > 0}
        matching = {*by_name, *(edge for edge in by_text if edge[2] in worded)}
        scored = [(edge, score if not matching or edge in matching else 0.0) for edge, score in fused]
        seen = {edge for edge, _ in fused}
        return [*scored, *((edge, 0.0) for edge in edges if edge not in seen)]


_READ = 2_000
"""Characters of a document in which words of a query are looked for."""
_ENDING = 4
"""Letters that another form of a word has more."""
_Edge = tuple[Literal["out", "in"], int, int]
"""Direction, relation, neighbour."""


def as_skb(kb: KnowledgeBase, who: str) -> SkbKB:
    """The KB where it is an SKB. Raises UsageError that names ``who`` needs one."""
    if not isinstance(kb, SkbKB):
        raise UsageError(NEEDS_SKB.format(who=who))
    return kb


def _begins(name: str, query: str) -> bool:
    """Whether a query is but the beginning of a much longer word of a name: who asks for Gia means no Giancarlo."""
    begun = query.strip().casefold()
    return any(word.startswith(begun) and len(word) > len(begun) + _ENDING for word in name.casefold().split())
