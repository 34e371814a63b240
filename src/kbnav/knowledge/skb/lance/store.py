"""The store of an SKB on LanceDB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

from kbnav.encoders import Encoder
from kbnav.errors import DamagedKB, DataError
from kbnav.knowledge.skb import names, text
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.lance import tables as named
from kbnav.knowledge.skb.lance.files import fetch
from kbnav.knowledge.skb.lance.tables import DOCUMENT, NUMBER, Build, Table, connect, open_table, read_build
from kbnav.knowledge.skb.lance.text import LanceText
from kbnav.knowledge.skb.lance.vectors import LanceVectors
from kbnav.knowledge.skb.local import GRAPH, NAMES
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.parts import Fields
from kbnav.knowledge.skb.schema import TRIPLES
from kbnav.knowledge.skb.vectors import Queries

_CACHED = 4_096  # documents
_AT_ONCE = 1_000


class LanceDocuments:
    """See ``Documents``."""

    def __init__(self, nodes: Table, count: int) -> None:
        self._table, self._count = nodes, count
        self._one = lru_cache(_CACHED)(lambda node: self._read([node])[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, node: int, /) -> Fields:
        return self._parse(self._one(int(node)))

    def __iter__(self) -> Iterator[Fields]:
        for first in range(0, self._count, _AT_ONCE):
            yield from map(self._parse, self._read(list(range(first, min(first + _AT_ONCE, self._count)))))

    @reading("the documents")
    def _read(self, nodes: list[int]) -> list[str]:
        rows = self._table.take_offsets(nodes).select([NUMBER, DOCUMENT]).to_arrow()
        found = dict(zip(rows[NUMBER].to_pylist(), rows[DOCUMENT].to_pylist(), strict=True))
        return [found[node] for node in nodes]

    def _parse(self, line: str) -> Fields:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise DamagedKB("a document that is not an object")
        return fields


class LanceStore:
    """See ``Store``."""

    def __init__(self, place: str, build: Build, cache: Path) -> None:
        """``open`` is what to call."""
        self._build, self._tables = build, connect(place)
        self.place, self.meta = place, build.meta
        self._here = cache / build.meta.data
        self._files = open_table(self._tables, build, named.FILES)
        self._nodes = open_table(self._tables, build, named.NODES)
        meta = build.meta
        self.nodes = Nodes(
            self._fetched("nodes").parent, LanceDocuments(self._nodes, meta.nodes), meta.type_start, meta.alias_fields
        )
        self.graph = Graph(self._fetched(GRAPH), len(meta.relations))
        if (self.graph.nodes, self.graph.edges) != (meta.nodes, meta.edges):
            raise DataError(f"{place}: the graph has not as many nodes and edges as were written")

    @classmethod
    def open(cls, place: str, cache: Path) -> Self:
        """Open the build in use; what is to be mapped is fetched into ``cache``, once a build.

        Raises UsageError where there is none, DataError where it is damaged.
        """
        return cls(place, read_build(place, connect(place)), cache)

    def text(self, part: str) -> LanceText | None:
        """See ``Store``."""
        if part not in self._build.text:
            return None
        language = json.loads((self._fetched(part) / text.META).read_bytes())["language"]
        return LanceText(self._nodes, self._words, part, self._build.text[part], self.meta.type_start, language)

    def names(self) -> names.NameIndex | None:
        """See ``Store``."""
        there = any(name.startswith(f"{NAMES}/") for name in self.meta.files)
        return names.open(self._fetched(NAMES)) if there else None

    def vectors(self, part: str, encoder: Encoder | None) -> LanceVectors | None:
        """See ``Store``."""
        if part not in self._build.vectors:
            return None
        queries = Queries(self.meta.encoder, self._fetched(part), encoder)
        return LanceVectors(self._nodes, part, self._build.vectors[part], self.meta.type_start, queries)

    def triples(self) -> Path:
        """See ``Store``."""
        return self._fetched(TRIPLES)

    def close(self) -> None:
        """See ``Store``; nothing is held."""

    @cached_property
    def _words(self) -> Table:
        return open_table(self._tables, self._build, named.WORDS)

    def _fetched(self, part: str) -> Path:
        return fetch(self._files, self.meta, self._here, f"{part}/")
