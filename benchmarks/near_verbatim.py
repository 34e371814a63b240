"""Whether a sentence of a document, a word left out and one replaced, finds its node: its rank by each kind of search.

    python -m benchmarks.near_verbatim [KB ...] [--count 200] [--misses 5]

KB is a folder, or ``demo``. From every SKB so many nodes are drawn whose documents have a sentence of eight words and
more, with a fixed seed; of each one sentence, in which one word is left out and another replaced by a word of another
node's sentence. Where the node's own name stands in the sentence it becomes "it". All nodes whose documents have the
sentence are right. Ranks are by vectors alone (vss), by words alone (bm25), by both (vector_query), and by the tool
search_entities, which shows 8; by vector_query also for the sentences at the beginning and the end of long documents.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.settings.model import load_settings

DEPTH = 50
WORDS = 8
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_LINK = re.compile(r"https?://\S+")


class Asked(NamedTuple):
    """A sentence as it is asked for, the ids of the nodes that have it, and whether it stands behind 200 words."""

    text: str
    right: frozenset[str]
    late: bool


def strings(value: Any) -> Iterator[str]:
    """All texts in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def sentences(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The sentences of a document that say something, each with the number of words before it."""
    found, before = [], 0
    for text in strings(document):
        for sentence in _SENTENCE.split(text):
            words = sentence.split()
            if len(words) >= WORDS and not _LINK.search(sentence):
                found.append((sentence.strip(), before))
            before += len(words)
    return found


def drawn(kb: SkbKB, count: int) -> list[Asked]:
    """So many sentences, changed, each of another node."""
    skb, rng = kb.skb, np.random.default_rng(0)
    by_sentence: defaultdict[str, set[str]] = defaultdict(set)
    own: dict[int, list[tuple[str, int]]] = {}
    for node in range(len(skb.nodes)):
        for sentence, before in sentences(skb.documents[node]):
            by_sentence[sentence].add(skb.id(node))
            own.setdefault(node, []).append((sentence, before))
    nodes = [list(own)[n] for n in rng.permutation(len(own))[:count]]
    vocabulary = [word for node in nodes for word in own[node][0][0].split() if len(word) > 4]
    asked = []
    for node in nodes:
        sentence, before = own[node][int(rng.integers(len(own[node])))]
        words = re.sub(re.escape(skb.name(node)), "it", sentence, flags=re.IGNORECASE).split()
        del words[int(rng.integers(len(words)))]
        words[int(rng.integers(len(words)))] = vocabulary[int(rng.integers(len(vocabulary)))]
        asked.append(Asked(" ".join(words), frozenset(by_sentence[sentence]), before > 200))
    return asked


def searches(kb: SkbKB) -> dict[str, Callable[[str], Sequence[str]]]:
    """Each kind of search: a text in, ids out, best first."""
    skb = kb.skb

    def ids(hits: Sequence[tuple[int, float]]) -> list[str]:
        return [skb.id(node) for node, _ in hits]

    found: dict[str, Callable[[str], Sequence[str]]] = {}
    vectors, text = skb.vectors, skb.text
    if vectors is not None:
        found["vss"] = lambda query: ids(vectors.search(query, limit=DEPTH))
    if text is not None:
        found["bm25"] = lambda query: ids(text.search(query, limit=DEPTH))
    found["vector_query"] = lambda query: kb.text_query(query, limit=DEPTH).ids
    found["search_entities"] = lambda query: [one.id for one in kb.search_entities(query, limit=8).entities]
    return found


def rank(ids: Sequence[str], right: frozenset[str]) -> int:
    """The place of the first right one, from 1; 0 where there is none."""
    return next((place for place, one in enumerate(ids, 1) if one in right), 0)


def shares(ranks: Sequence[int]) -> str:
    """Shares of ranks 1, up to 3, up to 8 and up to 20, and the mean of 1/rank."""
    if not ranks:
        return "-"
    up_to = [sum(0 < one <= most for one in ranks) / len(ranks) for most in (1, 3, 8, 20)]
    mrr = sum(1 / one for one in ranks if one) / len(ranks)
    return "   ".join(f"{value:.3f}" for value in [*up_to, mrr])


def main() -> None:
    """A table for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", nargs="*", default=["demo"])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--misses", type=int, default=0, help="print so many that vector_query misses")
    chosen = parser.parse_args()
    for name in chosen.kb:
        with open_kb(load_settings(kb=name)) as base:
            kb = as_skb(base, "this benchmark")
            asked = drawn(kb, chosen.count)
            encoder = kb.skb.meta.encoder or "no vectors"
            print(f"\n{kb.name}: {len(asked)} sentences, {kb.skb.meta.nodes:,} nodes, {encoder}")
            print(f"  {'':24}      1     ≤ 3     ≤ 8    ≤ 20     MRR")
            for kind, search in searches(kb).items():
                ranks = [rank(search(one.text), one.right) for one in asked]
                print(f"  {kind:24}  {shares(ranks)}")
                late = [place for place, one in zip(ranks, asked, strict=True) if one.late]
                if late:
                    print(f"  {f'  of late sentences: {len(late)}':24}  {shares(late)}")
                if kind == "vector_query":
                    missed = [(place, one) for place, one in zip(ranks, asked, strict=True) if not 0 < place <= 3]
                    for place, one in missed[: chosen.misses]:
                        print(f"    rank {place or '-'}: {sorted(one.right)[:3]}: {one.text}")


if __name__ == "__main__":
    main()
