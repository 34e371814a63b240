"""The files that a mirror is built from, as pieces of N-Triples."""

from __future__ import annotations

import bz2
import gzip
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from pyoxigraph import Quad, RdfFormat, parse

from kbnav.errors import UsageError
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.rdf import datatypes, entities, quads

Progress = Callable[[str], None]
_PACKED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_KINDS = (".nt", ".ttl", ".json", ".ndjson", ".jsonl")
_REPORT_SECONDS = 5.0
_READ = 256 << 10
"""Bytes that are read at once."""


def kind_of(source: Path) -> str:
    """The format by the name: ``.nt`` of ``slice.nt.gz``. Raises UsageError for one that is not read."""
    name = Path(source.name.lower())
    suffix = Path(name.stem).suffix if name.suffix in _PACKED else name.suffix
    if suffix not in _KINDS:
        packed = " or ".join(_PACKED)
        raise UsageError(
            f"{source}: unknown kind of file; these are read, with or without {packed}: {' '.join(_KINDS)}"
        )
    return suffix


@dataclass
class Piece:
    """Lines of N-Triples; how far the source had been read before them, and is with them; what properties are ids."""

    first: int
    last: int
    lines: list[bytes]
    external: dict[bytes, bool] = field(default_factory=dict)


class Lines:
    """The lines of a source, unpacked; they are counted, and told of while they are read."""

    def __init__(self, source: Path, say: Progress) -> None:
        self.source, self.count = source, 0
        self._say, self._size = say, max(source.stat().st_size, 1)
        self._begin = self._told = time.monotonic()
        self._raw = source.open("rb")
        unpack = _PACKED.get(source.suffix.lower())
        self._file = cast(IO[bytes], io.BufferedReader(unpack(self._raw), _READ) if unpack else self._raw)
        self._from: tuple[float, int] | None = None

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self._count(data.count(b"\n"))
        return data

    def some(self) -> list[bytes]:
        """The next lines; none at the end."""
        lines = self._file.readlines(_READ)
        self._count(len(lines))
        return lines

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._count(1)
            yield line

    def skip(self, lines: int) -> None:
        """Go on behind so many lines."""
        self.count += sum(1 for _ in islice(self._file, lines))

    def _count(self, lines: int) -> None:
        self.count += lines
        now = time.monotonic()
        if now - self._told < _REPORT_SECONDS:
            return
        share = self._raw.tell() / self._size
        self._from = self._from or (share, self.count)  # what was skipped went faster
        self._told, begun, before = now, *self._from
        seconds = now - self._begin - _REPORT_SECONDS
        left = f", {_time((1 - share) * seconds / (share - begun))} left" if share > begun else ""
        rate = f"{(self.count - before) / max(seconds, _REPORT_SECONDS):,.0f}/s"
        self._say(f"{self.source.name}: {self.count:,} lines ({rate}), {share:.0%}{left}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{hours}{minutes % 60} min" if minutes else f"{seconds:.0f} s"


class Feed:
    """A file to read from that is made while it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._part, self._place = parts, b"", 0

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        if self._place == len(self._part):
            self._part, self._place = next(filter(None, self._parts), b""), 0
        begin, self._place = self._place, min(self._place + size, len(self._part))
        return self._part[begin : self._place]


def pieces(lines: Lines, size: int, names: v.Namespaces, *, skip: int) -> Iterator[Piece]:
    """Pieces of about ``size`` bytes; the first begins behind ``skip`` of a piece before.

    Raises SyntaxError, ValueError and what unpacking raises.
    """
    match kind_of(lines.source):
        case ".nt":
            lines.skip(skip)
            return _grouped(size, ((one, lines.count, {}) for one in iter(lines.some, [])), skip)
        case ".ttl":
            triples = enumerate(parse(cast(IO[bytes], lines), RdfFormat.TURTLE, lenient=True), 1)
            return _grouped(size, ((written([quad]), at, {}) for at, quad in islice(triples, skip, None)), skip)
    return _grouped(size, _entities(lines, names, skip), skip)


def _entities(lines: Lines, names: v.Namespaces, skip: int) -> Iterator[tuple[list[bytes], int, dict[bytes, bool]]]:
    head = list(islice(lines, min(skip, 1)))
    lines.skip(skip - len(head))
    for one in entities(chain((line for line in head if line.strip() == b"["), lines)):
        yield written(quads(one, names)), lines.count, datatypes(one)


def written(some: Iterable[Quad]) -> list[bytes]:
    """Quads as lines of N-Triples."""
    return [f"{one.subject} {one.predicate} {one.object} .\n".encode() for one in some]


def _grouped(size: int, parts: Iterator[tuple[list[bytes], int, dict[bytes, bool]]], first: int) -> Iterator[Piece]:
    piece, length = Piece(first, first, []), 0
    for lines, at, external in parts:
        piece.lines += lines
        piece.last, length = at, length + sum(map(len, lines))
        piece.external |= external
        if length >= size:
            yield piece
            piece, length = Piece(at, at, []), 0
    if piece.lines:
        yield piece
