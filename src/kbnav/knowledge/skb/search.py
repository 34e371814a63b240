"""Searching an SKB by several rankings together: fusion of rankings, texts by words and meaning, and relation paths.

A text that repeats much of a document, a sentence of it from memory say, is compared with names as with any other words
and with how much of it each document has: where a word in a name counts more (``text.NAME_WEIGHT``), as in questions
that name things, it finds whatever is called by one of its many words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kbnav.knowledge.skb.schema import LSA, Hit, Range

if TYPE_CHECKING:
    from kbnav.knowledge.skb.graph import Hop
    from kbnav.knowledge.skb.store import SKB
    from kbnav.knowledge.skb.text import TextIndex

Id = TypeVar("Id", bound=Hashable)

RANK_CONSTANT = 60
"""How slowly the weight of a place falls; the value of the method's authors."""


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Id]],
    *,
    weights: Sequence[float] | None = None,
) -> list[tuple[Id, float]]:
    """Sum ``weight / (60 + rank)`` over rankings, ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).

    Weights are 1 unless given; rankings of very different quality need them, or the worse spoils the better. Each
    ranking lists ids, best first. Returns ids with their sums, best first; equal sums keep the order in which the ids
    were first seen, the first ranking's first.
    """
    sums: defaultdict[Id, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, item in enumerate(ranking, start=1):
            sums[item] += weight / (RANK_CONSTANT + rank)
    return sorted(sums.items(), key=lambda pair: -pair[1])


def relative_score_fusion(
    rankings: Sequence[Sequence[tuple[Id, float]]],
    *,
    weights: Sequence[float],
    depth: int,
) -> list[tuple[Id, float]]:
    """Sum the scores of rankings, each scaled so that its best counts its weight; the sum of the weights gives 1.

    Each ranking lists ids with scores, best first; scores of 0 and less count nothing. ``depth`` is how many were asked
    for: the last of a ranking so long counts 0, for what it cut off is about as good. How far ahead the first few are
    is kept, which ranks alone forget. Returns ids with scores from 0 to 1, best first; equal ones as they came.
    """
    sums: defaultdict[Id, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights, strict=True):
        scored = [(item, score) for item, score in ranking if score > 0]
        floor = scored[-1][1] if len(scored) >= depth else 0.0
        reach = scored[0][1] - floor if scored else 0.0
        for item, score in scored:
            sums[item] += weight * ((score - floor) / reach if reach else 1.0) / sum(weights)
    return sorted(sums.items(), key=lambda pair: -pair[1])


CANDIDATES = 200
"""Nodes that an index may propose for a phrase."""
WEIGHT, LSA_WEIGHT = 1.0, 0.5
"""Of a ranking by vectors beside BM25's, which is 1: of trained encoders, and of ``lsa``, which knows no synonyms.

Measured by benchmarks/skb_fusion.py, see docs/skb-agent.md: with these no set of questions is served worse than by BM25
alone, which is not so where ranks are summed (``reciprocal_rank_fusion``), nor with a weight of 1 for ``lsa``.
"""
SENTENCE = 6
"""Different words from which on a text may be one that repeats a document."""
_COMPARED, _WORDS = 20, 1_000
"""Documents that are compared with such a text, and words of each that are."""
_LITTLE, _MUCH = 0.5, 0.7
"""The share of such a text that the best document has: up to the first it is a question, from the second a repetition.

Chosen on benchmarks/near_verbatim.py and on the sets of benchmarks/skb_fusion.py.
"""
_SHARE_WEIGHT = 2.0
"""Of the ranking by these shares, beside BM25's."""


def search_both(
    skb: SKB,
    text: str,
    *,
    ranges: Sequence[Range] | None = None,
    among: Collection[int] | None = None,
    depth: int = CANDIDATES,
) -> list[Hit]:
    """Nodes by BM25 and by meaning, best first, by whichever index there is."""
    rankings: list[tuple[Sequence[Hit], float]] = []
    if skb.text is not None:
        hits = skb.text.search(text, limit=depth, ranges=ranges, among=among)
        rankings.append((hits, 1.0))
        if len(set(skb.text.words(text))) >= SENTENCE:
            plain = skb.text.search(text, limit=depth, ranges=ranges, among=among, name_weight=0.0)
            shares = _shares(skb, skb.text, text, plain)
            repeated = min(1.0, max(0.0, (max(shares.values(), default=0.0) - _LITTLE) / (_MUCH - _LITTLE)))
            if repeated:
                by_share = sorted(shares.items(), key=lambda pair: -pair[1])
                rankings = [(hits, 1.0 - repeated), (plain, repeated), (by_share, _SHARE_WEIGHT * repeated)]
    if skb.vectors is not None:
        weight = LSA_WEIGHT if skb.meta.encoder == LSA else WEIGHT
        rankings.append((skb.vectors.search(text, limit=depth, ranges=ranges, among=among), weight))
    counting = [(hits, weight) for hits, weight in rankings if weight]
    return relative_score_fusion(
        [hits for hits, _ in counting], weights=[weight for _, weight in counting], depth=depth
    )


def _shares(skb: SKB, index: TextIndex, text: str, hits: Sequence[Hit]) -> dict[int, float]:
    first = [node for node, _ in hits[:_COMPARED]]
    documents = [" ".join(f"{skb.nodes.names[node]} {skb.nodes.text(node)}".split()[:_WORDS]) for node in first]
    return dict(zip(first, index.shares(text, documents), strict=True))


WALKED = 20_000
"""Ways that are followed; behind hubs there are more."""
_EACH = 2
"""Ways to one end that are given: a first to every end, then a second."""


@dataclass(frozen=True)
class Instances:
    """``walks`` of node numbers, best ends first; ``ends`` all of them so; ``cut``: more were not followed."""

    walks: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    cut: bool


def instances(skb: SKB, node: int, hops: Sequence[Hop], *, query: str = "", limit: int = 50) -> Instances:
    """Follow a relation path of at least one hop from a node number.

    Ends come first that many ways lead to and whose documents fit the ``query``, by words and in meaning: the three
    rankings' reciprocal ranks are summed. ``limit`` is how many walks are given.
    """
    walks = list(islice(skb.graph.paths(node, hops), WALKED + 1))
    cut = len(walks) > WALKED
    ways = Counter(walk[-1] for walk in walks[:WALKED])
    rankings: list[list[int]] = []
    if max(ways.values(), default=0) > 1:
        rankings.append([end for end, _ in ways.most_common()])
    for index in (skb.text, skb.vectors):
        if index is not None and query.strip() and len(ways) > 1:
            hits = index.search(query, limit=len(ways), among=list(ways))
            rankings.append([end for end, score in hits if score > 0])
    ends = list(dict.fromkeys([*(end for end, _ in reciprocal_rank_fusion(rankings)), *ways]))
    by_end: dict[int, list[tuple[int, ...]]] = {}
    for walk in walks[:WALKED]:
        own = by_end.setdefault(walk[-1], [])
        if len(own) < _EACH:
            own.append(walk)
    best = [by_end[end][turn] for turn in range(_EACH) for end in ends if turn < len(by_end[end])]
    return Instances(tuple(best[:limit]), tuple(ends), cut)
