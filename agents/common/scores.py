"""How well short texts fit a question: as a model scores them, by BM25, or by an encoder, ToG's three ways to prune."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from kbnav.answers.relevance import words
from kbnav.encoders import Encoder

Pruning = Literal["model", "bm25", "embedding"]
_K1, _B = 1.5, 0.75
"""BM25's usual weights of repetition and length."""
_SCORED = re.compile(r"""(?<![\d.])(\d+)[\s"'*`)]{0,3}[:=][\s"'*`]{0,3}(\d*\.?\d+)(?!\d|\.\d|\s*[%/])""")


def read_scores(text: str, count: int) -> dict[int, float]:
    """``number: score`` pairs of a model's reply, by number from 1 to ``count``; what is not from 0 to 1 is no score.

    Lines, a JSON object and prose around either are read; of a number that is scored twice the first counts.
    """
    found: dict[int, float] = {}
    for number, score in _SCORED.findall(text):
        if 0 < int(number) <= count and 0 <= float(score) <= 1:
            found.setdefault(int(number), float(score))
    return found


def bm25_scores(question: str, texts: Sequence[str]) -> list[float]:
    """The BM25 score of each text for the question, among ``texts``; the question's function words are left out."""
    bags = [Counter(words(text)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    spread = Counter(word for bag in bags for word in bag)
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(words(question)):
        rarity = math.log(1 + (len(texts) - spread[word] + 0.5) / (spread[word] + 0.5))
        for place, bag in enumerate(bags):
            if bag[word]:
                norm = _K1 * (1 - _B + _B * lengths[place] / mean)
                scores[place] += rarity * bag[word] * (_K1 + 1) / (bag[word] + norm)
    return scores


def embedding_scores(encoder: Encoder, question: str, texts: Sequence[str]) -> list[float]:
    """The cosine of each text with the question."""
    if not texts:
        return []
    vectors = encoder.encode([question, *texts])
    cosines: list[float] = (vectors[1:] @ vectors[0]).tolist()
    return cosines
