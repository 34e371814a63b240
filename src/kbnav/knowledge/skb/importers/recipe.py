"""What an SKB was built from, written into its ``meta.json`` so that an update can read the same again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from kbnav.errors import UsageError
from kbnav.knowledge.skb.importers.files import Duplicates, Format, Given
from kbnav.knowledge.skb.importers.tables import TableSource, mapped_from_file, of_graphs
from kbnav.knowledge.skb.schema import Source

_MEMORY = 2 << 30
"""Bytes that one record, pickle or tensor may take while an SKB is built."""


class Recipe(BaseModel):
    """Files and how they are read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
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
    bad: Path | None = None
    """File for lines that cannot be read; None: such a line ends the build."""
    updates: tuple[Recipe, ...] = ()
    """Records that were put over the first ones, in order."""

    def moved(self, start: Path, end: Path) -> Self:
        """The same, with paths that are relative to the folder ``start`` made relative to ``end``."""

        def move(path: Path | None) -> Path | None:
            return path and Path(os.path.relpath(start / path, end))

        paths = {name: tuple(one.moved(start, end) for one in getattr(self, name)) for name in ("nodes", "edges")}
        paths["sources"] = tuple(map(move, self.sources))
        single = {name: move(getattr(self, name)) for name in ("tables", "bad")}
        updates = tuple(one.moved(start, end) for one in self.updates)
        return self.model_copy(update={**paths, **single, "updates": updates})

    def source(self) -> Source:
        """What to build from, but for the updates. Raises UsageError, and DataError for a bad TOML file."""
        from kbnav.knowledge.skb.importers.amazon import AmazonSource
        from kbnav.knowledge.skb.importers.mag import MagSource
        from kbnav.knowledge.skb.importers.rdf import RdfSource
        from kbnav.knowledge.skb.importers.stark import PrimeKGSource, StarkSource

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
                return mapped_from_file(self.tables, _MEMORY, self.duplicates, self.bad)
            return TableSource(self.nodes, self.edges, memory=_MEMORY, duplicates=self.duplicates, bad=self.bad)
        if self.format is Format.graph and self.sources and not (self.nodes or self.edges or self.tables or self.bad):
            return of_graphs(self.sources, _MEMORY, self.duplicates)
        if self.nodes or self.edges or self.tables or self.bad or self.duplicates is not Duplicates.first:
            given = "--nodes, --edges, --tables, --duplicates and --bad"
            raise UsageError(f"{given} do not go with --from {self.format}")
        if self.format is Format.rdf:
            if not self.sources:
                raise UsageError("give the RDF files")
            return RdfSource(self.sources, self.language, self.labels)
        if len(self.sources) != 1:
            raise UsageError(f"give the one folder that the files of {self.format} are in")
        if self.format is Format.ogbn_mag:
            return MagSource(self.sources[0], _MEMORY, language=self.language)
        readers: dict[Format, Callable[[Path, int], Source]] = {
            Format.stark: StarkSource,
            Format.primekg: PrimeKGSource,
            Format.amazon: AmazonSource,
        }
        return readers[self.format](self.sources[0], _MEMORY)
