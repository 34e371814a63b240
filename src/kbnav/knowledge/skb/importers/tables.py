"""Nodes and edges from files of records: JSON lines, CSV, TSV (each also gzipped) and Parquet.

A node record has ``id``, ``name`` and ``type`` (or ``kind``); every other field belongs to its document. An edge record
has ``source``, ``relation`` (or ``metaedge``, ``predicate``, ``type``) and ``target``. Either may say
``deleted``: true, by which an update takes a node or an edge away.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import DELIMITED, at, bounded_lines, cells, opened, suffix_of
from kbnav.knowledge.skb.schema import (
    ALIAS_FIELDS,
    DEEPEST,
    MEMORY,
    EdgeRecord,
    Losses,
    NodeRecord,
    Style,
    refuse_unbounded,
)
from kbnav.settings.plugins import did_you_mean, needs

TYPE_FIELDS = ("type", "kind")
RELATION_FIELDS = ("relation", "metaedge", "predicate", "type")
DELETED = "deleted"

Record = Mapping[str, Any]


@dataclass(frozen=True)
class TableSource:
    """Node files and edge files; either may be empty."""

    node_files: Sequence[Path]
    edge_files: Sequence[Path] = ()
    alias_fields: Sequence[str] = ALIAS_FIELDS
    style: Style = "plain"
    types: Sequence[str] = ()
    relations: Sequence[str] = ()
    memory: int = MEMORY
    """Bytes that one record may take; a line is refused that could take more."""

    @property
    def description(self) -> str:
        """The files' names."""
        return "records: " + ", ".join(path.name for path in (*self.node_files, *self.edge_files))

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times."""
        return files_fingerprint((*self.node_files, *self.edge_files), *self.alias_fields)

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every node record. Raises DataError with file and line where one cannot be read."""
        for path in self.node_files:
            for number, record in records(path, losses, self.memory):
                yield _node(path, number, record)

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:
        """Every edge record; further columns are not kept and named in ``losses``."""
        for path in self.edge_files:
            if suffix_of(path) in DELIMITED:
                yield from _delimited_edges(path, losses, self.memory)
            else:
                yield from _record_edges(path, losses, self.memory)


