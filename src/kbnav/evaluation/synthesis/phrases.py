"""Phrases of a text, and how they are reworded so that no document holds them as they are asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from kbnav.answers.language import singular
from kbnav.evaluation.synthesis.lexicon import FUNCTION, Lexicon, participle, plural

_SEGMENT = re.compile(r"[.;:,!?()\[\]\"“”`/\n]+|\s[-–—]+\s|\s'")
_WORD = re.compile(r"\S+")
_CONTENT = re.compile(r"[^\W\d_](?:[^\W_]|[-+](?=[^\W_]))*")
_JOINS = frozenset(["and", "or", "of", "for", "in", "with", "from", "on", "by"])
_ARTICLES = frozenset(["a", "an", "the"])
_GO_ON = frozenset(["and", "or", "of", "for", "in", "with", "from", "on", "by", "that", "which", "who", "is", "are"])
"""What may stand behind a phrase, beside the end of the clause; an article or a pronoun there tells of a verb."""
_RELATIVES = frozenset(["who", "that", "which"])
_SAYS_LITTLE = """
    all any contain contains containing etc especially following include includes including kind made make makes many
    may often one other others package provide provided provides providing several similar some something someone sort
    such thing things two type used uses using usually various very you your"""
_EMPTY = frozenset(_SAYS_LITTLE.split())
"""Words that say too little to be asked for."""
LONGEST, CONTENT = 5, (2, 3)
"""Words of a phrase at most, and how many of them must have a meaning of their own."""
_SHORTEST = 3  # letters of a word with a meaning of its own


class Phrase(NamedTuple):
    """A run of words as the text has it; ``verb`` says that its first is a verb in the third person."""

    words: tuple[str, ...]
    verb: bool

    @property
    def text(self) -> str:
        """The phrase as it is written."""
        return " ".join(self.words)


class Reworded(NamedTuple):
    """A phrase put in other words; ``how`` is ``synonyms`` or ``forms``: other forms or order of the same words."""

    text: str
    how: str


def phrases(text: str, empty: Collection[str] = ()) -> Iterator[Phrase]:
    """Every run of up to five words, two or three of them with a meaning, within a clause, that can be asked for.

    ``empty`` are further words, in lower case, that say too little.
    """
    for segment in _SEGMENT.split(text):
        words = _WORD.findall(segment)
        for first, last in _spans(words, empty):
            before = words[first - 1].lower() if first else ""
            relative = before in _RELATIVES
            if before == "to" or (relative and (singular(words[first]) == words[first] or first + 1 == last)):
                continue  # a verb or a noun, who knows; or no verb in the third person
            yield Phrase(tuple(words[first:last]), relative)


def reword(phrase: Phrase, lexicon: Lexicon, chance: random.Random) -> Reworded:
    """The phrase with synonyms where the lexicon has any, else with its words in another order or number."""
    words = list(phrase.words)
    if phrase.verb:
        words[0] = participle(singular(words[0]))
    replaced = [lexicon.replaced(word, chance) if is_content(word) else word for word in words]
    if replaced != words:
        return Reworded(" ".join(replaced), "synonyms")
    return Reworded(_turned(words), "forms")


def is_content(word: str) -> bool:
    """Whether a word has a meaning of its own."""
    low = word.lower()
    return len(low) >= _SHORTEST and bool(_CONTENT.fullmatch(word)) and low not in FUNCTION and low not in _EMPTY


def is_literal(phrase: str, text: str) -> bool:
    """Whether a text holds the phrase word by word, whatever its case, space and punctuation."""
    return f" {_bare(phrase)} " in f" {_bare(text)} "


def _bare(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _spans(words: list[str], empty: Collection[str]) -> Iterator[tuple[int, int]]:
    """First word and the one behind the last: nothing that belongs to the last word follows it."""
    low = [word.lower() for word in words]
    content = [is_content(word) and lower not in empty for word, lower in zip(words, low, strict=True)]
    ends = [place + 1 == len(words) or low[place + 1] in _GO_ON for place in range(len(words))]
    for first in range(len(words)):
        for last in range(first + 1, min(first + LONGEST, len(words))):
            if not (content[last] or low[last] in _JOINS or (low[last] in _ARTICLES and low[last - 1] in _JOINS)):
                break
            if low[last] in _JOINS and low[last - 1] in _JOINS:
                break
            inside = sum(content[first : last + 1])
            whole = content[first] and content[last] and ends[last] and CONTENT[0] <= inside <= CONTENT[1]
            if whole and not low[first].endswith("ly") and not low[last].endswith("ly"):
                yield first, last + 1


def _turned(words: list[str]) -> str:
    """``a of b`` as ``b a``, ``a and b`` the other way round; else the last word in the other number."""
    if len(words) == 3 and words[1] in ("and", "or"):
        return " ".join(reversed(words))
    if len(words) == 3 and words[1] == "of":
        return f"{singular(words[2])} {words[0]}"
    last = words[-1]
    if not last.islower() or last.endswith(("ing", "ed", "ics", "ous", "al", "ic")):  # no noun that has a plural
        return " ".join(words)
    other = singular(last) if singular(last) != last else plural(last)
    rest = words[:-2] if words[-2] in ("a", "an") else words[:-1]
    return " ".join([*rest, other])
