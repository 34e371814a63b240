"""The nodes of an SKB: ids, names, types and documents behind one object."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from kbnav.errors import DataError
from kbnav.knowledge.skb.arrays import Strings
from kbnav.knowledge.skb.documents import Documents as StoredDocuments
from kbnav.knowledge.skb.documents import Fields, aliases, plain_text
from kbnav.knowledge.skb.parts import Documents
from kbnav.knowledge.skb.schema import NodeText


class Nodes:
    """Read access to the nodes, by number; safe to share between threads."""

    def __init__(
        self, folder: Path, documents: Documents, type_start: Sequence[int], alias_fields: Sequence[str]
    ) -> None:
        """Open ``nodes/`` below ``folder``. Raises DataError where its files and the documents do not fit together."""
        self.ids = Strings(folder / "nodes", "ids", searchable=True)
        self.names = Strings(folder / "nodes", "names")
        self.documents = documents
        self.type_start = tuple(type_start)
        self._alias_fields = tuple(alias_fields)
        if len({len(self.ids), len(self.names), len(self.documents), self.type_start[-1]}) != 1:
            raise DataError(f"{folder}: ids, names, documents and types differ in number")

    @classmethod
    def open(cls, folder: Path, type_start: Sequence[int], alias_fields: Sequence[str]) -> Self:
        """Open ``nodes/`` and ``documents/`` below ``folder``. Raises DataError where they do not fit together."""
        return cls(folder, StoredDocuments(folder / "documents"), type_start, alias_fields)

    def __len__(self) -> int:
        return len(self.ids)

    def type_of(self, node: int) -> int:
        """The number of a node's type."""
        return bisect_right(self.type_start, node) - 1

    def label(self, node: int) -> str:
        """The name of a node, its id where it has none."""
        return str(self.names[node] or self.ids[node])

    def aliases(self, node: int) -> tuple[str, ...]:
        """Other names of a node, from its document."""
        return aliases(self.documents[node], self._alias_fields)

    def text(self, node: int) -> str:
        """The document of a node as plain text, without its name and aliases."""
        return self.text_of(self.documents[node])

    def text_of(self, fields: Fields) -> str:
        """A document as plain text, without the aliases in it."""
        return plain_text(fields, self._alias_fields)

    def named(self, among: range | None = None) -> Iterator[tuple[NodeText, Fields]]:
        """Nodes in number order, every one or those ``among``, with their names, without text, and their documents."""
        some = enumerate(self.documents) if among is None else ((node, self.documents[node]) for node in among)
        for node, fields in some:
            other = aliases(fields, self._alias_fields)
            yield NodeText(node, self.type_of(node), self.names[node], other, ""), fields