def files_fingerprint(paths: Sequence[Path], *more: str) -> str:
    """Changes with the names, sizes and times of files. Raises UsageError where one is missing."""
    parts: list[Any] = list(more)
    for path in paths:
        try:
            stat = path.stat()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        parts.append((str(path.resolve()), stat.st_size, stat.st_mtime_ns))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def records(path: Path, losses: Losses, memory: int = MEMORY) -> Iterator[tuple[int, Record]]:
    """The records of a file with their lines, by the format its name says. Raises UsageError or DataError."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        yield from _parquet(path)
    elif suffix in DELIMITED:
        lines = cells(path, losses, memory)
        _, header = next(lines, (0, []))
        for number, line in lines:
            yield number, dict(zip(header, line, strict=True))
    else:
        yield from _json_lines(path, memory)


def _json_lines(path: Path, memory: int) -> Iterator[tuple[int, Record]]:
    with opened(path) as file:
        for number, line in enumerate(bounded_lines(path, file, memory), 1):
            if line.isspace():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{at(path, number)}, character {error.pos + 1}: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise DataError(f"{at(path, number)}: {error}") from error
            if not isinstance(record, dict):
                raise DataError(f"{at(path, number)}: not a JSON object")
            if line.count("[") + line.count("{") > DEEPEST:
                refuse_unbounded(record, memory, at(path, number))
            yield number, record


def _parquet(path: Path) -> Iterator[tuple[int, Record]]:
    with needs("parquet", "reading Parquet"):
        import pyarrow as arrow
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(path) as file:
            yield from enumerate((record for batch in file.iter_batches() for record in batch.to_pylist()), 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:  # ValueError: times no Python type holds
        raise DataError(f"{path}: {error}") from error


def _delimited_edges(path: Path, losses: Losses, memory: int) -> Iterator[EdgeRecord]:
    lines = cells(path, losses, memory)
    number, header = next(lines, (0, []))
    if not number:
        return
    pick = itemgetter(*(header.index(name) for name in _edge_fields(path, number, header, losses)))
    mark = header.index(DELETED) if DELETED in header else None
    for _, line in lines:
        source, relation, target = pick(line)
        deleted = mark is not None and _is_true(line[mark])
        yield EdgeRecord(source.strip(), relation.strip(), target.strip(), deleted)


def _record_edges(path: Path, losses: Losses, memory: int) -> Iterator[EdgeRecord]:
    names: tuple[str, str, str] | None = None
    for number, record in records(path, losses, memory):
        names = names or _edge_fields(path, number, list(record), losses)
        try:
            source, relation, target = (record[name] for name in names)
        except KeyError as error:
            raise DataError(f"{at(path, number)}: an edge without {error}") from error
        yield EdgeRecord(cell_text(source), cell_text(relation), cell_text(target), _is_true(record.get(DELETED)))


def _edge_fields(path: Path, number: int, fields: Sequence[str], losses: Losses) -> tuple[str, str, str]:
    relation = next((name for name in RELATION_FIELDS if name in fields), RELATION_FIELDS[0])
    names = ("source", relation, "target")
    missing = [name for name in names if name not in fields]
    if missing:
        raise DataError(f"{at(path, number)}: an edge without {', '.join(missing)}; it has {', '.join(fields)}")
    for other in [name for name in fields if name not in (*names, DELETED)]:
        losses.add("edge columns that are not kept (columns)", f"{path.name}: {other}")
    return names


def _node(path: Path, number: int, record: Record) -> NodeRecord:
    if "id" not in record:
        raise DataError(f"{at(path, number)}: a node without the field id; it has {', '.join(record)}")
    kind = next((name for name in TYPE_FIELDS if name in record), "")
    fields = {key: value for key, value in record.items() if key not in ("id", "name", kind)}
    deleted = _is_true(fields.get(DELETED))
    if deleted or cell_text(fields.get(DELETED)).lower() in ("", "false"):  # else it is a field like any other
        fields.pop(DELETED, None)
    return NodeRecord(
        cell_text(record["id"]), cell_text(record.get(kind)), cell_text(record.get("name")), fields, deleted
    )


def _is_true(value: Any) -> bool:
    return cell_text(value).lower() == "true"


def cell_text(value: Any) -> str:
    """An id, a name or the like as a text; empty for none."""
    return "" if value is None else str(value).strip()


class EdgeColumn(NamedTuple):
    """A column whose values are the ends of edges, written ``COLUMN[:RELATION[:TYPE]]``.

    The relation and the type of what it leads to are called as the column where nothing else is said. Where the type
    is that of a table, the values are ids of its rows; else a node is made of each value.
    """

    column: str
    relation: str
    type: str

    @classmethod
    def parse(cls, text: str) -> EdgeColumn:
        """Raises ValueError where it has no column, or more than three parts."""
        column, *more = (part.strip() for part in text.split(":"))
        if not column or len(more) > 2:
            raise ValueError(f"an edge is written COLUMN, COLUMN:RELATION or COLUMN:RELATION:TYPE, not {text!r}")
        relation, kind = (*more, "", "")[:2]
        return cls(column, relation or column, kind or column)


def _edge_columns(given: Any) -> Any:
    return [EdgeColumn.parse(one) if isinstance(one, str) else one for one in given]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Table(_Strict):
    """A file of records, and which columns are what."""

    file: Path
    id: str = ""
    """Column of the ids; empty: ``id``."""
    name: str = ""
    """Column of the names; empty: ``name``, where there is one."""
    type: str = ""
    """Type of all its nodes."""
    type_column: str = ""
    """Column of the types; without this and ``type`` the column ``type`` or ``kind``, where there is one."""
    edges: Annotated[tuple[EdgeColumn, ...], BeforeValidator(_edge_columns)] = ()
    text: tuple[str, ...] = ()
    """Columns that are the document; empty: all that are nothing else."""
    split: str = ""
    """What stands between several values in one cell of an edge column; empty: a cell is one value."""
    prefix: str = ""
    """What is put before the ids, to tell them from those of another table."""

    @model_validator(mode="after")
    def _one_type(self) -> Table:
        if self.type and self.type_column:
            raise ValueError("its nodes have one type, or that of a column, and not both")
        return self

    @property
    def named(self) -> list[str]:
        """Every column that the mapping names."""
        single = [self.id or "id", self.name, self.type_column]
        return [column for column in (*single, *self.text, *(edge.column for edge in self.edges)) if column]


class Links(_Strict):
    """A file with an edge in each row, as a table of orders or of members is."""

    file: Path
    source: str
    """Column with the id of the edge's source."""
    target: str
    relation: str = ""
    """The relation of all its edges."""
    relation_column: str = ""
    source_type: str = ""
    """Type of the table whose ids the column ``source`` has, where that table has a ``prefix``."""
    target_type: str = ""

    @model_validator(mode="after")
    def _one_relation(self) -> Links:
        if bool(self.relation) == bool(self.relation_column):
            raise ValueError("a table of links has relation or relation_column")
        return self

    @property
    def named(self) -> list[str]:
        """Every column that the mapping names."""
        return [column for column in (self.source, self.target, self.relation_column) if column]


class _Tables(_Strict):
    table: tuple[Table, ...]
    links: tuple[Links, ...] = ()


