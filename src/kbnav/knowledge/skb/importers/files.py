"""Where tables are, and their rows, wherever they are, as plain values.

Text files are read as people have them: UTF-8, packed or not, CSV with the delimiter of its header. CSV, JSON and
SQLite are read by Python itself, workbooks by calamine, graphs by networkx, and the rest by DuckDB. That reads SQLite
and Excel too, but by columns of one type: it stops at a text in a column of numbers, and takes a date for a number
where the first row has none.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import json
import os
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from functools import partial
from glob import glob
from importlib.resources import files
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Annotated, Any
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from pydantic import BeforeValidator, PlainSerializer

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import parse_json
from kbnav.knowledge.skb.importers.values import as_whole
from kbnav.knowledge.skb.schema import DEEPEST, MEMORY, refuse_unbounded
from kbnav.settings.plugins import did_you_mean, needs

DELIMITED = (".csv", ".tsv", ".tab")
JSON = (".jsonl", ".ndjson", ".json")
SQLITE = (".sqlite", ".sqlite3", ".db")
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
GRAPHS = (".graphml", ".gexf", ".gml")
"""Formats that networkx reads."""
MANY = (*SQLITE, *EXCEL, *GRAPHS, ".duckdb")
"""Formats with several tables in a file."""
FORMATS = (*JSON, *DELIMITED, ".parquet", *MANY)
NODES, EDGES = "nodes", "edges"
"""The two tables of a graph."""
_DELIMITERS = ",;\t|"
"""Those of CSV files; of equally many the first."""
PARSED = 32
"""How many times its line a record may take: 20 where it is full of empty lists, and more while it is read."""
_GZIP = b"\x1f\x8b"

Reject = Callable[[DataError, str], None]
"""Told of a line that cannot be read, and its text."""


class Format(StrEnum):
    """What an SKB is built from."""

    records = "records"
    stark = "stark"
    rdf = "rdf"
    graph = "graph"
    primekg = "primekg"
    ogbn_mag = "ogbn-mag"
    amazon = "amazon"


class Duplicates(StrEnum):
    """What is done with rows of one id: one of them is taken whole, or all are made one node, or the build stops."""

    first = "first"
    last = "last"
    merge = "merge"
    stop = "stop"


@dataclass(frozen=True)
class Origin:
    """A file, or a table of one or of a database: ``shop.csv``, ``shop.xlsx#products``, ``postgresql://host/shop#products``.

    ``*`` in a path stands for any characters: all files that fit are one table. A password of an address is in none of
    its texts.
    """

    place: str
    """Path of the file, or the address."""
    table: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, given: str | Path | Origin) -> Origin:
        """Raises UsageError for an address of something else, or one that is not well formed."""
        if isinstance(given, Origin):
            return given
        text = os.fspath(given)
        before, mark, table = text.rpartition("#")
        if not (address := re.match(r"(\w{2,}):/", text)):
            suffix = Path(before).suffix.lower()
            several = suffix in MANY or (suffix in FORMATS and table in (NODES, EDGES))
            return cls(before, table) if mark and several else cls(text)
        if address[1] not in ("postgres", "postgresql"):
            raise UsageError(
                f"{address[1]}://… is no address that is read: files are, and postgresql://host/database#table"
            )
        text, _, table = text.partition("#")
        try:
            parts = urlsplit(text)
            wrong = parts.port == 0 or (not parts.netloc and "@" in text)
        except ValueError:
            wrong = True
        if wrong or "@" in parts.path + parts.query + table or "password" in parts.query:
            raise UsageError(
                f"{address[1]}://… is no address such as postgresql://user@host/database#table: give the password in "
                "PGPASSWORD, or write its marks as %23 for #, %2F for / and %40 for @"
            )
        user, at_host, host = parts.netloc.rpartition("@")
        place = parts._replace(netloc=user.partition(":")[0] + at_host + host).geturl()
        return cls(place, table, unquote(parts.password or ""))

    def __str__(self) -> str:
        return self.place + (f"#{self.table}" if self.table else "")

    @property
    def path(self) -> Path:
        """Of a file."""
        return Path(self.place)

    @property
    def name(self) -> str:
        """The last part of the place, with the table."""
        return str(self).rpartition("/")[2]

    @property
    def address(self) -> bool:
        """Whether it is a database elsewhere."""
        return "://" in self.place

    @property
    def secret(self) -> str:
        """The address with its password."""
        start, _, rest = self.place.partition("@")
        return f"{start}:{quote(self.password, safe='')}@{rest}" if self.password else self.place

    @property
    def suffix(self) -> str:
        """What says the format, without ``.gz``. Raises UsageError where nothing does."""
        if self.address:
            return "PostgreSQL"
        suffix = Path(self.path.stem if self.path.suffix.lower() == ".gz" else self.path).suffix.lower()
        if suffix not in FORMATS:
            known = ", ".join(FORMATS)
            raise UsageError(f"{self}: the format must show in the name: {known}, or one of a text with .gz")
        return suffix

    @property
    def of_graph(self) -> bool:
        """Whether its rows are the nodes or the edges of a graph."""
        return self.suffix in GRAPHS or (self.suffix not in MANY and self.table in (NODES, EDGES))

    def matching(self) -> list[Origin]:
        """Itself, or in the order of their names the files that fit it with ``*``. Raises UsageError for none."""
        if self.address or "*" not in self.place:
            return [self]
        found = [Origin(place, self.table) for place in sorted(glob(self.place))]  # noqa: PTH207 - a pattern may be absolute
        if not found:
            raise UsageError(f"{self}: no such file")
        return found

    def moved(self, start: Path, end: Path) -> Origin:
        """The same, with a path that is relative to the folder ``start`` made relative to ``end``."""
        return self if self.address else Origin(os.path.relpath(start / self.place, end), self.table)


def origins(given: Iterable[str] | None) -> tuple[Origin, ...]:
    """What options name. Raises as ``Origin.parse``."""
    return tuple(map(Origin.parse, given or ()))


Given = Annotated[Origin, BeforeValidator(Origin.parse), PlainSerializer(str)]
"""An origin in a settings file or a recipe: a text without its password."""


def at(path: Path, number: int) -> str:
    """Where in a text file a record is, as errors say it."""
    return f"{path}, line {number}"


@contextmanager
def opened(path: Path, encoding: str = "utf-8-sig", hint: str = "save it in UTF-8") -> Iterator[IO[str]]:
    """The file as text, UTF-16 by its first bytes. Raises UsageError, and DataError where it cannot be read.

    ``hint``: what is said of bytes in another encoding.
    """
    try:
        with ExitStack() as files:
            binary: Any = files.enter_context(path.open("rb"))
            if path.suffix.lower() == ".gz":
                binary = files.enter_context(gzip.GzipFile(fileobj=binary, mode="rb"))
                if binary.peek(len(_GZIP)).startswith(_GZIP):  # as some servers send what is packed already
                    binary = files.enter_context(gzip.GzipFile(fileobj=binary, mode="rb"))
            if binary.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                encoding = "utf-16"
            yield files.enter_context(io.TextIOWrapper(binary, encoding, newline=""))
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise DataError(f"{path}: {error}; {hint}") from error
    except (OSError, EOFError) as error:  # cut off or damaged gzip
        raise DataError(f"{path}: {error}") from error


def bounded_lines(path: Path, file: IO[str], memory: int) -> Iterator[str]:
    """The lines of a file. Raises DataError at one that is too long to be read."""
    longest = memory // PARSED
    for number, line in enumerate(iter(partial(file.readline, longest + 1), ""), 1):
        if len(line) > longest:
            raise DataError(f"{at(path, number)}: longer than {longest / (1 << 20):.3g} MiB")
        yield line


def cells(
    path: Path, memory: int, reject: Reject | None = None, encoding: str = "utf-8-sig"
) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV file, the header first, all of one length; TSV has no quoting.

    Raises UsageError, and DataError at a line that cannot be read, unless ``reject`` takes it; the lines that an open
    quotation mark drew into it are read again.
    """
    csv.field_size_limit(memory // PARSED)  # a cell may have many lines
    hint = 'save it in UTF-8 (in Excel as “CSV UTF-8”), or say in a TOML file (--tables) encoding = "cp1252"'
    with opened(path, encoding, hint) as file:
        lines = bounded_lines(path, file, memory)
        header = next(lines, "")
        if path.name.lower().removesuffix(".gz").endswith(".tsv"):
            style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        else:
            unquoted = "".join(header.split('"')[::2])
            style = {"delimiter": max(_DELIMITERS, key=unquoted.count)}
        waiting, taken, width, number = deque([header]), list[str](), 0, 0

        def following() -> Iterator[str]:
            while waiting or (line := next(lines, "")):
                taken.append(waiting.popleft() if waiting else line)
                yield taken[-1]

        reader = csv.reader(following(), strict=True, **style)
        while True:
            taken.clear()
            try:
                line, wrong = next(reader, None), ""
            except csv.Error as error:
                line, wrong = [], str(error)
            if line is None:
                return
            number, width = number + len(taken), width or len(line)
            if line and len(line) != width:
                wrong = f"{len(line)} columns where the header has {width}"
            if wrong:
                problem = DataError(f"{at(path, number - len(taken) + 1)}: {wrong}")
                if not reject or not width:
                    raise problem
                reject(problem, taken[0])
                number -= len(taken) - 1
                waiting.extendleft(reversed(taken[1:]))
                reader = csv.reader(following(), strict=True, **style)
            elif line:
                yield number, line


def files_fingerprint(paths: Sequence[Path], *more: str) -> str:
    """Changes with the names, sizes and times of files. Raises UsageError where one is missing."""
    parts: list[Any] = list(more)
    for path in paths:
        try:
            stat = path.stat()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}, in {path.resolve().parent}") from error
        parts.append((str(path.resolve()), stat.st_size, stat.st_mtime_ns))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


