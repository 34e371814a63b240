"""BM25 on LanceDB, with the scores of the local index.

The words are those of the local index, made by its analyzer. Both engines count them by the same formula, but for one
thing: tantivy keeps the length of a text in a byte, so that one of more than 40 words counts as a little shorter than
it is. LanceDB takes it as it is. So LanceDB finds the candidates, with its filters, and their scores are worked out
again here by the rounded lengths. A text's score grows by that at most as its length shrinks (``TextStats.stretch``):
once the last candidate's score, grown so, is below that of the last hit, nothing can be missing.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.lance.places import Places
from kbnav.knowledge.skb.lance.storage import reaching
from kbnav.knowledge.skb.lance.tables import KEY, Table, TextStats, column, listed
from kbnav.knowledge.skb.parts import NAME_WEIGHT, Hit, Range
from kbnav.knowledge.skb.spelling import spelled
from kbnav.knowledge.skb.text import analyzer, kept, rarity, shares, unread

FIELDS = ("name", "body")
K1, B = 1.2, 0.75
_AMONG = 2_000  # nodes that one search is told to keep to
_MORE = 16  # candidates beyond what is wanted, at first
_WORDS_KEPT = 1 << 16  # of whose holders are kept in memory


def _lengths() -> list[int]:
    """The lengths a text may count as: all up to 40, then eight to a doubling."""
    found, step = list(range(41)), 2
    while found[-1] < 1 << 31:
        found += [found[-1] + step * place for place in range(1, 9)]
        step *= 2
    return found


LENGTHS = _lengths()


def counted_length(words: int) -> int:
    """The length that a text of so many words counts as."""
    return LENGTHS[bisect_right(LENGTHS, words) - 1]


class LanceText:
    """See ``TextSearch``."""

    def __init__(
        self, nodes: Table, words: Table, part: str, stats: TextStats, places: Places, count: int, language: str
    ) -> None:
        self._table, self._words_table, self._part, self._stats = nodes, words, part, stats
        self._places = places
        self._analyzer = analyzer(language)
        self.nodes = count
        counted = (stats.name_words, stats.body_words)
        self._average = {field: whole / max(self.nodes, 1) for field, whole in zip(FIELDS, counted, strict=True)}
        self._held: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def words(self, text: str) -> list[str]:
        """See ``TextSearch``."""
        return list(self._analyzer.analyze(spelled(text)))

    def holders(self, word: str) -> int:
        """See ``TextSearch``."""
        terms = self.words(word)
        held = self._holders(terms)
        return min((held[term][1] for term in terms), default=0)

    def shares(self, query: str, texts: Iterable[str]) -> list[float]:
        """See ``TextSearch``."""
        held = self._holders(self.words(query))
        return shares({word: rarity(self.nodes, bodies) for word, (_, bodies) in held.items()}, map(self.words, texts))

    def unread(self, text: str) -> int:
        """See ``TextSearch``."""
        return unread(self.words(text))

    @reading("the text index")
    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        name_weight: float = NAME_WEIGHT,
    ) -> list[Hit]:
        """See ``TextSearch``."""
        weights = self._weights(kept(self.words(query)), name_weight)
        if not weights or limit < 1:
            return []
        hits: list[Hit] = []
        for where in self._places.conditions(ranges, among, _AMONG):
            hits += self._top(weights, where, limit)
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _weights(
        self, counts: Sequence[tuple[str, int]], name_weight: float
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """By field and word what a match is multiplied by, without its rarity and with it."""
        held = self._holders([word for word, _ in counts])
        boosts = dict(zip(FIELDS, (name_weight, 1.0), strict=True))
        return {
            (field, word): (boosts[field] * count, boosts[field] * count * rarity(self.nodes, held[word][place]))
            for word, count in counts
            for place, field in enumerate(FIELDS)
            if boosts[field] and held[word][place]
        }

    def _top(self, weights: Mapping[tuple[str, str], tuple[float, float]], where: str, limit: int) -> list[Hit]:
        """The best hits under a condition; more candidates are asked for until none can be missing."""
        query, depth = self._query(weights), limit + _MORE
        columns = [KEY, "_score", *(column(self._part, field) for field in FIELDS)]
        while True:
            asked = self._table.search(query, query_type="fts").limit(depth).select(columns)
            with reaching(self._table.uri):
                found = (asked.where(where, prefilter=True) if where else asked).to_arrow()
            texts = zip(*(found[name].to_pylist() for name in columns[2:]), strict=True)
            scores = [self._score(weights, of) for of in texts]
            numbers = self._places.numbers(found[KEY].to_numpy()).tolist()
            hits = sorted(zip(numbers, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))[:limit]
            if found.num_rows < depth or hits[-1][1] > min(found["_score"].to_pylist()) * self._stretch:
                return hits
            depth *= 4

    @property
    def _stretch(self) -> float:
        return self._stats.stretch * (1 + 1e-5)  # LanceDB adds up in single precision

    def _query(self, weights: Mapping[tuple[str, str], tuple[float, float]]) -> Any:
        from lancedb.query import BooleanQuery, MatchQuery, Occur

        alike: dict[tuple[str, float], list[str]] = {}
        for (field, word), (boost, _) in weights.items():
            alike.setdefault((field, boost), []).append(word)
        return BooleanQuery(
            [
                (Occur.SHOULD, MatchQuery(" ".join(words), column(self._part, field), boost=boost))  # type: ignore[call-arg, unused-ignore]
                for (field, boost), words in alike.items()
            ]
        )

    def _score(self, weights: Mapping[tuple[str, str], tuple[float, float]], texts: Sequence[str]) -> float:
        counts = {field: Counter(text.split()) for field, text in zip(FIELDS, texts, strict=True)}
        norms = {
            field: K1 * (1 - B + B * counted_length(found.total()) / (self._average[field] or 1.0))
            for field, found in counts.items()
        }
        total = sum(
            weight * (K1 + 1) * (often := counts[field][word]) / (often + norms[field])
            for (field, word), (_, weight) in weights.items()
            if counts[field][word]
        )
        return float(np.float32(total))

    @reading("the table of words")
    def _holders(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """How many nodes have each word in their names and in their bodies."""
        with self._lock:
            new = [word for word in dict.fromkeys(words) if word not in self._held]
            if len(self._held) > _WORDS_KEPT:
                self._held, new = {}, list(dict.fromkeys(words))
            if new:
                where = f"part = '{self._part}' AND word IN ({listed(new)})"
                with reaching(self._table.uri):
                    rows = self._words_table.search().where(where).limit(len(new)).to_arrow().to_pylist()
                self._held.update(dict.fromkeys(new, (0, 0)))
                self._held.update({row["word"]: (row["names"], row["bodies"]) for row in rows})
            return {word: self._held[word] for word in words}
