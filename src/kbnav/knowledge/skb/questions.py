"""What a question says to who knows an SKB's names and types: the nodes it names, the types, the other words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from kbnav.answers.language import fold, lexicon, singular
from kbnav.answers.relevance import fit
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.matching import NodeMatcher, alike, unmatched_names
from kbnav.knowledge.skb.schema import Meta
from kbnav.knowledge.skb.store import SKB

_TOKEN = re.compile(r"[^\s\"“”„«»]+")
_EDGES = ".,;:!?()[]{}'’‘<>"
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_DIGITS = re.compile(r"\d+")
_POSSESSIVE = re.compile("(?<=.)['’]s$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLURALS = ("e", "en", "n", "nen", "s")
"""Endings of German nouns."""
_LONGEST_QUESTION = 200
"""Words that are read."""
_FUZZY = 6
"""Letters that a name must have to be looked up as a misspelled one."""
_SAME_NAME = 5
"""Nodes of one name that are considered."""
ASKING = frozenset({
    "identify", "find", "list", "name", "names", "give", "show", "tell", "count", "any", "some", "please", "common",
    "shared", "share", "shares", "same", "known", "also", "related", "connected", "linked", "node", "nodes", "one",
    "ones", "those", "am", "look", "looking", "search", "searching", "seek", "want", "need",
})  # fmt: skip
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
    """A question's mentions and types in order, the places of its ``words``, and the type ``asked`` for, if any."""

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

    def unnamed(self, question: str) -> str:
        """The question that was read, with spaces in place of names."""
        for one in self.mentions:
            start, end = self.tokens[one.first].start, self.tokens[one.end - 1].end
            question = f"{question[:start]}{' ' * (end - start)}{question[end:]}"
        return question

    def text(self, places: Sequence[int]) -> str:
        """The words at some places."""
        return " ".join(self.tokens[place].low for place in places)


def read(question: str, skb: SKB, language: str) -> Reading:
    """Find the names, then the types in what is left, then the words that are neither nor only grammar."""
    tokens = tuple(islice(_tokens(question), _LONGEST_QUESTION))
    function = lexicon(language).function | lexicon("en").function
    types = list(_types(tokens, skb.type_names, german=language.startswith("de")))
    mentions = _mentions(question, tokens, types, function, skb)
    named = {place for one in mentions for place in range(one.first, one.end)}
    types = [one for one in types if named.isdisjoint(range(one.first, one.end))]
    taken = named | {place for one in types for place in range(one.first, one.end)}
    words = [
        place
        for place, token in enumerate(tokens)
        if place not in taken and token.low not in function and token.low not in ASKING
    ]
    # The first type is what is asked for, but not where an unknown noun stands there: in "which drug targets the genes"
    # the words before the type and the type do not adjoin; in "which common genes" they do.
    first = types[0].first if types else 0
    before = [place for place in words if place < first]
    between = range(min(before, default=first), first)
    adjoin = all(place in before or tokens[place].low in ASKING for place in between)
    asked = types[0] if types and adjoin else None
    others = tuple(one for one in types if one is not asked)
    return Reading(tokens, tuple(mentions), asked.name if asked else "", others, tuple(words))


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


def _german(noun: str) -> set[str]:
    """The forms of a noun with other endings of plurals, and without its umlaut."""
    words = {noun, fold(noun)}
    shorter = {word.removesuffix(ending) for word in words for ending in _PLURALS}
    return set(map(singular, words | shorter | {noun + ending for ending in _PLURALS}))


