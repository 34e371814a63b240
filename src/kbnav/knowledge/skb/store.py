"""An SKB that is open: graph, nodes, documents and what indexes it has."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from kbnav.errors import UnknownId
from kbnav.knowledge.skb.local import LocalStore
from kbnav.knowledge.skb.parts import Documents, TextSearch, VectorSearch

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.graph import Graph
    from kbnav.knowledge.skb.names import NameIndex
    from kbnav.knowledge.skb.nodes import Nodes
    from kbnav.knowledge.skb.schema import Meta

_log = logging.getLogger(__name__)

VECTORS = "vectors"
RELATIONAL_TEXT, RELATIONAL_VECTORS = "relational-text", "relational-vectors"
"""Names of the indexes of documents with their relations."""


class Store(Protocol):
    """One build of an SKB, wherever it is kept. Parts that it was built without are None."""

    meta: Meta
    place: str
    """What ``--kb`` takes."""
    nodes: Nodes
    graph: Graph
    approximate: bool
    """Whether there is an approximate index of the vectors."""

    def text(self, part: str) -> TextSearch | None:
        """A BM25 index."""
        ...

    def names(self) -> NameIndex | None:
        """The index of names."""
        ...

    def vectors(self, part: str, encoder: Encoder | None) -> VectorSearch | None:
        """A vector index; ``encoder`` is for queries, and the index finds its own where that is None and it can."""
        ...

    def triples(self) -> Path:
        """The folder of the RDF view on this machine, of an SKB that has one."""
        ...

    def sizes(self) -> dict[str, int]:
        """Bytes by part of what is stored."""
        ...

    def close(self) -> None:
        """Let go of what only one process may hold; what was read stays usable. A second call does nothing."""
        ...


class SKB:
    """A built SKB, read-only, shared by threads and processes; it stays whole while another build replaces it."""

    def __init__(self, store: Store, encoder: Encoder | None = None) -> None:
        """Read what a store holds; ``encoder`` is for queries by vectors, minilm and lsa need not be given."""
        self._encoder = encoder
        self._told = False
        self.store = store
        self.meta = store.meta
        self.place = store.place
        self.nodes = store.nodes
        self.graph = store.graph
        self._types = {kind.name: number for number, kind in enumerate(self.meta.types)}
        self._relations = {relation.name: number for number, relation in enumerate(self.meta.relations)}

    @classmethod
    def open(cls, path: Path | str, encoder: Encoder | None = None) -> Self:
        """Open the SKB in a folder, by memory map, in milliseconds.

        ``encoder`` is for queries by vectors; minilm and lsa need not be given.

        Raises UsageError where it is none, DataError where a file is missing, cut off, or of a newer format. Contents
        are not read through: ``maintenance.check`` does that.
        """
        return cls(LocalStore.open(Path(path)), encoder)

    def close(self) -> None:
        """Let go of what only one process may hold; what was read stays usable. A second call does nothing."""
        self.store.close()

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
    def text(self) -> TextSearch | None:
        """The BM25 index; None where the SKB was built without."""
        return self._text("text")

    @cached_property
    def relational_text(self) -> TextSearch | None:
        """The BM25 index of documents with their relations; None where the SKB was built without."""
        return self._text(RELATIONAL_TEXT)

    @cached_property
    def names(self) -> NameIndex | None:
        """The index of names; None where the SKB was built without."""
        return self.store.names()

    @cached_property
    def vectors(self) -> VectorSearch | None:
        """The vector index, with the encoder it was built with; None where the SKB was built without."""
        return self._vectors(VECTORS)

    @cached_property
    def relational_vectors(self) -> VectorSearch | None:
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
            f"{self.place}: an earlier version of kbnav indexed all fields of its documents, not the documents as "
            f"STaRK renders them; kbnav skb update {self.place} builds the indexes anew"
        )

    def _text(self, part: str) -> TextSearch | None:
        found = self.store.text(part)
        self._tell_outdated()
        return found

    def _vectors(self, part: str) -> VectorSearch | None:
        if (found := self.store.vectors(part, self._encoder)) is not None:
            self._tell_outdated()
        return found

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
