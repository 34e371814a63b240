"""Nodes and edges from tables: of JSON, CSV and TSV (each also gzipped), databases, workbooks and graphs.

docs/skb-format.md says which columns are what, unless a ``Table`` or ``Links`` say otherwise.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, ValidationError, field_validator, model_validator

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import (
    EDGES,
    ENDS,
    JSON,
    NODES,
    Duplicates,
    Format,
    Given,
    Origin,
    Reject,
    contents,
    files_fingerprint,
    records,
)
from kbnav.knowledge.skb.importers.values import OTHER, Column, column_as, kind_of
from kbnav.knowledge.skb.schema import (
    ALIAS_FIELDS,
    DANGLING,
    MEMORY,
    UNTYPED,
    EdgeArrays,
    EdgeRecord,
    Losses,
    NodeRecord,
    Source,
    Style,
)
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.journal import first_problem, read_toml
from kbnav.settings.model import Strict
from kbnav.settings.plugins import did_you_mean

TYPE_FIELDS = ("type", "kind")
RELATION_FIELDS = ("relation", "metaedge", "predicate", "type")
DELETED = "deleted"
_SAMPLED = 1_000
"""Rows that tell what a column holds, nodes that tell whether a type has numbers."""

Record = Mapping[str, Any]


class EdgeColumn(NamedTuple):
    """A column whose values are the ends of edges, written ``COLUMN[:RELATION[:TYPE]]``.

    The relation and the type of what it leads to are called as the column where nothing else is said. Where the type
    is that of a table, the values are ids of its rows; else a node is made of each value.
    """

    column: str
    relation: str
    type: str

    @classmethod
    def parse(cls, text: str | EdgeColumn) -> EdgeColumn:
        """Raises ValueError where it has no column, or more than three parts."""
        if not isinstance(text, str):
            return text
        column, *more = (part.strip() for part in text.split(":"))
        if not column or len(more) > 2:
            raise ValueError(f"an edge is written COLUMN, COLUMN:RELATION or COLUMN:RELATION:TYPE, not {text!r}")
        relation, kind = (*more, "", "")[:2]
        return cls(column, relation or column, kind or column)


class _File(Strict):
    file: Given
    empty: tuple[str, ...] = ()
    """Cells that say nothing, such as ``on request`` among prices."""
    encoding: str = "utf-8-sig"
    """Of a CSV or TSV file, such as ``cp1252``; one in UTF-16 that says so is read without."""

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            io.TextIOWrapper(io.BytesIO(), name)  # base64 and the like are no encodings of text
        except LookupError as error:
            raise ValueError(str(error)) from error
        known = codecs.lookup(name).name
        return "utf-8-sig" if known == "utf-8" else known

    def without_empty(self, record: Record) -> Record:
        """A row in which cells that say nothing are so."""
        if not self.empty:
            return record
        return {key: None if cell_text(cell) in self.empty else cell for key, cell in record.items()}

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        for what in ("type", "relation"):
            if getattr(self, what, "") and getattr(self, f"{what}_column", ""):
                raise ValueError(f"its {what} is given, or that of a column, and not both")
        return self


class Table(_File):
    """A file of nodes, and which columns are what."""

    id: str = "id"
    """Column of the ids."""
    name: str = ""
    """Column of the names; empty: ``name``, where there is one."""
    type: str = ""
    """Type of all its nodes."""
    type_column: str = ""
    """Column of the types; without this and ``type`` the column ``type`` or ``kind``, where there is one."""
    edges: tuple[Annotated[EdgeColumn, BeforeValidator(EdgeColumn.parse)], ...] = ()
    text: tuple[str, ...] | None = None
    """Columns that are the document; None: all that are nothing else."""
    split: str | tuple[tuple[str, str], ...] = ""
    """What stands between several values in one cell of an edge column, or of each; empty: a cell is one value."""
    prefix: str = ""
    """What is put before the ids, to tell them from those of another table."""
    raw: tuple[str, ...] = ()
    """Columns that stay text, whatever they look like."""
    rename: tuple[tuple[str, str], ...] = ()
    """Columns, and the names of the document's fields that they become; the other keys say columns."""

    @field_validator("rename", "split", mode="before")
    @classmethod
    def _pairs(cls, given: object) -> object:
        return tuple(given.items()) if isinstance(given, dict) else given  # a table of TOML

    @property
    def named(self) -> list[str]:
        """Every column that the mapping names."""
        single = [self.id, self.name, self.type_column]
        several = (*(self.text or ()), *self.raw, *(edge.column for edge in self.edges), *dict(self.rename))
        several += () if isinstance(self.split, str) else (*dict(self.split),)
        return [column for column in (*single, *several) if column]

    def fields(self, record: Record) -> Iterable[str]:
        """The columns of a row that are the document."""
        if self.text is not None:
            return self.text
        kind = self.type_column or next((one for one in TYPE_FIELDS if one in record), "")
        no_text = {self.id, self.name or "name", *(edge.column for edge in self.edges), "" if self.type else kind}
        return [key for key in record if key not in no_text]

    def node(self, record: Record, columns: Mapping[str, Column] = MappingProxyType({})) -> NodeRecord:
        """The node of a row; ``columns`` say how cells become values."""
        fields: dict[str, Any] = {}
        for key in self.fields(record):
            if key in record:
                column = columns.get(key) or Column(dict(self.rename).get(key, key))
                fields[column.name] = column.value(record[key])
        deleted = cell_text(record.get(DELETED)).lower()
        if deleted in ("", "false", "true"):  # else it is a field like any other
            fields.pop(DELETED, None)
        called = cell_text(record.get(self.name or "name"))
        left_out = "node deleted" if deleted == "true" else ""
        return NodeRecord(self.id_of(record), self.type_of(record), called, fields, left_out)

    def type_of(self, record: Record) -> str:
        """The type of a row's node; empty where the row has none."""
        column = self.type_column or next((one for one in TYPE_FIELDS if one in record), "")
        return self.type or cell_text(record.get(column))

    def id_of(self, record: Record) -> str:
        """The id of a row's node; empty where the row has none."""
        found = cell_text(record[self.id])
        return found and self.prefix + found

    def values(self, record: Record, edge: EdgeColumn) -> list[str]:
        """The values of an edge column in a row; of a list each."""
        cell = record.get(edge.column)
        texts = [cell_text(one) for one in (cell if isinstance(cell, (list, tuple)) else [cell])]
        split = self.split if isinstance(self.split, str) else dict(self.split).get(edge.column, "")
        parts = [part.strip() for text in texts for part in (text.split(split) if split else [text])]
        return [*dict.fromkeys(part for part in parts if part)]

    def kept(self, fields: Mapping[str, Any], edge: EdgeColumn) -> list[str]:
        """The values of an edge column that a node has as a field: those that led to no row; of text all."""
        return self.values({edge.column: fields.get(dict(self.rename).get(edge.column, edge.column))}, edge)