def _types(tokens: Sequence[Token], names: Sequence[str], *, german: bool) -> Iterator[TypeWord]:
    """Where types are named, in the order of the question; a longer name before a shorter one within it."""
    spelled = [(name, [singular(w) for w in name_words(part)]) for name in names for part in name.split("/")]
    spelled = sorted((pair for pair in spelled if pair[1]), key=lambda pair: -len(pair[1]))
    known = {word for _, words in spelled for word in words}
    split = [
        set(map(singular, name_words(token.text)))
        if "/" in token.text
        else {own} | (_german(token.low) if german and token.text.istitle() and own not in known else set())
        for token in tokens
        for own in [singular(token.low)]
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
    """Names that ``NodeMatcher`` is sure of, and ids; where there are none, singulars of names, or misspelled names."""
    kinds, grammar = {(one.first, one.end) for one in types}, function | ASKING
    starts = {token.start: place for place, token in enumerate(tokens)}
    ends = {end: place for place, token in enumerate(tokens, 1) for end in (token.end, token.bare_end)}
    named: dict[tuple[int, int], list[int]] = {}
    for one in NodeMatcher(skb, "exact", common_too=True).match(question) if skb.names else ():
        if one.sure:
            named.setdefault((starts.get(one.start, -1), ends.get(one.end, 0)), []).append(skb.number(one.id))
    for place, token in enumerate(tokens):
        node = skb.nodes.ids.find(token.text) if _DIGITS.search(token.text) else -1
        typed = (one.name for one in types if one.end == place)  # "lamp 12"; elsewhere 12 is a number
        taken = any(first <= place < end for first, end in named)
        if node >= 0 and not taken and (not token.text.isdecimal() or skb.type(node) in typed):
            named[place, place + 1] = [node]
    if skb.names and not named:  # a value of a table: "lamp" for Lamps
        for place, token in enumerate(tokens):
            plain = token.text.islower() and token.text not in grammar
            matches = skb.names.search(f"{token.text}s", edits=0) if plain else []
            named[place, place + 1] = [one.number for one in matches if not skb.nodes.names[one.number].isupper()]
    for name in () if any(named.values()) else unmatched_names(question, ()):
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)
        start = found.start() if found else -1
        named[starts.get(start, -1), ends.get(start + len(name), 0)] = alike(name, skb) if len(name) >= _FUZZY else []
    for (first, end), nodes in [*named.items()]:  # "order 12" is one name
        kind = next((one for one in types if one.end == first), None)
        if kind and tokens[first].text.isdecimal() and kind.name in map(skb.type, nodes):
            named[kind.first, end] = named.pop((first, end))
    return [
        Mention(question[tokens[first].start : tokens[end - 1].bare_end], first, end, tuple(nodes[:_SAME_NAME]))
        for (first, end), nodes in sorted(named.items())
        if nodes
        and 0 <= first < end
        and (first, end) not in kinds
        and any(token.low not in grammar for token in tokens[first:end])
    ]


_ABBREVIATED = re.compile(r"[A-Z]{1,3}([a-z])[a-z]{0,2}[<>]?[A-Z]{1,3}")
"""Relations named by the initials of a type, a verb and a type, as Hetionet's ``CbG`` is: compound binds gene."""
_INITIAL = 0.7
"""How well a word fits a verb of which only the first letter is known."""
_FARTHER = 0.6
"""Weight of words that stand elsewhere in the question than where the relation should be named."""
_HOP = 0.3
_TYPE_NAMED = 0.5
_TYPE_UNNAMED = -0.4
_COMMONEST = 50
"""Relations of a type that are followed though no word names them."""


@dataclass(frozen=True)
class Step:
    """One relation followed, seen from where the path comes from (``both``: within a type); empty: any."""

    relation: str
    direction: Direction
    target: str

    def pattern(self, subject: str, names: Mapping[str, str], end: str) -> str:
        """It in SPARQL between two terms, with the ``names`` that relations have there."""
        if not self.relation:
            return f"{{ {subject} ?any {end} }} UNION {{ {end} ?any {subject} }}"
        relation = f"rel:{names[self.relation]}"
        if self.direction == "both":
            return f"{subject} {relation}|^{relation} {end} ."
        return f"{subject} {relation} {end} ." if self.direction == "out" else f"{end} {relation} {subject} ."


@dataclass(frozen=True)
class Path:
    """From a node, along steps, to the type of the last one."""

    node: int
    steps: tuple[Step, ...]
    score: float
    used: frozenset[int] = frozenset()
    """Places of the question's words that name its relations."""

    @property
    def target(self) -> str:
        """The type at its end."""
        return self.steps[-1].target


