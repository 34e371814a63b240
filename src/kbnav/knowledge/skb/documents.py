"""The documents of an SKB: the fields of each node, by random access, compressed.

``blocks.bin`` holds zlib blocks of about 32 KiB of JSON lines, one line a node, in the order of node numbers. A node
type begins a new block. Reading one document inflates one block, a fraction of a millisecond.
"""

from __future__ import annotations

import json
import math
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.errors import DamagedKB, DataError
from kbnav.knowledge.skb.arrays import check_starts, open_array
from kbnav.knowledge.skb.parts import Fields as Fields

BLOCK_BYTES = 32_768
LARGEST = 256 << 20
"""Bytes of a document: so much, and a block beside it, is unpacked at most, whatever a file promises."""
CACHED_BLOCKS = 64


class Documents:
    """Read access to the documents; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Open the files of a build. Raises DataError where they cannot be read."""
        self._path = folder / "blocks.bin"
        self._first = open_array(folder / "first-nodes.npy", np.int64)
        self._start = open_array(folder / "block-start.npy", np.int64)
        self._bytes = (
            np.memmap(self._path, np.uint8, "r").view(np.ndarray) if len(self._first) > 1 else np.empty(0, np.uint8)
        )
        self._lines = lru_cache(CACHED_BLOCKS)(self._block)
        if not len(self._first) or len(self._first) != len(self._start) or int(self._start[-1]) != len(self._bytes):
            raise DataError(f"{folder}: the documents' files do not fit together")
        check_starts(folder / "block-start.npy", self._start, len(self._bytes))
        check_starts(folder / "first-nodes.npy", self._first, int(self._first[-1]))

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, node: int) -> Fields:
        """The fields of a node's document. Raises DamagedKB where the block is damaged."""
        block = int(self._first.searchsorted(node, "right")) - 1
        return self._parse(self._lines(block)[node - int(self._first[block])], block)

    def __iter__(self) -> Iterator[Fields]:
        """Every document, in the order of node numbers."""
        for block in range(len(self._first) - 1):
            for line in self._block(block):
                yield self._parse(line, block)

    def _block(self, block: int) -> list[bytes]:
        packed = self._bytes[self._start[block] : self._start[block + 1]]
        try:
            unpacking = zlib.decompressobj()
            lines = unpacking.decompress(packed.data, LARGEST + BLOCK_BYTES).split(b"\n")
        except zlib.error as error:
            raise DamagedKB(f"{self._path}: block {block}: {error}") from error
        if not unpacking.eof:
            raise DamagedKB(f"{self._path}: block {block} is cut off, or unpacks to more than {LARGEST >> 20} MiB")
        if len(lines) != self._first[block + 1] - self._first[block]:
            raise DamagedKB(f"{self._path}: block {block} holds {len(lines)} documents, not as many as it should")
        return lines

    def _parse(self, line: bytes, block: int) -> Fields:
        try:
            fields = json.loads(line.decode())  # told so, it need not look for the encoding
        except ValueError as error:
            raise DamagedKB(f"{self._path}: block {block}: {error}") from error
        if not isinstance(fields, dict):
            raise DamagedKB(f"{self._path}: block {block}: a document that is not an object")
        return fields


class DocumentWriter:
    """Writes documents of all types in the order they come, and puts them in the order of node numbers at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[int, list[bytes]] = {}
        self._size: dict[int, int] = {}
        self._blocks: dict[int, list[tuple[int, int]]] = {}

    def add(self, kind: int, fields: Fields) -> None:
        """Take the next document of a type; what JSON has no form for, such as a date of Parquet's, becomes text.

        Raises DataError for one that is larger than ``LARGEST``.
        """
        line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=_written).encode(errors="replace")
        if len(line) > LARGEST:
            raise DataError(f"a document of {len(line) >> 20} MiB: {LARGEST >> 20} MiB is the most")
        self._waiting.setdefault(kind, []).append(line)
        self._size[kind] = self._size.get(kind, 0) + len(line)
        if self._size[kind] >= BLOCK_BYTES:
            self._flush(kind)

    def finish(self, types: int) -> None:
        """Write what ``Documents(folder)`` opens."""
        first, start = [0], [0]
        with (self._folder / "blocks.bin").open("wb") as out:
            for kind in range(types):
                self._flush(kind)
                for documents, size in self._blocks.get(kind, []):
                    first.append(first[-1] + documents)
                    start.append(start[-1] + size)
                part = self._part(kind)
                if part.exists():
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
                    part.unlink()
        np.save(self._folder / "first-nodes.npy", np.array(first, np.int64))
        np.save(self._folder / "block-start.npy", np.array(start, np.int64))

    def _flush(self, kind: int) -> None:
        lines = self._waiting.pop(kind, [])
        if not lines:
            return
        packed = zlib.compress(b"\n".join(lines))
        with self._part(kind).open("ab") as file:
            file.write(packed)
        self._blocks.setdefault(kind, []).append((len(lines), len(packed)))
        self._size[kind] = 0

    def _part(self, kind: int) -> Path:
        return self._folder / f"type-{kind}.part"


def aliases(fields: Fields, alias_fields: Iterable[str]) -> tuple[str, ...]:
    """The other names in a document; ``details.alias`` goes into a nested field. Each once, in order."""
    found: dict[str, None] = {}
    for path in alias_fields:
        value: Any = fields
        for step in path.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and name.strip():
                found[name] = None
    return tuple(found)


def plain_text(fields: Fields, without: Iterable[str] = ()) -> str:
    """A document as lines of ``field: value``, nested fields indented; empty values and ``without`` are left out."""
    return "\n".join(_lines(fields, frozenset(without), 0))


def _lines(fields: Fields, without: frozenset[str], depth: int) -> Iterator[str]:
    for key, value in fields.items():
        if key in without or is_empty(value):
            continue
        head = f"{'  ' * depth}{key.replace('_', ' ')}:"
        if isinstance(value, Mapping):
            yield head
            yield from _lines(value, frozenset(), depth + 1)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield head
            for item in value:
                yield from _lines(item if isinstance(item, Mapping) else {"value": item}, frozenset(), depth + 1)
        else:
            yield f"{head} {', '.join(map(str, value)) if isinstance(value, list) else value}"


def is_empty(value: Any) -> bool:
    """Whether a field says nothing: null, not a number, an empty text, list or object."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value in ("", [], {})


def _written(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
