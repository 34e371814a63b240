"""Reading records with errors that say which record of which file is wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadResponse, DataError, UsageError


@dataclass(frozen=True)
class Question:
    """One question of a benchmark.

    ``texts`` maps language codes to the question. ``query`` is the gold SPARQL query, empty where there is none.
    ``answers`` is the gold answer as stored with the dataset, None where it stores none: it was right on the day it was
    recorded. ``nodes`` are the gold answers of a retrieval benchmark, as node ids, and ``grades`` say how relevant each
    is. ``meta`` keeps what else the record says, as plain JSON data. ``plain`` are stored answers that were given as
    ids or names; on an SKB they are nodes.
    """

    id: str
    texts: Mapping[str, str]
    query: str = ""
    answers: AnswerTable | None = None
    nodes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    plain: tuple[str, ...] = ()
    grades: tuple[float, ...] = ()

    def text(self, language: str = "en") -> str:
        """The question in ``language``, or in the first language it has."""
        return self.texts.get(language) or next(iter(self.texts.values()))


@dataclass(frozen=True)
class Attribution:
    """Where a dataset comes from: what must be named when its figures are published."""

    title: str
    licence: str
    citation: str


@dataclass(frozen=True)
class Dataset:
    """The questions of one dataset, in the order of its file; ``sha256`` is that of the files' uncompressed bytes."""

    name: str
    questions: tuple[Question, ...]
    source: Attribution
    sha256: str

    def __len__(self) -> int:
        return len(self.questions)


@dataclass(frozen=True)
class File:
    """A dataset's file in memory; ``path`` is for messages."""

    path: Path
    data: bytes

    @classmethod
    def open(cls, path: Path) -> File:
        """Read the whole file, unpacked where its name ends in ``.gz``. Raises UsageError, DataError."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            return cls(path, gzip.decompress(data) if path.suffix == ".gz" else data)
        except (OSError, EOFError) as error:
            raise DataError(f"{path}: not a gzip file, or cut off: {error}") from error

    def error(self, message: str) -> DataError:
        """An error that names this file, for the caller to raise."""
        return DataError(f"{self.path}: {message}")

    def text(self) -> str:
        """The content as UTF-8. Raises DataError."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(f"not UTF-8 at byte {error.start}") from error

    def json(self) -> Any:
        """The content as one JSON document. Raises DataError."""
        try:
            return json.loads(self.text())
        except ValueError as error:
            raise self.error(f"not JSON: {error}") from error

    def json_lines(self) -> Iterator[Record]:
        """One record a line that is not blank. Raises DataError."""
        for number, line in enumerate(self.text().split("\n"), 1):
            if line.strip():
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise self.error(f"record {number}: not JSON: {error}") from error
                yield Record(self.path, number, value)

    def records(self, value: Any) -> Iterator[Record]:
        """The members of a JSON list as records. Raises DataError."""
        if not isinstance(value, list):
            raise self.error(f"expected a list of records, found {kind(value)}")
        for number, item in enumerate(value, 1):
            yield Record(self.path, number, item)


class Record:
    """One record of a file; its accessors raise DataError with the record's number, counted from 1."""

    def __init__(self, path: Path, number: int, value: Any) -> None:
        self._where = f"{path}: record {number}"
        self.number = number
        if not isinstance(value, dict):
            raise self.error(f"expected an object, found {kind(value)}")
        self.value: Mapping[str, Any] = value

    def error(self, message: str) -> DataError:
        """An error that names this record, for the caller to raise."""
        return DataError(f"{self._where}: {message}")

    def get(self, name: str, *types: type) -> Any:
        """A required field of one of ``types``."""
        if name not in self.value:
            raise self.error(f"no field {name!r}")
        value = self.value[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise self.error(f"{name!r} is {kind(value)}, expected {' or '.join(t.__name__ for t in types)}")
        return value

    def text(self, name: str) -> str:
        """A required string that is not blank."""
        value: str = self.get(name, str)
        if not value.strip():
            raise self.error(f"{name!r} is empty")
        return value

    def identifier(self, name: str) -> str:
        """A required id, a string or a whole number, as a string."""
        return str(self.get(name, str, int)).strip() or self.text(name)

    def meta(self, *names: str) -> dict[str, Any]:
        """Those of the named fields that the record has."""
        return {name: self.value[name] for name in names if name in self.value}

    def table(self, document: Any) -> AnswerTable:
        """A SPARQL JSON result stored in the record; columns that its head forgets are added."""
        try:
            if "boolean" in document:
                if not isinstance(document["boolean"], bool):
                    raise self.error(f"a boolean answer is {kind(document['boolean'])}")
                return AnswerTable(boolean=document["boolean"])
            rows = document["results"]["bindings"]
            names = dict.fromkeys([*document["head"].get("vars", ()), *(name for row in rows for name in row)])
            head = {"vars": list(names)}
            return AnswerTable.from_sparql_json({"head": head, "results": {"bindings": rows}})
        except (BadResponse, KeyError, TypeError, AttributeError) as error:
            raise self.error(f"the stored answer is not a SPARQL JSON result: {error!r}") from error


def kind(value: Any) -> str:
    """How a JSON value is called in a message."""
    return "null" if value is None else type(value).__name__
