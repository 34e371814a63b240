"""Nodes and edges from files of records: JSON lines, CSV, TSV (each also gzipped) and Parquet.

A node record has ``id``, ``name`` and ``type`` (or ``kind``); every other field belongs to its document. An edge record
has ``source``, ``relation`` (or ``metaedge``, ``predicate``, ``type``) and ``target``. Either may say
``deleted``: true, by which an update takes a node or an edge away.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from kbnav.errors import DataError, UsageError
from kbnav.extras import needs
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

TYPE_FIELDS = ("type", "kind")
RELATION_FIELDS = ("relation", "metaedge", "predicate", "type")
DELETED = "deleted"
DELIMITED = (".csv", ".tsv")
FORMATS = (".jsonl", ".ndjson", *DELIMITED, ".parquet")
_PARSED = 32
"""How many times its line a record may take: 20 where it is full of empty lists, and more while it is read."""

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

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        """Every node record. Raises DataError with file and line where one cannot be read."""
        for path in self.node_files:
            for number, record in records(path, self.memory):
                yield _node(path, number, record)

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:
        """Every edge record; further columns are not kept and named in ``losses``."""
        for path in self.edge_files:
            if _suffix(path) in DELIMITED:
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


def records(path: Path, memory: int = MEMORY) -> Iterator[tuple[int, Record]]:
    """The records of a file with their lines, by the format its name says. Raises UsageError or DataError."""
    suffix = _suffix(path)
    if suffix == ".parquet":
        yield from _parquet(path)
    elif suffix in DELIMITED:
        lines = _cells(path, memory)
        _, header = next(lines, (0, []))
        for number, cells in lines:
            yield number, dict(zip(header, cells, strict=True))
    else:
        yield from _json_lines(path, memory)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if suffix not in FORMATS:
        raise UsageError(f"{path}: the format must show in the name: {', '.join(FORMATS)}, or one of these with .gz")
    return suffix


def _lines(path: Path, file: IO[str], memory: int) -> Iterator[str]:
    """The lines of a file. Raises DataError at one that is too long to be read."""
    longest = memory // _PARSED
    for number, line in enumerate(iter(partial(file.readline, longest + 1), ""), 1):
        if len(line) > longest:
            raise DataError(f"{_at(path, number)}: longer than {longest / (1 << 20):.3g} MiB")
        yield line


def _json_lines(path: Path, memory: int) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for number, line in enumerate(_lines(path, file, memory), 1):
            if line.isspace():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{_at(path, number)}, character {error.pos + 1}: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise DataError(f"{_at(path, number)}: {error}") from error
            if not isinstance(record, dict):
                raise DataError(f"{_at(path, number)}: not a JSON object")
            if line.count("[") + line.count("{") > DEEPEST:
                refuse_unbounded(record, memory, _at(path, number))
            yield number, record


def _cells(path: Path, memory: int) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV file, the header first, all of one length."""
    width = 0
    with _open(path) as file:
        lines = _lines(path, file, memory)
        for number, cells in _csv_lines(path, lines, memory) if _suffix(path) == ".csv" else _tsv_lines(lines):
            width = width or len(cells)
            if len(cells) != width:
                raise DataError(f"{_at(path, number)}: {len(cells)} columns where the header has {width}")
            yield number, cells


def _tsv_lines(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        cells = line.rstrip("\r\n").split("\t")
        if cells != [""]:
            yield number, cells


def _csv_lines(path: Path, lines: Iterator[str], memory: int) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(memory // _PARSED)  # a cell may have many lines
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{_at(path, reader.line_num)}: {error}") from error


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
    lines = _cells(path, memory)
    number, header = next(lines, (0, []))
    if not number:
        return
    pick = itemgetter(*(header.index(name) for name in _edge_fields(path, number, header, losses)))
    mark = header.index(DELETED) if DELETED in header else None
    for _, cells in lines:
        source, relation, target = pick(cells)
        deleted = mark is not None and _is_true(cells[mark])
        yield EdgeRecord(source.strip(), relation.strip(), target.strip(), deleted)


def _record_edges(path: Path, losses: Losses, memory: int) -> Iterator[EdgeRecord]:
    names: tuple[str, str, str] | None = None
    for number, record in records(path, memory):
        names = names or _edge_fields(path, number, list(record), losses)
        try:
            source, relation, target = (record[name] for name in names)
        except KeyError as error:
            raise DataError(f"{_at(path, number)}: an edge without {error}") from error
        yield EdgeRecord(_text(source), _text(relation), _text(target), _is_true(record.get(DELETED)))


def _edge_fields(path: Path, number: int, fields: Sequence[str], losses: Losses) -> tuple[str, str, str]:
    relation = next((name for name in RELATION_FIELDS if name in fields), RELATION_FIELDS[0])
    names = ("source", relation, "target")
    missing = [name for name in names if name not in fields]
    if missing:
        raise DataError(f"{_at(path, number)}: an edge without {', '.join(missing)}; it has {', '.join(fields)}")
    for other in [name for name in fields if name not in (*names, DELETED)]:
        losses.add("edge columns that are not kept (columns)", f"{path.name}: {other}")
    return names


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    try:
        with path.open("rb") as raw:
            binary: Any = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file:
                yield file
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:  # cut off or damaged gzip, another encoding
        raise DataError(f"{path}: {error}") from error


def _node(path: Path, number: int, record: Record) -> NodeRecord:
    if "id" not in record:
        raise DataError(f"{_at(path, number)}: a node without the field id; it has {', '.join(record)}")
    kind = next((name for name in TYPE_FIELDS if name in record), "")
    fields = {key: value for key, value in record.items() if key not in ("id", "name", kind)}
    deleted = _is_true(fields.get(DELETED))
    if deleted or _text(fields.get(DELETED)).lower() in ("", "false"):  # else it is a field like any other
        fields.pop(DELETED, None)
    return NodeRecord(_text(record["id"]), _text(record.get(kind)), _text(record.get("name")), fields, deleted)


def _at(path: Path, number: int) -> str:
    return f"{path}, {'row' if _suffix(path) == '.parquet' else 'line'} {number}"


def _is_true(value: Any) -> bool:
    return _text(value).lower() == "true"


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
