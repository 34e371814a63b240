"""Node matching: the nodes that a question names, or else those whose documents are nearest to it (PASemiQA, 4.1.1).

Names and question are normalised; of names that overlap the longest is taken, and of one name all nodes. Not every word
that is somewhere a name is one here: docs/planners.md says which are not.

Of the nodes of one name those come first that have it as their name and not as another name, as it is written, and
with the most edges.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Literal

from kbnav.answers.language import SCRIPTS, fold, function_words, lexicon, singular
from kbnav.answers.relevance import fit
from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.schema import Meta
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import Match, NameIndex, normalise

Variant = Literal["exact", "embedding", "hybrid"]
"""By name, by embedding, or by name and where that finds nothing by embedding (PASemiQA, Table 5)."""

_ALIKE = 5
"""Nodes that are taken of those spelled alike."""
NEAREST = 10
"""Nodes that are taken by embedding, unless said otherwise."""
COMMON, COMMON_AT_LEAST = 0.01, 20
"""The share and the number of documents from which on a plain word is a common one."""
MOST_OF_ONE_NAME = 50
"""Nodes that are kept of one ambiguous name: as it is written first, then those with the most edges."""
_LONGEST_QUESTION = 500
"""Words that are read."""
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,80})[\"“”»]")
_WORD = re.compile(r"\w[\w’'-]*")
_INSIDE = frozenset(["of", "the", "de", "la", "von", "van", "der", "den", "del", "di", "du"])
"""Words in lower case that a name may have between others."""
_GAP = re.compile(r"\s+\w")
_NAME = re.compile(r"(?:(?<=F )(?:i )+)?A(?:(?: [fi])* [AF])*")
"""A name in a text of a letter a word: with a capital (F: a function word), inside of a name (f: one), or another."""
_QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "‘": "’", "'": "'"}
_UNSPACED = re.compile(f"[{SCRIPTS['han']}{SCRIPTS['ja']}{SCRIPTS['th']}]")


@dataclass(frozen=True)
class MatchedNode:
    """A node of the question. ``start`` and ``end`` are the characters that name it; both 0 where none do.

    ``how`` says whether the name is written so, is equal when normalised, or whether the document is near; ``score`` is
    then the cosine, else 1.
    """

    id: str
    label: str
    kind: str
    how: Literal["exact", "normalised", "embedding"]
    score: float = 1.0
    start: int = 0
    end: int = 0
    text: str = ""
    """What names it, as the question has it."""
    sure: bool = True
    """False where it may be mere words: in small letters, and in no quotation marks while other names are."""
    common: bool = False
    """Whether a common word names it, as nothing else was found."""


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int
    key: str
    last: str
    """The key of its singular, empty where it has none."""


@dataclass(frozen=True)
class _Span:
    words: Sequence[_Word]
    text: str
    """As in the question, its last word in the singular where the name has that."""
    keys: tuple[str, ...]
    """The words of ``text``, normalised."""
    quoted: bool
    first: bool
    """Whether the question begins with it."""

    @property
    def plain(self) -> bool:
        """One word in lower case; the question's first word is read as if it were."""
        return len(self.words) == 1 and (self.text.islower() or (self.first and self.text.istitle()))

    @property
    def small(self) -> bool:
        """Whether it is ``in_small_letters``; the question's first word is read as if it were."""
        return in_small_letters(self.text[:1].lower() + self.text[1:] if self.first else self.text)

    @property
    def size(self) -> int:
        """Characters of the normalised name, by which spans that overlap are compared."""
        return sum(map(len, self.keys))


