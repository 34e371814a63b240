"""KAR: documents of the entities a query names, linked to those around them, as what an expansion is written from.

The steps are those of KAR, section 4, by its own words: entity parsing, entity document retrieval, KG relation
propagation, document-based relation filtering, document triples construction, knowledge-aware expansion.

Equation 5 scores a neighbour by its document alone. Where hubs join everything (the language "English" every actor
with every other), most of what is two hops away is beside the point and outnumbers what is near. ``paths=useful``
divides the score, brought between 0 and 1, by 1 + log10(d) for each node of degree d on the way, and multiplies it by
1 + r, with r from 0 to 1 for how well the name of the last relation fits the query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from kbnav.answers.relevance import relevance
from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import WAYS, Graph, Hop, NodeNumbers
from kbnav.knowledge.skb.rendering import arrow
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextIndex
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.models.calls import ModelCalls
from kbnav.prompts import render
from kbnav.retrieval.base import Hits, Retriever, numbers
from kbnav.retrieval.expansion import (
    Count,
    Entity,
    Expansions,
    HyDE,
    SampledOptions,
    build_hyde,
    document_line,
    entities,
)
from kbnav.runs.trajectory import Observed, Trace

Scores = npt.NDArray[np.float32]
Scorer = Callable[[NodeNumbers], Scores]
"""How well nodes [n] fit the query, shape [n]."""
Place = tuple[Sequence[tuple[int, int]] | None, Collection[int] | None]
"""Where to search: ranges of node numbers, and single ones; None is everywhere."""
Part = Literal["kg", "drf"]
"""What an ablation leaves out: the links of the graph, or document-based relation filtering (KAR, section 5.2)."""
Linking = Literal["names", "documents"]
Paths = Literal["useful", "plain"]

QUERY = "the query itself"
"""The pseudo entity that stands for what is looked for (KAR, equation 3)."""
_EXAMPLES = 3
"""Names of each type that the model is told before it says what a query names."""
_NAMESAKES = 200
"""Nodes of one name that are told apart by their documents."""
EDGES = 200_000
"""Edges that one hop follows. Behind a hub there may be millions, to most of the graph."""
_WEIGHED = 300
"""Neighbours whose relations are compared with the query, beside as many direct ones: the best without that."""
_WORD_HITS = 20_000
"""Nodes that BM25 scores for a query; those behind them count as not similar."""


class KAROptions(SampledOptions):
    """Options of ``kar``."""

    preset: Literal["kbnav", "paper"] = "kbnav"
    """``paper``: ``linking=documents``, ``paths=plain`` and ``with_neighbours=false``, where these are not given."""
    hops: Annotated[int, Field(ge=1, le=4)] = 2
    """How far the graph is followed (h)."""
    edges: Count = EDGES
    """Edges that one hop follows at most, from what fits the query best."""
    neighbours: Count = 10
    """Neighbours of a node that are kept (k)."""
    documents: Count = 1
    """Documents that are looked up for the query, and for each entity it names."""
    linking: Linking = "names"
    """Whether a node with an entity's very name is taken, or ``documents``: that with the document most like it."""
    paths: Paths = "useful"
    """Whether neighbours are weighed by the way to them too, or ``plain``: by their documents alone (equation 5)."""
    with_neighbours: bool = True
    """Whether the neighbours kept are among the candidates of the last ranking by themselves."""
    without: tuple[Part, ...] = ()
    """``kg``: no links of the graph. ``drf``: neighbours are filtered by their names."""

    @model_validator(mode="before")
    @classmethod
    def _of_paper(cls, given: dict[str, Any]) -> dict[str, Any]:
        paper = {"linking": "documents", "paths": "plain", "with_neighbours": False}
        return {**paper, **given} if given.get("preset") == "paper" else given


@dataclass(frozen=True)
class Linked:
    """A node found for an entity of the query: by its name, or by likeness of its document to the entity's."""

    entity: str
    node: int
    how: Literal["name", "document"]


