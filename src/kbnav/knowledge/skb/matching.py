"""Node matching: the nodes that a question names, or else those whose documents are nearest to it (PASemiQA, 4.1.1).

Names and question are normalised; an English plural in lower case at a name's end is tried in the singular too. Of
names that overlap the longest is taken, and of one name all nodes. Not every word that is somewhere a name is one here:

- A span of function words ("the", "it", "which one") or of numbers, and a single character, must stand in quotation
  marks; function words may also be written just like the name, each with a capital ("The Who").
- A plain word, that is one in lower case or at the question's beginning, is no abbreviation: "set" is not the gene SET,
  nor "act" the Australian Capital Territory by its alias ACT, though "tp53" is TP53. It is no name where it is that of
  a node type ("gene"). A function word is no plural ("was" is not WA).
- Words with space between them are no name that is written without, unless it has a digit: "genes is" is not the gene
  GENESIS, though "IL 6" is IL6.
- Where a question puts names in quotation marks, words in small letters that stand in none are not ``sure`` to be one:
  in 'notions that are sorts of "trait"' the word "sorts" may be a mere word.
- A plain word that 1 % of the documents have, and 20 at least, is a common one ("musician"), and is taken only where
  nothing else is found.

Of the nodes of one name those come first that have it as their name and not as another name, as it is written, and
with the most edges.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kbnav.answers.language import SCRIPTS, function_words, singular
from kbnav.errors import UsageError
from kbnav.knowledge.skb.names import Match, NameIndex, normalise
from kbnav.knowledge.skb.store import SKB

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