class Links(_File):
    """A file with an edge in each row, as a table of orders or of members is."""

    source: str = "source"
    """Column with the id of the edge's source."""
    target: str = "target"
    relation: str = ""
    """The relation of all its edges."""
    relation_column: str = ""
    """Column of the relations; without this and ``relation`` the first of ``RELATION_FIELDS`` that there is."""
    source_type: str = ""
    """Type of the table whose ids the column ``source`` has, where that table has a ``prefix``."""
    target_type: str = ""

    @property
    def named(self) -> list[str]:
        """Every column that the mapping names."""
        return [column for column in (self.source, self.target, self.relation_column) if column]

    def of(self, record: Record) -> Links:
        """The same, with the column of the relations that a row has."""
        if self.relation or self.relation_column:
            return self
        column = next((name for name in RELATION_FIELDS if name in record), RELATION_FIELDS[0])
        return self.model_copy(update={"relation_column": column})


class _Tables(Strict):
    table: tuple[Table, ...]
    links: tuple[Links, ...] = ()


@dataclass(frozen=True)
class TableSource:
    """Tables of nodes and tables of edges, either by their place or by a mapping of their columns."""

    node_files: Sequence[Path | Origin | Table]
    edge_files: Sequence[Path | Origin | Links] = ()
    alias_fields: Sequence[str] = ALIAS_FIELDS
    style: Style = "plain"
    types: Sequence[str] = ()
    relations: Sequence[str] = ()
    memory: int = MEMORY
    """Bytes that one record may take; a line is refused that could take more."""
    duplicates: Duplicates = Duplicates.first
    bad: Path | None = None
    """File for lines that cannot be read, with their reasons; None: such a line ends the build."""
    over: SKB | None = None
    """The SKB that is updated: where all values of a field are numbers, or dates, other cells cannot be read."""
    behind: Sequence[Table] = ()
    """The tables that its nodes came from: edge columns may lead to these too, and theirs to nodes that come now."""
    whole: bool = False
    """Whether these are the files of its build, read again, and not records over it."""
    _read: dict[tuple[Table, str], dict[str, Column]] = field(default_factory=dict, init=False, repr=False)

    @property
    def tables(self) -> list[Table]:
        """The tables of nodes."""
        return [one if isinstance(one, Table) else Table(file=Origin.parse(one)) for one in self.node_files]

    @property
    def _links(self) -> list[Links]:
        return [one if isinstance(one, Links) else Links(file=Origin.parse(one)) for one in self.edge_files]

    @property
    def description(self) -> str:
        """The files' names."""
        return "records: " + ", ".join(one.file.name for one in (*self.tables, *self._links))

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times, or the rows of a database, and of the mapping."""
        files = (*self.tables, *self._links)
        return files_fingerprint(
            [file.path for one in files if not one.file.address for file in one.file.matching()],
            *(contents(one.file) for one in files if one.file.address),
            *(one.model_dump_json() for one in files),
            *self.alias_fields,
            *([self.duplicates, str(self.bad)] if self.bad or self.duplicates is not Duplicates.first else []),
        )

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every row as a node, then the nodes that are made of columns. Raises UsageError, DataError with the line."""
        if self.bad:
            self.bad.unlink(missing_ok=True)
        prefixes, ends = self.prefixes(), self._ends()
        made: dict[tuple[str, str], None] = {}
        merged: dict[str, NodeRecord] = {}
        shorter = dict(self.arrived[0])
        for table, record, repeated in self._taken(losses):
            node = table.node(record, self._columns_of(table, record))
            lost = dict(self._dangling(table, record, prefixes, ends))
            node = node._replace(fields={**shorter.pop(node.id, {}), **node.fields, **lost})
            if repeated and self.duplicates is Duplicates.merge:
                merged[node.id] = _merged(merged[node.id], node) if node.id in merged else node
            else:
                yield node
            for edge in table.edges:
                if edge.type not in prefixes:
                    made.update(((edge.type, value), None) for value in table.values(record, edge))
        yield from merged.values()
        yield from (NodeRecord(one, "", "", fields) for one, fields in shorter.items())
        for kind in dict.fromkeys(kind for kind, _ in made):
            if meant := did_you_mean(kind, prefixes):
                losses.add("type of an edge column that no table has", kind + meant)
        for kind, value in made:
            yield NodeRecord(f"{kind}:{value}", kind, value, {})
        used = ((table.file.name, column) for (table, _), found in self._read.items() for column in found.values())
        for case in dict.fromkeys(f"{file}: {column.name}: {column.why}" for file, column in used if column.why):
            losses.add("column that stays text", case)

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:
        """The edges of columns, then those of files of edges, whose further columns are named in ``losses``."""
        prefixes, replaced = self.prefixes(), set[tuple[str, str]]()
        if any(table.edges for table in self.tables):
            for table, record, _ in self._taken(None):
                source, ends = table.id_of(record), dict[str, dict[str, None]]()
                for edge in table.edges if source else ():
                    if edge.column in record:
                        before = prefixes.get(edge.type, f"{edge.type}:")
                        targets = dict.fromkeys(before + one for one in table.values(record, edge))
                        ends.setdefault(edge.relation, {}).update(targets)
                for relation, targets in ends.items():
                    if self.over and not self.whole and (source, relation) not in replaced:
                        replaced.add((source, relation))  # by the first of several rows that are merged
                        yield from _replaced(self.over, source, relation, targets)
                        losses.again += _lost(self.over, table, source, relation, prefixes)
                    yield from (EdgeRecord(source, relation, target) for target in targets)
        for one in self.arrived[1]:
            if (one.source, one.relation) not in replaced:
                losses.again.append(one)
                yield one
        for given in self._links:
            for kind in {given.source_type, given.target_type} - {"", *prefixes}:
                raise UsageError(f"{given.file}: no table has the type {kind!r}{did_you_mean(kind, prefixes)}")
            before, behind = (prefixes.get(kind, "") for kind in (given.source_type, given.target_type))
            links: Links | None = None
            for record in self._rows(given, losses):
                links = links or given.of(record)
                source, target = cell_text(record[links.source]), cell_text(record[links.target])
                relation = links.relation or cell_text(record[links.relation_column])
                deleted = cell_text(record.get(DELETED)).lower() == "true"
                yield EdgeRecord(before + source, relation, behind + target, deleted)

    @cached_property
    def arrived(self) -> tuple[dict[str, dict[str, Any]], list[EdgeRecord]]:
        """What values that led nowhere become by nodes that come now: fields of ``over`` without them, and edges."""
        fields, edges = dict[str, dict[str, Any]](), list[EdgeRecord]()
        columns = [(table, edge) for table in self.behind for edge in table.edges]
        if not self.over or self.whole or not columns:
            return fields, edges
        rows = (table.node(row) for table in self.tables for row in self._rows(table, None))
        come = {(one.type, one.id) for one in rows if not one.left_out and self.over.nodes.ids.find(one.id) < 0}
        columns = [(table, edge) for table, edge in columns if edge.type in {kind for kind, _ in come}]
        prefixes, typed = self.prefixes(), {table.type for table in self.behind}
        for number, document in enumerate(self.over.documents if columns else ()):
            source, kind = self.over.id(number), self.over.type(number)
            for table, edge in columns:
                field = dict(table.rename).get(edge.column, edge.column)
                values, before = table.kept(document, edge), prefixes.get(edge.type, "")
                if not values or not (table.type == kind or not (table.type or kind in typed)):
                    continue
                ends = [before + one for one in values if (edge.type, before + one) in come]
                edges += [EdgeRecord(source, edge.relation, end) for end in ends]
                if ends and edge.column not in (table.text or ()):
                    left = [one for one in values if before + one not in ends]
                    fields.setdefault(source, {})[field] = left or None
        return fields, edges

    def _taken(self, losses: Losses | None) -> Iterator[tuple[Table, Record, bool]]:
        """The rows that become nodes: table, row, whether others have its id.

        Losses are counted once: None where they were. Raises UsageError where mapped tables share an id, DataError at
        a repeated one where that is to stop.
        """
        pairs = list(zip(self.tables, (isinstance(one, Table) for one in self.node_files), strict=True))
        counts = Counter[str]()
        if self.duplicates in (Duplicates.last, Duplicates.merge):
            counts.update(one.id_of(row) for one, _ in pairs for row in self._rows(one, None))
        seen, owners = Counter[str](), dict[str, Table]()
        for table, mapped in pairs:
            for record in self._rows(table, losses):
                node_id = table.id_of(record)
                seen[node_id] += bool(node_id)
                if mapped and node_id and (owner := owners.setdefault(node_id, table)) is not table:
                    both = f"{owner.file} and {table.file}"
                    raise UsageError(f"{both} both have the id {node_id}: give one of them a prefix")
                if seen[node_id] > 1 and self.duplicates is Duplicates.stop:
                    raise DataError(f"{table.file}: the id {node_id} is given twice: mend it, or say --duplicates")
                left = seen[node_id] > 1 if self.duplicates is Duplicates.first else seen[node_id] < counts[node_id]
                merge = self.duplicates is Duplicates.merge
                if node_id and left and losses:
                    reason = "rows merged with others of their id" if merge else "node id given twice"
                    losses.add(reason, f"{node_id} {table.node(record).name}".strip())
                if not node_id or not left or merge:
                    yield table, record, counts[node_id] > 1

    def _ends(self) -> set[str]:
        """The ids of the rows that edge columns may lead to."""
        wanted = {edge.type for table in self.tables for edge in table.edges}
        led_to = (table for table in self.tables if table.type in wanted)
        return {table.id_of(row) for table in led_to for row in self._rows(table, None)}

    def _dangling(
        self, table: Table, record: Record, prefixes: Mapping[str, str], ends: Set[str]
    ) -> Iterator[tuple[str, Any]]:
        """The cells of edge columns, but those that are text, that lead to no row; in an update others clear theirs."""
        over = self.over.nodes.ids if self.over and not self.whole else None
        for edge in table.edges:
            if edge.type in prefixes and edge.column in record and edge.column not in (table.text or ()):
                led = ((one, prefixes[edge.type] + one) for one in table.values(record, edge))
                lost = [one for one, end in led if end not in ends and not (over and over.find(end) >= 0)]
                if lost or (over and over.find(table.id_of(record)) >= 0):
                    yield dict(table.rename).get(edge.column, edge.column), lost or None

    def _columns_of(self, table: Table, record: Record) -> dict[str, Column]:
        """How the cells of a row are read; in an update as the fields of nodes of its type are."""
        node_type = table.type_of(record) if self.over else ""
        if self.over and not node_type:
            number = self.over.nodes.ids.find(table.id_of(record))
            node_type = self.over.type(number) if number >= 0 else UNTYPED
        key = table, node_type
        if key not in self._read:
            self._read[key] = self._columns(*key)
        return self._read[key]

    def _kinds(self, node_type: str) -> dict[str, str]:
        """The kinds of a type's fields of numbers or dates in the SKB; none where its first nodes have none."""
        kinds = dict[str, str]()
        if not self.over or node_type not in self.over.type_names:
            return kinds
        for read, node in enumerate(range(*self.over.type_range(node_type))):
            if read == _SAMPLED and {*kinds.values()} <= {OTHER}:
                break
            for name, value in self.over.documents[node].items():
                if kinds.get(name) != OTHER and (kind := kind_of(value)):
                    kinds[name] = kind if kinds.get(name, kind) == kind else OTHER
        return {name: kind for name, kind in kinds.items() if kind != OTHER}

    def _columns(self, table: Table, node_type: str = "") -> dict[str, Column]:
        """How texts in a table's cells are read; those of JSON only for fields that an SKB has as numbers or dates."""
        kinds, called = self._kinds(node_type), dict(table.rename)
        of_json = table.file.suffix in JSON and not table.file.of_graph
        if of_json and not kinds:
            return {}
        rows = self._first(table)
        kept = {*table.raw, *self.alias_fields, DELETED}
        names = [*dict.fromkeys(name for row in rows[: None if of_json else 1] for name in table.fields(row))]
        if of_json:
            names = [name for name in names if called.get(name, name) in kinds]
        cells = {name: [row.get(name) for row in rows] for name in names if name not in kept}
        return {name: column_as(called.get(name, name), some, kinds) for name, some in cells.items()}

    def _first(self, given: Table | Links) -> list[Record]:
        # a build stops at a line that cannot be read when it comes to it
        files = (records(one, self.memory, lambda *_: None, given.encoding) for one in given.file.matching())
        return list(map(given.without_empty, islice((row for file in files for _, row in file), _SAMPLED)))

    def described(self) -> Iterator[tuple[Origin, dict[str, tuple[str, list[Any]]]]]:
        """Each file with its columns as documents call them: the type and three values, even if a build would stop."""
        files: list[Table | Links] = [*self.tables, *self._links]
        for one in files:
            columns, found = self._columns(one) if isinstance(one, Table) else {}, {}
            called = dict(one.rename) if isinstance(one, Table) else {}
            rows = self._first(one)
            for name in dict.fromkeys(key for row in rows for key in row):
                column = columns.get(name) or Column(called.get(name, name))
                values = [column.value(row[name]) for row in rows if row.get(name) not in (None, "")]
                kinds = sorted({type(value).__name__ for value in values} - {"str"})
                kind = column.says or " or ".join(kinds) or ("text" if values else "empty")
                found[column.name] = kind, values[:3]
            yield one.file, found

    def prefixes(self) -> dict[str, str]:
        """The prefixes of ids by the tables' types. Raises UsageError where a type has two."""
        found: dict[str, str] = {}
        for table in self.tables:
            if table.type and found.setdefault(table.type, table.prefix) != table.prefix:
                raise UsageError(f"the tables of type {table.type} have different prefixes")
        return {**{one.type: one.prefix for one in self.behind if one.type}, **found}

    def _rows(self, table: Table | Links, losses: Losses | None) -> Iterator[Record]:
        def put_aside(error: DataError, line: str) -> None:
            if losses is not None and self.bad:
                losses.add(f"line that cannot be read (all are in {self.bad.name}, but for a dry run)", str(error))
                with self.bad.open("a", encoding="utf-8") as kept:
                    kept.write(json.dumps({"reason": str(error), "line": line.rstrip("\r\n")}) + "\n")

        reject = put_aside if self.bad else _stop
        for file in table.file.matching():
            one = table.model_copy(update={"file": file})
            for at, row in self._read_one(one, losses or Losses(), reject):
                columns = self._columns_of(table, row) if self.over and isinstance(table, Table) else {}
                yield _fitting(row, columns, at, reject)

    def _read_one(self, table: Table | Links, losses: Losses, reject: Reject) -> Iterator[tuple[str, Record]]:
        needed: list[str] | None = None
        missing, known = set(table.named), dict[str, None]()
        same = table.file.suffix not in JSON and not table.file.of_graph  # every record has the same columns
        for number, given in records(table.file, self.memory, reject, table.encoding):
            record = table.without_empty(given)
            if needed is None:
                table = table.of(record) if isinstance(table, Links) else table
                missing, needed = set(table.named), [table.id] if isinstance(table, Table) else table.named
            if missing or not same:
                missing.difference_update(record)
                known.update(dict.fromkeys(record))
                if same and missing:
                    break
            if lacking := [column for column in needed if column not in record]:
                what = "a node" if isinstance(table, Table) else "an edge"
                has = ", ".join(record)
                error = DataError(f"{table.file}, line {number}: {what} without {lacking[0]}; it has {has}")
                if same:
                    raise error
                reject(error, json.dumps(record, default=str))
                continue
            yield f"{table.file}, line {number}", record
        if missing and known:
            column = min(missing, key=table.named.index)
            guess = did_you_mean(column, known)
            hint = "; name the column of the ids in a TOML file: --tables" if column == "id" else ""
            raise DataError(f"{table.file} has no column {column!r}{guess}; it has {', '.join(known)}{hint}")
        if isinstance(table, Links) or table.text is not None:
            for column in known.keys() - {*table.named, DELETED}:
                losses.add("column that is not kept", f"{table.file.name}: {column}")


