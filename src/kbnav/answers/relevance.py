"""How well short texts fit a question, without a model: shared words weighed by rarity, whatever their endings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from kbnav.answers.language import fold

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_FUNCTION_WORDS = (
    "a an and are as at be been by did do does for from had has have how in is it its many much of on or "
    "s that the their there these they this to was were what when where which who whom whose why will "
    "with you your me i"
)
_STOP = frozenset(_FUNCTION_WORDS.split())
_SHORTEST_STEM = 4


def content_words(text: str) -> list[str]:
    """Lower-case words of a text, function words of English left out."""
    return [word for word in words_of(text) if word not in _STOP]


def words_of(text: str) -> list[str]:
    """The words of a text, without case."""
    return _WORD.findall(text.casefold())


def relevance(question: str, texts: Sequence[str]) -> list[float]:
    """A score of at least 0 for each text: the rarity, among ``texts``, of the question's words that it shares.

    Two words are the same where one is the other with a different ending ("discovered", "discoverer"): they share their
    first four letters or more and differ in at most the last four; such a match counts by the shared part.
    """
    return list((_kept_scores if len(texts) <= _KEPT else _scores)(question, tuple(texts)))


def _scores(question: str, texts: tuple[str, ...]) -> tuple[float, ...]:
    wanted = list(dict.fromkeys(content_words(question)))
    bags = [set(content_words(text)) for text in texts]
    vocabulary = set().union(*bags)
    near = {word: _near(word, vocabulary) for word in wanted}
    spread = Counter(word for bag in bags for word in wanted if not bag.isdisjoint(near[word]))
    scores = []
    for bag in bags:
        score = 0.0
        for word in wanted:
            best = max((near[word][other] for other in bag & near[word].keys()), default=0.0)
            score += best * math.log(1 + len(bags) / (1 + spread[word]))
        scores.append(score / math.sqrt(len(bag) + 1))
    return tuple(scores)


_KEPT = 100
"""Texts up to which their scores are kept: rules that decide anew each turn weigh the same labels each time."""
_kept_scores = lru_cache(1_000)(_scores)


def _near(word: str, vocabulary: set[str]) -> dict[str, float]:
    found = {}
    for other in vocabulary:
        if other == word:
            found[other] = 1.0
            continue
        shared = 0
        for left, right in zip(word, other, strict=False):
            if left != right:
                break
            shared += 1
        longest = max(len(word), len(other))
        if shared >= _SHORTEST_STEM and longest - shared <= _SHORTEST_STEM:
            found[other] = shared / longest
    return found


def fit(words: str, texts: Sequence[str]) -> list[float]:
    """How well texts fit words, the best with 1 where it fits at all."""
    scores = relevance(fold(words), [fold(text) for text in texts])
    scale = max([*scores, 0.5])
    return [score / scale for score in scores]
