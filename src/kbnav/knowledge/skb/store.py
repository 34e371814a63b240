"""An SKB that is open: graph, nodes, documents and what indexes it has, in a folder or in tables of LanceDB.

``blocks.bin`` holds zlib blocks of about 32 KiB of JSON lines, one line a document, in the order of node numbers. A
node type begins a new block. Reading one document inflates one block, a fraction of a millisecond.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import finalize

import numpy as np

from kbnav.errors import DamagedKB, DataError, KbnavError, UnknownId
from kbnav.knowledge.skb.files import Strings, as_json, check_starts, open_array, parse_json
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.schema import (
    GRAPH,
    META,
    NAMES,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    VECTORS,
    Fields,
    Meta,
    NodeText,
    Range,
    read_meta,
)

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.text import NameIndex, TextIndex
    from kbnav.knowledge.skb.vectors import VectorSearch


BLOCK_BYTES = 32_768
LARGEST = 256 << 20
"""Bytes of a document: so much, and a block beside it, is unpacked at most, whatever a file promises."""
_CACHED_BLOCKS = 64
_LEVEL = 1
"""A fifth of the time of zlib's usual 6, and a seventh more bytes."""


class StoredDocuments(Sequence[Fields]):
    """The documents in a folder, by node number; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Open the files of a build. Raises DataError where they cannot be read."""
        self._path = folder / "blocks.bin"
        self._first = open_array(folder / "first-nodes.npy", np.int64)
        self._start = open_array(folder / "block-start.npy", np.int64)
        self._bytes = (
            np.memmap(self._path, np.uint8, "r").view(np.ndarray) if len(self._first) > 1 else np.empty(0, np.uint8)
        )
        self._cached = lru_cache(_CACHED_BLOCKS)(self._block)
        if not len(self._first) or len(self._first) != len(self._start):
            raise DataError(f"{folder}: the documents' files do not fit together")
        check_starts(folder / "block-start.npy", self._start, len(self._bytes))
        check_starts(folder / "first-nodes.npy", self._first, int(self._first[-1]))

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, node: Any) -> Any:
        """The fields of a node's document. Raises DamagedKB where it cannot be read."""
        block = int(self._first.searchsorted(node, "right")) - 1
        return self._parse(self._cached(block)[node - int(self._first[block])], block)

    def __iter__(self) -> Iterator[Fields]:
        """Every document, in the order of node numbers."""
        for block in range(len(self._first) - 1):
            for line in self._block(block):
                yield self._parse(line, block)

    def write_changed(self, folder: Path, changed: Mapping[int, Fields]) -> None:
        """Write all with other fields for some nodes; blocks without these are copied. Raises as ``DocumentWriter``."""
        numbers = np.array(sorted(changed), np.int64)
        blocks = self._first.searchsorted(numbers, "right") - 1
        sizes, done = np.diff(self._start), 0
        with (folder / "blocks.bin").open("wb") as out:
            for block in np.unique(blocks).tolist():
                lines = self._block(block)
                for number in numbers[blocks == block].tolist():
                    lines[number - int(self._first[block])] = _line(changed[number])
                packed = zlib.compress(b"\n".join(lines), _LEVEL)
                out.write(self._bytes[self._start[done] : self._start[block]].data)
                out.write(packed)
                sizes[block], done = len(packed), block + 1
            out.write(self._bytes[self._start[done] :].data)
        np.save(folder / "first-nodes.npy", self._first)
        np.save(folder / "block-start.npy", np.concatenate([[0], np.cumsum(sizes)]))

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
            fields = parse_json(line)
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
        """Take the next document of a type, what JSON lacks as text. Raises DataError for one over ``LARGEST``."""
        line = _line(fields)
        self._waiting.setdefault(kind, []).append(line)
        self._size[kind] = self._size.get(kind, 0) + len(line)
        if self._size[kind] >= BLOCK_BYTES:
            self._flush(kind)

    def finish(self, types: int) -> None:
        """Write what ``StoredDocuments(folder)`` opens."""
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
        packed = zlib.compress(b"\n".join(lines), _LEVEL)
        with self._part(kind).open("ab") as file:
            file.write(packed)
        self._blocks.setdefault(kind, []).append((len(lines), len(packed)))
        self._size[kind] = 0

    def _part(self, kind: int) -> Path:
        return self._folder / f"type-{kind}.part"


def _line(fields: Fields) -> bytes:
    line = as_json(fields)
    if len(line) > LARGEST:
        raise DataError(f"a document of {len(line) >> 20} MiB: {LARGEST >> 20} MiB is the most")
    return line


