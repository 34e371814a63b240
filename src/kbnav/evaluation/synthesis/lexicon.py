"""A small lexicon of English synonyms, and the inflections that let one word stand in another's place."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from kbnav.answers.language import FUNCTION_WORDS, singular

FILE = Path(__file__).parent / "synonyms.txt"
FUNCTION = frozenset(FUNCTION_WORDS["en"].split())
_VOWELS = "aeiou"


class Lexicon:
    """Groups of synonyms, a line each: single words in their base form, in lower case."""

    def __init__(self, groups: Iterable[str], stem: Callable[[str], list[str]]) -> None:
        """``stem`` gives the form in which a text index has a word."""
        self._groups: dict[str, list[str]] = {}
        self._first: dict[str, str] = {}
        for line in groups:
            words = line.split()
            head = "".join(stem(words[0])) if words else ""
            for word in words:
                self._groups.setdefault(word, []).extend(other for other in words if other != word)
                self._first.setdefault("".join(stem(word)), head)

    @classmethod
    def shipped(cls, stem: Callable[[str], list[str]]) -> Lexicon:
        """The one that comes with kbnav: everyday words, without what belongs to one field."""
        return cls(FILE.read_text(encoding="utf-8").splitlines(), stem)

    def stands_for(self, stem: str) -> str:
        """What a stemmed word is compared as: the first of its group, or itself."""
        return self._first.get(stem, stem)

    def synonyms(self, word: str) -> list[str]:
        """Synonyms of a word in the word's own form: plural or third person, present participle, past."""
        for base, inflect in _readings(word):
            if base in self._groups:
                return [inflect(other) for other in self._groups[base]]
        return []

    def replaced(self, word: str, chance: random.Random) -> str:
        """One of a word's synonyms, or the word itself where it has none."""
        found = self.synonyms(word)
        return chance.choice(found) if found else word


def _readings(word: str) -> list[tuple[str, Callable[[str], str]]]:
    """What a word may be a form of, with what makes that form of another word."""
    found: list[tuple[str, Callable[[str], str]]] = [(word, str)]
    if (base := singular(word)) != word:
        found.append((base, plural))
    if word.endswith("ied"):
        found.append((word.removesuffix("ied") + "y", past))
    for ending, inflect in (("ing", participle), ("ed", past)):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            root = word.removesuffix(ending)
            bases = [root, root + "e", root[:-1]] if root[-1] == root[-2] else [root + "e", root]
            found += [(base, inflect) for base in bases]
    return found


def plural(noun: str) -> str:
    """The plural of a noun, or the third person of a verb, by the regular rules."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in _VOWELS else f"{noun}s"


def participle(verb: str) -> str:
    """``make`` to ``making``, ``cut`` to ``cutting``."""
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def past(verb: str) -> str:
    """The regular past: ``use`` to ``used``, ``carry`` to ``carried``."""
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ied"
    return f"{_doubled(verb)}ed"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]|.*(mit|fer|gin|pel|cur)", verb) else verb