def _replaced(skb: SKB, source: str, relation: str, targets: Iterable[str]) -> Iterator[EdgeRecord]:
    """The edges of a node by a relation that lead to none of ``targets``, as edges to be deleted."""
    node = skb.nodes.ids.find(source)
    if node >= 0 and relation in skb.relation_names:
        old = map(skb.id, skb.graph.neighbors(node, skb.relation_number(relation), "out").tolist())
        yield from (EdgeRecord(source, relation, one, deleted=True) for one in old if one not in targets)


def _lost(skb: SKB, table: Table, source: str, relation: str, prefixes: Mapping[str, str]) -> Iterator[EdgeRecord]:
    """The edges of a node by a relation that led to no node, as far as its fields still tell."""
    number = skb.nodes.ids.find(source) if DANGLING.format(relation) in skb.meta.dropped else -1
    for edge in table.edges if number >= 0 else ():
        if edge.relation == relation:
            before = prefixes.get(edge.type, f"{edge.type}:")
            ends = (before + one for one in table.kept(skb.documents[number], edge))
            yield from (EdgeRecord(source, relation, one) for one in ends if skb.nodes.ids.find(one) < 0)


def _stop(error: DataError, _line: str) -> None:
    raise DataError(f"{error}; --bad skip leaves out what cannot be read") from error


