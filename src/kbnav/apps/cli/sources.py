"""What ``kbnav skb build`` and ``update`` read: the options put together to one source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kbnav.knowledge.skb.schema import Source


class Format(StrEnum):
    """What an SKB is built from."""

    records = "records"
    stark = "stark"
    rdf = "rdf"
    primekg = "primekg"
    ogbn_mag = "ogbn-mag"
    amazon = "amazon"


class Columns(NamedTuple):
    """Which columns of the node files are what; all empty: those of records."""

    id: str = ""
    name: str = ""
    type: str = ""
    type_column: str = ""
    edges: tuple[str, ...] = ()
    text: str = ""
    split: str = ""


RECORDS = Columns()


def source_of(
    kind: Format,
    sources: Sequence[Path],
    nodes: Sequence[Path],
    edges: Sequence[Path],
    columns: Columns = RECORDS,
    tables: Path | None = None,
    language: str | None = None,
    label_properties: Sequence[str] = (),
) -> Source:
    """The input that the options name. Raises UsageError where they do not go together."""
    from kbnav.errors import UsageError
    from kbnav.knowledge.skb.importers.rdf import RdfSource
    from kbnav.settings.model import load_settings

    memory = int(load_settings().limits.import_memory * (1 << 30))
    if label_properties and kind is not Format.rdf:
        raise UsageError("--label-property goes with --from rdf only")
    if language and kind not in (Format.rdf, Format.ogbn_mag):
        raise UsageError("--language goes with --from rdf and --from ogbn-mag only")
    if any(columns) and (tables or not nodes):
        raise UsageError(
            "--id, --name, --type, --type-column, --edge, --text and --split say what columns of --nodes are"
        )
    if kind is Format.records:
        if sources or not (nodes or edges or tables):
            raise UsageError(
                "give records with --nodes and --edges; for other input say --from "
                + ", ".join(other for other in Format if other is not Format.records)
            )
        return _records(nodes, edges, columns, tables, memory)
    if nodes or edges or tables:
        raise UsageError(f"--nodes, --edges and --tables do not go with --from {kind}")
    if kind is Format.rdf and sources:
        return RdfSource(sources, language or "en", label_properties)
    if kind is not Format.rdf and len(sources) == 1:
        return _published(kind, sources[0], memory, language)
    raise UsageError(
        "give the RDF files" if kind is Format.rdf else f"give the one folder that the files of {kind} are in"
    )


def _published(kind: Format, folder: Path, memory: int, language: str | None) -> Source:
    """The files of a folder, as somebody publishes them."""
    from kbnav.knowledge.skb.importers.amazon import AmazonSource
    from kbnav.knowledge.skb.importers.mag import MagSource
    from kbnav.knowledge.skb.importers.stark import PrimeKGSource, StarkSource

    if kind is Format.ogbn_mag:
        return MagSource(folder, memory, language=language or "en")
    readers: dict[Format, Callable[[Path, int], Source]] = {
        Format.stark: StarkSource,
        Format.primekg: PrimeKGSource,
        Format.amazon: AmazonSource,
    }
    return readers[kind](folder, memory)


def _records(
    nodes: Sequence[Path], edges: Sequence[Path], columns: Columns, tables: Path | None, memory: int
) -> Source:
    from kbnav.errors import UsageError
    from kbnav.knowledge.skb.importers.tables import EdgeColumn, MappedSource, Table, TableSource, mapped_from_file

    if tables:
        if nodes or edges:
            raise UsageError("--tables names the files itself: leave out --nodes and --edges")
        return mapped_from_file(tables, memory)
    if not any(columns):
        return TableSource(nodes, edges, memory=memory)
    if columns.type and columns.type_column:
        raise UsageError("--type is the type of all nodes, --type-column has one for each: give one of them")
    try:
        ends = tuple(EdgeColumn.parse(one) for one in columns.edges)
    except ValueError as error:
        raise UsageError(str(error)) from error
    text = tuple(part.strip() for part in columns.text.split(",") if part.strip())
    mapped = [
        Table(
            file=file,
            id=columns.id,
            name=columns.name,
            type=columns.type,
            type_column=columns.type_column,
            edges=ends,
            text=text,
            split=columns.split,
        )
        for file in nodes
    ]
    return MappedSource(mapped, edge_files=edges, memory=memory)
