"""What speaks for a node as the answer of a question: the plan's paths, its words, its meaning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.encoders import encode_queries
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.names import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextSearch
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.planning.base import Plan, Planner
from kbnav.planning.expansion import reached
from kbnav.planning.fuse.clauses import Clause, clauses, unnamed
from kbnav.planning.fuse.reading import Reader
from kbnav.planning.fuse.telling import Telling
from kbnav.planning.fuse.weighing import Candidates, Floats, Weights
from kbnav.retrieval.graph_rank import GraphRank, GraphRankOptions

KINDS = ("path", "narrow", "share", "words", "meaning", "question", "question-meaning", "untrained")
"""The evidence, in the order of its columns:

- ``path``: the sum over names of log(0.01 + the probability of the paths that lead from the name to the node);
- ``narrow``: the logarithm of these probabilities, each shared by all nodes that its path leads to;
- ``share``: how many of the question's words the document has, weighed by rarity and by ``Telling``;
- ``words``, ``meaning``: of the question without names and words that tell nothing, BM25 and cosine with the document;
- ``question``, ``question-meaning``: the same of the whole question, with the document and its relations;
- ``untrained``: the score that ``graph-rank`` gives, which goes by the schema's words and short, common paths.

Where a cross-encoder or a graph network was trained, its word is one more, by the name of its kind.
"""
START = Weights((1.0, 0.3, 5.0, 2.5, 2.5, 1.5, 1.0, 1.0), (0.0,) * len(KINDS))
"""What the weights are before any training."""
_READ = 1.0
"""The same of what was trained to rank again."""
_FLOOR, _NARROWEST = 0.01, 1e-7
_REACHED, _BY_WORDS, _BY_QUESTION, _UNTRAINED = 3_000, 50, 100, 50
"""Candidates: the best nodes at the ends of paths, by the words, by the whole question, and by ``graph-rank``."""
_ENDS = 20_000
"""Nodes that a hop may lead to."""


def kinds(readers: Sequence[Reader] = ()) -> tuple[str, ...]:
    """The evidence, in the order of its columns."""
    return (*KINDS, *(one.kind for one in readers))


def start(readers: Sequence[Reader] = ()) -> Weights:
    """The weights before any training."""
    return Weights((*START.plain, *(_READ for _ in readers)), (*START.sure, *(0.0 for _ in readers)))


class Plans(NamedTuple):
    """What the plans of all names say: ``joint`` and ``narrow``, [nodes of the SKB], and the best path's share."""

    joint: Floats
    narrow: Floats
    reached: npt.NDArray[np.int64]
    confidence: float


