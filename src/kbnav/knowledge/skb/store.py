"""An SKB that is open: graph, nodes, documents and what indexes it has, in a folder or in tables of LanceDB."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias
from weakref import finalize

from kbnav.errors import DataError, UnknownId
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.lance.tables import is_lance
from kbnav.knowledge.skb.nodes import Documents, Nodes
from kbnav.knowledge.skb.schema import (
    NAMES,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    TRIPLES,
    VECTORS,
    Meta,
    Range,
    read_meta,
)

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.lance.store import LanceStore
    from kbnav.knowledge.skb.names import NameIndex
    from kbnav.knowledge.skb.text import TextIndex
    from kbnav.knowledge.skb.vectors import VectorIndex, VectorSearch

Store: TypeAlias = "LocalStore | LanceStore"
"""One build of an SKB, wherever it is; indexes that it was built without are None."""
GRAPH = "graph"
"""Folder of the data."""


class LocalStore:
    """An SKB in a folder, mapped into memory. It holds a shared lock on its data, so that no build deletes it."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        """Open the build that ``meta`` names; ``open`` is what to call."""
        self.meta = meta
        self.place = str(folder)
        """What ``--kb`` takes."""
        self.approximate = False
        """Whether there is an approximate index of the vectors, which only tables of LanceDB may have."""
        self.data = folder / meta.data
        handle = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        for name, info in meta.files.items():
            size = (self.data / name).stat().st_size
            if size != info.bytes:
                raise DataError(f"{self.data / name}: {size} bytes where {info.bytes} were written")
        self.nodes = Nodes.open(self.data, meta.type_start, meta.alias_fields)
        self.graph = Graph(self.data / GRAPH, len(meta.relations))
        self.graph.check_counts(str(self.data), meta.nodes, meta.edges)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the build in use. Raises UsageError where the folder is no SKB, DataError where it is damaged."""
        while True:
            meta = read_meta(folder)
            try:
                return cls(folder, meta)
            except (OSError, DataError) as error:
                # If a build replaced it after meta.json was read, look again; if not, it is damaged.
                if read_meta(folder).data == meta.data:
                    raise error if isinstance(error, DataError) else DataError(f"{folder}: {error}") from error

    def text(self, part: str) -> TextIndex | None:
        """A BM25 index."""
        from kbnav.knowledge.skb import text

        return text.open(self.data / part) if (self.data / part).is_dir() else None

    def names(self) -> NameIndex | None:
        """The index of names."""
        from kbnav.knowledge.skb import names

        return names.open(self.data / NAMES) if (self.data / NAMES).is_dir() else None

    def vectors(self, part: str, encoder: Encoder | None) -> VectorIndex | None:
        """A vector index; ``encoder`` is for queries, and the index finds its own where that is None and it can."""
        from kbnav.knowledge.skb import vectors

        return vectors.open(self.data / part, encoder) if (self.data / part).is_dir() else None

    def triples(self) -> Path:
        """The folder of the RDF view on this machine, of an SKB that has one."""
        return self.data / TRIPLES

    def sizes(self) -> dict[str, int]:
        """Bytes by part of what is stored."""
        sizes: Counter[str] = Counter()
        for name, file in self.meta.files.items():
            sizes[name.split("/")[0]] += file.bytes
        return dict(sizes)

    def close(self) -> None:
        """Release the lock; what was read stays usable. A second call does nothing."""
        self._unlock()


class SKB:
    """A built SKB, read-only, shared by threads and processes; it stays whole while another build replaces it."""

    def __init__(self, store: Store, encoder: Encoder | None = None) -> None:
        """Read what a store holds; ``encoder`` is for queries by vectors, minilm and lsa need not be given."""
        self._encoder = encoder
        self.store = store
        self.meta = store.meta
        self.place = store.place
        self.nodes = store.nodes
        self.graph = store.graph
        self._types = {kind.name: number for number, kind in enumerate(self.meta.types)}
        self._relations = {relation.name: number for number, relation in enumerate(self.meta.relations)}
        self.type_names: tuple[str, ...] = tuple(self._types)
        """Node types by number."""
        self.relation_names: tuple[str, ...] = tuple(self._relations)
        """Relations by number."""

    @classmethod
    def open(cls, path: Path | str, encoder: Encoder | None = None) -> Self:
        """Open the SKB in a folder, by memory map, in milliseconds.

        ``encoder`` is for queries by vectors; minilm and lsa need not be given.

        Raises UsageError where it is none, DataError where a file is missing, cut off, or of a newer format. Contents
        are not read through: ``maintenance.check`` does that.
        """
        return cls(LocalStore.open(Path(path)), encoder)

    def close(self) -> None:
        """Release the lock on the data; what was read stays usable. A second call does nothing."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def documents(self) -> Documents:
        """The documents, by node number."""
        return self.nodes.documents

    @cached_property
    def text(self) -> TextIndex | None:
        """The BM25 index; None where the SKB was built without."""
        return self.store.text(TEXT)

    @cached_property
    def relational_text(self) -> TextIndex | None:
        """The BM25 index of documents with their relations; None where the SKB was built without."""
        return self.store.text(RELATIONAL_TEXT)

    @cached_property
    def names(self) -> NameIndex | None:
        """The index of names; None where the SKB was built without."""
        return self.store.names()

    @cached_property
    def vectors(self) -> VectorSearch | None:
        """The vector index, with the encoder it was built with; None where the SKB was built without."""
        return self.store.vectors(VECTORS, self._encoder)

    @cached_property
    def relational_vectors(self) -> VectorSearch | None:
        """The vectors of documents with their relations; None where the SKB was built without."""
        return self.store.vectors(RELATIONAL_VECTORS, self._encoder)

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


def open_store(place: str, home: Path | None = None) -> Store:
    """Open an SKB; tables are fetched below ``home``. Raises as ``LocalStore.open`` and ``LanceStore.open``."""
    if not is_lance(place):
        return LocalStore.open(Path(place))
    from kbnav.knowledge.skb.lance.store import LanceStore

    if home is None:
        raise ValueError(f"{place} is on LanceDB: a home for what is fetched must be given")
    return LanceStore.open(place, home / "skbs" / "fetched")
