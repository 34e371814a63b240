"""The real slice of Wikidata grown to a size: what ``benchmarks/growth.py`` builds mirrors of.

A copy holds every item, statement, value, reference and page of the slice under a fresh id; properties are there once.
Values and languages stay as they are. Of a name a copy keeps the first half, and the second is that of another name in
the same language, so words stay as common as they are and whole names do not. The copies of identifiers differ.

An item that others point at often is a hub. Wikidata's hubs grow with the square root of its size: in copy k (from 1)
that share of the items which makes it so, ``sqrt(k + 1) - sqrt(k)``, points at the hubs of the slice itself, the
others at the copy's own. One draw decides for all links of an item.

Nothing is made for each triple: the slice is cut once into pieces that stay and pieces that change, and a copy is these
joined. N-Triples come out in blocks of some ten thousand lines. A seed gives the same bytes each time.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

HUB = 20
"""Links to an item from which on it is a hub."""
_MARK = b"\x01"
"""What stands in a piece for the number of the copy, which has three digits."""
_BLOCK = 50_000
_ENTITY = b"<http://www.wikidata.org/entity/"
_ITEM = re.compile(rb"<http://www\.wikidata\.org/entity/(Q\d+)>")
_NAMES = (b"<http://www.w3.org/2000/01/rdf-schema#label>", b"<http://www.w3.org/2004/02/skos/core#altLabel>")
_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*)"@([a-zA-Z-]+) \.\n')
_IDENTIFIER = re.compile(rb'"(?=[^" ]*\d)([^" \\]+)" \.\n')
_FRESH = (
    (re.compile(rb"(<http://www\.wikidata\.org/entity/statement/)"), b"\\g<1>c\x01-"),
    (re.compile(rb"(<http://www\.wikidata\.org/(?:value|reference)/)..."), b"\\g<1>\x01"),
    (re.compile(rb"(<https?://[\w.-]+\.org/wiki/[^> ]+)>"), b"\\g<1>_\x01>"),
    (re.compile(rb"(_:\w+)"), b"\\g<1>x\x01"),
)


class Grown:
    """The slice, ready to be copied."""

    def __init__(self, sources: Sequence[Path], seed: int = 1) -> None:
        self._seed = seed
        links: Counter[bytes] = Counter()
        owners: dict[bytes, bytes] = {}
        lines: dict[bytes, None] = {}
        for source in sources:
            with gzip.open(source) as file:
                for line in file:
                    lines[line] = None
        self.original = list(lines)
        del lines
        for line in self.original:
            subject, predicate, value = line.split(b" ", 2)
            if _ITEM.fullmatch(subject):
                if b"/prop/direct/" in predicate and (found := _ITEM.match(value)):
                    links[found[1]] += 1
                elif b"/prop/P" in predicate:
                    owners[value[:-3]] = subject
        hubs = {item for item, count in links.items() if count >= HUB}
        numbers: dict[bytes, int] = {}
        self._pieces: list[list[bytes]] = []
        changes: list[list[tuple[int, int, bytes, bytes]]] = []
        tails: dict[bytes, list[bytes]] = {}
        self.copied = 0

        def fresh(item: bytes) -> bytes:
            return b"%sQ2\x01%06d>" % (_ENTITY, numbers.setdefault(item, len(numbers)))

        block: list[bytes] = []
        here: list[tuple[int, int, bytes, bytes]] = []
        kept = b""
        for line in self.original:
            subject, predicate, value = line.split(b" ", 2)
            if subject.startswith(b"<http://www.wikidata.org/entity/P"):
                continue
            self.copied += 1
            owner = owners.get(subject, subject)
            number = numbers.setdefault(owner, len(numbers))
            found = _ITEM.fullmatch(subject)
            start = b"%s %s " % (fresh(found[1]) if found else _renamed(subject), predicate)
            if found := _ITEM.match(value):
                own = fresh(found[1]) + b" .\n"
                if found[1] in hubs:
                    block += (kept + start, b"")
                    here.append((len(block) - 1, number, value, own))
                    kept = b""
                else:
                    kept += start + own
            elif predicate in _NAMES and (text := _TEXT.fullmatch(value)):
                cut = _middle(text[1])
                block += (kept + start + b'"' + text[1][:cut], b"")
                kept = b'"@' + text[2] + b" .\n"
                tails.setdefault(text[2], []).append(text[1][cut:])
                here.append((len(block) - 1, -1, text[2], b""))
            elif b"/prop/" in predicate and (text := _IDENTIFIER.fullmatch(value)):
                kept += start + b'"' + text[1] + _MARK + b'" .\n'
            else:
                kept += start + _renamed(value)
            if len(block) >= _BLOCK or len(kept) > 1 << 20:
                block.append(kept)
                self._pieces.append(block)
                changes.append(here)
                block, here, kept = [], [], b""
        block.append(kept)
        self._pieces.append(block)
        changes.append(here)
        self.items, self._hubs = len(numbers), []
        pools = {language: np.array(some, dtype=object) for language, some in tails.items()}
        self._names: list[list[tuple[np.ndarray, np.ndarray]]] = []
        for here in changes:
            linked = [one for one in here if one[1] >= 0]
            self._hubs.append(
                (
                    [one[0] for one in linked],
                    np.array([one[1] for one in linked], dtype=np.int64),
                    np.array([one[2] for one in linked], dtype=object),
                    np.array([one[3] for one in linked], dtype=object),
                )
            )
            named: dict[bytes, list[int]] = {}
            for place, number, language, _ in here:
                if number < 0:
                    named.setdefault(language, []).append(place)
            self._names.append([(np.array(places), pools[language]) for language, places in sorted(named.items())])

    def blocks(self, triples: int) -> Iterator[bytes]:
        """N-Triples of about so many triples: the slice, then whole copies, the last one cut."""
        for begin in range(0, len(self.original), _BLOCK):
            yield b"".join(self.original[begin : begin + _BLOCK])
        left, copy = triples - len(self.original), 1
        while left > 0:
            for data in self._copy(copy):
                lines = data.count(b"\n")
                if lines > left:
                    yield b"".join(data.splitlines(keepends=True)[:left])
                    return
                left -= lines
                yield data
            copy += 1

    def _copy(self, copy: int) -> Iterator[bytes]:
        draws = np.random.default_rng((self._seed, copy))
        to_slice = draws.random(self.items) < (copy + 1) ** 0.5 - copy**0.5
        number = b"%03d" % copy
        for block, hubs, names in zip(self._pieces, self._hubs, self._names, strict=True):
            pieces = list(block)
            places, owners, originals, own = hubs
            for place, piece in zip(places, np.where(to_slice[owners], originals, own).tolist(), strict=True):
                pieces[place] = piece
            for where, pool in names:
                tails = pool[draws.integers(len(pool), size=len(where))].tolist()
                for place, piece in zip(where.tolist(), tails, strict=True):
                    pieces[place] = piece
            yield b"".join(pieces).replace(_MARK, number)


def _renamed(term: bytes) -> bytes:
    """The copy's own statement, value, reference, page or blank node; anything else as it is."""
    if term[:1] in b"<_":
        for pattern, to in _FRESH:
            term = pattern.sub(to, term, count=1)
    return term


def _middle(text: bytes) -> int:
    """Where a name is cut: at the space next to its middle, else there, between two whole characters."""
    half = len(text) // 2
    spaces = [place for place, one in enumerate(text) if one == 0x20]
    if spaces:
        return min(spaces, key=lambda place: abs(place - half))
    if b"\\" in text:
        return len(text)
    while 0 < half < len(text) and text[half] & 0xC0 == 0x80:
        half += 1
    return half
