"""An SKB that is open: graph, nodes, documents and what indexes it has, in a folder or in tables of LanceDB."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import finalize

from kbnav.errors import DataError, UnknownId
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.nodes import Nodes, StoredDocuments
from kbnav.knowledge.skb.schema import (
    GRAPH,
    NAMES,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    VECTORS,
    Fields,
    Meta,
    Range,
    read_meta,
)

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.names import NameIndex
    from kbnav.knowledge.skb.text import TextIndex
    from kbnav.knowledge.skb.vectors import VectorSearch


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
        from kbnav.knowledge.skb import names

        return names.open(self.folder(NAMES)) if self._has(NAMES) else None

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
