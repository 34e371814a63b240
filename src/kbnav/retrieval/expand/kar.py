"""KAR: documents of the entities a query names, linked to those around them, as what an expansion is written from.

The steps are those of KAR, section 4, by its own words: entity parsing, entity document retrieval, KG relation
propagation, document-based relation filtering, document triples construction, knowledge-aware expansion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kbnav.answers.relevance import relevance
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import WAYS
from kbnav.knowledge.skb.rendering import arrow
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.common import Hits, numbers
from kbnav.retrieval.expand.documents import shown, structures
from kbnav.retrieval.expand.expansion import SAMPLES, TEMPERATURE, Expansions, write_documents
from kbnav.retrieval.expand.neighbours import Link, Scores, Surroundings
from kbnav.retrieval.expand.replies import Entity, entities
from kbnav.retrieval.expand.similarity import Place, Similarity
from kbnav.runs.trace import Observed, Trace

Part = Literal["kg", "drf"]
"""What an ablation leaves out: the links of the graph, or document-based relation filtering (KAR, section 5.2)."""
Linking = Literal["names", "documents"]
Paths = Literal["useful", "plain"]
"""Whether neighbours are weighed by the way to them too."""

QUERY = "the query itself"
"""The pseudo entity that stands for what is looked for (KAR, equation 3)."""
_EXAMPLES = 3
"""Names of each type that the model is told before it says what a query names."""
_NAMESAKES = 200
"""Nodes of one name that are told apart by their documents."""


@dataclass(frozen=True)
class Linked:
    """A node found for an entity of the query: by its name, or by likeness of its document to the entity's."""

    entity: str
    node: int
    how: Literal["name", "document"]


@dataclass(frozen=True)
class Relation:
    """A document triple as it is written out: the links from its head, and the node at their end."""

    arrows: str
    tail: int


