"""Matching names: as they are written, normalised, or with a few letters wrong, among millions and from disk.

Normalised names, each once and sorted, are the keys: an exact or normalised match is a binary search. A fuzzy match
first narrows the keys down by trigrams. A single edit changes at most three of the trigrams of a name, so two names
within ``d`` edits cannot differ in more than ``3 d`` trigrams on either side; of names whose trigrams are put in order
from rare to frequent, the first ``3 d + 1`` must therefore have one in common (the prefix filter of Xiao, Wang and Lin,
2008). Only so many are indexed of a name, the rarest. What is left is compared letter by letter by rapidfuzz; no
name within the allowed edits is missed.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError
from kbnav.knowledge.skb.files import load, reading
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress

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
    codes: Codes = np.zeros(0, dtype=np.uint64)
    counts: Ints = np.zeros(0, dtype=np.int64)
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        new, occurring = np.unique(_codes(keys[first : first + _KEYS_AT_ONCE])[1], return_counts=True)
        codes, where = np.unique(np.concatenate([codes, new]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([counts, occurring])).astype(np.int64)
    return codes, counts


def _codes(keys: Sequence[str]) -> tuple[Ints, Codes]:
    """The trigrams of keys, whose ends count as a letter 0: for each letter the number of its key, and a code."""
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
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _starts(lengths: Iterable[int]) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.fromiter(lengths, dtype=np.int64))])


def _mapped(path: Path) -> npt.NDArray[Any]:
    """The array as a plain view of the mapped file, which is quicker to index than a memmap object."""
    return np.asarray(load(path))
