"""The names of nodes: matched as they are written, normalised, or with a few letters wrong; and found in questions.

Normalised names, each once and sorted, are the keys: an exact or normalised match is a binary search. A fuzzy match
first narrows the keys down by trigrams. A single edit changes at most three of the trigrams of a name, so two names
within ``d`` edits cannot differ in more than ``3 d`` trigrams on either side; of names whose trigrams are put in order
from rare to frequent, the first ``3 d + 1`` must therefore have one in common (the prefix filter of Xiao, Wang and Lin,
2008). Only so many are indexed of a name, the rarest. What is left is compared letter by letter by rapidfuzz; no
name within the allowed edits is missed.

Node matching takes the nodes that a question names, or else those whose documents are nearest to it (PASemiQA, 4.1.1).
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
- A plain word that 1 % of the documents have, and 20 at least, is taken behind all others where a node has just that
  name ("musician"), and else only where nothing else is found.

Of the nodes of one name those come first that have it as their name and not as another name, as it is written, and
with the most edges.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.answers.language import SCRIPTS, function_words, singular
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import load, reading
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress

if TYPE_CHECKING:
    from kbnav.knowledge.skb.store import SKB

How = Literal["exact", "normalised", "fuzzy"]

MOST_EDITS = 3
_EDITS_BY_LENGTH = ((3, 0), (7, 1), (15, 2))
"""Up to so many letters, so many edits; ``MOST_EDITS`` beyond."""

_META = "names.json"
_FORMAT = 1
_PREFIX = 3 * MOST_EDITS + 1
_MOST_REPEATS = 15  # of a trigram within a name; further ones are left out
_LONGEST = 65_535  # letters; lengths beyond are not told apart before names are compared
_KEYS_AT_ONCE = 1 << 16
_REPORT_EVERY = 50_000
_LANDMARKS = 4_096  # keys, evenly spread, that a search begins among; they are read when first needed

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]


class Match(NamedTuple):
    """A node whose name or alias matches; ``score`` is 1 for exact and normalised matches, else rapidfuzz's ratio."""

    number: int
    score: float
    how: How


def normalise(name: str) -> str:
    """The letters, digits and symbols of a name without case and accents: "Straße-Köln" and "strasse koln" are equal.

    Space goes as well, so that "IL-6", "IL 6" and "IL6" are one. A name of nothing but punctuation keeps it.
    """
    if name.isascii():  # the same, ten times as fast
        return name.lower().translate(_ASCII_PUNCTUATION) or name.lower().translate(_ASCII_SPACE)
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    # Accents and vowel points have a combining class from 10 on, marks that tell kana or Indic letters apart have not.
    marked = [char for char in folded if unicodedata.category(char)[0] not in "ZC" and unicodedata.combining(char) < 10]
    kept = [char for char in marked if unicodedata.category(char)[0] != "P"] or marked
    return unicodedata.normalize("NFC", "".join(kept))


_ASCII_SPACE = {code: None for code in range(128) if unicodedata.category(chr(code))[0] in "ZC"}
_ASCII_PUNCTUATION = {code: None for code in range(128) if unicodedata.category(chr(code))[0] in "ZCP"}


def edits_allowed(length: int) -> int:
    """How many insertions, deletions and replacements a fuzzy match may need, for a normalised name so long."""
    return next((edits for longest, edits in _EDITS_BY_LENGTH if length <= longest), MOST_EDITS)


def build(
    nodes: Iterable[NodeText], folder: Path, *, type_start: Sequence[int], progress: Progress = no_progress
) -> None:
    """Write the index into ``folder``, which must be empty. Needs about 1 kB of memory a name while it runs."""
    names: dict[str, list[tuple[int, int]]] = {}
    for done, node in enumerate(nodes, start=1):
        for name in dict.fromkeys((node.name, *node.aliases)):
            if key := normalise(name):
                names.setdefault(key, []).append((node.number, _fingerprint(name)))
        if done % _REPORT_EVERY == 0:
            progress("names", done, type_start[-1])
    keys = sorted(names, key=str.encode)
    holders = [names[key] for key in keys]
    np.save(folder / "holders.npy", np.array([n for held in holders for n, _ in held], dtype=np.int32))
    np.save(folder / "written.npy", np.array([mark for held in holders for _, mark in held], dtype=np.uint64))
    np.save(folder / "holders_start.npy", _starts(len(held) for held in holders))
    encoded = [key.encode() for key in keys]
    (folder / "keys.utf8").write_bytes(b"".join(encoded))
    np.save(folder / "keys_start.npy", _starts(map(len, encoded)))
    np.save(folder / "lengths.npy", np.array([min(len(key), _LONGEST) for key in keys], dtype=np.uint16))
    _write_trigrams(keys, folder)
    (folder / _META).write_text(json.dumps({"format": _FORMAT, "keys": len(keys)}))
    progress("names", type_start[-1], type_start[-1])