@dataclass(frozen=True)
class MappedSource:
    """Tables and tables of links."""

    tables: Sequence[Table]
    links: Sequence[Links] = ()
    alias_fields: Sequence[str] = ALIAS_FIELDS
    style: Style = "plain"
    types: Sequence[str] = ()
    relations: Sequence[str] = ()
    memory: int = MEMORY

    @property
    def _files(self) -> list[Path]:
        return [*(one.file for one in self.tables), *(one.file for one in self.links)]

    @property
    def description(self) -> str:
        """The files' names."""
        return "tables: " + ", ".join(path.name for path in self._files)

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times, and of the mapping."""
        mapping = [one.model_dump_json() for one in (*self.tables, *self.links)]
        return files_fingerprint(self._files, *mapping, *self.alias_fields)

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every row as a node, then the nodes that are made of columns. Raises UsageError, DataError."""
        prefixes = self._prefixes()
        owners: dict[str, int] = {}
        made: dict[tuple[str, str], None] = {}
        for place, table in enumerate(self.tables):
            for record in self._rows(table, losses):
                node = _node_mapped(table, record)
                owner = owners.setdefault(node.id, place)
                if owner != place:
                    both = f"{self.tables[owner].file} and {table.file}"
                    raise UsageError(f"{both} both have the id {node.id}: give one of them a prefix")
                yield node
                for edge in table.edges:
                    if edge.type not in prefixes:
                        made.update(((edge.type, value), None) for value in _values(record.get(edge.column), table))
        for kind, value in made:
            yield NodeRecord(_made_id(kind, value), kind, value, {})

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:
        """The edges of columns, of tables of links, and of edge records."""
        prefixes = self._prefixes()
        for table in self.tables:
            for record in self._rows(table, Losses()):  # what is lost of it was counted with the nodes
                source = table.prefix + cell_text(record[table.id or "id"])
                for edge in table.edges:
                    known = edge.type in prefixes
                    for value in _values(record.get(edge.column), table):
                        target = prefixes[edge.type] + value if known else _made_id(edge.type, value)
                        yield EdgeRecord(source, edge.relation, target)
        for links in self.links:
            before = [self._prefix(links, kind, prefixes) for kind in (links.source_type, links.target_type)]
            for record in self._rows(links, losses):
                source, target = (cell_text(record.get(column)) for column in (links.source, links.target))
                relation = links.relation or cell_text(record.get(links.relation_column))
                yield EdgeRecord(before[0] + source, relation, before[1] + target)

    def _prefixes(self) -> dict[str, str]:
        """What the ids of each table begin with, by the type of its nodes."""
        found: dict[str, str] = {}
        for table in self.tables:
            if table.type and found.setdefault(table.type, table.prefix) != table.prefix:
                raise UsageError(f"the tables of type {table.type} have different prefixes")
        return found

    @staticmethod
    def _prefix(links: Links, kind: str, prefixes: Mapping[str, str]) -> str:
        if kind and kind not in prefixes:
            raise UsageError(f"{links.file}: no table has the type {kind!r}{did_you_mean(kind, prefixes)}")
        return prefixes.get(kind, "")

    def _rows(self, table: Table | Links, losses: Losses) -> Iterator[Record]:
        """The records of a table, in which every column that the mapping names was found."""
        missing, known = set(table.named), dict[str, None]()
        same = suffix_of(table.file) in (*DELIMITED, ".parquet")  # every record has the same columns
        for number, record in records(table.file, losses, self.memory):
            if missing or not same:
                missing.difference_update(record)
                known.update(dict.fromkeys(record))
                if same and missing:
                    break
            if isinstance(table, Table) and (table.id or "id") not in record:
                raise DataError(f"{at(table.file, number)}: a record without {table.id or 'id'}")
            yield record
        if missing and known:
            column = min(missing, key=table.named.index)
            guess = did_you_mean(column, known)
            raise UsageError(f"{table.file} has no column {column!r}{guess}; it has {', '.join(known)}")
        if isinstance(table, Table) and table.text:
            used = set(table.named)
            for column in known:
                if column not in used:
                    losses.add("columns that are not kept (columns)", f"{table.file.name}: {column}")


def mapped_from_file(path: Path, memory: int = MEMORY) -> MappedSource:
    """The tables that a TOML file maps (``[[table]]``, ``[[links]]``), with files named from its own folder.

    Raises UsageError where it cannot be opened, DataError where it is not such a file.
    """
    try:
        found = _Tables.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    tables = [one.model_copy(update={"file": path.parent / one.file}) for one in found.table]
    links = [one.model_copy(update={"file": path.parent / one.file}) for one in found.links]
    return MappedSource(tables, links, memory=memory)


def _node_mapped(table: Table, record: Record) -> NodeRecord:
    name = table.name or "name"
    kind = table.type_column or next((one for one in TYPE_FIELDS if one in record), "")
    no_text = {table.id or "id", name, *(edge.column for edge in table.edges), "" if table.type else kind}
    fields = {key: record.get(key) for key in table.text or (key for key in record if key not in no_text)}
    node_type = table.type or cell_text(record.get(kind))
    return NodeRecord(
        table.prefix + cell_text(record[table.id or "id"]), node_type, cell_text(record.get(name)), fields
    )


def _values(cell: Any, table: Table) -> list[str]:
    """The values of an edge column's cell; of a list each."""
    many = cell if isinstance(cell, (list, tuple)) else [cell]
    texts = [part for one in many for part in (cell_text(one).split(table.split) if table.split else [cell_text(one)])]
    return [text.strip() for text in texts if text.strip()]


def _made_id(kind: str, value: str) -> str:
    return f"{kind}:{value}"