class NodeMatcher:
    """Finds the nodes of questions in one SKB; safe to share between threads."""

    def __init__(
        self, skb: SKB, variant: Variant = "hybrid", *, nearest: int = NEAREST, common_too: bool = False
    ) -> None:
        """``nearest`` is how many nodes are taken by embedding; ``common_too``: common words are names beside others.

        Raises UsageError where the SKB lacks the index that the variant cannot do without: names for ``exact`` and
        ``hybrid``, vectors for ``embedding``. ``hybrid`` without vectors is ``exact``.
        """
        if variant != "embedding" and skb.names is None:
            raise UsageError(f"{skb.meta.name} was built without names, which node matching by name needs")
        if variant == "embedding" and skb.vectors is None:
            raise UsageError(f"{skb.meta.name} was built without vectors, which node matching by embedding needs")
        self._skb = skb
        self._variant = variant
        self._nearest, self._common_too = nearest, common_too
        self._kinds = frozenset(normalise(part) for kind in skb.type_names for part in kind.split("/"))

    def match(self, question: str) -> tuple[MatchedNode, ...]:
        """The nodes of a question, each once, in its order; those by embedding by falling cosine."""
        found: list[MatchedNode] = []
        if self._variant != "embedding" and self._skb.names is not None:
            found = self._exact_matches(question, self._skb.names)
        if self._variant != "exact" and not found and self._skb.vectors is not None and question.strip():
            near = self._skb.vectors.search(question, limit=self._nearest)
            found = [MatchedNode(*self._entity(number), "embedding", score) for number, score in near]
        once: dict[str, MatchedNode] = {}
        for node in found:
            if node.id not in once or (node.sure and not once[node.id].sure):
                once[node.id] = node
        return tuple(once.values())

    def _exact_matches(self, question: str, names: NameIndex) -> list[MatchedNode]:
        sure: list[tuple[_Span, list[Match]]] = []
        common: list[tuple[_Span, list[Match]]] = []
        for span in sorted(_spans(question, names), key=lambda one: (-one.size, one.words[0].start)):
            taken = [(other.words[0].start, other.words[-1].end) for other, _ in sure]
            if _within((span.words[0].start, span.words[-1].end), taken):
                continue
            matches = self._candidates(span, names)
            if matches:
                (common if not self._common_too and self._is_common(span) else sure).append((span, matches))
        found = sorted(sure, key=lambda one: one[0].words[0].start)
        found = found or sorted(common, key=lambda one: one[0].words[0].start)
        quoting = any(span.quoted for span, _ in found)
        return [
            MatchedNode(
                *self._entity(match.number),
                "exact" if match.how == "exact" else "normalised",
                start=span.words[0].start,
                end=span.words[-1].end,
                text=span.text,
                sure=not quoting or span.quoted or not span.small,
                common=not sure,
            )
            for span, matches in found
            for match in matches
        ]

    def _candidates(self, span: _Span, names: NameIndex) -> list[Match]:
        if not span.quoted and (
            span.size < 2
            or all(key.isdecimal() for key in span.keys)
            or (span.plain and {span.words[0].key, *span.keys} & self._kinds)
        ):
            return []
        matches = names.search(span.text, limit=len(self._skb.nodes), edits=0)
        if not span.quoted and function_words("en").issuperset(span.keys):
            titled = len(span.words) > 1 and all(word.text.istitle() for word in span.words)
            matches = [match for match in matches if titled and match.how == "exact"]
        if span.plain and not span.quoted:
            key = "".join(span.keys)
            matches = [match for match in matches if match.how == "exact" or not self._is_short(match.number, key)]
        if re.search(r"\s", span.text) and not re.search(r"\d", span.text):
            matches = [match for match in matches if match.how == "exact" or self._is_spaced_so(match.number, span)]

        def order(match: Match) -> tuple[bool, bool, int]:
            other = normalise(str(self._skb.nodes.names[match.number])) != "".join(span.keys)
            return match.how != "exact", other, -self._skb.graph.degree(match.number)

        return sorted(matches, key=order)[:MOST_OF_ONE_NAME]

    def _is_short(self, node: int, key: str) -> bool:
        found = [name for name in self._names(node) if normalise(name) == key]
        return all(name.isupper() and not any(char.isdecimal() for char in name) for name in found)

    def _is_spaced_so(self, node: int, span: _Span) -> bool:
        spaced = {span.keys, _spaced(span.text)}  # "Parkinsons disease" is Parkinson's disease
        forms = ({tuple(word.key for word in _words(name)), _spaced(name)} for name in self._names(node))
        return any(not spaced.isdisjoint(form) for form in forms)

    def _names(self, node: int) -> tuple[str, ...]:
        return str(self._skb.nodes.names[node]), *self._skb.nodes.aliases(node)

    def _is_common(self, span: _Span) -> bool:
        text = self._skb.text
        if text is None or span.quoted or not span.plain:
            return False
        return text.holders(span.text) >= max(COMMON * text.nodes, COMMON_AT_LEAST)

    def _entity(self, number: int) -> tuple[str, str, str]:
        return self._skb.id(number), self._skb.name(number), self._skb.type(number)


def in_small_letters(text: str) -> bool:
    """Whether words are written as mere words are, and not as most names: letters alone, none of them a capital."""
    return text.islower() and "".join(text.split()).isalpha()


def unmatched_names(question: str, found: Sequence[MatchedNode]) -> list[str]:
    """What a question writes as a name and no node has, in order; a sentence's first word alone is none."""
    taken = [(node.start, node.end) for node in found if node.end]
    quoted = [match.span(1) for match in _QUOTED.finditer(question)]
    spans = sorted(quoted + [span for span in _capitalised(question) if not _within(span, quoted)])
    return [question[start:end] for start, end in spans if not _within((start, end), taken)]