class Paths:
    """The schema of an SKB, searched for paths."""

    def __init__(self, meta: Meta) -> None:
        self._steps: dict[str, list[Step]] = {kind.name: [] for kind in meta.types}
        self._relations = [relation.name for relation in meta.relations]
        for one in meta.tuples:
            if one.source == one.target:
                self._steps[one.source].append(Step(one.relation, "both", one.target))
            else:
                self._steps[one.source].append(Step(one.relation, "out", one.target))
                self._steps[one.target].append(Step(one.relation, "in", one.source))
        counts = {relation.name: relation.count for relation in meta.relations}
        self._common = {
            kind: frozenset(sorted(steps, key=lambda step: -counts[step.relation])[:_COMMONEST])
            for kind, steps in self._steps.items()
        }
        self._fits = lru_cache(maxsize=1024)(self._word_fits)

    def steps(self, kind: str) -> Sequence[Step]:
        """What a type is linked by; nothing for none."""
        return self._steps.get(kind, ())

    def propose(self, reading: Reading, mention: Mention, node: int, kind: str) -> list[Path]:
        """Paths from ``node``, of type ``kind``, to the type that is asked for (to any, where none is), best first."""
        before = max((one.end for one in reading.mentions if one.end <= mention.first), default=0)
        found = []
        named = {relation for place in reading.words for relation in self._fits(reading.tokens[place].low)}
        for one in self._followed(kind, named):
            for steps in ((one,), *((one, other) for other in self._followed(one.target, named))):
                if reading.asked in ("", steps[-1].target):
                    found.append(self._scored(reading, mention, node, steps, before))
        return sorted(found, key=lambda path: (-path.score, len(path.steps)))

    def _followed(self, kind: str, named: Set[str]) -> list[Step]:
        return [step for step in self._steps[kind] if step in self._common[kind] or step.relation in named]

    def _scored(self, reading: Reading, mention: Mention, node: int, steps: tuple[Step, ...], before: int) -> Path:
        """Relations count by how well they fit the words where they should be named, types by whether they are named.

        Read backwards from the mention: first the words of its own relation, then the type that leads to, then the
        words of the next relation.
        """
        score, used = -_HOP * (len(steps) - 1), set()
        end = mention.first
        for number, step in enumerate(steps):
            named = [one for one in reading.types if one.name == step.target and before <= one.first < end]
            start = named[-1].end if named and number + 1 < len(steps) else before
            here = [place for place in reading.words if start <= place < end]
            fits, places = self._best(reading, step.relation, here)
            score += fits / len(steps)
            used |= places
            if number + 1 < len(steps):
                score += _TYPE_NAMED if named else _TYPE_UNNAMED
                end = named[-1].first if named else end
        passed = {step.target for step in steps}
        unused = {one.name for one in reading.types if before <= one.first < mention.first and one.name not in passed}
        return Path(node, steps, round(score - _TYPE_NAMED * len(unused), 4), frozenset(used))

    def _best(self, reading: Reading, relation: str, here: Sequence[int]) -> tuple[float, set[int]]:
        """How well a relation fits the words here; else those of the whole question."""
        for weight, places in ((1.0, here), (_FARTHER, reading.words)):
            found = {place: self._fits(reading.tokens[place].low).get(relation, 0.0) for place in places}
            best = max(found.values(), default=0.0)
            if best > 0:
                return weight * best, {place for place, value in found.items() if value > 0}
        return 0.0, set()

    def _word_fits(self, word: str) -> Mapping[str, float]:
        fits = fit(singular(word), [" ".join(map(singular, name_words(name))) for name in self._relations])
        found = {name: value for name, value in zip(self._relations, fits, strict=True) if value > 0}
        verbs = {word: meant for word, meant in lexicon("en").verbs.items() if meant != "death"}  # killed, murdered
        for name in self._relations:
            abbreviated = _ABBREVIATED.fullmatch(name)
            same = word in verbs and verbs[word] in map(verbs.get, name_words(name))
            if same or (abbreviated and word.startswith(abbreviated[1])):
                found[name] = max(found.get(name, 0.0), _INITIAL)
        return found


def leftover(reading: Reading, paths: Sequence[Path]) -> str:
    """The words that name neither nodes nor types nor the relations of the paths: what a document should say."""
    used = set().union(*(path.used for path in paths))
    return reading.text([place for place in reading.words if place not in used])
