"""Whether a question needs both its parts. Each reason for leaving one out is a line of the report."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from kbnav.evaluation.synthesis.lexicon import Lexicon
from kbnav.evaluation.synthesis.phrases import Reworded, is_content, is_literal, phrases, reword
from kbnav.evaluation.synthesis.requirements import Requirement
from kbnav.evaluation.synthesis.texts import Numbers, Texts
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import NAME_WEIGHT, TextSearch

MOST_ANSWERS = 20
MARGIN, FACTOR = 2, 2
"""Either part alone must be met by ``MARGIN`` nodes more than the answers, and by ``FACTOR`` times as many."""
COMMON, COMMON_AT_LEAST = 0.02, 20
"""A phrase that this share of a type's nodes have, and so many at least, says too little."""
MOST_PHRASES = 30
"""Phrases of one gold node that are tried."""


@dataclass(frozen=True)
class TextPart:
    """A phrase that does its work: with the words that a node must have, and the nodes that are then the answers."""

    phrase: Reworded
    source: str
    words: frozenset[str]
    holders: Numbers
    answers: Numbers


def needs_more(part: int, answers: int) -> bool:
    """Whether a part that ``part`` nodes meet leaves the answers open."""
    return part >= answers + MARGIN and part >= FACTOR * answers


def relations_fault(requirement: Requirement, *, text: bool) -> str:
    """Why a relational requirement is of no use, with a text part or without; empty where it is."""
    count = len(requirement.candidates)
    if not text and count > MOST_ANSWERS:
        return "relations alone: too many answers"
    if text and not needs_more(count, 1):
        return "relations alone pick the answer"
    if len(requirement.alone) > 1 and min(requirement.alone) <= count:
        return "one of the branches alone says as much"
    return ""


class TextChecker:
    """Finds a phrase of the gold node's text which, with the relations and only with them, picks the answers."""

    def __init__(
        self, skb: SKB, texts: Texts, index: TextSearch, lexicon: Lexicon, empty: Collection[str] = ()
    ) -> None:
        """``empty`` are words that say too little to be asked for."""
        self._skb, self._texts, self._index, self._lexicon, self._empty = skb, texts, index, lexicon, frozenset(empty)

    def find(self, requirement: Requirement, gold: int, chance: random.Random) -> TextPart | str:
        """The first phrase that passes, in a random order with synonyms first; else why the last ones did not."""
        fault = "text: no phrase of two or three words with a meaning"
        for _, part in zip(range(MOST_PHRASES), self._parts(gold, chance), strict=False):
            found = self._check(requirement, gold, *part)
            if isinstance(found, TextPart):
                return found
            fault = found
        return fault

    def _parts(self, gold: int, chance: random.Random) -> Iterator[tuple[Reworded, str]]:
        """Phrases of the gold node's text, each reworded, those with a synonym first."""
        found = [
            (reword(phrase, self._lexicon, chance), phrase.text)
            for text in self._texts.sources(gold)
            for phrase in phrases(text, self._empty)
        ]
        chance.shuffle(found)
        return iter(sorted(found, key=lambda one: one[0].how != "synonyms"))

    def _check(self, requirement: Requirement, gold: int, phrase: Reworded, source: str) -> TextPart | str:
        words = self._texts.words(" ".join(word for word in source.split() if is_content(word)))
        told = self._texts.words(" ".join(word for word in phrase.text.split() if is_content(word)))
        if told != words:
            return "text: rewording changed the words it is compared by"
        if is_literal(phrase.text, self._texts.plain(gold)):
            return "text: could not be reworded"
        named = [self._texts.name_words(node) for node in (gold, *requirement.starts)]
        if any(words & one for one in named):
            return "text: shares a word with a name"
        holders = self._texts.holders(requirement.template.answer, words)
        first, end = self._skb.type_range(requirement.template.answer)
        if len(holders) > max(COMMON_AT_LEAST, COMMON * (end - first)):
            return "text: says too little"
        answers = np.intersect1d(requirement.candidates, holders, assume_unique=True)
        if gold not in answers or len(answers) > MOST_ANSWERS:
            return "text: too many answers"
        if not needs_more(len(requirement.candidates), len(answers)):
            return "relations alone pick the answer"
        if not needs_more(len(holders), len(answers)):
            return "text alone picks the answer"
        if self._nearly(requirement.template.answer, words, requirement.candidates, answers):
            return "text: a candidate has all but one of the words"
        for how, first in self._first_by_text(requirement.template.answer, phrase.text):
            if first in answers:
                return f"text alone: {how} puts an answer first"
        return TextPart(phrase, source, words, holders, answers)

    def _nearly(self, kind: str, words: frozenset[str], candidates: Numbers, answers: Numbers) -> bool:
        """Whether another candidate has all but one of three words or more: it might be meant."""
        if len(words) < _ENOUGH:
            return False
        others = np.setdiff1d(candidates, answers, assume_unique=True)
        return any(
            len(np.intersect1d(others, self._texts.holders(kind, words - {word}), assume_unique=True)) for word in words
        )

    def _first_by_text(self, kind: str, text: str) -> Iterator[tuple[str, int]]:
        """What each search for the phrase alone puts first: BM25 of documents, of names too, and vectors, if any."""
        ranges = [self._skb.type_range(kind)]
        for how, weight in (("BM25", 0.0), ("BM25 with names", NAME_WEIGHT)):
            yield from ((how, node) for node, _ in self._index.search(text, limit=1, ranges=ranges, name_weight=weight))
        if self._skb.vectors is not None:
            yield from (("vss", node) for node, _ in self._skb.vectors.search(text, limit=1, ranges=ranges))


_ENOUGH = 3