def alike(name: str, skb: SKB) -> list[int]:
    """The nodes that are spelled nearly as a name; those with other numbers are not: "Lamp 4" is not "Lamp 72"."""
    matches = skb.names.search(name, limit=_ALIKE) if skb.names else []
    numbers = re.findall(r"\d+", name)
    return [one.number for one in matches if re.findall(r"\d+", str(skb.nodes.names[one.number])) == numbers]


def _within(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)


def _capitalised(question: str) -> Iterator[tuple[int, int]]:
    """Where words with capitals follow each other, short ones such as "of" between them; "Which" begins no name."""
    words = [*_WORD.finditer(question)]
    kinds = ""
    for word in words:
        capital, small = ("F", "f") if normalise(word[0]) in function_words("en") else ("A", "i")
        kinds += capital if word[0][0].isupper() else small if word[0] in _INSIDE else "x"
        kinds += " " if _GAP.match(question, word.end()) else "|"  # a comma or a full stop ends a name
    for run in _NAME.finditer(kinds):
        start, end = words[run.start() // 2].start(), words[run.end() // 2].end()
        begins = question[:start].rstrip()[-1:] in ("", ".", "!", "?", ":")
        if not (begins and len(run[0]) == 1) and len(normalise(question[start:end])) > 1:
            yield start, end


def _spaced(text: str) -> tuple[str, ...]:
    return tuple(normalise(part) for part in text.split())


def _spans(question: str, names: NameIndex) -> Iterator[_Span]:
    words = list(_words(question))[:_LONGEST_QUESTION]
    keys, lasts = [word.key for word in words], [word.last for word in words]
    for first, word in enumerate(words):
        for count, by_last in names.runs(keys[first:], lasts[first:]):
            spanned = words[first : first + count]
            end = spanned[-1]
            last, ending = (end.last, end.last) if by_last else (end.key, end.text)
            text = question[word.start : end.start] + ending
            spelled = (*keys[first : first + count - 1], last)
            closing = _QUOTES.get(question[: word.start].rstrip()[-1:], "")
            behind = question[end.end :].lstrip().lstrip(".,!?;:")[:1]
            yield _Span(spanned, text, spelled, bool(closing) and behind in tuple(closing), first == 0)


def _words(question: str) -> Iterator[_Word]:
    """Runs of what ``normalise`` keeps; in scripts that have no space, each character."""
    start = 0
    for place, char in enumerate(f"{question} "):
        kept = unicodedata.category(char)[0] not in "ZCP"
        alone = kept and not char.isascii() and _UNSPACED.match(char) is not None
        if start < place and (not kept or alone):
            yield _word(question, start, place)
        if alone:
            yield _word(question, place, place + 1)
        if not kept or alone:
            start = place + 1


def _word(question: str, start: int, end: int) -> _Word:
    text = question[start:end]
    key = normalise(text)
    other = singular(text) if text.islower() and text.isascii() and key not in function_words("en") else text
    return _Word(text, start, end, key, normalise(other) if other != text else "")


# What a question says: the nodes it names, the types, the other words

_TOKEN = re.compile(r"[^\s\"“”„«»]+")
_EDGES = ".,;:!?()[]{}'’‘<>"
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_DIGIT, _NUMBER = re.compile(r"\d"), re.compile(r"0|[1-9]\d*")
_POSSESSIVE = re.compile("(?<=.)['’]s$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLURALS = ("e", "en", "n", "nen", "s")
"""Endings of German nouns."""
_TOKENS = 200
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
    tokens = tuple(islice(_tokens(question), _TOKENS))
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
    for at, one in enumerate(mentions):  # "order 12" is one name, and "order B-2" where nothing else is said
        kind = next((kind for kind in types if kind.end == one.first), None)
        nodes = tuple(node for node in one.nodes if kind and skb.type(node) == kind.name)
        if kind and nodes and (one.text.isdecimal() or not (words or mentions[1:])):
            mentions[at] = replace(one, first=kind.first, nodes=nodes)
            types.remove(kind)
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
        node = skb.nodes.ids.find(token.text) if _DIGIT.search(token.text) else -1
        typed = (one.name for one in types if one.end == place)  # "lamp 12"; elsewhere 12 is a number, and 012 none
        taken = any(first <= place < end for first, end in named)
        if node >= 0 and not taken and (not _NUMBER.fullmatch(token.text) or skb.type(node) in typed):
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