def _fitting(record: Record, columns: Mapping[str, Column], place: str, reject: Reject) -> Record:
    """A row without the cells that its columns refuse."""
    odd = {name: column for name, column in columns.items() if column.refuses(record.get(name))}
    for name, column in odd.items():
        text = json.dumps(record[name], ensure_ascii=False, default=str)
        why = f"{column.name} is a {column.kind} in the SKB, and {text} is not clearly one"
        reject(
            DataError(f"{place}: {why} (in the TOML file, empty = [{text}] clears it, and raw keeps a column as text)"),
            json.dumps(record, default=str),
        )
    return {name: cell for name, cell in record.items() if name not in odd} if odd else record


def _merged(first: NodeRecord, second: NodeRecord) -> NodeRecord:
    """One node of two: of each field all values that differ, without empty ones."""
    fields = {}
    for key in {**first.fields, **second.fields}:
        values: list[Any] = []
        for value in (first.fields.get(key), second.fields.get(key)):
            several = value if isinstance(value, list) else [value]
            values += [one for one in several if one not in (None, "", *values)]
        fields[key] = values if len(values) > 1 else values[0] if values else first.fields.get(key)
    left_out = first.left_out or second.left_out
    return NodeRecord(first.id, first.type or second.type, first.name or second.name, fields, left_out)


