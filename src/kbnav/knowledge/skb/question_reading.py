"""What a question says to who knows an SKB's names and types: the nodes it names, the types, the other words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kbnav.answers.language import fold, singular
from kbnav.answers.lexicon import lexicon, split_meant
from kbnav.knowledge.skb.names import Match, normalise
from kbnav.knowledge.skb.store import SKB

_TOKEN = re.compile(r"[^\s\"“”„«»]+")
_EDGES = ".,;:!?()[]{}'’‘<>"
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_POSSESSIVE = re.compile("(?<=.)['’]s$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST_NAME = 20
"""Words of the longest span that is looked up as a name."""
_LONGEST_QUESTION = 200
"""Words that are read."""
_LONGEST_MISSPELLED = 5
_SAME_NAME = 5
"""Nodes of one name that are considered."""
_FUZZY = 6
"""Letters that a span must have to be looked up as a misspelled name."""
_ASKING = frozenset(
    [
        *("identify", "find", "list", "name", "names", "give", "show", "tell", "count", "any", "some", "please"),
        *("common", "shared", "share", "shares", "same", "known", "also", "related", "connected", "linked"),
        *("node", "nodes", "one", "ones", "look", "looking", "search", "searching", "seek", "want", "need"),
    ]
)
"""Words of requests that describe nothing."""


@dataclass(frozen=True)
class Token:
    """A word of the question; ``start`` and ``end`` are its characters there, ``bare_end`` without a possessive."""

    text: str
    start: int
    end: int
    bare_end: int

    @property
    def low(self) -> str:
        """Without case."""
        return self.text.casefold()


@dataclass(frozen=True)
class Mention:
    """The tokens ``first`` up to ``end`` name these nodes, by number; the likeliest first."""

    text: str
    first: int
    end: int
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class TypeWord:
    """The tokens ``first`` up to ``end`` name a node type."""

    name: str
    first: int
    end: int


@dataclass(frozen=True)
class Reading:
    """A question read. Mentions and types are in its order; ``words`` are the places of all that describe anything.

    ``asked`` is the type that is asked for, empty where the question names none; ``types`` are the others.
    """

    tokens: tuple[Token, ...]
    mentions: tuple[Mention, ...]
    asked: str
    types: tuple[TypeWord, ...]
    words: tuple[int, ...]

    @property
    def afterthought(self) -> Mention | None:
        """The last mention once more, at the end: a type behind it says what else the answer shares with it.

        As in "genes that interact with TP53 and are associated with the same disease".
        """
        last = self.mentions[-1] if self.mentions else None
        end = len(self.tokens)
        behind = [one for one in self.types if last and one.first >= last.end and one.name != self.asked]
        return replace(last, first=end, end=end) if last and behind else None

    def text(self, places: Sequence[int]) -> str:
        """The words at some places."""
        return " ".join(self.tokens[place].low for place in places)


def read(question: str, skb: SKB, language: str) -> Reading:
    """Find the names, then the types in what is left, then the words that are neither nor only grammar."""
    question, meant = split_meant(question)
    tokens = tuple(islice(_tokens(question), _LONGEST_QUESTION))
    function = lexicon(language).function | lexicon("en").function
    types = list(_types(tokens, skb.type_names))
    mentions = [_as_meant(one, meant, skb) for one in _mentions(question, tokens, types, function, skb)]
    named = {place for one in mentions for place in range(one.first, one.end)}
    types = [one for one in types if named.isdisjoint(range(one.first, one.end))]
    taken = named | {place for one in types for place in range(one.first, one.end)}
    words = [
        place
        for place, token in enumerate(tokens)
        if place not in taken and token.low not in function and token.low not in _ASKING
    ]
    asked = types[0] if types and _is_asked(types[0], words, tokens) else None
    others = tuple(one for one in types if one is not asked)
    return Reading(tokens, tuple(mentions), asked.name if asked else "", others, tuple(words))


def _is_asked(first: TypeWord, words: Sequence[int], tokens: Sequence[Token]) -> bool:
    """Whether the first type is what is asked for: not where an unknown noun stands there.

    In "which drug targets the genes" the words before the type and the type do not adjoin; in "which common genes" they
    do.
    """
    before = [place for place in words if place < first.first]
    between = range(min(before, default=first.first), first.first)
    return all(place in before or tokens[place].low in _ASKING for place in between)


def _as_meant(mention: Mention, meant: Mapping[str, str], skb: SKB) -> Mention:
    """A mention of one node, where the reader says which."""
    node = skb.nodes.ids.find(meant.get(fold(mention.text), ""))
    return replace(mention, nodes=(node,)) if node >= 0 else mention


def one_is_asked(reading: Reading) -> bool:
    """Whether a type is asked for in the singular, in English: "which instrument", not "which instruments" or "all"."""
    kinds = {singular(word) for word in name_words(reading.asked)}
    named = [token.low for token in reading.tokens if singular(token.low) in kinds]
    return bool(named) and named[0] == singular(named[0]) and not any(token.low == "all" for token in reading.tokens)


def name_words(name: str) -> list[str]:
    """The words of a type's or relation's name: ``side_effect`` and ``sideEffect`` have two."""
    return [word.casefold() for word in _WORDS.findall(_CAMEL.sub(" ", name))]


def _tokens(question: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(question):
        bare = match[0].strip(_EDGES)
        if bare:
            start = match.start() + match[0].index(bare)
            owner = _POSSESSIVE.sub("", bare)
            yield Token(owner, start, start + len(bare), start + len(owner))


def _types(tokens: Sequence[Token], names: Sequence[str]) -> Iterator[TypeWord]:
    """Where types are named, in the order of the question; a longer name before a shorter one within it."""
    spelled = [(name, [singular(w) for w in name_words(part)]) for name in names for part in name.split("/")]
    spelled = sorted((pair for pair in spelled if pair[1]), key=lambda pair: -len(pair[1]))
    words = [singular(token.low) for token in tokens]
    split = [
        set(map(singular, name_words(token.text))) if "/" in token.text else {word}
        for token, word in zip(tokens, words, strict=True)
    ]
    place = 0
    while place < len(tokens):
        for name, wanted in spelled:
            here = split[place : place + len(wanted)]
            if len(here) == len(wanted) and all(word in found for word, found in zip(wanted, here, strict=True)):
                yield TypeWord(name, place, place + len(wanted))
                place += len(wanted) - 1
                break
        place += 1


def _mentions(
    question: str, tokens: Sequence[Token], types: Sequence[TypeWord], function: frozenset[str], skb: SKB
) -> list[Mention]:
    """Names in the question: the longest first, as they are written; where there is none, misspelled ones."""
    kinds = {(one.first, one.end) for one in types}
    for edits in (0, None):
        found: list[Mention] = []
        for first, end in _spans(tokens, _LONGEST_NAME if edits == 0 else _LONGEST_MISSPELLED):
            if (first, end) in kinds or any(first < one.end and one.first < end for one in found):
                continue
            mention = _mention(question, tokens, first, end, function, skb, edits)
            found += [mention] if mention else []
        if found:
            return sorted(found, key=lambda one: one.first)
    return []


def _mention(
    question: str, tokens: Sequence[Token], first: int, end: int, function: frozenset[str], skb: SKB, edits: int | None
) -> Mention | None:
    """A span as a name, with or without a possessive ending; ``edits`` as of ``NameIndex.search``."""
    span = tokens[first:end]
    if skb.names is None or all(token.low in function | _ASKING for token in span):
        return None
    bare = not {span[0].low, span[-1].low} & function
    for until in dict.fromkeys((span[-1].end, span[-1].bare_end)):
        text = question[span[0].start : until]
        if edits is None and (not bare or len(normalise(text)) < _FUZZY):
            continue
        matches = skb.names.search(text, limit=_SAME_NAME, edits=edits)
        nodes = [match.number for match in matches if _is_meant(match, text, skb, bare=bare)]
        if nodes:
            nodes.sort(key=lambda node: skb.graph.degree(node) == 0)
            return Mention(text, first, end, tuple(nodes))
    return None


def _spans(tokens: Sequence[Token], longest: int) -> Iterator[tuple[int, int]]:
    for length in range(min(longest, len(tokens)), 0, -1):
        for first in range(len(tokens) - length + 1):
            yield first, first + length


def _is_meant(match: Match, text: str, skb: SKB, *, bare: bool) -> bool:
    """Not every word that is somewhere a name is one here: ``set`` is not the gene SET, and ``the lung`` not a film.

    ``bare``: no word of grammar stands at the span's ends.
    """
    if not bare:
        return match.how == "exact"
    if " " in text:
        return True
    name = str(skb.nodes.names[match.number])
    if text.islower():  # one plain word: the name itself, and that not an abbreviation
        return not name.isupper() and (match.how == "fuzzy" or normalise(name) == normalise(text))
    return match.how == "exact" or not name.isupper()
