"""``qagnn``: the first nodes of several systems ranked again by a graph network (Yasunaga et al., 2021; STaRK, 3.1).

``kbnav train qagnn`` trains it. It needs torch (extra ``train``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders import Vectors, same
from kbnav.encoders.trained import MODEL, Card, check_files, check_schema, read_card, refuse_seen
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.graph import WAYS, Graph
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.retrieval.base import (
    ROLES,
    ComposedOptions,
    Retriever,
    TrainedOptions,
    as_ranking,
    build_retriever,
    hits_text,
    numbers,
)
from kbnav.retrieval.documents import document_vectors
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from kbnav.settings.plugins import require

MOST_NODES = 200
MATCHED, CANDIDATE, BETWEEN = 0, 1, 2
"""What a node is in the subgraph; a candidate that is named too is ``MATCHED``."""
_MOST_MATCHED = 20
_ROW = 512
"""Neighbours of a node that are looked at, in one direction: a hub's are no hint."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

SYSTEMS = ("graph-rank", "bm25", "vss")
"""Relation paths, words and meaning."""
PER_SYSTEM = 2
"""Features of each system."""


class CandidateList(NamedTuple):
    """Node numbers, the best first by the fusion of the systems' ranks, and their features [nodes, 2 x systems]."""

    nodes: list[int]
    features: Floats


class Candidates:
    """What several systems find together."""

    def __init__(self, skb: SKB, systems: Sequence[Retriever], depth: int) -> None:
        self._skb, self._systems, self._depth = skb, systems, depth

    def find(self, query: str, trace: Trace | None = None) -> CandidateList:
        """The first ``depth`` nodes of all systems together. Raises as their ``retrieve``."""
        trace = trace or Trace()
        lists, scores = [], []
        for system in self._systems:
            ranking = system.retrieve(query, self._depth, trace)
            lists.append(numbers(self._skb, ranking))
            scores.append([one.score for one in ranking.nodes])
        nodes = [node for node, _ in reciprocal_rank_fusion(lists, limit=self._depth)]
        return CandidateList(nodes, _features(nodes, lists, scores))


