"""``graph-rank``: what a query names, followed along the relations that it speaks of, fused with text; asks no model.

Names of nodes are found in the query, and the relation paths of the schema that its words may mean, as the offline
policy finds them (``kbnav.agents.offline.skb``). Every path is followed from every name at once, and a node counts the
more the better the paths fit that lead to it, and the more names they lead from. Nodes reached are put in order by that
and by how well their text fits the rest of the query; that ranking is fused with those of the whole query by BM25 and
by vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import Mention, Path, Paths, Reading, in_small_letters, leftover, read
from kbnav.knowledge.skb.schema import LSA
from kbnav.knowledge.skb.search import LSA_WEIGHT, WEIGHT, relative_score_fusion
from kbnav.knowledge.skb.text import TextIndex
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.retrieval.base import NO_PROMPTS, RetrievalOptions, as_ranking, candidate_ranges, hits_text
from kbnav.runs.trajectory import Trace

Scores = npt.NDArray[np.float64]
"""A score for each node, shape [nodes]."""

_QUOTES = frozenset('"“”„«')
_REACHED = 5_000
"""Nodes at the ends of paths whose text is looked at."""


_MENTIONS, _PATHS, _DEPTH = 4, 8, 200
"""Names of a query that are followed, paths from each, and nodes of each ranking that count."""
_TRUST = 1.0
"""How much less a name counts than the one whose path fits best: as ``_SHARPNESS``, between names."""
_SHARPNESS = 4.0
"""How much less a path counts than the best of its name: a score lower by 1/4 counts 1/e."""
_PLAIN = 0.1
"""What a name counts that may be only a word, beside one that stands in quotes or has a capital or a digit."""
_ENDS = 20_000
"""Nodes that a hop may lead to; the search ends there."""


class GraphRankOptions(RetrievalOptions):
    """Options of ``graph-rank``."""

    text_weight: float = Field(default=1.0, ge=0)
    """What the best text adds to the score of a node that is reached; one by all names scores 1."""
    query_weight: float = Field(default=0.5, ge=0)
    """What the best document for the whole query adds to a score."""


class _NamePaths(NamedTuple):
    paths: Sequence[Path]
    weight: float

    @property
    def score(self) -> float:
        """That of the best path."""
        return self.paths[0].score


class GraphRank:
    """See the module."""

    name = "graph-rank"
    prompts = NO_PROMPTS

    def __init__(self, kb: SkbKB, options: GraphRankOptions) -> None:
        """Works with whatever indexes the SKB has. Raises UsageError for unknown types of candidates."""
        self._skb, self._options = kb.skb, options
        self._paths = Paths(kb.skb.meta)
        self._counts = {relation.name: relation.count for relation in kb.skb.meta.relations}
        self._ranges = candidate_ranges(kb.skb, options)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        depth = max(k, _DEPTH)
        reading, followed, rest = self._read(query, trace)
        scores = self._end_scores(followed, rest if followed else "", depth, trace)
        with trace.step("describe", query=query) as seen:
            words = self._skb.relational_text or self._skb.text
            vectors = self._skb.relational_vectors or self._skb.vectors
            ranges = self._ranges or ([self._skb.type_range(reading.asked)] if reading.asked else None)
            whole = self._fitting(query, words, vectors, depth, ranges=ranges)
            seen.text = hits_text(self._skb, sorted(whole.items(), key=lambda pair: -pair[1]))
        for node, score in whole.items():
            scores[node] = scores.get(node, 0.0) + self._options.query_weight * score
        hits = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        return as_ranking(self._skb, hits)

    def _read(self, query: str, trace: Trace) -> tuple[Reading, list[_NamePaths], str]:
        with trace.step("link", query=query) as seen:
            reading = read(query, self._skb, "en")
            mentions = reading.mentions
            # Written as names are: in quotes, or not all in small letters.
            sure = [
                one
                for one in mentions
                if query[: reading.tokens[one.first].start][-1:] in _QUOTES or not in_small_letters(one.text)
            ]
            longest = sorted(mentions, key=lambda one: len(one.text), reverse=True)[:_MENTIONS]
            again = [reading.afterthought] if reading.afterthought else []
            followed = [
                _NamePaths(paths, 1.0 if one in sure or not sure else _PLAIN)
                for one in (*longest, *again)
                if (paths := self._proposed(reading, one))
            ]
            perhaps = [one.text for one in mentions if sure and one not in sure]
            text = " ".join([leftover(reading, [one.paths[0] for one in followed]), *perhaps]).strip()
            seen.nodes = [self._skb.id(node) for one in mentions for node in one.nodes]
            asked = [f"asked for: {reading.asked}"] if reading.asked else []
            named = [f"named{'' if one in sure or not sure else ' perhaps'}: {one.text}" for one in mentions]
            said = [self._path_text(path) for one in followed for path in one.paths[:3]]
            seen.text = "\n".join([*asked, *named, *said])
        return reading, followed, text

    def _proposed(self, reading: Reading, mention: Mention) -> list[Path]:
        paths = [
            path for node in mention.nodes for path in self._paths.propose(reading, mention, node, self._skb.type(node))
        ]
        # Where the words decide nothing, a short path by a common relation is the likelier one.
        return sorted(
            paths,
            key=lambda path: (-path.score, len(path.steps), -min(self._counts[step.relation] for step in path.steps)),
        )[:_PATHS]

    def _end_scores(self, followed: Sequence[_NamePaths], rest: str, depth: int, trace: Trace) -> dict[int, float]:
        with trace.step("follow", text=rest) as seen:
            reached = self._followed(followed)
            nodes = np.flatnonzero(reached)
            if self._ranges is not None:
                nodes = nodes[np.any([(nodes >= first) & (nodes < end) for first, end in self._ranges], axis=0)]
            nodes = nodes[np.argsort(-reached[nodes], kind="stable")][:_REACHED]
            scores = dict(zip(nodes.tolist(), reached[nodes].tolist(), strict=True))
            if rest and scores:
                found = self._fitting(rest, self._skb.text, self._skb.vectors, depth, among=list(scores))
                for node, score in found.items():
                    scores[node] += self._options.text_weight * score
            best = sorted(scores.items(), key=lambda pair: -pair[1])[:depth]
            seen.text, seen.nodes = hits_text(self._skb, best), [self._skb.id(node) for node, _ in best]
        return scores

    def _followed(self, followed: Sequence[_NamePaths]) -> Scores:
        """For each node the weighted mean, over names, of how well the best path fits that leads to it from there."""
        whole = np.zeros(self._skb.meta.nodes)
        best = max((one.score for one in followed), default=0.0)
        shares = [one.weight * math.exp(_TRUST * (one.score - best)) for one in followed]
        for share, one in zip(shares, followed, strict=True):
            from_one = np.zeros_like(whole)
            for path in one.paths:
                weight = math.exp(_SHARPNESS * (path.score - one.score))
                hops = [
                    Hop(self._skb.relation_number(step.relation), step.direction, self._skb.type_range(step.target))
                    for step in path.steps
                ]
                ends = self._skb.graph.ends(path.node, hops, _ENDS)
                from_one[ends] = np.maximum(from_one[ends], weight)
            from_one[[path.node for path in one.paths]] = 0.0  # a name leads to others, not to itself
            whole += from_one * share / sum(shares)
        return whole

    def _fitting(
        self,
        text: str,
        words: TextIndex | None,
        vectors: VectorSearch | None,
        depth: int,
        *,
        ranges: list[tuple[int, int]] | None = None,
        among: list[int] | None = None,
    ) -> dict[int, float]:
        """How well documents fit a text, from 0 to 1, by BM25 and by vectors, weighed as ``SkbKB`` does."""
        weight = LSA_WEIGHT if self._skb.meta.encoder == LSA else WEIGHT
        found = [
            (index.search(text, limit=depth, ranges=ranges, among=among), by)
            for index, by in ((words, 1.0), (vectors, weight))
            if index is not None
        ]
        return dict(relative_score_fusion([hits for hits, _ in found], weights=[by for _, by in found], depth=depth))

    def _path_text(self, path: Path) -> str:
        arrows = {"out": "--{}-->", "in": "<--{}--", "both": "--{}--"}
        steps = [f"{arrows[step.direction].format(step.relation)} {step.target}" for step in path.steps]
        return f"{path.score:.2f} {self._skb.name(path.node)} {' '.join(steps)}"