class Gatherer:
    """Gathers the candidates of a question with their evidence."""

    def __init__(
        self,
        skb: SKB,
        planner: Planner,
        telling: Telling,
        ranges: Sequence[tuple[int, int]] | None = None,
        readers: Sequence[Reader] = (),
    ) -> None:
        """``ranges`` are the nodes that may answer. Raises UsageError where the SKB has no index of texts or names."""
        if skb.text is None:
            raise UsageError(f"{skb.meta.name} was built without an index of texts, which plan-fuse needs")
        self._skb, self._planner, self._telling = skb, planner, telling
        self._ranges, self._readers = list(ranges) if ranges else None, readers
        self._text: TextSearch = skb.text
        self._matcher = NodeMatcher(skb, "exact")
        self._untrained = GraphRank(SkbKB(skb), GraphRankOptions())

    def plans(self, question: str) -> list[tuple[Clause, Plan]]:
        """The names of a question, each with the plan of its clause."""
        found = clauses(question, self._matcher, self._skb)
        return [(one, self._planner.plan(one.text, list(map(self._skb.id, one.nodes)))) for one in found]

    def gather(self, question: str, planned: Sequence[tuple[Clause, Plan]]) -> Candidates:
        """The candidates, by number, and their evidence, shape [nodes, kinds]; none of them is named."""
        plans = self._followed(planned)
        rest = unnamed(question, [clause for clause, _ in planned])
        told = " ".join(word for word in rest.split() if any(map(self._telling.tells, self._text.words(word))))
        whole = dict(self._whole_text.search(question, limit=2 * _BY_QUESTION, ranges=self._ranges, name_weight=0.0))
        by_words = self._text.search(told, limit=_BY_WORDS, ranges=self._ranges, name_weight=0.0)
        nodes = np.unique(
            np.concatenate([plans.reached, _numbers(list(whole)[:_BY_QUESTION]), _numbers(dict(by_words))])
        )
        ranking = self._untrained.retrieve(question, 2 * _UNTRAINED).nodes
        untrained = {self._skb.number(node.id): node.score for node in ranking}
        nodes = np.union1d(nodes, _numbers(list(untrained)[:_UNTRAINED]))
        named = [node for clause, _ in planned for node in clause.nodes]
        nodes = self._allowed(np.setdiff1d(nodes, named))
        among = nodes.tolist()
        words = self._text.search(told, limit=len(among), among=among, name_weight=0.0) if among else []
        meaning = self._cosines([(self._skb.vectors, told), (self._whole_vectors, question)], nodes)
        columns = [
            plans.joint[nodes],
            np.log(_NARROWEST + plans.narrow[nodes]),
            self._shares(rest, among),
            _scaled(dict(words), among),
            meaning[0],
            _scaled(whole, among),
            meaning[1],
            _scaled(untrained, among),
        ]
        found = Candidates(nodes, np.stack(columns, axis=1), plans.confidence)
        likely = START.scores(found)
        read = [reader.evidence(question, nodes, likely) for reader in self._readers]
        return found._replace(evidence=np.column_stack([found.evidence, *read]))

    @property
    def _whole_text(self) -> TextSearch:
        return self._skb.relational_text or self._text

    @property
    def _whole_vectors(self) -> VectorSearch | None:
        return self._skb.relational_vectors or self._skb.vectors

    def _followed(self, planned: Sequence[tuple[Clause, Plan]]) -> Plans:
        count = self._skb.meta.nodes
        joint, narrow, confidence = np.zeros(count), np.zeros(count), 0.0
        for clause, plan in planned:
            one = np.zeros(count)
            for path in plan.paths:
                if path.is_text:  # the name may be a mere word: then nothing speaks against what no path leads to
                    one += path.probability
                    continue
                confidence = max(confidence, path.probability)
                ends = reached(self._skb, path, list(map(self._skb.id, clause.nodes)), _ENDS)
                one[ends] += path.probability
                narrow[ends] += path.probability / max(1, len(ends))
            joint += np.log(_FLOOR + one)
        found = np.flatnonzero(narrow)
        order = np.argsort(-(joint + START.plain[1] * np.log(_NARROWEST + narrow))[found], kind="stable")
        return Plans(joint, narrow, found[order[:_REACHED]], confidence)

    def _allowed(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self._ranges is None:
            return nodes
        return nodes[np.any([(nodes >= first) & (nodes < end) for first, end in self._ranges], axis=0)]

    def _shares(self, rest: str, among: Sequence[int]) -> Floats:
        """How much of the words each node's document has, from 0 to 1."""
        places = {node: place for place, node in enumerate(among)}
        found, whole = np.zeros(len(among)), 0.0
        for word in dict.fromkeys(self._text.words(rest)):
            weight = self._telling.of(word) * self._rarity(word)
            whole += weight
            if among and self._telling.tells(word):
                held = self._text.search(word, limit=len(among), among=among, name_weight=0.0)
                found[[places[node] for node, _ in held]] += weight
        return found / whole if whole else found

    def _rarity(self, word: str) -> float:
        held = self._text.holders(word)
        return math.log(1 + (self._text.nodes - held + 0.5) / (held + 0.5))

    def _cosines(
        self, asked: Sequence[tuple[VectorSearch | None, str]], nodes: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.floating]]:
        """The cosines of nodes with each text, 0 without vectors; texts are encoded together."""
        index = next((one for one, _ in asked if one is not None and one.count), None)
        if index is None:
            return [np.zeros(len(nodes)) for _ in asked]
        vectors = encode_queries(index.encoder, [text for _, text in asked])
        return [(one or index).rows(nodes) @ vector for (one, _), vector in zip(asked, vectors, strict=True)]


def _numbers(nodes: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.fromiter(nodes, np.int64)


def _scaled(scores: Mapping[int, float], among: Sequence[int]) -> Floats:
    """Scores of nodes by the best of them, 0 of those that have none."""
    found = np.array([scores.get(node, 0.0) for node in among], np.float64)
    return found / found.max() if len(found) and found.max() > 0 else found
