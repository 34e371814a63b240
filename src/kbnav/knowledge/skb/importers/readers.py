"""The rows of tables, wherever they are, as plain values.

CSV, JSON and SQLite are read by Python itself, workbooks by calamine, graphs by networkx, and the rest by DuckDB. That
reads SQLite and Excel too, but by columns of one type: it stops at a text in a column of numbers, and takes a date for
a number where the first row has none.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import date, time
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import parse_json
from kbnav.knowledge.skb.importers.files import (
    DELIMITED,
    EXCEL,
    GRAPHS,
    JSON,
    NODES,
    PARSED,
    SQLITE,
    Origin,
    Reject,
    at,
    bounded_lines,
    cells,
    opened,
)
from kbnav.knowledge.skb.schema import DEEPEST, MEMORY, refuse_unbounded
from kbnav.settings.plugins import did_you_mean, needs

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
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
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
                row = {name: cell for name, cell in zip(header, line, strict=True) if name}
                yield {  # a workbook has no whole numbers
                    name: int(cell) if isinstance(cell, float) and cell.is_integer() else cell
                    for name, cell in row.items()
                }
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