class KAR(HyDE):
    """Knowledge-aware expansion."""

    name = "kar"
    _options: KAROptions

    def __init__(self, skb: SKB, base: Retriever, calls: ModelCalls, options: KAROptions) -> None:
        """``base`` retrieves the documents of the query itself too. Raises UsageError as ``similarity_for``."""
        super().__init__(skb, base, calls, options)
        self._similarity = similarity_for(skb, options.base)
        self._names = {
            kind.name: _spread(skb, start, kind.count)
            for kind, start in zip(skb.meta.types, skb.meta.type_start, strict=False)
        }
        self._surroundings = Surroundings(skb.graph, hops=options.hops, edges=options.edges)

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``ExpandedRetriever``."""
        named = self._parse(query, trace)
        linked = self._link(query, named, trace)
        triples = {} if "kg" in self._options.without else self._triples(query, linked, trace)
        lines = [*self._triple_lines(linked, triples)]
        written = self._write("document", query, trace, linked=bool(triples), documents=lines)
        tails = list(dict.fromkeys(tail for found in triples.values() for _, tail in found))
        return Expansions(written, tails if self._options.with_neighbours else ())

    def _parse(self, query: str, trace: Trace) -> list[Entity]:
        prompt = render("kar/parse.md", query=query, structures=self._structures, names=self._names)
        reply = self._calls.ask(prompt, trace, purpose="parse entities", needed=False)
        named = entities(reply, tuple(self._structures))
        lines = [f"{entity.name} ({entity.kind or 'of no known type'})" for entity in named]
        trace.record("entities", Observed("\n".join(lines) or "none could be read from the reply"))
        return named

    def _link(self, query: str, named: Sequence[Entity], trace: Trace) -> list[Linked]:
        found = self._base.retrieve(query, self._options.documents, trace)
        with trace.step("linked_nodes", limit=self._options.documents, linking=self._options.linking) as seen:
            linked = [Linked(QUERY, node, "document") for node in numbers(self._skb, found)]
            namesakes = [self._namesakes(entity) for entity in named]
            typed = self._options.linking != "documents"  # section 4: every document is compared
            places: list[Place] = [
                (None, same) if same else (self._ranges(entity.kind) if typed else None, None)
                for entity, same in zip(named, namesakes, strict=True)
            ]
            # The query's words stand beside a namesake's: of two Chicagos "born in Chicago" means the city.
            texts = [f"{one.text}\n{query}" if same else one.text for one, same in zip(named, namesakes, strict=True)]
            hits = self._similarity.nearest(texts, places, max(self._options.documents, *map(len, namesakes), 0))
            hits = [self._disambiguated(near, same, query) for near, same in zip(hits, namesakes, strict=True)]
            for entity, same, near in zip(named, namesakes, hits, strict=True):
                # Namesakes that are like the entity's document in nothing are still its namesakes.
                nodes = list(dict.fromkeys([*(node for node, _ in near), *same]))[: self._options.documents]
                linked += [Linked(entity.name, node, "name" if same else "document") for node in nodes]
            seen.text = "\n".join(f"{one.entity} → {self._label(one.node)} by {one.how}" for one in linked)
            seen.nodes = list(dict.fromkeys(self._skb.id(one.node) for one in linked))
        return linked

    def _namesakes(self, entity: Entity) -> list[int]:
        """The nodes with an entity's name but for case and accents: those of its type, or of any where none is."""
        if self._options.linking == "documents" or self._skb.names is None:
            return []
        for ranges in dict.fromkeys((tuple(self._ranges(entity.kind) or ()), ())):
            found = self._skb.names.search(entity.name, limit=_NAMESAKES, ranges=ranges or None, edits=0)
            if found:
                return [match.number for match in found]
        return []

    def _disambiguated(self, near: Hits, same: Sequence[int], query: str) -> Hits:
        """Namesakes by their documents and by their relations, whose names the query may have; others as they are."""
        if len(same) < 2:
            return near
        likely = self._relation_weights(query)
        fit = {
            node: sum(
                float(likely[r]) for r in {int(r) for way in WAYS for r in self._skb.graph.row(node, way).relations}
            )
            for node in same
        }
        by_links = sorted((node for node in same if fit[node] > 0), key=lambda node: -fit[node])
        return reciprocal_rank_fusion([[node for node, _ in near], by_links])

    def _relation_weights(self, query: str) -> Scores:
        """How well the name of each relation fits the query, in shares of the best; shape [relations]."""
        names = [name.replace("_", " ") for name in self._skb.relation_names]
        found = np.array(relevance(query, names), np.float32)
        return found / (found.max(initial=0.0) or 1.0)

    def _ranges(self, kind: str) -> list[tuple[int, int]] | None:
        return [self._skb.type_range(kind)] if kind else None

    def _triples(self, query: str, linked: Sequence[Linked], trace: Trace) -> Mapping[int, Sequence[tuple[str, int]]]:
        by_name, limit = "drf" in self._options.without, self._options.neighbours
        with trace.step("document_triples", limit=limit, filter="names" if by_name else "documents") as seen:
            scorer = self._similarity.names(query) if by_name else self._similarity.documents(query)
            nodes = dict.fromkeys(one.node for one in linked)
            weights = self._relation_weights(query) if self._options.paths == "useful" and not by_name else None
            chosen = {node: self._surroundings.best(node, scorer, limit, weights) for node in nodes}
            lines: list[str] = []
            relations: dict[int, list[tuple[str, int]]] = {}
            for node, found in chosen.items():
                more = ", not all that there are" if found.cut else ""
                lines.append(f"{self._label(node)}: {len(found.triples)} of {found.neighbours} neighbours{more}")
                relations[node] = [(self._arrows(triple.links), triple.tail) for triple in found.triples]
                lines += [
                    f"  {triple.score:.4f} {arrows} {self._label(tail)}"
                    for triple, (arrows, tail) in zip(found.triples, relations[node], strict=True)
                ]
            seen.text = "\n".join(lines)
            seen.nodes = list(dict.fromkeys(self._skb.id(t.tail) for found in chosen.values() for t in found.triples))
        return relations

    def _triple_lines(
        self, linked: Sequence[Linked], triples: Mapping[int, Sequence[tuple[str, int]]]
    ) -> Iterator[str]:
        given: dict[int, int] = {}

        def document(node: int) -> str:
            if node in given:
                return f"[{given[node]}] {self._skb.name(node)}"
            given[node] = len(given) + 1
            return f"[{given[node]}] {document_line(self._skb, node)}"

        found: dict[int, list[str]] = {}
        for one in linked:
            found.setdefault(one.node, []).append(one.entity)
        for node, names in found.items():
            yield f"Found for {' and '.join(names)}: {document(node)}"
            for arrows, tail in triples.get(node, ()):
                yield f"  {arrows} {document(tail)}"

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
            parts += [f"{self._skb.name(link.node)} ({self._skb.type(link.node)})"]
        return " ".join(parts[:-1])

    def _label(self, node: int) -> str:
        return f"{self._skb.name(node)} ({self._skb.id(node)})"


