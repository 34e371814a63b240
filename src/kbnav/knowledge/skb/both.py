"""Searching the nodes of an SKB by the words and the meaning of their texts together.

A text that repeats much of a document, a sentence of it from memory say, is compared with names as with any other words
and with how much of it each document has: where a word in a name counts more (``text.NAME_WEIGHT``), as in questions
that name things, it finds whatever is called by one of its many words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kbnav.knowledge.skb.fusion import relative_score_fusion
from kbnav.knowledge.skb.parts import Hit, Range, TextSearch
from kbnav.knowledge.skb.schema import LSA
from kbnav.knowledge.skb.store import SKB

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


def _shares(skb: SKB, index: TextSearch, text: str, hits: Sequence[Hit]) -> dict[int, float]:
    """How much of a text the documents of the first hits have."""
    first = [node for node, _ in hits[:_COMPARED]]
    documents = [" ".join(f"{skb.nodes.names[node]} {skb.nodes.text(node)}".split()[:_WORDS]) for node in first]
    return dict(zip(first, index.shares(text, documents), strict=True))
