"""A small thesaurus of English synonyms, and the inflections that let one word stand in another's place."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.answers.language import function_words, singular
from kbnav.knowledge.skb.rendering import indexed_text
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextIndex

FILE = Path(__file__).parent / "synonyms.txt"
_VOWELS = "aeiou"


class Thesaurus:
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
    def shipped(cls, stem: Callable[[str], list[str]]) -> Thesaurus:
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
    """Runs of up to five words, two or three with a meaning (not ``empty``), in a clause that can be asked for."""
    for segment in _SEGMENT.split(text):
        words = _WORD.findall(segment)
        for first, last in _spans(words, empty):
            before = words[first - 1].lower() if first else ""
            relative = before in _RELATIVES
            if before == "to" or (relative and (singular(words[first]) == words[first] or first + 1 == last)):
                continue  # a verb or a noun, who knows; or no verb in the third person
            yield Phrase(tuple(words[first:last]), relative)


def reword(phrase: Phrase, thesaurus: Thesaurus, chance: random.Random) -> Reworded:
    """The phrase with synonyms where the thesaurus has any, else with its words in another order or number."""
    words = list(phrase.words)
    if phrase.verb:
        words[0] = participle(singular(words[0]))
    synonyms = [thesaurus.synonyms(word) if is_content(word) else [] for word in words]
    replaced = [chance.choice(some) if some else word for word, some in zip(words, synonyms, strict=True)]
    if replaced != words:
        return Reworded(" ".join(replaced), "synonyms")
    return Reworded(_turned(words), "forms")


def is_content(word: str) -> bool:
    """Whether a word has a meaning of its own."""
    low = word.lower()
    telling = low not in function_words("en") and low not in _EMPTY
    return len(low) >= _SHORTEST and bool(_CONTENT.fullmatch(word)) and telling


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


Numbers = npt.NDArray[np.int32]


class WordIndex:
    """The words of all nodes of some types."""

    def __init__(self, skb: SKB, index: TextIndex, thesaurus: Thesaurus, fields: Mapping[str, Sequence[str]]) -> None:
        """Read every node of the types in ``fields``, which has the fields that phrases may be taken from."""
        self._skb, self._index, self._thesaurus, self._fields = skb, index, thesaurus, dict(fields)
        self._postings = {kind: self._indexed(*skb.type_range(kind)) for kind in self._fields}

    def words(self, text: str) -> frozenset[str]:
        """The different words of a text, each as what stands for it and its synonyms."""
        return frozenset(self._thesaurus.stands_for(word) for word in self._index.words(text))

    def holders(self, kind: str, words: frozenset[str]) -> Numbers:
        """The nodes of a type that have every one of the words, ascending."""
        postings = self._postings[kind]
        lists = sorted((postings.get(word, _NONE) for word in words), key=len)
        return reduce(partial(np.intersect1d, assume_unique=True), lists) if lists else _NONE

    def sources(self, node: int) -> Iterator[str]:
        """The parts of a node's text that phrases may be taken from."""
        fields = self._skb.documents[node]
        for name in self._fields[self._skb.type(node)]:
            yield from _strings(fields.get(name))

    def name_words(self, node: int) -> frozenset[str]:
        """The words of a node's name and aliases."""
        return self.words(" ; ".join([self._skb.name(node), *self._skb.nodes.aliases(node)]))

    def plain(self, node: int) -> str:
        """All that is written of a node, for comparing literally; of STaRK's nodes what STaRK renders."""
        if self._skb.meta.style != "plain":
            return indexed_text(self._skb, node)
        parts = [self._skb.name(node), *self._skb.nodes.aliases(node), *_strings(self._skb.documents[node])]
        return " \n ".join(parts)

    def _indexed(self, first: int, end: int) -> dict[str, Numbers]:
        found: dict[str, list[int]] = {}
        for node in range(first, end):
            for word in self.words(self.plain(node)):
                found.setdefault(word, []).append(node)
        return {word: np.array(nodes, np.int32) for word, nodes in found.items()}


_NONE: Numbers = np.zeros(0, np.int32)


def text_fields(skb: SKB, kind: str, sample: int = 200) -> list[str]:
    """The fields of a type's documents that hold running text: in the first few, six words or more on the average."""
    first, end = skb.type_range(kind)
    lengths: dict[str, list[int]] = {}
    for node in range(first, min(end, first + sample)):
        for name, value in skb.documents[node].items():
            if name not in skb.meta.alias_fields and (texts := list(_strings(value))):
                lengths.setdefault(name, []).append(sum(len(text.split()) for text in texts))
    return [name for name, found in lengths.items() if sum(found) >= _RUNNING * len(found)]


_RUNNING = 6


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