class Nodes:
    """Read access to the nodes, by number; safe to share between threads."""

    def __init__(
        self, folder: Path, documents: Sequence[Fields], type_start: Sequence[int], alias_fields: Sequence[str]
    ) -> None:
        """Open ids and names in a folder. Raises DataError where they and the documents do not fit together."""
        self.ids = Strings(folder, "ids", searchable=True)
        self.names = Strings(folder, "names")
        self.documents = documents
        self.type_start = tuple(type_start)
        self._alias_fields = tuple(alias_fields)
        if len({len(self.ids), len(self.names), len(self.documents), self.type_start[-1]}) != 1:
            raise DataError(f"{folder}: ids, names, documents and types differ in number")

    def __len__(self) -> int:
        return len(self.ids)

    def type_of(self, node: int) -> int:
        """The number of a node's type."""
        return bisect_right(self.type_start, node) - 1

    def aliases(self, node: int) -> tuple[str, ...]:
        """Other names of a node, from its document."""
        return aliases(self.documents[node], self._alias_fields)

    def text(self, node: int) -> str:
        """The document of a node as plain text, without its name and aliases."""
        return self.text_of(self.documents[node])

    def text_of(self, fields: Fields) -> str:
        """A document as plain text, without the aliases in it."""
        return plain_text(fields, self._alias_fields)

    def bare(self) -> Iterator[NodeText]:
        """Every node in number order with its names alone; documents are read only where these have some."""
        if self._alias_fields:
            yield from (node for node, _ in self.named())
            return
        for node, name in enumerate(self.names):
            yield NodeText(node, self.type_of(node), name, (), "")

    def named(self, among: range | None = None) -> Iterator[tuple[NodeText, Fields]]:
        """Nodes in number order, every one or those ``among``, with their names, without text, and their documents."""
        some = enumerate(self.documents) if among is None else ((node, self.documents[node]) for node in among)
        for node, fields in some:
            other = aliases(fields, self._alias_fields)
            yield NodeText(node, self.type_of(node), self.names[node], other, ""), fields


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
        head, items = f"{'  ' * depth}{key.replace('_', ' ')}:", value if isinstance(value, list) else [value]
        if any(isinstance(item, Mapping) for item in items):
            yield head
            for item in items:
                yield from _lines(item if isinstance(item, Mapping) else {"value": item}, frozenset(), depth + 1)
        else:
            yield f"{head} {', '.join(map(str, items))}"


