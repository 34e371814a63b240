"""The store of an SKB on LanceDB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

import numpy as np

from kbnav.encoders import Encoder
from kbnav.errors import DamagedKB, DataError
from kbnav.knowledge.skb import names, text
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.lance import tables as named
from kbnav.knowledge.skb.lance.files import fetch
from kbnav.knowledge.skb.lance.places import FOLDER, Places
from kbnav.knowledge.skb.lance.storage import connect, reaching
from kbnav.knowledge.skb.lance.tables import DOCUMENT, KEY, Build, Table, open_table, read_build
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

    def __init__(self, nodes: Table, places: Places, count: int) -> None:
        self._table, self._places, self._count = nodes, places, count
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
        wanted = self._places.rows(np.array(nodes)).tolist()
        with reaching(self._table.uri):
            rows = self._table.take_offsets(wanted).select([KEY, DOCUMENT]).to_arrow()
        numbers = self._places.numbers(rows[KEY].to_numpy()).tolist()
        found = dict(zip(numbers, rows[DOCUMENT].to_pylist(), strict=True))
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
        self.build, self._tables = build, connect(place)
        self.place, self.meta, self.approximate = place, build.meta, build.approximate
        self._here = cache / build.meta.data
        self._files = open_table(self._tables, build, named.FILES)
        self._nodes = open_table(self._tables, build, named.NODES)
        meta = build.meta
        moved = any(name.startswith(f"{FOLDER}/") for name in meta.files)
        self.places = Places(meta.type_start, self._fetched(FOLDER) if moved else None)
        documents = LanceDocuments(self._nodes, self.places, meta.nodes)
        self.nodes = Nodes(self._fetched("nodes").parent, documents, meta.type_start, meta.alias_fields)
        self.graph = Graph(self._fetched(GRAPH), len(meta.relations))
        if (self.graph.nodes, self.graph.edges) != (meta.nodes, meta.edges):
            raise DataError(f"{place}: the graph has not as many nodes and edges as were written")

    @classmethod
    def open(cls, place: str, cache: Path, version: int | None = None) -> Self:
        """Open the build in use, or that of a number; what is to be mapped is fetched into ``cache``, once a build.

        Raises UsageError where there is none, DataError where it is damaged, ServiceError where the object store does
        not answer.
        """
        return cls._opened(place, read_build(place, version), cache)

    @classmethod
    @reading("its tables")
    def _opened(cls, place: str, build: Build, cache: Path) -> Self:
        with reaching(place):
            return cls(place, build, cache)

    @reading("the text index")
    def text(self, part: str) -> LanceText | None:
        """See ``Store``."""
        if part not in self.build.text:
            return None
        language = json.loads((self._fetched(part) / text.META).read_bytes())["language"]
        stats = self.build.text[part]
        return LanceText(self._nodes, self._words, part, stats, self.places, self.meta.nodes, language)

    def names(self) -> names.NameIndex | None:
        """See ``Store``."""
        there = any(name.startswith(f"{NAMES}/") for name in self.meta.files)
        return names.open(self._fetched(NAMES)) if there else None

    @reading("the index of vectors")
    def vectors(self, part: str, encoder: Encoder | None) -> LanceVectors | None:
        """See ``Store``."""
        if part not in self.build.vectors:
            return None
        queries = Queries(self.meta.encoder, self._fetched(part), encoder)
        shape = (self.meta.nodes, self.build.vectors[part])
        return LanceVectors(self._nodes, part, shape, self.places, queries, approximate=self.approximate)

    def triples(self) -> Path:
        """See ``Store``."""
        return self._fetched(TRIPLES)

    def sizes(self) -> dict[str, int]:
        """See ``Store``: by table."""
        with reaching(self.place):
            return {table.name: int(table.stats()["total_bytes"]) for table in (self._nodes, self._words, self._files)}

    def close(self) -> None:
        """See ``Store``; nothing is held."""

    @cached_property
    @reading("the table of words")
    def _words(self) -> Table:
        with reaching(self.place):
            return open_table(self._tables, self.build, named.WORDS)

    def fetched(self, name: str) -> Path:
        """A file of the build, on this machine."""
        return self._fetched(name.partition("/")[0]) / name.partition("/")[2]

    @reading("the table of files")
    def _fetched(self, part: str) -> Path:
        with reaching(self.place):
            return fetch(self._files, self.meta, self._here, f"{part}/")