class NameIndex:
    """An open index; safe to share between threads. Use ``open`` of this module."""

    def __init__(self, folder: Path) -> None:
        keys = folder / "keys.utf8"
        self._keys = np.memmap(keys, np.uint8, "r").data if keys.stat().st_size else memoryview(b"")
        self._keys_start = _mapped(folder / "keys_start.npy")
        self._key_ends = self._keys_start.data  # the same, five times as quick to read one by one
        self._lengths = _mapped(folder / "lengths.npy")
        self._places = range(len(self._lengths))
        self._apart = 1 + len(self._lengths) // _LANDMARKS
        self._holders = _mapped(folder / "holders.npy")
        self._written = _mapped(folder / "written.npy")
        self._holders_start = _mapped(folder / "holders_start.npy")
        self._trigrams = _mapped(folder / "trigrams.npy")
        self._ranks = _mapped(folder / "ranks.npy")
        self._lists = _mapped(folder / "lists.npy")
        self._lists_start = _mapped(folder / "lists_start.npy")
        self._postings = _mapped(folder / "postings.npy")

    def __len__(self) -> int:
        """Number of different normalised names."""
        return len(self._places)

    @reading("the index of names")
    def search(
        self,
        name: str,
        *,
        limit: int = 20,
        ranges: Sequence[tuple[int, int]] | None = None,
        edits: int | None = None,
    ) -> list[Match]:
        """Nodes with such a name or alias, best first: exact, then normalised, then fuzzy by falling ratio.

        Every node comes once; equal matches are in order of numbers. ``ranges`` of node numbers keep the nodes of some
        types. ``edits`` is how many letters may be wrong: by default 0 to 3, by the name's length, and never more than
        ``MOST_EDITS`` or a third of the name.
        """
        key = normalise(name)
        found: dict[int, Match] = {}
        if key:
            # With a third of its letters wrong, no trigram of a name need be left to find it by.
            allowed = edits_allowed(len(key)) if edits is None else min(edits, MOST_EDITS, (len(key) - 1) // 3)
            for match in [*self._equal(key, name), *self._similar(key, allowed)]:
                if ranges is None or any(first <= match.number < end for first, end in ranges):
                    found.setdefault(match.number, match)
        return list(found.values())[: max(limit, 0)]

    def runs(self, words: Sequence[str], lasts: Sequence[str]) -> Iterator[tuple[int, bool]]:
        """Of how many of the first ``words``, which are normalised, there is a name; shortest first.

        ``lasts`` has another form of each word, empty where it has none, that may stand for it at a name's end; True
        where the name has that. The search goes on from prefix to prefix and ends where no name begins so.
        """
        prefix, low = b"", 0
        for count, (word, last) in enumerate(zip(words, lasts, strict=True), start=1):
            longer = prefix + word.encode()
            if last:
                ended = prefix + last.encode()
                place = self._first_from(ended, low)
                if place < len(self) and self._key(place) == ended:
                    yield count, True
                if ended < longer:  # as "gene" before "genes", which is then near
                    low = place
            prefix = longer
            low = self._first_from(prefix, low)
            key = self._key(low) if low < len(self) else b""
            if key == prefix:
                yield count, False
            elif not key.startswith(prefix):
                return

    def _first_from(self, wanted: bytes, low: int) -> int:
        """The first key at ``low`` or behind it that is not less: in growing steps, for it is near when ``low`` > 0."""
        if not low:
            return self._first(wanted)
        size, step = len(self), 1
        while low + step < size and self._key(low + step) < wanted:
            low += step
            step *= 2
        return bisect_left(self._places, wanted, low, min(low + step, size), key=self._key)

    def _first(self, wanted: bytes) -> int:
        """The first key that is not less: between two of those in memory, then by binary search over the map."""
        some = bisect_left(self._landmarks, wanted)
        low, high = max(0, some - 1) * self._apart, min(some * self._apart, len(self))
        return bisect_left(self._places, wanted, low, high, key=self._key)

    @cached_property
    def _landmarks(self) -> Sequence[bytes]:
        return [self._key(place) for place in self._places[:: self._apart]]

    def _equal(self, key: str, name: str) -> list[Match]:
        wanted = key.encode()  # the keys are in order of their bytes
        place = self._first(wanted)
        if place == len(self) or self._key(place) != wanted:
            return []
        held = slice(*self._holders_start[place : place + 2])
        same = self._written[held] == np.uint64(_fingerprint(name))
        numbers = self._holders[held]
        exact = [Match(number, 1.0, "exact") for number in sorted(numbers[same].tolist())]
        return exact + [Match(number, 1.0, "normalised") for number in sorted(numbers[~same].tolist())]

    def _key(self, place: int) -> bytes:
        return bytes(self._keys[self._key_ends[place] : self._key_ends[place + 1]])

    def _similar(self, key: str, edits: int) -> list[Match]:
        from rapidfuzz import process
        from rapidfuzz.distance import Indel, Levenshtein

        if edits < 1:
            return []
        places = self._candidates(key, edits)
        spans = zip(self._keys_start[places].tolist(), self._keys_start[places + 1].tolist(), strict=True)
        others = [bytes(self._keys[start:end]).decode() for start, end in spans]
        near = process.extract(key, others, scorer=Levenshtein.distance, score_cutoff=edits, limit=None)
        matches = [
            Match(number, Indel.normalized_similarity(key, other), "fuzzy")
            for other, distance, index in near
            if distance
            for number in self._holders[slice(*self._holders_start[places[index] : places[index] + 2])].tolist()
        ]
        return sorted(matches, key=lambda match: (-match.score, match.number))

    def _candidates(self, key: str, edits: int) -> Ints:
        """Keys of about the same length that share one of the rarest trigrams."""
        codes, repeats = _trigrams([key])[1:]
        at = np.minimum(np.searchsorted(self._trigrams, codes), max(len(self._trigrams) - 1, 0))
        known = self._trigrams[at] == codes if len(self._trigrams) else np.zeros(len(codes), dtype=bool)
        # A trigram that no name has is the rarest of all, and takes a place among the first without leading anywhere.
        wanted = 3 * edits + 1 - int((~known).sum())
        if wanted < 1:
            return np.zeros(0, dtype=np.int64)
        ids = np.sort(_list_ids(self._ranks[at[known]], repeats[known]))[:wanted]
        places = np.searchsorted(self._lists, ids)
        parts = [
            self._postings[self._lists_start[place] : self._lists_start[place + 1]]
            for place, wanted_id in zip(places.tolist(), ids.tolist(), strict=True)
            if place < len(self._lists) and self._lists[place] == wanted_id
        ]
        found: Ints = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
        lengths = self._lengths[found].astype(np.int64)
        return found[np.abs(lengths - min(len(key), _LONGEST)) <= edits]


def open(folder: Path) -> NameIndex:
    """Open a built index, which may be read-only. Raises DataError where it is missing, damaged or too new."""
    try:
        meta = json.loads((folder / _META).read_bytes())
        if int(meta["format"]) > _FORMAT:
            raise DataError(f"{folder}: name index of format {meta['format']}; this version reads {_FORMAT}")
        index = NameIndex(folder)
        if len(index) != meta["keys"]:
            raise ValueError(f"{len(index)} names, not {meta['keys']}")
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: not a name index: {error!r}") from error
    return index


def _write_trigrams(keys: Sequence[str], folder: Path) -> None:
    """Count all trigrams, then list each key under its rarest ones."""
    codes, counts = _counted(keys)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[np.lexsort((codes, counts))] = np.arange(len(codes))
    parts = []
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        owners, trigrams, repeats = _trigrams(keys[first : first + _KEYS_AT_ONCE])
        ids = _list_ids(ranks[np.searchsorted(codes, trigrams)], repeats)
        order = np.lexsort((ids, owners))
        owners, ids = owners[order], ids[order]
        starts = np.searchsorted(owners, np.arange(owners[-1] + 2))
        rarest = np.arange(len(owners)) - starts[owners] < _PREFIX
        parts.append((ids[rarest], (owners[rarest] + first).astype(np.int32)))
    ids = np.concatenate([np.zeros(0, dtype=np.int64), *(ids for ids, _ in parts)])
    owners = np.concatenate([np.zeros(0, dtype=np.int32), *(owners for _, owners in parts)])
    order = np.argsort(ids, kind="stable")
    lists, first_of = np.unique(ids[order], return_index=True)
    np.save(folder / "trigrams.npy", codes)
    np.save(folder / "ranks.npy", ranks)
    np.save(folder / "lists.npy", lists)
    np.save(folder / "lists_start.npy", np.append(first_of, len(ids)).astype(np.int64))
    np.save(folder / "postings.npy", owners[order])


def _counted(keys: Sequence[str]) -> tuple[Codes, Ints]:
    """Every trigram, sorted by code, with how often it occurs."""
    codes: Codes = np.zeros(0, dtype=np.uint64)
    counts: Ints = np.zeros(0, dtype=np.int64)
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        new, occurring = np.unique(_codes(keys[first : first + _KEYS_AT_ONCE])[1], return_counts=True)
        codes, where = np.unique(np.concatenate([codes, new]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([counts, occurring])).astype(np.int64)
    return codes, counts


def _codes(keys: Sequence[str]) -> tuple[Ints, Codes]:
    """The trigrams of keys, one for each letter with its neighbours: the number of its key, and a code.

    The ends of a key count as a letter 0, so that a key has as many trigrams as letters.
    """
    joined = np.frombuffer(("\0".join(keys) + "\0").encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    letters = np.concatenate([np.zeros(1, np.uint64), joined])
    codes = (letters[:-2] << np.uint64(42)) | (letters[1:-1] << np.uint64(21)) | letters[2:]
    middle = letters[1:-1] != 0
    owners = np.cumsum(~middle)
    return owners[middle].astype(np.int64), codes[middle]


def _trigrams(keys: Sequence[str]) -> tuple[Ints, Codes, Ints]:
    """Owners, codes, and how often the trigram came before in the same key, which tells all trigrams of a key apart."""
    owners, codes = _codes(keys)
    order = np.lexsort((codes, owners))
    owners, codes = owners[order], codes[order]
    new = np.ones(len(codes), dtype=bool)
    new[1:] = (owners[1:] != owners[:-1]) | (codes[1:] != codes[:-1])
    begun = np.maximum.accumulate(np.where(new, np.arange(len(codes)), 0))
    repeats = np.arange(len(codes)) - begun
    few = repeats <= _MOST_REPEATS
    return owners[few], codes[few], repeats[few]


def _list_ids(ranks: Ints, repeats: Ints) -> Ints:
    """One number for a trigram and its repeat; in order from rare to frequent."""
    return ranks * (_MOST_REPEATS + 1) + repeats


def _fingerprint(name: str) -> int:
    """64 bits that tell ways of writing a name apart without storing them."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _starts(lengths: Iterable[int]) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.fromiter(lengths, dtype=np.int64))])


def _mapped(path: Path) -> npt.NDArray[Any]:
    """The array as a plain view of the mapped file, which is quicker to index than a memmap object."""
    return np.asarray(load(path))


Variant = Literal["exact", "embedding", "hybrid"]
"""By name, by embedding, or by name and where that finds nothing by embedding (PASemiQA, Table 5)."""

NEAREST = 5
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

    def __init__(self, skb: SKB, variant: Variant = "hybrid", *, nearest: int = NEAREST) -> None:
        """``nearest`` is how many nodes are taken by embedding.

        Raises UsageError where the SKB lacks the index that the variant cannot do without: names for ``exact`` and
        ``hybrid``, vectors for ``embedding``. ``hybrid`` without vectors is ``exact``.
        """
        if variant != "embedding" and skb.names is None:
            raise UsageError(f"{skb.meta.name} was built without names, which node matching by name needs")
        if variant == "embedding" and skb.vectors is None:
            raise UsageError(f"{skb.meta.name} was built without vectors, which node matching by embedding needs")
        self._skb = skb
        self._variant = variant
        self._nearest = nearest
        self._kinds = frozenset(normalise(part) for kind in skb.type_names for part in kind.split("/"))

    def match(self, question: str) -> tuple[MatchedNode, ...]:
        """The nodes of a question, each once, in its order; those by embedding by falling cosine."""
        found: list[MatchedNode] = []
        if self._variant != "embedding" and self._skb.names is not None:
            found = self._named(question, self._skb.names)
        if self._variant != "exact" and not found and self._skb.vectors is not None and question.strip():
            near = self._skb.vectors.search(question, limit=self._nearest)
            found = [MatchedNode(*self._entity(number), "embedding", score) for number, score in near]
        once: dict[str, MatchedNode] = {}
        for node in found:
            if node.id not in once or (node.sure and not once[node.id].sure):
                once[node.id] = node
        return tuple(once.values())

    def _named(self, question: str, names: NameIndex) -> list[MatchedNode]:
        sure: list[tuple[_Span, list[Match]]] = []
        common: list[tuple[_Span, list[Match]]] = []
        for span in sorted(_spans(question, names), key=lambda one: (-one.size, one.words[0].start)):
            if any(_overlap(span, other) for other, _ in sure):
                continue
            matches = self._meant(span, names)
            if matches:
                (common if self._is_common(span) else sure).append((span, matches))
        taken = sorted(sure, key=lambda one: one[0].words[0].start)
        named = [(span, kept) for span, matches in common if (kept := [one for one in matches if one.how == "exact"])]
        taken += sorted(named if sure else common, key=lambda one: one[0].words[0].start)
        quoting = any(span.quoted for span, _ in taken)
        return [
            MatchedNode(
                *self._entity(match.number),
                "exact" if match.how == "exact" else "normalised",
                start=span.words[0].start,
                end=span.words[-1].end,
                text=span.text,
                sure=not quoting or span.quoted or not span.small,
            )
            for span, matches in taken
            for match in matches
        ]

    def _meant(self, span: _Span, names: NameIndex) -> list[Match]:
        """The nodes of a name, none where the span does not mean it."""
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
        matches.sort(key=lambda match: self._order(match, "".join(span.keys)))
        return matches[:MOST_OF_ONE_NAME]

    def _order(self, match: Match, key: str) -> tuple[bool, bool, int]:
        other = normalise(str(self._skb.nodes.names[match.number])) != key
        return match.how != "exact", other, -self._skb.graph.degree(match.number)

    def _is_short(self, node: int, key: str) -> bool:
        """Whether all names by which a node was found are abbreviations."""
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
        return self._skb.id(number), self._skb.nodes.label(number), self._skb.type_name(number)


def in_small_letters(text: str) -> bool:
    """Whether words are written as mere words are, and not as most names: letters alone, none of them a capital."""
    return text.islower() and "".join(text.split()).isalpha()


def unmatched_names(question: str, found: Sequence[MatchedNode]) -> list[str]:
    """What a question writes as a name, in quotation marks or with capitals, and no node was found by; in its order.

    One word that begins a sentence has its capital from there, and is no name.
    """
    taken = [(node.start, node.end) for node in found if node.end]
    quoted = [match.span(1) for match in _QUOTED.finditer(question)]
    spans = sorted(quoted + [span for span in _capitalised(question) if not _within(span, quoted)])
    return [question[start:end] for start, end in spans if not _within((start, end), taken)]


def _within(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether a part of the text overlaps one of others."""
    return any(start < span[1] and span[0] < end for start, end in others)


def _capitalised(question: str) -> Iterator[tuple[int, int]]:
    """Where words with capitals follow each other, short ones such as "of" between them."""
    run: list[re.Match[str]] = []
    inside: list[re.Match[str]] = []
    for word in _WORD.finditer(question):
        last = [*run, *inside][-1:]
        if last and question[last[0].end() : word.start()].strip():  # a comma or a full stop ends a name
            yield from _name_of(question, run)
            run, inside = [], []
        if word[0][0].isupper():
            run, inside = [*run, *inside, word], []
        elif run and word[0] in _INSIDE:
            inside.append(word)
        else:
            yield from _name_of(question, run)
            run, inside = [], []
    yield from _name_of(question, run)


def _name_of(question: str, run: Sequence[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """The name that a run of words is, without words such as "Which" before it; none, where nothing is left."""
    kept = list(run)
    begins = bool(kept) and question[: kept[0].start()].rstrip()[-1:] in ("", ".", "!", "?", ":")
    while kept and normalise(kept[0][0]) in function_words("en"):
        kept, begins = kept[1:], False
    if kept and not (begins and len(kept) == 1) and len(normalise(question[kept[0].start() : kept[-1].end()])) > 1:
        yield kept[0].start(), kept[-1].end()


def _spaced(text: str) -> tuple[str, ...]:
    """The parts of a text between spaces, normalised."""
    return tuple(normalise(part) for part in text.split())


def _spans(question: str, names: NameIndex) -> Iterator[_Span]:
    """Every span of the question that spells a name."""
    words = list(_words(question))[:_LONGEST_QUESTION]
    keys, lasts = [word.key for word in words], [word.last for word in words]
    for first, word in enumerate(words):
        for count, by_last in names.runs(keys[first:], lasts[first:]):
            spanned = words[first : first + count]
            end = spanned[-1]
            last, ending = (end.last, end.last) if by_last else (end.key, end.text)
            text = question[word.start : end.start] + ending
            spelled = (*keys[first : first + count - 1], last)
            yield _Span(spanned, text, spelled, _is_quoted(question, word.start, end.end), first == 0)


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


def _is_quoted(question: str, start: int, end: int) -> bool:
    before, behind = question[:start].rstrip(), question[end:].lstrip()
    closing = _QUOTES.get(before[-1:], "")
    return bool(closing) and behind.lstrip(".,!?;:")[:1] in tuple(closing)


def _overlap(one: _Span, other: _Span) -> bool:
    return one.words[0].start < other.words[-1].end and other.words[0].start < one.words[-1].end
