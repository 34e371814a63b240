"""Nodes and edges from files of records: JSON lines, CSV, TSV (each also gzipped) and Parquet.

A node record has ``id``, ``name`` and ``type`` (or ``kind``); every other field belongs to its document. An edge record
has ``source``, ``relation`` (or ``metaedge``, ``predicate``, ``type``) and ``target``. Either may say
``deleted``: true, by which an update takes a node or an edge away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import DELIMITED, at, bounded_lines, cells, opened, suffix_of
from kbnav.knowledge.skb.records import (
    ALIAS_FIELDS,
    DEEPEST,
    MEMORY,
    EdgeRecord,
    Losses,
    NodeRecord,
    refuse_unbounded,
)
from kbnav.knowledge.skb.schema import Style
from kbnav.settings.plugins import needs

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
