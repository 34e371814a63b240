"""The store of an SKB in a folder: files that are mapped into memory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import finalize

from kbnav.errors import DataError
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.schema import TRIPLES, Meta, has_approximate, read_meta

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.names import NameIndex
    from kbnav.knowledge.skb.text import TextIndex
    from kbnav.knowledge.skb.vectors import VectorIndex

GRAPH, NAMES = "graph", "names"
"""Folders of the data."""


class LocalStore:
    """See ``Store``. An open one holds a shared lock on its folder of data, so that no build deletes it."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        """Open the build that ``meta`` names; ``open`` is what to call."""
        self.meta = meta
        self.place = str(folder)
        self.approximate = has_approximate(meta)
        self.data = folder / meta.data
        handle = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._sizes_match()
        self.nodes = Nodes.open(self.data, meta.type_start, meta.alias_fields)
        self.graph = Graph(self.data / GRAPH, len(meta.relations))
        found = {"nodes": len(self.nodes), "nodes of the graph": self.graph.nodes, "edges": self.graph.edges}
        told = {"nodes": meta.nodes, "nodes of the graph": meta.nodes, "edges": meta.edges}
        wrong = [f"{found[name]} {name} where {told[name]} were written" for name in told if found[name] != told[name]]
        if wrong:
            raise DataError(f"{self.data}: {'; '.join(wrong)}")

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
        """See ``Store``."""
        from kbnav.knowledge.skb import text

        return text.open(self.data / part) if (self.data / part).is_dir() else None

    def names(self) -> NameIndex | None:
        """See ``Store``."""
        from kbnav.knowledge.skb import names

        return names.open(self.data / NAMES) if (self.data / NAMES).is_dir() else None

    def vectors(self, part: str, encoder: Encoder | None) -> VectorIndex | None:
        """See ``Store``."""
        from kbnav.knowledge.skb import ann, vectors

        if not (self.data / part).is_dir():
            return None
        approximate = self.data / ann.folder(part)
        graph = self.meta.files.get(f"{ann.folder(part)}/{ann.GRAPH}")
        return vectors.open(self.data / part, encoder, approximate if approximate.is_dir() else None, graph)

    def triples(self) -> Path:
        """See ``Store``."""
        return self.data / TRIPLES

    def sizes(self) -> dict[str, int]:
        """See ``Store``: by folder of the data."""
        sizes: dict[str, int] = {}
        for name, file in self.meta.files.items():
            part = name.split("/")[0]
            sizes[part] = sizes.get(part, 0) + file.bytes
        return sizes

    def close(self) -> None:
        """See ``Store``: let go of the lock."""
        self._unlock()

    def _sizes_match(self) -> None:
        for name, info in self.meta.files.items():
            size = (self.data / name).stat().st_size
            if size != info.bytes:
                raise DataError(f"{self.data / name}: {size} bytes where {info.bytes} were written")
