"""What an SKB was built from, written into its ``meta.json`` so that an update can read the same again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Self

from kbnav.errors import UsageError
from kbnav.knowledge.skb.importers.files import Duplicates, Format, Given
from kbnav.knowledge.skb.importers.tables import TableSource, mapped_from_file, of_graphs
from kbnav.knowledge.skb.schema import EdgeArrays, EdgeRecord, Losses, NodeRecord, Source
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.model import Strict

_OTHER = "of a type that was not asked for"


class OfTypes:
    """Nodes of some types of a source and edges between them, ids as they are (Agent Retriever, A.2.3)."""

    def __init__(self, source: Source, types: Sequence[str]) -> None:
        self._source, self._wanted = source, frozenset(types)
        self.description = f"{source.description}; of it {', '.join(types)}"
        self.fingerprint = sha256("\n".join([source.fingerprint, *types]).encode()).hexdigest()
        self.style, self.alias_fields = source.style, source.alias_fields
        self.types: Sequence[str] = [kind for kind in source.types if kind in self._wanted]
        self.relations = source.relations
        self._others: set[str] = set()

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """See ``Source``."""
        for record in self._source.nodes(losses):
            wanted = record.type in self._wanted
            if not wanted:
                self._others.add(record.id)
            yield record if wanted else record._replace(left_out=f"node {_OTHER}")

    def edges(self, losses: Losses) -> Iterator[EdgeRecord | EdgeArrays]:
        """See ``Source``; edges to nodes of other types that were read are counted as that."""
        for item in self._source.edges(losses):
            if isinstance(item, EdgeRecord) and {item.source, item.target} & self._others:
                losses.add(f"edge “{item.relation}” to a node {_OTHER}", f"{item.source} {item.relation} {item.target}")
            else:
                yield item


def bad_lines_file(skb: Path, update: int = 0) -> Path:
    """Where lines that cannot be read go, beside the SKB; those of its updates with their number."""
    return Path(f"{skb}.bad{f'-{update}' if update else ''}.jsonl")


class Recipe(Strict):
    """Files and how they are read."""

    format: Format = Format.records
    sources: tuple[Path, ...] = ()
    nodes: tuple[Given, ...] = ()
    edges: tuple[Given, ...] = ()
    tables: Path | None = None
    """TOML file that maps tables; it is read again as well."""
    language: str = "en"
    labels: tuple[str, ...] = ()
    """IRIs of RDF's properties of names."""
    duplicates: Duplicates = Duplicates.first
    types: tuple[str, ...] = ()
    """Of all nodes only those of these types, with the edges between them; empty: all."""
    bad: Path | None = None
    """File for lines that cannot be read; None: such a line ends the build."""
    updates: tuple[Recipe, ...] = ()
    """Records that were put over the first ones, in order."""

    def moved(self, start: Path, end: Path) -> Self:
        """The same, with paths that are relative to the folder ``start`` made relative to ``end``."""

        def move(path: Path | None) -> Path | None:
            return path and Path(os.path.relpath(start / path, end))

        names = ("nodes", "edges", "updates")
        records = {name: tuple(one.moved(start, end) for one in getattr(self, name)) for name in names}
        paths = {"sources": tuple(map(move, self.sources)), "tables": move(self.tables), "bad": move(self.bad)}
        return self.model_copy(update={**records, **paths})

    def source(self, over: SKB | None = None, *, whole: bool = False, behind: Iterable[Recipe] = ()) -> Source:
        """What to build from, but for the updates; ``over`` and ``whole`` as of a ``TableSource``.

        ``behind``: the recipes whose nodes ``over`` has.

        Raises UsageError, and DataError for a bad TOML file.
        """
        source = self._source()
        if over and isinstance(source, TableSource):
            read = (one._source() for one in behind)
            tables = [table for one in read if isinstance(one, TableSource) for table in one.tables]
            source = replace(source, over=over, whole=whole, behind=tables)
        return OfTypes(source, self.types) if self.types else source

    def _source(self) -> Source:
        from kbnav.knowledge.skb.importers.amazon import AmazonSource
        from kbnav.knowledge.skb.importers.rdf import RdfSource
        from kbnav.knowledge.skb.importers.stark import MagSource, PrimeKGSource, StarkSource

        for path in (*self.sources, *filter(None, [self.tables])):
            if address := re.match(r"\w{2,}:/", str(path)):  # what follows may hold a password
                raise UsageError(
                    f"{address[0]}… is an address: give it to --nodes and --edges, or name it in your TOML file"
                )
        if self.format is Format.records:
            if self.sources or not (self.nodes or self.edges or self.tables):
                others = ", ".join(other for other in Format if other is not Format.records)
                raise UsageError(f"give records with --nodes and --edges; for other input say --from {others}")
            if self.tables and (self.nodes or self.edges):
                raise UsageError("--tables names the files itself: leave out --nodes and --edges")
            if self.tables:
                return mapped_from_file(self.tables, duplicates=self.duplicates, bad=self.bad)
            return TableSource(self.nodes, self.edges, duplicates=self.duplicates, bad=self.bad)
        if self.nodes or self.edges or self.tables or self.bad or self.duplicates is not Duplicates.first:
            given = "--nodes, --edges, --tables, --duplicates and --bad"
            raise UsageError(f"{given} do not go with --from {self.format}")
        if self.format in (Format.rdf, Format.graph) and not self.sources:
            raise UsageError(f"give the files of {self.format}")
        if self.format is Format.graph:
            return of_graphs(self.sources)
        if self.format is Format.rdf:
            return RdfSource(self.sources, self.language, self.labels)
        if len(self.sources) != 1:
            raise UsageError(f"give the one folder that the files of {self.format} are in")
        readers: dict[Format, Callable[[Path], Source]] = {
            Format.stark: StarkSource,
            Format.primekg: PrimeKGSource,
            Format.amazon: AmazonSource,
            Format.ogbn_mag: partial(MagSource, language=self.language),
        }
        return readers[self.format](self.sources[0])