PARTS = 128
_WAITING = 1 << 16
"""Bytes of a part that are written at once."""


class Grouped(AbstractContextManager["Grouped", None]):
    """Lines by group number in temporary files, of which one of ``PARTS`` is in memory at a time."""

    def __init__(self, groups: int) -> None:
        """``groups`` is how many there are; they are numbered from 0."""
        self._groups, self._parts = groups, max(1, min(PARTS, groups))
        self._open = ExitStack()
        self._folder = Path(self._open.enter_context(TemporaryDirectory(prefix="kbnav-")))
        self._files: dict[int, IO[bytes]] = {}

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, group: int, line: bytes) -> None:
        """Put a line, which has no line break, behind those of its group."""
        part = group * self._parts // self._groups
        if part not in self._files:
            self._files[part] = self._open.enter_context(self._path(part).open("wb", _WAITING))
        self._files[part].write(b"%d %s\n" % (group, line))

    def __iter__(self) -> Iterator[list[bytes]]:
        """The lines of every group, in the order of groups, each group's as they came; nothing is added any more."""
        for file in self._files.values():
            file.close()
        for part in range(self._parts):
            found: dict[int, list[bytes]] = {}
            if part in self._files:
                with self._path(part).open("rb") as lines:
                    for one in lines:
                        number, _, line = one.rstrip(b"\n").partition(b" ")
                        found.setdefault(int(number), []).append(line)
            for group in range(-(-part * self._groups // self._parts), -(-(part + 1) * self._groups // self._parts)):
                yield found.pop(group, [])

    def _path(self, part: int) -> Path:
        return self._folder / str(part)


_BATCH = 1_000
EXTRA = "tables"
ENDS = "_start", "_end"
"""Columns of a graph's edges; with ``_id``, ``_labels`` and ``_type`` they are called as Neo4j calls them."""
_NAMES = ("name", "title", "label")
_TABLES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_catalog = 'given' AND table_schema NOT IN ('information_schema', 'pg_catalog')"""

Row = dict[str, Any]


def records(
    given: Path | Origin, memory: int = MEMORY, reject: Reject | None = None, encoding: str = "utf-8-sig"
) -> Iterator[tuple[int, Row]]:
    """A table's records with their lines, by its format. Raises UsageError, and DataError unless ``reject``."""
    origin = Origin.parse(given)
    if origin.of_graph or origin.suffix not in (*DELIMITED, *JSON):
        yield from enumerate(_rows(origin, memory), 1)
    elif origin.suffix in DELIMITED:
        lines = cells(origin.path, memory, reject, encoding)
        _, header = next(lines, (0, []))
        for number, line in lines:
            yield number, dict(zip(header, line, strict=True))
    elif origin.suffix == ".json" and _first(origin.path) == "[":
        yield from enumerate(_array(origin.path, memory), 1)
    else:
        yield from objects(origin.path, memory, reject=reject)


def objects(
    path: Path, memory: int, parse: Callable[[str], Any] = parse_json, reject: Reject | None = None
) -> Iterator[tuple[int, Row]]:
    """The objects of a file, a line each, with their line. Raises as ``records``."""
    with opened(path) as file:
        for number, line in enumerate(bounded_lines(path, file, memory), 1):
            if line.isspace():
                continue
            try:
                record = _object(line, memory, parse)
            except DataError as error:
                placed = DataError(f"{at(path, number)}{error}")
                if not reject:
                    raise placed from error
                reject(placed, line)
                continue
            yield number, record


def _first(path: Path) -> str:
    with opened(path) as file:
        return next((line.lstrip()[0] for line in iter(partial(file.readline, 1 << 10), "") if line.strip()), "")


def _array(path: Path, memory: int) -> Iterator[Row]:
    with opened(path) as file:
        text = file.read(memory // PARSED + 1)
    if len(text) > memory // PARSED:
        raise DataError(f"{path}: longer than {memory // PARSED >> 20} MiB: write a record on each line, as .jsonl")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {error}") from error
    refuse_unbounded(found, memory, str(path))
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            raise DataError(f"{path}, record {number}: not a JSON object")
        yield one


def _object(line: str, memory: int, parse: Callable[[str], Any]) -> Row:
    """The object in a line. Raises DataError, whose text goes on behind the line's place."""
    try:
        record = parse(line)
    except json.JSONDecodeError as error:
        raise DataError(f", character {error.pos + 1}: {error.msg}") from error
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise DataError(f": {error}") from error
    if not isinstance(record, dict):
        raise DataError(": not a JSON object")
    if line.count("[") + line.count("{") > DEEPEST:
        refuse_unbounded(record, memory, "")
    return record


def _rows(origin: Origin, memory: int) -> Iterator[Row]:
    if not origin.address and not origin.path.is_file():
        raise UsageError(f"{origin}: No such file")
    if origin.of_graph:
        found = _graph(origin, memory)
    elif origin.suffix in SQLITE:
        found = _sqlite(origin)
    elif origin.suffix in EXCEL:
        found = _workbook(origin)
    else:
        found = _duckdb(origin)
    for row in found:
        yield {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it; nothing for bytes, such as pictures."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (float, Decimal)):  # a price of 19.00 is 19, and a workbook has no whole numbers
        return as_whole(float(value)) if isfinite(value) else None
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    return None if isinstance(value, (bytes, bytearray)) else str(value) if isinstance(value, UUID) else value


def _chosen(origin: Origin, tables: Iterable[str]) -> str:
    known = list(tables)
    if origin.table in known:
        return origin.table
    if not origin.table and len(known) == 1:
        return known[0]
    if origin.table:
        has = f"; it has {', '.join(known[:10])}" if known else ""
        raise UsageError(f"{origin}: there is no such table{did_you_mean(origin.table, known) or has}")
    some = ", ".join(f"{origin}#{name}" for name in known[:10])
    raise UsageError(f"{origin} has {len(known)} tables: name one" + (f", as {some}" if some else ""))


def _sqlite(origin: Origin) -> Iterator[Row]:
    try:
        with closing(sqlite3.connect(f"{origin.path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode(errors="replace")
            listed = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            table = _chosen(origin, [name for (name,) in database.execute(listed)])
            found = database.execute("SELECT * FROM " + _quoted(table, '"'))
            names = [column[0] for column in found.description]
            for row in found:
                yield dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise DataError(f"{origin}: {error}") from error


def _workbook(origin: Origin) -> Iterator[Row]:
    with needs(EXTRA, "reading workbooks"):
        import python_calamine as calamine
    try:
        with calamine.CalamineWorkbook.from_path(origin.path) as book:
            lines = book.get_sheet_by_name(_chosen(origin, book.sheet_names)).iter_rows()
            filled = (line for line in lines if any(cell != "" for cell in line))
            header = [str(cell).strip() for cell in next(filled, [])]
            for line in filled:
                yield {name: cell for name, cell in zip(header, line, strict=True) if name}
    except (calamine.CalamineError, OSError) as error:
        raise DataError(f"{origin}: {error}") from error


def _duckdb(origin: Origin, what: str = "*") -> Iterator[Row]:
    with needs(EXTRA, f"reading {origin.suffix}"):
        import duckdb

        scanner = files("duckdb_extension_postgres_scanner") if origin.address else None
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False, "threads": 1}) as database:
            if scanner:
                file = f"extensions/v{duckdb.__version__}/postgres_scanner.duckdb_extension"
                database.load_extension(str(scanner / file))
            if origin.suffix == ".parquet":
                table = f"read_parquet({_quoted(str(origin.path))})"
            else:
                place, kind = (origin.secret, "TYPE postgres, ") if origin.address else (str(origin.path), "")
                database.execute(f"ATTACH {_quoted(place)} AS given ({kind}READ_ONLY)")
                tables = {
                    name if schema in ("main", "public") else f"{schema}.{name}": (schema, name)
                    for schema, name in database.execute(_TABLES).fetchall()
                }
                table = ".".join(_quoted(part, '"') for part in ("given", *tables[_chosen(origin, tables)]))
            found = database.execute(f"SELECT {what} FROM {table} AS it")
            names = [column[0] for column in found.description]
            while batch := found.fetchmany(_BATCH):
                yield from (dict(zip(names, row, strict=True)) for row in batch)
    except duckdb.Error as error:
        text = str(error).replace(origin.secret, str(origin)) if origin.address else str(error)
        raise DataError(f"{origin}: {' '.join(text.split())}") from error


def _quoted(text: str, mark: str = "'") -> str:
    return mark + text.replace(mark, 2 * mark) + mark


def contents(origin: Origin) -> str:
    """Changes with the rows of a table of a database that no file shows. Raises as ``records``."""
    return str(next(_duckdb(origin, "count(*) AS rows, sum(hash(it)) AS sum")))


def _graph(origin: Origin, memory: int) -> Iterator[Row]:
    if origin.suffix in GRAPHS:
        found = _of_networkx(origin)
    elif origin.suffix in DELIMITED:
        found = _of_neo4j_csv(origin, memory)
    else:
        found = _of_neo4j_json(origin, memory)
    for row in found:
        if (origin.table == NODES) == ("_id" in row):
            yield row


def _node(node_id: Any, labels: list[str], properties: Row) -> Row:
    row = {"_id": node_id, "_labels": next(iter(labels), ""), **properties}
    row["_name"] = row.pop(next((key for key in _NAMES if row.get(key) not in (None, "")), ""), "")
    return row | ({"labels": labels} if len(labels) > 1 else {})


def _of_networkx(origin: Origin) -> Iterator[Row]:
    with needs(EXTRA, f"reading {origin.suffix}"):
        import networkx
    read = {
        ".graphml": networkx.read_graphml,
        ".gexf": networkx.read_gexf,
        ".gml": partial(networkx.read_gml, label="id"),
    }
    try:
        graph = read[origin.suffix](origin.path)
    except (networkx.NetworkXException, SyntaxError, ValueError, LookupError, OSError) as error:
        raise DataError(f"{origin}: {error}") from error
    for node_id, given in graph.nodes(data=True):
        properties = dict(given)
        labels = next((properties.pop(key) for key in ("labels", "type", "kind") if key in properties), "")
        yield _node(node_id, [one for one in str(labels).split(":") if one], properties)
    for source, target, given in graph.edges(data=True):
        properties = dict(given)
        kind = next(
            (properties.pop(key) for key in ("type", "relation", "label", "kind") if key in properties), "linked to"
        )
        yield {"_start": source, "_type": kind, "_end": target, **properties}


def _of_neo4j_csv(origin: Origin, memory: int) -> Iterator[Row]:
    lines = cells(origin.path, memory)
    _, header = next(lines, (0, []))
    if missing := [name for name in ("_id", "_labels", *ENDS, "_type") if name not in header]:
        raise DataError(f"{origin}: not what apoc.export.csv writes: no column {missing[0]!r}")
    for _, line in lines:
        row = {name: cell for name, cell in zip(header, line, strict=True) if cell}
        if "_id" in row:
            yield _node(row.pop("_id"), [one for one in row.pop("_labels", "").split(":") if one], row)
        else:
            yield row


def _of_neo4j_json(origin: Origin, memory: int) -> Iterator[Row]:
    for number, one in objects(origin.path, memory):
        try:
            if one["type"] == "node":
                yield _node(one["id"], one.get("labels", []), one.get("properties", {}))
            else:
                ends = {"_start": one["start"]["id"], "_type": one["label"], "_end": one["end"]["id"]}
                yield {**ends, **one.get("properties", {})}
        except (LookupError, TypeError, AttributeError) as error:
            raise DataError(f"{at(origin.path, number)}: not what apoc.export.json writes: {error}") from error
