"""An SKB that is open: graph, nodes, documents and what indexes it has."""

from __future__ import annotations

import fcntl
import logging
import os
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import finalize

from kbnav.errors import DataError, UnknownId
from kbnav.knowledge.skb.documents import Documents
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.schema import Meta, read_meta

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.names import NameIndex
    from kbnav.knowledge.skb.text import TextIndex
    from kbnav.knowledge.skb.vectors import VectorIndex

_log = logging.getLogger(__name__)

VECTORS = "vectors"
RELATIONAL_TEXT, RELATIONAL_VECTORS = "relational-text", "relational-vectors"
"""Folders of the indexes of documents with their relations."""


class SKB:
    """A built SKB, read-only, shared by threads and processes; it stays whole while another build replaces it.

    An open SKB holds a shared lock on its folder of data, so that no build deletes it.
    """

    def __init__(self, folder: Path, meta: Meta, encoder: Encoder | None = None) -> None:
        """Open the build that ``meta`` names; ``SKB.open`` is what to call."""
        self._encoder = encoder
        self._told = False
        self.meta = meta
        self.folder = folder
        self.data = folder / meta.data
        handle = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._sizes_match()
        self.nodes = Nodes(self.data, meta.type_start, meta.alias_fields)
        self.graph = Graph(self.data / "graph", len(meta.relations))
        self._types = {kind.name: number for number, kind in enumerate(meta.types)}
        self._relations = {relation.name: number for number, relation in enumerate(meta.relations)}
        found = {"nodes": len(self.nodes), "nodes of the graph": self.graph.nodes, "edges": self.graph.edges}
        told = {"nodes": meta.nodes, "nodes of the graph": meta.nodes, "edges": meta.edges}
        wrong = [f"{found[name]} {name} where {told[name]} were written" for name in told if found[name] != told[name]]
        if wrong:
            raise DataError(f"{self.data}: {'; '.join(wrong)}")

    @classmethod
    def open(cls, path: Path | str, encoder: Encoder | None = None) -> Self:
        """Open the SKB in a folder, by memory map, in milliseconds.

        ``encoder`` is for queries by vectors; minilm and lsa need not be given.

        Raises UsageError where it is none, DataError where a file is missing, cut off, or of a newer format. Contents
        are not read through: ``maintenance.check`` does that.
        """
        folder = Path(path)
        while True:
            meta = read_meta(folder)
            try:
                return cls(folder, meta, encoder)
            except (OSError, DataError) as error:
                # If a build replaced it after meta.json was read, look again; if not, it is damaged.
                if read_meta(folder).data == meta.data:
                    raise error if isinstance(error, DataError) else DataError(f"{folder}: {error}") from error

    def close(self) -> None:
        """Let go of the lock; what was read stays usable. A second call does nothing."""
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def documents(self) -> Documents:
        """The documents, by node number."""
        return self.nodes.documents

    @cached_property
    def text(self) -> TextIndex | None:
        """The BM25 index; None where the SKB was built without."""
        return self._text("text")

    @cached_property
    def relational_text(self) -> TextIndex | None:
        """The BM25 index of documents with their relations; None where the SKB was built without."""
        return self._text(RELATIONAL_TEXT)

    @cached_property
    def names(self) -> NameIndex | None:
        """The index of names; None where the SKB was built without."""
        from kbnav.knowledge.skb import names

        return names.open(self.data / "names") if (self.data / "names").is_dir() else None

    @cached_property
    def vectors(self) -> VectorIndex | None:
        """The vector index, with the encoder it was built with; None where the SKB was built without."""
        return self._vectors(VECTORS)

    @cached_property
    def relational_vectors(self) -> VectorIndex | None:
        """The vectors of documents with their relations; None where the SKB was built without."""
        return self._vectors(RELATIONAL_VECTORS)

    @cached_property
    def type_names(self) -> tuple[str, ...]:
        """Node types by number."""
        return tuple(self._types)

    @cached_property
    def relation_names(self) -> tuple[str, ...]:
        """Relations by number."""
        return tuple(self._relations)

    def number(self, node_id: str) -> int:
        """The number of a node by its id. Raises UnknownId."""
        number = self.nodes.ids.find(node_id)
        if number < 0:
            raise UnknownId(f"there is no node {node_id!r} in {self.meta.name}")
        return number

    def id(self, node: int) -> str:
        """The id of a node by its number."""
        return str(self.nodes.ids[node])

    def type_name(self, node: int) -> str:
        """The name of a node's type."""
        return self.type_names[self.nodes.type_of(node)]

    def type_number(self, name: str) -> int:
        """The number of a type. Raises UnknownId naming those there are."""
        return self._known(name, self._types, "node type")

    def type_range(self, name: str) -> tuple[int, int]:
        """The node numbers of a type: the first, and the one behind the last. Raises UnknownId."""
        number = self.type_number(name)
        return self.nodes.type_start[number], self.nodes.type_start[number + 1]

    def relation_number(self, name: str) -> int:
        """The number of a relation. Raises UnknownId naming those there are."""
        return self._known(name, self._relations, "relation")

    @cached_property
    def outdated(self) -> str:
        """Why indexes that an earlier version built of STaRK's documents are wrong, and what mends them; else empty."""
        if not self.meta.outdated:
            return ""
        return (
            f"{self.folder}: an earlier version of kbnav indexed all fields of its documents, not the documents as "
            f"STaRK renders them; kbnav skb update {self.folder} builds the indexes anew"
        )

    def _text(self, part: str) -> TextIndex | None:
        from kbnav.knowledge.skb import text

        self._tell_outdated()
        return text.open(self.data / part) if (self.data / part).is_dir() else None

    def _vectors(self, part: str) -> VectorIndex | None:
        from kbnav.knowledge.skb import ann, vectors

        if not (self.data / part).is_dir():
            return None
        self._tell_outdated()
        approximate = self.data / ann.folder(part)
        graph = self.meta.files.get(f"{ann.folder(part)}/{ann.GRAPH}")
        return vectors.open(self.data / part, self._encoder, approximate if approximate.is_dir() else None, graph)

    def _tell_outdated(self) -> None:
        if self.outdated and not self._told:
            self._told = True
            _log.warning(self.outdated)

    def _known(self, name: str, numbers: dict[str, int], what: str) -> int:
        try:
            return numbers[name]
        except KeyError as error:
            some = ", ".join(list(numbers)[:50])
            raise UnknownId(f"there is no {what} {name!r} in {self.meta.name}; there are: {some}") from error

    def _sizes_match(self) -> None:
        for name, info in self.meta.files.items():
            size = (self.data / name).stat().st_size
            if size != info.bytes:
                raise DataError(f"{self.data / name}: {size} bytes where {info.bytes} were written")
