"""Where tables are; and text files as people have them: UTF-8, packed or not, CSV with the delimiter of its header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BeforeValidator, PlainSerializer

from kbnav.errors import DataError, UsageError

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
