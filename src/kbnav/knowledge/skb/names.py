"""Matching names: as they are written, normalised, or with a letter or two wrong, among millions and from disk.

Normalised names, each once and sorted, are the keys: an exact or normalised match is a binary search. For a fuzzy match
a Levenshtein automaton is laid over the keys, which tantivy has in a tree: no name within the allowed edits is missed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from kbnav.errors import DataError
from kbnav.knowledge.skb.files import Strings, check_starts, open_array, reading, write_strings
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress
from kbnav.knowledge.skb.text import open_index, writing

How = Literal["exact", "normalised", "fuzzy"]

_ONE_WRONG, _TWO_WRONG = 4, 8  # letters of a key from which on so many edits are allowed
_LONGEST = 255  # letters of a key that a fuzzy match is looked for: automata grow with them
_MOST_NEAR = 10_000  # keys
_REPORT_EVERY = 50_000


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
    return 0 if length < _ONE_WRONG or length > _LONGEST else 1 if length < _TWO_WRONG else 2


def build(
    nodes: Iterable[NodeText], folder: Path, *, type_start: Sequence[int], progress: Progress = no_progress
) -> None:
    """Write the index into ``folder``, which must be empty. Needs about 1 kB of memory a name while it runs."""
    from tantivy import Document, SchemaBuilder

    names: dict[str, list[tuple[int, int]]] = {}
    for done, node in enumerate(nodes, start=1):
        for name in dict.fromkeys((node.name, *node.aliases)):
            if key := normalise(name):
                names.setdefault(key, []).append((node.number, _fingerprint(name)))
        if done % _REPORT_EVERY == 0:
            progress("names", done, type_start[-1])
    keys = sorted(names, key=str.encode)
    holders = [names[key] for key in keys]
    np.save(folder / "holders.npy", np.array([number for number, _ in chain.from_iterable(holders)], np.int32))
    np.save(folder / "written.npy", np.array([mark for _, mark in chain.from_iterable(holders)], np.uint64))
    np.save(folder / "holders-start.npy", np.cumsum([0, *map(len, holders)]))
    write_strings(folder, "keys", keys)
    builder = SchemaBuilder()
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("place", fast=True)
    with writing(folder, builder.build()) as writer:
        for place, key in enumerate(keys):
            document = Document()
            document.add_integer("place", place)
            document.add_text("key", key)
            writer.add_document(document)
    progress("names", type_start[-1], type_start[-1])


class NameIndex:
    """An open index; safe to share between threads. Use ``open`` of this module."""

    def __init__(self, folder: Path) -> None:
        self._keys = Strings(folder, "keys")
        self._key = self._keys.encoded
        self._places = range(len(self._keys))
        self._holders = open_array(folder / "holders.npy", np.int32)
        self._written = open_array(folder / "written.npy", np.uint64)
        self._holders_start = open_array(folder / "holders-start.npy", np.int64)
        index = open_index(folder)
        self._schema, self._searcher = index.schema, index.searcher()
        check_starts(folder / "holders-start.npy", self._holders_start, len(self._holders))
        if not len(self._places) == len(self._holders_start) - 1 == self._searcher.num_docs:
            raise DataError(f"{folder}: the files of the names do not fit together")

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
        types. ``edits`` is how many letters may be wrong, 2 at most: by default that goes by the name's length.
        """
        key = normalise(name)
        found: dict[int, Match] = {}
        if key:
            allowed = edits_allowed(len(key)) if edits is None else edits
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
                place = self._first(ended, low)
                if place < len(self) and self._key(place) == ended:
                    yield count, True
                if ended < longer:  # as "gene" before "genes", which is then near
                    low = place
            prefix = longer
            low = self._first(prefix, low)
            key = self._key(low) if low < len(self) else b""
            if key == prefix:
                yield count, False
            elif not key.startswith(prefix):
                return

    def _first(self, wanted: bytes, low: int = 0) -> int:
        """The first key at ``low`` or behind it that is not less: in growing steps, for it is near when ``low`` > 0."""
        size = len(self)
        step = 1 if low else size
        while low + step < size and self._key(low + step) < wanted:
            low += step
            step *= 2
        return bisect_left(self._places, wanted, low, min(low + step, size), key=self._key)

    def _equal(self, key: str, name: str) -> list[Match]:
        wanted = key.encode()  # the keys are in order of their bytes
        place = self._first(wanted)
        if place == len(self) or self._key(place) != wanted:
            return []
        held = self._held(place)
        same = self._written[held] == np.uint64(_fingerprint(name))
        numbers = self._holders[held]
        exact = [Match(number, 1.0, "exact") for number in sorted(numbers[same].tolist())]
        return exact + [Match(number, 1.0, "normalised") for number in sorted(numbers[~same].tolist())]

    def _similar(self, key: str, edits: int) -> list[Match]:
        from rapidfuzz.distance import Indel
        from tantivy import Query

        if edits < 1:
            return []
        near = Query.fuzzy_term_query(self._schema, "key", key, distance=edits, transposition_cost_one=False)
        found = self._searcher.search(near, min(_MOST_NEAR, len(self)), count=False).hits if len(self) else []
        places = self._searcher.fast_field_values("place", [address for _, address in found])
        matches = [
            Match(number, Indel.normalized_similarity(key, other), "fuzzy")
            for place in (int(one or 0) for one in places)
            if (other := self._keys[place]) != key
            for number in self._holders[self._held(place)].tolist()
        ]
        return sorted(matches, key=lambda match: (-match.score, match.number))

    def _held(self, place: int) -> slice:
        return slice(*self._holders_start[place : place + 2])


@reading("the index of names")
def open(folder: Path) -> NameIndex:
    """Open a built index, which may be read-only. Raises DataError where it is missing or damaged."""
    return NameIndex(folder)


def _fingerprint(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
