"""What of a dump is taken: items by their links, texts by language, statements by the kind of their property.

A dump is read once. It is a sequence of entities, each the lines of N-Triples from its own first one to the next
entity's. An item's links may lead over classes that come later. Once all classes above one have been seen it is decided
for good, and nearly all items are decided where they stand; the lines of the others are put aside until the end. What
is kept in memory are the links of one property between items, a bit for each item, and a filter of fixed size.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import compress, decompress

from kbnav.errors import UsageError
from kbnav.knowledge.wikidata.mirror import vocabulary as v

_LINK = re.compile(r"(?:(P[1-9]\d*)|(?:(P[1-9]\d*)/)?(P[1-9]\d*)\*)=(Q[1-9]\d*)")
_TEXTS = {str(one).encode() for one in (v.RDFS_LABEL, v.ALT_LABEL, v.DESCRIPTION)} | {
    b"<http://www.w3.org/2004/02/skos/core#prefLabel>",
    f"<{v.SCHEMA}name>".encode(),
}
_LANGUAGE = re.compile(rb'"@([A-Za-z0-9-]+)\s*\.\s*$')
_PROPERTY = re.compile(rb"/prop/(?:[a-z-]+/)*(P\d+)>$")
_EXTERNAL = f"<{v.WIKIBASE}ExternalId>".encode()
_TYPE = str(v.PROPERTY_TYPE).encode()
_NEEDED_BITS = 1 << 28
"""Of the filter that tells which value and reference nodes are needed; one too many does no harm."""
ITEMS, IDENTIFIERS, NODES = "items", "identifiers", "nodes"
_IDS, _ARTICLES = "external-ids", {"scholarly-articles": "P31/P279*=Q13442814"}


@dataclass(frozen=True)
class Link:
    """To ``item`` by the property ``first``, if it is given, and then by ``again``, if it is, any number of times."""

    first: str
    again: str
    item: int


def parse_link(text: str) -> Link:
    """A link as in ``P31=Q5``, ``P31/P279*=Q5`` or ``P279*=Q5``. Raises UsageError."""
    if not (match := _LINK.fullmatch(text)):
        raise UsageError(f"{text!r}: links are written as P31=Q5 or P31/P279*=Q5")
    return Link(match[1] or match[2] or "", match[3] or "", int(match[4][1:]))


@dataclass(frozen=True)
class Chosen:
    """What is taken; nothing said: all. Properties are always taken, lexemes where no link is asked for."""

    keep: Sequence[Link] = ()
    """An item is taken that has one of these links."""
    without: Sequence[Link] = ()
    """An item is left out that has one of these."""
    languages: Sequence[str] = ()
    external_ids: bool = True

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.keep or self.without or self.languages or not self.external_ids)


def parse_chosen(keep: Iterable[str], without: Iterable[str], languages: Sequence[str]) -> Chosen:
    """What is asked for in words: links, ``external-ids``, ``scholarly-articles``. Raises UsageError."""
    left_out = list(without)
    links = [parse_link(_ARTICLES.get(one, one)) for one in left_out if one != _IDS]
    return Chosen([*map(parse_link, keep)], links, languages, _IDS not in left_out)


class Filter:
    """Lines of N-Triples go in as a dump has them, those that are taken come out.

    ``shared_nodes``: value and reference nodes are told once, with any entity, as the export in Turtle does.
    """

    def __init__(self, chosen: Chosen, here: v.Namespaces, *, shared_nodes: bool) -> None:
        self._chosen, self._shared = chosen, shared_nodes
        self._wd, self._direct, self._claim = (f"<{one}".encode() for one in (here.wd, here.wdt, f"{here.p}P"))
        self._nodes = tuple(f"<{one}".encode() for one in (here.wdv, here.wdref))
        page = rb"<https?://[^> ]+:EntityData/"
        self._about = re.compile(rb"(?:%s|%s)([QPLE]\d+)(?:-\w+)?>" % (re.escape(self._wd), page))
        self._item = re.compile(rb"%sQ(\d+)>" % re.escape(self._wd))
        closures = [link for link in (*chosen.keep, *chosen.without) if link.again]
        self._above: dict[str, dict[int, list[int]]] = {link.again: {} for link in closures}
        self._settled: dict[tuple[str, int], dict[int, bool]] = {(link.again, link.item): {} for link in closures}
        self._seen: dict[int, int] = {}  # by the number without its last twelve bits, a bit for each number
        self._needed = bytearray(_NEEDED_BITS >> 3 if shared_nodes else 0)
        self.external: dict[bytes, bool] = {}
        """Of each property that is known, whether it is an external identifier."""
        self._entity, self._block, self._over = b"", list[bytes](), False
        self.aside: dict[str, list[bytes]] = {ITEMS: [], IDENTIFIERS: [], NODES: []}
        """Lines that cannot be decided yet: items, what may be identifiers, value and reference nodes."""

    def take(self, lines: Iterable[bytes]) -> list[bytes]:
        """Of the lines before, and of these but for the last entity's, which may go on, those that are taken."""
        taken: list[bytes] = []
        for line in lines:
            found = self._about.match(line)
            if found and found[1] != self._entity:
                self._decide(taken)
                self._entity = found[1]
            self._block.append(line)
        return taken

    def rest(self) -> list[bytes]:
        """What is taken of the last entity."""
        taken: list[bytes] = []
        self._decide(taken)
        self._entity = b""
        return taken

    def finish(self) -> None:
        """All was seen: from now on nothing is put aside."""
        self._over = True

    def take_identifiers(self, lines: Iterable[bytes]) -> list[bytes]:
        """Of the identifiers that were put aside, those that are none."""
        taken, statements, entity = list[bytes](), dict[bytes, bytes](), b""
        for line in lines:
            if (found := self._about.match(line)) and found[1] != entity:
                statements, entity = {}, found[1]
            self._line(line, statements, taken)
        return taken

    def take_nodes(self, lines: Iterable[bytes]) -> list[bytes]:
        """Of the nodes that were put aside, those that something taken points at."""
        places = ((self._place(line.split(None, 1)[0][:-1]), line) for line in lines)
        return [line for place, line in places if self._needed[place >> 3] >> (place & 7) & 1]

    def _decide(self, taken: list[bytes]) -> None:
        """Take, put aside or drop the lines of the entity that has ended."""
        block, self._block = self._block, []
        own, links = b"%s%s> " % (self._wd, self._entity), dict[str, list[int]]()
        for line in block:
            if line.startswith(own):
                _, predicate, value = line.split(None, 2)
                if predicate.startswith(self._direct) and (item := self._item.match(value)):
                    links.setdefault(predicate[len(self._direct) : -1].decode(), []).append(int(item[1]))
                elif predicate == _TYPE:
                    self.external[self._entity] = value.startswith(_EXTERNAL)
        wanted = self._wanted(links)
        statements = dict[bytes, bytes]()
        for line in block:
            if self._shared and not wanted and line.startswith(self._nodes):
                self.aside[NODES].append(line)
            elif wanted:
                self._line(line, statements, taken)
            elif wanted is None:
                self.aside[ITEMS].append(line)

    def _wanted(self, links: Mapping[str, list[int]]) -> bool | None:
        """Whether the entity is taken; None where its links lead over what was not seen yet."""
        kind, number = self._entity[:1], int(self._entity[1:] or 0)
        if kind != b"Q":
            return kind != b"L" or not self._chosen.keep
        for prop, above in self._above.items():
            if prop in links:
                above[number] = links[prop]
        if self._above:
            self._seen[number >> 12] = self._seen.get(number >> 12, 0) | 1 << (number & 4095)
        kept = _any(self._leads(link, number, links) for link in self._chosen.keep) if self._chosen.keep else True
        left_out = _any(self._leads(link, number, links) for link in self._chosen.without)
        if kept is False or left_out is True:
            return False
        return None if kept is None or left_out is None else True

    def _leads(self, link: Link, number: int, links: Mapping[str, list[int]]) -> bool | None:
        starts = links.get(link.first, ()) if link.first else [number]
        if not link.again:
            return link.item in starts
        return _any(self._reaches(link, start) for start in starts)

    def _reaches(self, link: Link, start: int) -> bool | None:
        settled = self._settled[link.again, link.item]
        if start in settled:
            return settled[start]
        above, found, left, all_seen = self._above[link.again], {start}, [start], True
        while left and link.item not in found:
            here = left.pop()
            all_seen &= self._over or bool(self._seen.get(here >> 12, 0) >> (here & 4095) & 1)
            more = [one for one in above.get(here, ()) if one not in found]
            found.update(more)
            left += more
        if link.item in found:
            settled[start] = True
        elif all_seen:
            settled.update(dict.fromkeys(found, False))
        else:
            return None
        return settled[start]

    def _line(self, line: bytes, statements: dict[bytes, bytes], taken: list[bytes]) -> None:
        """A line of an entity that is taken; ``statements`` are the properties of those that were told so far."""
        subject, predicate, value = line.split(None, 2)
        language = _LANGUAGE.search(value) if self._chosen.languages and predicate in _TEXTS else None
        if language and language[1].decode() not in self._chosen.languages:
            return
        if not self._chosen.external_ids:
            whose = statements.get(subject)
            verdicts = [] if whose is None else [self.external.get(whose)]
            if (match := _PROPERTY.search(predicate)) and not self._item.match(value):
                verdicts.append(self.external.get(match[1]))
                if predicate.startswith(self._claim):
                    statements[value.split(None, 1)[0]] = match[1]
            if True in verdicts:
                return
            if None in verdicts and not self._over:
                self.aside[IDENTIFIERS].append(line)
                return
        if self._shared and value.startswith(self._nodes):
            place = self._place(value)
            self._needed[place >> 3] |= 1 << (place & 7)
        taken.append(line)

    @staticmethod
    def _place(node: bytes) -> int:
        return int(node[node.rindex(b"/") + 1 :][:8], 16) % _NEEDED_BITS

    def state(self) -> dict[str, Any]:
        """All that it knows, as JSON has it."""
        above = {prop: list(links.items()) for prop, links in self._above.items()}
        packed = [b64encode(compress(one, 1)).decode() for one in (self._needed, b"".join(self._block))]
        seen = list(self._seen.items())
        external = {prop.decode(): one for prop, one in self.external.items()}
        return {"above": above, "seen": seen, "packed": packed, "external": external, "entity": self._entity.decode()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self._above = {prop: {int(one): above for one, above in links} for prop, links in state["above"].items()}
        needed, block = (decompress(b64decode(one)) for one in state["packed"])
        self._seen, self._needed = dict(state["seen"]), bytearray(needed)
        self._block = block.splitlines(keepends=True)
        self.external = {prop.encode(): one for prop, one in state["external"].items()}
        self._entity = state["entity"].encode()


def _any(some: Iterable[bool | None]) -> bool | None:
    """Whether one is true; None where that is not known."""
    found = set(some)
    return True if True in found else None if None in found else False