def mapped_from_file(path: Path, duplicates: Duplicates = Duplicates.first, bad: Path | None = None) -> TableSource:
    """The tables that a TOML file maps, files named from its folder. Raises UsageError, DataError."""
    found = read_toml(path, _Tables, _problem)
    tables = [one.model_copy(update={"file": one.file.moved(path.parent, Path())}) for one in found.table]
    links = [one.model_copy(update={"file": one.file.moved(path.parent, Path())}) for one in found.links]
    return TableSource(tables, links, duplicates=duplicates, bad=bad)


def _problem(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] != "extra_forbidden":
        return first_problem(error)
    *within, key = first["loc"]
    model: type[Strict] = (Table if within[0] == "table" else Links) if within else _Tables
    return f"{'.'.join(map(str, within)) or 'table'}: unknown key {key!r}{did_you_mean(str(key), model.model_fields)}"


def of_graphs(files: Sequence[Path]) -> TableSource:
    """The nodes and edges of graphs: GraphML, GEXF, GML, or what Neo4j exports as CSV or JSON."""
    start, end = ENDS
    return TableSource(
        [Table(file=Origin(str(path), NODES), id="_id", name="_name", type_column="_labels") for path in files],
        [Links(file=Origin(str(path), EDGES), source=start, target=end, relation_column="_type") for path in files],
    )


def cell_text(value: Any) -> str:
    """An id, a name or the like as a text; empty for none. Whole numbers that a database has as 7.0 are as others."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value).strip()


# What an SKB was built from, written into its ``meta.json`` so that an update can read the same again

_OTHER = "of a type that was not asked for"


class OfTypes:
    """Nodes of some types of a source and edges between them, ids as they are (Agent Retriever, A.2.3)."""

    def __init__(self, source: Source, types: Sequence[str]) -> None:
        self._source, self._wanted = source, frozenset(types)
        self.description = f"{source.description}; of it {', '.join(types)}"
        self.fingerprint = hashlib.sha256("\n".join([source.fingerprint, *types]).encode()).hexdigest()
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
