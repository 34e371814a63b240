"""An SKB behind the protocol of knowledge bases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kbnav.answers.relevance import relevance
from kbnav.answers.tables import AnswerTable, Ranked, Ranking
from kbnav.errors import BadArguments, UsageError
from kbnav.knowledge.base import (
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
)
from kbnav.knowledge.skb.both import CANDIDATES, SENTENCE, search_both
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.excerpts import excerpt
from kbnav.knowledge.skb.fusion import reciprocal_rank_fusion
from kbnav.knowledge.skb.rdf import local_names
from kbnav.knowledge.skb.relations import Relations
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.sparql import SparqlStore, Vocabulary, node_ids
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.systems import NEEDS_SKB

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
        memory_limit: int = 4 << 30,
        workers: int = 2,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve an open SKB.

        Args:
            skb: stays open as long as this is used; ``close`` closes it.
            query_timeout: seconds for a SPARQL query.
            memory_limit: bytes of address space for a SPARQL query.
            workers: SPARQL queries that run at once.
            closed: called when this is closed, for what was opened with it.
        """
        self.skb, self._closed = skb, closed
        self.relations = Relations(skb)
        self._sparql = (
            SparqlStore(
                skb.store.triples(),
                Vocabulary(
                    skb.meta.name,
                    local_names(skb.type_names),
                    local_names(skb.relation_names),
                    lambda node: skb.nodes.ids.find(node) >= 0,
                ),
                timeout=query_timeout,
                memory_limit=memory_limit,
                size=workers,
            )
            if skb.meta.sparql
            else None
        )

    def close(self) -> None:
        """End the query processes and close the SKB."""
        if self._sparql:
            self._sparql.close()
        self.skb.close()
        self._closed()

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
        """Nodes by name (but for case and accents, or spelled nearly so), then by text and meaning; relations by name.

        The rung is ``exact`` where a name is the phrase, ``fulltext`` where only words match.
        """
        if not query.strip():
            raise BadArguments("search_entities: the query is empty")
        named = self.skb.names.search(query, limit=limit) if self.skb.names else []
        exact = [match.number for match in named if match.how != "fuzzy"]
        near = [match.number for match in named if match.how == "fuzzy"]
        fused = reciprocal_rank_fusion([near, [number for number, _ in search_both(self.skb, query)]])
        others = [number for number, _ in fused if number not in exact]
        if self.skb.text and len(query.split()) < SENTENCE:  # what only means something like a name pads what has it
            worded = {number for number, _ in self.skb.text.search(query, limit=CANDIDATES)}.union(near)
            others = [number for number in others if number in worded] or others
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
            relation, _ = self.relations.asked(entity_id, f"there is no node or relation {entity_id!r}")
            return Entry(self.relations.entity(relation), document=self.relations.text(relation))
        statements: list[Statement] = []
        omitted: dict[str, int] = {}
        for way in ("out", "in"):
            row = self.skb.graph.row(node, "in" if way == "in" else "out")
            for relation in np.flatnonzero(np.bincount(row.relations)).tolist():
                nodes = row.nodes[row.relations == relation]
                about = self.relations.entity(relation, inverse=way == "in")
                statements += [Statement(about, self._value(other)) for other in nodes[:EDGES_PER_RELATION].tolist()]
                if len(nodes) > EDGES_PER_RELATION:
                    omitted[f"{about.id} edges"] = len(nodes) - EDGES_PER_RELATION
        return Entry(
            entity=self._entity(node),
            statements=tuple(statements),
            document=get_doc_info(self.skb, node, add_rel=False),
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
        relation, _ = self.relations.asked(property_id)
        about = self.relations.entity(relation)
        name = self.skb.relation_names[relation]
        tuples = [item for item in self.skb.meta.tuples if item.relation == name]
        tuples.sort(key=lambda item: -item.count)
        found: list[Example] = []
        for place, item in enumerate(tuples[:limit]):
            wanted = (limit - len(found)) // (min(len(tuples), limit) - place)
            edges = self.skb.graph.sample(
                relation, self.skb.type_range(item.source), self.skb.type_range(item.target), wanted
            )
            found += [Example(self._entity(source), about, self._value(target)) for source, target in edges]
        return found

    @_read
    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:  # noqa: ARG002
        """See ``KnowledgeBase``; the RDF view is described in ``kbnav.knowledge.skb.rdf``."""
        if self._sparql is None:
            raise BadArguments(f"{self.name} was built without SPARQL")
        table = self._sparql.query(self.relations.stored(query))
        return replace(table, labels=self.labels(list(dict.fromkeys(node_ids(table)))))

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
        """See ``KnowledgeBase``. Ranked by names of relation and neighbour and by documents, their ranks summed.

        ``^relation`` is the relation followed backwards. Without a query the relations take turns.
        """
        node = self.skb.number(entity_id)
        number = None
        if relation:
            number, inverse = self.relations.asked(relation)
            if inverse:
                direction = {"out": "in", "in": "out", "both": "in"}[direction]  # type: ignore[assignment]
        edges = [
            (way, kind, other)
            for way in ("out", "in")
            if direction in (way, "both")
            for row in [self.skb.graph.row(node, "in" if way == "in" else "out", number)]
            for kind, other in zip(row.relations.tolist(), row.nodes.tolist(), strict=True)
        ]
        ranked = self._ranked(edges, query, limit) if query.strip() else [(edge, 0.0) for edge in _in_turn(edges)]
        shown = tuple(
            Edge("in" if way == "in" else "out", self.relations.entity(kind), value, round(score, 4))
            for (way, kind, other), score in ranked[:limit]
            for value in [replace(self._value(other), description=self._excerpt(other, query))]
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
        """See ``KnowledgeBase``: by BM25 and by vectors, their scores summed. ``kind`` is a node type, ``item`` any.

        With ``among`` only these nodes are found. Raises UnknownId for one that there is not.
        """
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
        """As ``vector_query``, by whichever index of texts there is; with ``cosine`` by the vectors alone if there are.

        Raises BadArguments for a type that there is not, UnknownId for a node of ``among``.
        """
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
        numbers = {node_id: self.skb.nodes.ids.find(node_id) for node_id in ids}
        names = {node_id: str(self.skb.nodes.names[number]) for node_id, number in numbers.items() if number >= 0}
        return {node_id: name for node_id, name in names.items() if name}

    @_read
    def entities(self, ids: Sequence[str]) -> Mapping[str, Entity]:
        """Name and type of many nodes; ids that are none are left out."""
        numbers = {node_id: self.skb.nodes.ids.find(node_id) for node_id in ids}
        return {node_id: self._entity(number) for node_id, number in numbers.items() if number >= 0}

    @_read
    def excerpts(self, ids: Iterable[str], about: str = "") -> dict[str, str]:
        """A line of what each node's document says, of ``about`` where it speaks of that; ids without one left out."""
        numbers = {node_id: self.skb.nodes.ids.find(node_id) for node_id in ids}
        lines = {node_id: self._excerpt(number, about) for node_id, number in numbers.items() if number >= 0}
        return {node_id: line for node_id, line in lines.items() if line}

    def _excerpt(self, node: int, about: str = "") -> str:
        return excerpt(
            self.skb.documents[node], str(self.skb.nodes.names[node]), about=about, without=self.skb.meta.alias_fields
        )

    def _entity(self, node: int) -> Entity:
        kind = self.skb.type_name(node)
        return Entity(self.skb.id(node), self.skb.nodes.label(node), kind, kind)

    def _described(self, node: int, about: str = "") -> Entity:
        """An entity whose description says its type and a line of its document, by which homonyms are told apart."""
        entity, line = self._entity(node), self._excerpt(node, about)
        return replace(entity, description=f"{entity.kind}; {line}" if line else entity.kind)

    def _value(self, node: int) -> Value:
        return Value(self.skb.nodes.label(node), self.skb.id(node), self.skb.type_name(node))

    def _ranked(self, edges: Sequence[_Edge], query: str, limit: int) -> list[tuple[_Edge, float]]:
        by_node: dict[int, list[_Edge]] = {}
        for edge in edges:
            by_node.setdefault(edge[2], []).append(edge)
        hits = search_both(self.skb, query, among=by_node, depth=max(CANDIDATES, limit)) if edges else []
        by_text = [edge for node, _ in hits for edge in by_node[node]]
        near = edges if len(edges) <= RANKED_BY_NAME else by_text
        texts = [f"{self.skb.relation_names[kind]} {self.skb.nodes.label(other)}" for _, kind, other in near]
        scores = relevance(query, [text.replace("_", " ") for text in texts])
        named = sorted(range(len(near)), key=lambda place: -scores[place])
        by_name = [near[place] for place in named if scores[place] > 0]
        fused = reciprocal_rank_fusion([by_text, by_name])
        seen = {edge for edge, _ in fused}
        return [*fused, *((edge, 0.0) for edge in edges if edge not in seen)]


_Edge = tuple[str, int, int]
"""Direction, relation, neighbour."""


def as_skb(kb: KnowledgeBase, who: str) -> SkbKB:
    """The KB where it is an SKB. Raises UsageError that names ``who`` needs one."""
    if not isinstance(kb, SkbKB):
        raise UsageError(NEEDS_SKB.format(who=who))
    return kb


def _in_turn(edges: Iterable[_Edge]) -> list[_Edge]:
    """The first edge of each relation and direction, then the second of each, and so on."""
    count: dict[tuple[str, int], int] = {}
    placed = []
    for way, kind, other in edges:
        turn = count[way, kind] = count.get((way, kind), 0) + 1
        placed.append((turn, way, kind, other))
    placed.sort(key=lambda item: item[0])
    return [(way, kind, other) for _, way, kind, other in placed]