def is_empty(value: Any) -> bool:
    """Whether a field says nothing: null, not a number, an empty text, list or object."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value in ("", [], {})


class SKB(ABC):
    """A built SKB, read-only, shared by threads and processes; it stays whole while another build replaces it."""

    approximate = False
    """Whether there is an approximate index of the vectors."""

    def __init__(self, place: str, meta: Meta, documents: Sequence[Fields]) -> None:
        """Read the build that ``meta`` describes; ``open`` is what to call."""
        self.place = place
        """What ``--kb`` takes."""
        self.meta = meta
        self.nodes = Nodes(self.folder("nodes"), documents, meta.type_start, meta.alias_fields)
        self.graph = graph = Graph(self.folder(GRAPH), len(meta.relations))
        if (graph.nodes, graph.edges) != (meta.nodes, meta.edges):
            counts = f"{graph.nodes} nodes and {graph.edges} edges where {meta.nodes}, {meta.edges}"
            raise DataError(f"{place}: {counts} were written")
        self.encoder: Encoder | None = None
        """For queries by vectors; minilm and lsa are found without."""
        self._types = {kind.name: number for number, kind in enumerate(meta.types)}
        self._relations = {relation.name: number for number, relation in enumerate(meta.relations)}
        self.type_names: tuple[str, ...] = tuple(self._types)
        """Node types by number."""
        self.relation_names: tuple[str, ...] = tuple(self._relations)
        """Relations by number."""

    @staticmethod
    def open(path: Path | str, encoder: Encoder | None = None) -> SKB:
        """Open the SKB in a folder, by memory map, in milliseconds; ``encoder`` as of the attribute.

        Raises UsageError where it is none, DataError where a file is missing, cut off, or of a newer format. Contents
        are not read through: ``maintenance.check`` does that.
        """
        folder = Path(path)
        while True:
            meta = read_meta(folder)
            try:
                skb = LocalSKB(folder, meta)
                skb.encoder = encoder
                return skb
            except (OSError, DataError) as error:
                # If a build replaced it after meta.json was read, look again; if not, it is damaged.
                if read_meta(folder).data == meta.data:
                    raise error if isinstance(error, DataError) else DataError(f"{folder}: {error}") from error

    @abstractmethod
    def folder(self, part: str) -> Path:
        """The files of a part on this machine, documents and vectors apart."""

    @abstractmethod
    def _vectors(self, part: str) -> VectorSearch:
        """An index of vectors that there is."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Bytes by part of what is stored."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held; what was read stays usable. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def documents(self) -> Sequence[Fields]:
        """The documents, by node number."""
        return self.nodes.documents

    @cached_property
    def text(self) -> TextIndex | None:
        """The BM25 index; None where the SKB was built without."""
        return self._text(TEXT)

    @cached_property
    def relational_text(self) -> TextIndex | None:
        """The BM25 index of documents with their relations; None where the SKB was built without."""
        return self._text(RELATIONAL_TEXT)

    @cached_property
    def names(self) -> NameIndex | None:
        """The index of names; None where the SKB was built without."""
        from kbnav.knowledge.skb.text import open_names

        return open_names(self.folder(NAMES)) if self._has(NAMES) else None

    @cached_property
    def vectors(self) -> VectorSearch | None:
        """The vector index, with the encoder it was built with; None where the SKB was built without."""
        return self._vectors(VECTORS) if self._has(VECTORS) else None

    @cached_property
    def relational_vectors(self) -> VectorSearch | None:
        """The vectors of documents with their relations; None where the SKB was built without."""
        return self._vectors(RELATIONAL_VECTORS) if self._has(RELATIONAL_VECTORS) else None

    def _text(self, part: str) -> TextIndex | None:
        from kbnav.knowledge.skb import text

        return text.open(self.folder(part), self.meta.type_start) if self._has(part) else None

    def _has(self, part: str) -> bool:
        return any(name.startswith(f"{part}/") for name in self.meta.files)

    def number(self, node_id: str) -> int:
        """The number of a node by its id. Raises UnknownId."""
        number = self.nodes.ids.find(node_id)
        if number < 0:
            raise UnknownId(f"there is no node {node_id!r} in {self.meta.name}")
        return number

    def id(self, node: int) -> str:
        """The id of a node by its number."""
        return str(self.nodes.ids[node])

    def name(self, node: int) -> str:
        """The name of a node, its id where it has none."""
        return str(self.nodes.names[node] or self.nodes.ids[node])

    def type(self, node: int) -> str:
        """The type of a node."""
        return self.type_names[self.nodes.type_of(node)]

    def type_range(self, name: str) -> Range:
        """The node numbers of a type: the first, and the one behind the last. Raises UnknownId."""
        number = self._number_of(name, self._types, "node type")
        return self.nodes.type_start[number], self.nodes.type_start[number + 1]

    def relation_number(self, name: str) -> int:
        """The number of a relation. Raises UnknownId naming those there are."""
        return self._number_of(name, self._relations, "relation")

    def _number_of(self, name: str, numbers: dict[str, int], what: str) -> int:
        try:
            return numbers[name]
        except KeyError as error:
            some = ", ".join(list(numbers)[:50])
            raise UnknownId(f"there is no {what} {name!r} in {self.meta.name}; there are: {some}") from error


class LocalSKB(SKB):
    """An SKB in a folder, mapped into memory. It holds a shared lock on its data, so that no build deletes it."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        self.data = folder / meta.data
        handle = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        for name, info in meta.files.items():
            size = (self.data / name).stat().st_size
            if size != info.bytes:
                raise DataError(f"{self.data / name}: {size} bytes where {info.bytes} were written")
        super().__init__(str(folder), meta, StoredDocuments(self.data / "documents"))
        self._newest = 0, meta.data

    @property
    def replaced(self) -> str:
        """The data of another build that is in its place by now, else empty; read where its description has changed."""
        path = Path(self.place)
        with suppress(OSError, KbnavError):
            if (written := (path / META).stat().st_mtime_ns) != self._newest[0]:
                self._newest = written, read_meta(path).data
        return self._newest[1] if self._newest[1] != self.meta.data else ""

    def folder(self, part: str) -> Path:
        """See ``SKB``."""
        return self.data / part

    def _vectors(self, part: str) -> VectorSearch:
        from kbnav.knowledge.skb import vectors

        return vectors.open(self.data / part, self.encoder)

    def sizes(self) -> dict[str, int]:
        """See ``SKB``."""
        sizes: Counter[str] = Counter()
        for name, file in self.meta.files.items():
            sizes[name.split("/")[0]] += file.bytes
        return dict(sizes)

    def close(self) -> None:
        """Release the lock on the data."""
        self._unlock()