def _features(nodes: Sequence[int], lists: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> Floats:
    rows = {node: row for row, node in enumerate(nodes)}
    found = np.zeros((len(nodes), PER_SYSTEM * len(lists)), np.float32)
    for number, (listed, given) in enumerate(zip(lists, scores, strict=True)):
        reach = (given[0] - given[-1]) or 1.0 if given else 1.0
        for place, (node, score) in enumerate(zip(listed, given, strict=True)):
            if node in rows:
                found[rows[node], PER_SYSTEM * number] = 1 / (1 + place)
                found[rows[node], PER_SYSTEM * number + 1] = (score - given[-1]) / reach
    return found


@dataclass(frozen=True)
class Subgraph:
    """Nodes by their numbers in the SKB; edges, candidates by their places among them.

    ``nodes``, ``types``, ``roles`` and ``nearness`` (cosines with the question) are [n]; ``sources``, ``targets`` and
    ``relations`` are [e]; ``candidates`` [c] and ``features`` [c, f] are in the first stage's order. ``question`` is
    the question's vector [d].
    """

    question: Vectors
    nodes: Ints
    types: Ints
    roles: Ints
    nearness: Floats
    sources: Ints
    targets: Ints
    relations: Ints
    candidates: Ints
    features: Floats


class Builder:
    """Makes subgraphs of questions over the memory-mapped graph."""

    def __init__(self, skb: SKB, index: VectorSearch, *, most: int = MOST_NODES) -> None:
        """``index`` has the vectors of nodes and questions."""
        self._skb, self._index, self._most = skb, index, most
        self._matcher = NodeMatcher(skb, "exact")
        self._type_end = np.array(skb.nodes.type_start[1:])

    def build(self, question: str, found: CandidateList) -> Subgraph:
        """The subgraph of a question and its candidates."""
        vector = self._index.embed(question)
        cosines = self._index.scorer(vector)
        named = [self._skb.number(one.id) for one in self._matcher.match(question) if one.sure][:_MOST_MATCHED]
        seeds = np.unique(np.array([*named, *found.nodes], np.int64))
        nodes = np.union1d(seeds, self._between(seeds, cosines)).astype(np.int64)
        sources, targets, relations = inside(self._skb.graph, nodes)
        roles = np.full(len(nodes), BETWEEN, np.int64)
        roles[np.searchsorted(nodes, np.array(found.nodes, np.int64))] = CANDIDATE
        roles[np.searchsorted(nodes, np.array(named, np.int64))] = MATCHED
        return Subgraph(
            vector,
            nodes,
            np.searchsorted(self._type_end, nodes, "right"),
            roles,
            cosines(nodes).astype(np.float32),
            sources,
            targets,
            relations,
            np.searchsorted(nodes, np.array(found.nodes, np.int64)),
            found.features,
        )

    def _between(self, seeds: Ints, cosines: Any) -> Ints:
        around = np.concatenate([rows(self._skb.graph, seeds, way, _ROW)[1] for way in WAYS])
        others, joined = np.unique(around, return_counts=True)
        new = ~np.isin(others, seeds)
        others, joined = others[new].astype(np.int64), joined[new]
        worth = np.minimum(joined, 2) + cosines(others)
        return others[np.argsort(-worth, kind="stable")][: max(0, self._most - len(seeds))]


def rows(graph: Graph, nodes: Ints, way: str, most: int) -> tuple[Ints, Ints, Ints]:
    """Edges of nodes in one direction, so many each: the node's place, neighbour, relation; without a loop."""
    start, neighbors, kinds = graph.arrays("in" if way == "in" else "out")
    first = np.asarray(start[nodes])
    counts = np.minimum(np.asarray(start[nodes + 1]) - first, most)
    owners = np.repeat(np.arange(len(nodes)), counts)
    places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return owners, np.asarray(neighbors[places], np.int64), np.asarray(kinds[places], np.int64)


def inside(graph: Graph, nodes: Ints) -> tuple[Ints, Ints, Ints]:
    """The edges between ascending nodes: places of sources and targets, and relations.

    A hub's edges are found from the other side: of each direction a node's first so many are read, which misses an edge
    only where both its ends are hubs.
    """
    found = []
    for way in WAYS:
        owners, others, kinds = rows(graph, nodes, way, 4 * _ROW)
        places = np.minimum(np.searchsorted(nodes, others), len(nodes) - 1)
        there = nodes[places] == others if len(nodes) else np.zeros(0, bool)
        ends = (owners[there], places[there]) if way == "out" else (places[there], owners[there])
        found.append(np.stack([*ends, kinds[there]]))
    edges = np.unique(np.concatenate(found, axis=1), axis=1)
    return edges[0], edges[1], edges[2]


class Batch(NamedTuple):
    """Subgraphs side by side, with a question node before the nodes of each; arrays as the model takes them."""

    questions: Ints
    """[b] Places of the question nodes."""
    question_vectors: Vectors
    vectors: Vectors
    """[n, d]; zeros for question nodes."""
    types: Ints
    roles: Ints
    nearness: Floats
    owner: Ints
    """[n] The subgraph of each node."""
    sources: Ints
    targets: Ints
    relations: Ints
    """Twice as many as the SKB has, for both directions, and two more of the question's edges."""
    candidates: Ints
    features: Floats


def together(graphs: Sequence[Subgraph], index: VectorSearch, relations: int) -> Batch:
    """Subgraphs as one, edges both ways and the question's; ``index``: all nodes' vectors; ``relations``: how many."""
    sizes = np.array([len(one.nodes) + 1 for one in graphs])
    questions = np.cumsum(sizes) - sizes
    plain = np.concatenate([one.nodes for one in graphs])
    own = np.ones(int(sizes.sum()), bool)
    own[questions] = False
    gathered = np.zeros((len(own), index.dimensions), np.float32)
    gathered[own] = index.rows(plain)

    def spread(values: Sequence[npt.NDArray[Any]], filler: float, dtype: type) -> npt.NDArray[Any]:
        whole: npt.NDArray[Any] = np.full(len(own), filler, dtype)
        whole[own] = np.concatenate(values)
        return whole

    shift = questions + 1
    sources = np.concatenate([one.sources + add for one, add in zip(graphs, shift, strict=True)])
    targets = np.concatenate([one.targets + add for one, add in zip(graphs, shift, strict=True)])
    kinds = np.concatenate([one.relations for one in graphs])
    asked, owner = np.flatnonzero(own), np.repeat(np.arange(len(graphs)), sizes)
    ask = questions[owner[asked]]
    return Batch(
        questions,
        np.stack([one.question for one in graphs]),
        gathered,
        spread([one.types for one in graphs], 0, np.int64),
        spread([one.roles for one in graphs], ROLES, np.int64),
        spread([one.nearness for one in graphs], 1.0, np.float32),
        owner,
        np.concatenate([sources, targets, ask, asked]),
        np.concatenate([targets, sources, asked, ask]),
        np.concatenate(
            [kinds, kinds + relations, np.full(len(asked), 2 * relations), np.full(len(asked), 2 * relations + 1)]
        ),
        np.concatenate([one.candidates + add for one, add in zip(graphs, shift, strict=True)]),
        np.concatenate([one.features for one in graphs]),
    )


WEIGHTS = "network.safetensors"


class QAGNNOptions(TrainedOptions, ComposedOptions):
    """Options of ``qagnn``."""

    depth: int = Field(default=50, ge=1, le=150)
    """Nodes that are ranked again."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return tuple(read_card(Path(self.trained), "qagnn").settings["systems"]) if self.trained else SYSTEMS


class QAGNN:
    """See the module."""

    name = "qagnn"

    def __init__(self, kb: SkbKB, settings: Settings, options: QAGNNOptions) -> None:
        """Raises UsageError where nothing is named that was trained for the schema and the encoder, or without torch.

        Raises DataError where the folder has changed.
        """
        folder = options.folder(self.name, "qagnn")
        require("qagnn", "torch", extra="train")
        card = read_card(folder, "qagnn")
        check_schema(folder, card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        check_files(folder / MODEL, card.files)
        own = {name: {"candidates": options.candidates, **options.stages.get(name, {})} for name in options.made_of}
        self.stages = [build_retriever(name, kb, settings, more) for name, more in own.items()]
        self._skb, self._candidates = kb.skb, Candidates(kb.skb, self.stages, options.depth)
        self._index, _ = document_vectors(kb, relations=card.relations)
        if not same(self._index.encoder_name, card.settings["encoder"]):
            name = self._index.encoder_name
            raise UsageError(f"{folder}: trained with the encoder {card.settings['encoder']}; {kb.name} has {name}")
        self._builder = Builder(kb.skb, self._index, most=card.settings["nodes"])
        self._network = _read(folder, card)
        self.prompts: Mapping[str, str] = {name: sha for one in self.stages for name, sha in one.prompts.items()}
        self.refuse_seen = partial(refuse_seen, folder, "it", card.seen)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        import torch

        trace = trace or Trace()
        found = self._candidates.find(query, trace)
        if not found.nodes:
            return Ranking()
        with trace.step(self.name, query=query, nodes=len(found.nodes), limit=k) as seen:
            graph = self._builder.build(query, found)
            batch = together([graph], self._index, len(self._skb.meta.relations))
            with torch.inference_mode():
                final = self._network(**tensors(batch))["scores"].tolist()
            hits = sorted(zip(found.nodes, final, strict=True), key=lambda hit: -hit[1])
            size = f"{len(graph.nodes)} nodes and {len(graph.sources)} edges"
            seen.text = f"{size}\n{hits_text(self._skb, hits)}"
            seen.nodes = [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits[:k])


def tensors(batch: Batch) -> dict[str, Any]:
    """A batch's arrays as tensors, by the names of its fields."""
    import torch

    return {name: torch.from_numpy(values) for name, values in batch._asdict().items()}


def _read(folder: Path, card: Card) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from kbnav.retrieval.qagnn_model import Network, Sizes

    network = Network(Sizes(**card.settings["sizes"]))
    try:
        network.load_state_dict(load_file(folder / MODEL / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{folder / MODEL}: cannot be read: {str(error).splitlines()[0]}") from error
    return network.eval()