class KAR:
    """Knowledge-aware expansion."""

    name = "kar"

    def __init__(
        self,
        skb: SKB,
        base: Retriever,
        calls: ModelCalls,
        similarity: Similarity,
        *,
        surroundings: Surroundings | None = None,
        neighbours: int = 10,
        documents: int = 1,
        linking: Linking = "names",
        samples: int = SAMPLES,
        temperature: float = TEMPERATURE,
        without: Sequence[Part] = (),
        paths: Paths = "plain",
        candidates: bool = False,
    ) -> None:
        """Serve an SKB.

        Args:
            skb: what is searched.
            base: retrieves the documents of the query itself.
            calls: the model.
            similarity: finds documents of entities, and filters neighbours.
            surroundings: how far and wide the graph is followed; 2 hops by default.
            neighbours: how many are kept of each node (the paper's k).
            documents: how many are looked up for an entity.
            linking: ``names`` takes a node that has the entity's very name where there is one; ``documents`` goes by
                likeness alone, as in the paper.
            samples: expansions that are written (the paper's n).
            temperature: of the model when it writes them.
            without: parts left out.
            paths: ``useful`` weighs neighbours by the way to them (see ``neighbours``), ``plain`` by their documents
                alone, as in the paper.
            candidates: whether the neighbours kept are among the candidates of the last ranking by themselves.
        """
        self.prompts = prompt_hashes("kar")
        self._skb, self._structures = skb, structures(skb)
        self._names = {
            kind.name: _spread(skb, start, kind.count)
            for kind, start in zip(skb.meta.types, skb.meta.type_start, strict=False)
        }
        self._base, self._calls, self._similarity = base, calls, similarity
        self._surroundings = surroundings or Surroundings(skb.graph)
        self._neighbours, self._documents, self._linking = neighbours, documents, linking
        self._samples, self._temperature, self._without = samples, temperature, frozenset(without)
        self._paths, self._candidates = paths, candidates

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``."""
        named = self._parse(query, trace)
        linked = self._link(query, named, trace)
        triples = {} if "kg" in self._without else self._triples(query, linked, trace)
        prompt = render(
            "kar/generate.md",
            query=query,
            structures=self._structures,
            linked=bool(triples),
            documents=list(self._shown(linked, triples)),
        )
        written = write_documents(self._calls, prompt, trace, samples=self._samples, temperature=self._temperature)
        tails = list(dict.fromkeys(relation.tail for found in triples.values() for relation in found))
        return Expansions(written, tails if self._candidates else ())

    def _parse(self, query: str, trace: Trace) -> list[Entity]:
        """Entity parsing: what the query names, as documents the model writes for it."""
        prompt = render("kar/parse.md", query=query, structures=self._structures, names=self._names)
        reply = self._calls.ask(prompt, trace, purpose="parse entities", needed=False)
        named = entities(reply, tuple(self._structures))
        lines = [f"{entity.name} ({entity.kind or 'of no known type'})" for entity in named]
        trace.record("entities", Observed("\n".join(lines) or "none could be read from the reply"))
        return named

    def _link(self, query: str, named: Sequence[Entity], trace: Trace) -> list[Linked]:
        """Entity document retrieval: of the query itself first, then of what it names."""
        found = self._base.retrieve(query, self._documents, trace)
        with trace.step("linked_nodes", limit=self._documents, linking=self._linking) as seen:
            linked = [Linked(QUERY, node, "document") for node in numbers(self._skb, found)]
            namesakes = [self._namesakes(entity) for entity in named]
            places: list[Place] = [
                (None, same) if same else (self._ranges(entity.kind), None)
                for entity, same in zip(named, namesakes, strict=True)
            ]
            # The query's words stand beside a namesake's: of two Chicagos "born in Chicago" means the city.
            texts = [f"{one.text}\n{query}" if same else one.text for one, same in zip(named, namesakes, strict=True)]
            hits = self._similarity.nearest(texts, places, max(self._documents, *map(len, namesakes), 0))
            hits = [self._told_apart(near, same, query) for near, same in zip(hits, namesakes, strict=True)]
            for entity, same, near in zip(named, namesakes, hits, strict=True):
                # Namesakes that are like the entity's document in nothing are still its namesakes.
                nodes = list(dict.fromkeys([*(node for node, _ in near), *same]))[: self._documents]
                linked += [Linked(entity.name, node, "name" if same else "document") for node in nodes]
            seen.text = "\n".join(f"{one.entity} → {self._label(one.node)} by {one.how}" for one in linked)
            seen.nodes = list(dict.fromkeys(self._skb.id(one.node) for one in linked))
        return linked

    def _namesakes(self, entity: Entity) -> list[int]:
        """The nodes with an entity's name but for case and accents: those of its type, or of any where none is."""
        if self._linking == "documents" or self._skb.names is None:
            return []
        for ranges in dict.fromkeys((tuple(self._ranges(entity.kind) or ()), ())):
            found = self._skb.names.search(entity.name, limit=_NAMESAKES, ranges=ranges or None, edits=0)
            if found:
                return [match.number for match in found]
        return []

    def _told_apart(self, near: Hits, same: Sequence[int], query: str) -> Hits:
        """Namesakes by their documents and by their relations, whose names the query may have; others as they are."""
        if len(same) < 2:
            return near
        likely = self._likely(query)
        fit = {
            node: sum(
                float(likely[r]) for r in {int(r) for way in WAYS for r in self._skb.graph.row(node, way).relations}
            )
            for node in same
        }
        by_links = sorted((node for node in same if fit[node] > 0), key=lambda node: -fit[node])
        return reciprocal_rank_fusion([[node for node, _ in near], by_links])

    def _ranges(self, kind: str) -> list[tuple[int, int]] | None:
        return [self._skb.type_range(kind)] if kind else None

    def _triples(self, query: str, linked: Sequence[Linked], trace: Trace) -> Mapping[int, Sequence[Relation]]:
        """Relation propagation, filtering and triples, by the node they begin at."""
        by_name = "drf" in self._without
        with trace.step("document_triples", limit=self._neighbours, filter="names" if by_name else "documents") as seen:
            scorer = self._similarity.names(query) if by_name else self._similarity.documents(query)
            nodes = dict.fromkeys(one.node for one in linked)
            likely = self._likely(query) if self._paths == "useful" else None
            chosen = {node: self._surroundings.best(node, scorer, self._neighbours, likely) for node in nodes}
            lines: list[str] = []
            relations: dict[int, list[Relation]] = {}
            for node, found in chosen.items():
                more = ", not all that there are" if found.cut else ""
                lines.append(f"{self._label(node)}: {len(found.triples)} of {found.neighbours} neighbours{more}")
                relations[node] = [Relation(self._arrows(triple.links), triple.tail) for triple in found.triples]
                lines += [
                    f"  {triple.score:.4f} {relation.arrows} {self._label(relation.tail)}"
                    for triple, relation in zip(found.triples, relations[node], strict=True)
                ]
            seen.text = "\n".join(lines)
            seen.nodes = list(dict.fromkeys(self._skb.id(t.tail) for found in chosen.values() for t in found.triples))
        return relations

    def _likely(self, query: str) -> Scores:
        """How well each relation's name fits the query, in shares of the best; shape [relations]."""
        names = [name.replace("_", " ") for name in self._skb.relation_names]
        found = np.array(relevance(query, names), np.float32)
        return found / (found.max(initial=0.0) or 1.0)

    def _shown(self, linked: Sequence[Linked], triples: Mapping[int, Sequence[Relation]]) -> Iterator[str]:
        """The document triples as lines, node by node; each document is written out where it comes first."""
        given: dict[int, int] = {}

        def document(node: int) -> str:
            if node in given:
                return f"[{given[node]}] {self._skb.nodes.label(node)}"
            given[node] = len(given) + 1
            return f"[{given[node]}] {shown(self._skb, node)}"

        found: dict[int, list[str]] = {}
        for one in linked:
            found.setdefault(one.node, []).append(one.entity)
        for node, names in found.items():
            yield f"Found for {' and '.join(names)}: {document(node)}"
            for relation in triples.get(node, ()):
                yield f"  {relation.arrows} {document(relation.tail)}"

    def _arrows(self, links: Sequence[Link]) -> str:
        """``—made by→ Wenna Pellow (person) ←learned from—``: the links of a triple, and the nodes between them."""
        parts: list[str] = []
        for link in links:
            both = [one for one in link.out if one in link.into]
            ways: list[tuple[Direction, Sequence[int]]] = [
                ("both", both),
                ("out", [one for one in link.out if one not in both]),
                ("in", [one for one in link.into if one not in both]),
            ]
            parts += [
                " and ".join(arrow([self._skb.relation_names[r] for r in kinds], way) for way, kinds in ways if kinds)
            ]
            parts += [f"{self._skb.nodes.label(link.node)} ({self._skb.type_name(link.node)})"]
        return " ".join(parts[:-1])

    def _label(self, node: int) -> str:
        return f"{self._skb.nodes.label(node)} ({self._skb.id(node)})"


def _spread(skb: SKB, start: int, count: int) -> list[str]:
    """Names from the beginning, the middle and the end of a type's nodes."""
    few = min(_EXAMPLES, count)
    return [skb.nodes.label(start + count * part // few) for part in range(few)]