def _spread(skb: SKB, start: int, count: int) -> list[str]:
    few = min(_EXAMPLES, count)
    return [skb.name(start + count * part // few) for part in range(few)]


@dataclass(frozen=True)
class Link:
    """One hop of a chain: to ``node``, by edges from the node before it (``out``) and edges to that node (``into``)."""

    node: int
    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()


@dataclass(frozen=True)
class Triple:
    """Head document, relation, tail document: ``links`` lead from the head to the tail, over one node or more."""

    head: int
    links: tuple[Link, ...]
    score: float

    @property
    def tail(self) -> int:
        """The node at the end."""
        return self.links[-1].node


@dataclass(frozen=True)
class Chosen:
    """The best triples of a node, the number of neighbours they were chosen from, and whether some were left out."""

    triples: tuple[Triple, ...]
    neighbours: int
    cut: bool


class Surroundings:
    """The nodes up to ``hops`` away from others, and the best of them.

    A hop whose nodes have more than ``edges`` edges in all is followed from those nodes that fit the query best, as far
    as the edges go: what hubs lead to is left out only where it is reached by way of what fits less.
    """

    def __init__(self, graph: Graph, *, hops: int = 2, edges: int = EDGES) -> None:
        self._graph = graph
        self._hops = hops
        self._edges = edges
        self._degrees = graph.degrees("out") + graph.degrees("in")

    def best(self, node: int, scorer: Scorer, k: int, relation_weights: Scores | None = None) -> Chosen:
        """Triples to the ``k`` neighbours that fit best, best first; equal ones by distance and number.

        With ``relation_weights``, shape [relations], from 0 to 1, neighbours are weighed by the way to them too.
        """
        distance, cut = self._distances(node, scorer)
        found = np.concatenate([np.flatnonzero(distance == hop).astype(np.int32) for hop in range(1, self._hops + 1)])
        scores = scorer(found)
        if relation_weights is not None and len(found):
            triples = self._weighed(node, found, scores, distance, relation_weights, k)
            return Chosen(tuple(triples), len(found), cut)
        triples = [
            Triple(node, self._links(int(found[at]), distance, scorer), float(scores[at])) for at in _top(scores, k)
        ]
        return Chosen(tuple(triples), len(found), cut)

    def _weighed(
        self, node: int, found: NodeNumbers, scores: Scores, distance: npt.NDArray[np.int8], weights: Scores, k: int
    ) -> list[Triple]:
        """See the module: similarity, hubs on the way, and the relation that leads to a neighbour."""
        cost = self._costs(node, distance)
        base = scores - min(0.0, float(scores.min()))
        whole = base / (float(base.max()) or 1.0) * np.exp(-cost[found])
        direct = np.flatnonzero(distance[found] == 1)[:_WEIGHED]
        triples = []
        for place in np.union1d(_top(whole.astype(np.float32), max(k, _WEIGHED)), direct).tolist():
            links = self._links(int(found[place]), distance, lambda nodes: -cost[nodes] - self._tolls(nodes))
            last = max(float(weights[relation]) for relation in (*links[-1].out, *links[-1].into))
            triples.append(Triple(node, links, float(whole[place]) * (1 + last)))
        return sorted(triples, key=lambda triple: (-triple.score, len(triple.links), triple.tail))[:k]

    def _costs(self, node: int, distance: npt.NDArray[np.int8]) -> Scores:
        """The sum of tolls on the cheapest shortest way to each node; shape [nodes]."""
        cost = np.full(self._graph.nodes, np.inf, np.float32)
        cost[node] = 0
        for hop in range(1, self._hops + 1):
            level = np.flatnonzero(distance == hop - 1).astype(np.int32)
            through = cost[level] + (self._tolls(level) if hop > 1 else np.float32(0))
            for place in np.argsort(-through, kind="stable").tolist():  # the cheapest last, to stand
                for way in WAYS:
                    near = self._graph.row(int(level[place]), way).nodes
                    cost[near[distance[near] == hop]] = through[place]
        return cost

    def _tolls(self, nodes: NodeNumbers) -> Scores:
        """Logarithm of what a way through each of these nodes is divided by."""
        tolls: Scores = np.log1p(np.log10(np.maximum(self._degrees[nodes], 1))).astype(np.float32)
        return tolls

    def _distances(self, node: int, scorer: Scorer) -> tuple[npt.NDArray[np.int8], bool]:
        distance = np.full(self._graph.nodes, -1, np.int8)
        distance[node] = 0
        level, cut = np.array([node], np.int32), False
        for hop in range(1, self._hops + 1):
            followed = self._affordable(level, scorer)
            cut |= len(followed) < len(level)
            # A limit that is never met has it mark what it meets, which is quicker than to sort.
            reached = self._graph.expand(followed, Hop(), limit=self._graph.nodes)
            level = reached[distance[reached] < 0]
            distance[level] = hop
        return distance, cut

    def _affordable(self, level: NodeNumbers, scorer: Scorer) -> NodeNumbers:
        """The nodes whose edges are followed: all, or those that fit best, at least one."""
        if int(self._degrees[level].sum()) <= self._edges:
            return level
        ordered = level[_top(scorer(level), self._edges)]
        count = int(np.searchsorted(np.cumsum(self._degrees[ordered]), self._edges, "right"))
        return ordered[: max(count, 1)]

    def _links(self, tail: int, distance: npt.NDArray[np.int8], scorer: Scorer) -> tuple[Link, ...]:
        """A shortest way to a node; of several, at each step back over the node that fits best."""
        links: list[Link] = []
        while distance[tail] > 0:
            rows = {way: self._graph.row(tail, way) for way in WAYS}
            near = np.concatenate([row.nodes for row in rows.values()])
            before = near[distance[near] == distance[tail] - 1]
            origin = int(before[0])
            if distance[tail] > 1:  # the only node at distance 0 needs no comparison
                scores = scorer(before)
                origin = int(before[scores == scores.max()].min())
            # The origin's outgoing edges to this node are incoming ones here, in a row that is read already.
            out, into = (tuple(rows[way].relations[rows[way].nodes == origin].tolist()) for way in ("in", "out"))
            links.insert(0, Link(tail, out, into))
            tail = origin
        return tuple(links)


def _top(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    places = np.arange(len(scores))
    if k < len(scores):
        cut = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= cut)
    return places[np.argsort(-scores[places], kind="stable")][:k]


def _nearest(index: Any, asked: Iterable[Any], places: Sequence[Place], limit: int) -> list[Hits]:
    both = zip(asked, places, strict=True)
    return [index.search(one, limit=limit, ranges=ranges, among=among) for one, (ranges, among) in both]


class Meaning:
    """By cosines of vectors: those of documents are the stored ones."""

    def __init__(self, skb: SKB, index: VectorSearch) -> None:
        self._skb, self._index = skb, index

    def documents(self, query: str) -> Scorer:
        """Scores nodes by their documents, in one pass over all vectors."""
        return self._index.scorer(self._index.embed(query))

    def names(self, query: str) -> Scorer:
        """Scores nodes by their names (KAR's ablation), which are encoded each time: slow behind hubs."""
        vector = self._index.embed(query)

        def score(nodes: NodeNumbers) -> Scores:
            if not len(nodes):
                return np.zeros(0, np.float32)
            found: Scores = self._index.encoder.encode([self._skb.name(node) for node in nodes.tolist()]) @ vector
            return found

        return score

    def nearest(self, texts: Sequence[str], places: Sequence[Place], limit: int) -> list[Hits]:
        """For each text the nodes in its place whose documents are most like it; texts are encoded together."""
        if not texts:
            return []
        return _nearest(self._index, self._index.encoder.encode(texts), places, limit)


class Words:
    """By BM25: documents as the system ``bm25`` scores them, entities as ``SkbKB`` looks names up."""

    def __init__(self, skb: SKB, index: TextIndex) -> None:
        self._skb, self._index = skb, index

    def documents(self, query: str) -> Scorer:
        """See ``Meaning``."""
        scores = np.zeros(len(self._skb.nodes), np.float32)
        hits = self._index.search(query, limit=_WORD_HITS, name_weight=0.0)
        scores[[node for node, _ in hits]] = [score for _, score in hits]
        return lambda nodes: scores[nodes]

    def names(self, query: str) -> Scorer:
        """See ``Meaning``."""
        return lambda nodes: np.array(relevance(query, [self._skb.name(node) for node in nodes.tolist()]), np.float32)

    def nearest(self, texts: Sequence[str], places: Sequence[Place], limit: int) -> list[Hits]:
        """See ``Meaning``."""
        return _nearest(self._index, texts, places, limit)


def similarity_for(skb: SKB, base: str) -> Meaning | Words:
    """The vectors; BM25 where it is the base retriever or there are none. Raises UsageError without both."""
    if skb.vectors is not None and skb.vectors.count and (base != "bm25" or skb.text is None):
        return Meaning(skb, skb.vectors)
    if skb.text is None:
        raise UsageError(f"{skb.meta.name} was built without vectors and without an index of texts")
    return Words(skb, skb.text)


build_kar = partial(build_hyde, kind=KAR)
