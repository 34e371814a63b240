"""The functions of the API that compare strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kbnav.answers.relevance import words
from kbnav.errors import BadArguments
from kbnav.programs.api.functions import Function, Phrase

_MOST_COMPARED = 500_000_000
"""Pairs of letters that one call of ``fuzzy`` compares: some seconds."""


class StringFunctions:
    """A phrase beside many texts, a number from 0 to 1 for each. Docstrings are what the writer of a program reads."""

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (cls.exact_match, cls.token_recall, cls.token_f1, cls.fuzzy):
            yield Function("strings", method)

    def exact_match(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text 1.0 where it contains the phrase as whole words, whatever the case, else 0.0."""
        wanted = _padded(phrase)
        return [float(bool(wanted.strip()) and wanted in _padded(text)) for text in texts]

    def token_recall(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the share of the phrase's words that it has, whatever the case; function words do not count."""
        wanted = set(words(phrase))
        return [len(wanted & set(words(text))) / len(wanted) if wanted else 0.0 for text in texts]

    def token_f1(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the harmonic mean of the shares of words that phrase and text have in common."""
        wanted = Counter(words(phrase))
        return [_f1(wanted, Counter(words(text))) for text in texts]

    def fuzzy(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text how well its best part fits the phrase letter by letter, whatever the case."""
        from rapidfuzz import fuzz, utils

        if len(phrase) * sum(map(len, texts)) > _MOST_COMPARED:
            raise BadArguments("fuzzy: phrase and texts are too long: compare names, or fewer texts at once")
        return [fuzz.partial_ratio(phrase, text, processor=utils.default_process) / 100 for text in texts]


def _padded(text: str) -> str:
    plain = "".join(char if char.isalnum() else " " for char in text.casefold())
    return f" {' '.join(plain.split())} "


def _f1(wanted: Counter[str], found: Counter[str]) -> float:
    shared = (wanted & found).total()
    return 2 * shared / (wanted.total() + found.total()) if shared else 0.0
