"""Text files as people have them: UTF-8, packed or not; CSV with the delimiter that its first line has most of."""

from __future__ import annotations

import csv
import gzip
import io
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from kbnav.errors import DataError, UsageError

DELIMITED = (".csv", ".tsv", ".tab")
FORMATS = (".jsonl", ".ndjson", *DELIMITED, ".parquet")
_DELIMITERS = ",;\t|"
"""Those of CSV files; of equally many the first."""
_PARSED = 32
"""How many times its line a record may take: 20 where it is full of empty lists, and more while it is read."""
_GZIP = b"\x1f\x8b"

Reject = Callable[[DataError, str], None]
"""Told of a line that cannot be read, and its text."""


class Format(StrEnum):
    """What an SKB is built from."""

    records = "records"
    stark = "stark"
    rdf = "rdf"
    primekg = "primekg"
    ogbn_mag = "ogbn-mag"
    amazon = "amazon"


class Duplicates(StrEnum):
    """What is done with rows of one id: one of them is taken whole, or all are made one node, or the build stops."""

    first = "first"
    last = "last"
    merge = "merge"
    stop = "stop"


def suffix_of(path: Path) -> str:
    """The suffix that says a file's format, without ``.gz``. Raises UsageError where it says none."""
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{path}: the format must show in the name: {', '.join(FORMATS)}, or one of these with .gz")
    return suffix


def at(path: Path, number: int) -> str:
    """Where in a file a record is, as errors say it."""
    return f"{path}, {'row' if path.suffix.lower() == '.parquet' else 'line'} {number}"


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """The file as text.

    Raises UsageError where it cannot be opened, DataError while it is read where it is damaged or not in UTF-8.
    """
    try:
        with ExitStack() as files:
            binary: Any = files.enter_context(path.open("rb"))
            if path.suffix.lower() == ".gz":
                binary = files.enter_context(gzip.GzipFile(fileobj=binary, mode="rb"))
                if binary.peek(len(_GZIP)).startswith(_GZIP):  # as some servers send what is packed already
                    binary = files.enter_context(gzip.GzipFile(fileobj=binary, mode="rb"))
            yield files.enter_context(io.TextIOWrapper(binary, "utf-8-sig", newline=""))
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise DataError(f"{path}: {error}; text must be in UTF-8") from error
    except (OSError, EOFError) as error:  # cut off or damaged gzip
        raise DataError(f"{path}: {error}") from error


def bounded_lines(path: Path, file: IO[str], memory: int) -> Iterator[str]:
    """The lines of a file. Raises DataError at one that is too long to be read."""
    longest = memory // _PARSED
    for number, line in enumerate(iter(partial(file.readline, longest + 1), ""), 1):
        if len(line) > longest:
            raise DataError(f"{at(path, number)}: longer than {longest / (1 << 20):.3g} MiB")
        yield line


def cells(path: Path, memory: int, reject: Reject | None = None) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV file, the header first, all of one length; TSV has no quoting.

    Raises UsageError, and DataError at a line that cannot be read, unless ``reject`` takes it; the lines that an open
    quotation mark drew into it are read again.
    """
    csv.field_size_limit(memory // _PARSED)  # a cell may have many lines
    with opened(path) as file:
        lines = bounded_lines(path, file, memory)
        header = next(lines, "")
        if suffix_of(path) == ".tsv":
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
                problem = DataError(f"{at(path, number)}: {wrong}")
                if not reject or not width:
                    raise problem
                reject(problem, taken[0])
                number -= len(taken) - 1
                waiting.extendleft(reversed(taken[1:]))
                reader = csv.reader(following(), strict=True, **style)
            elif line:
                yield number, line


PARTS = 128
_LEVEL = 1


class Grouped:
    """Lines by the number of their group, in packed files of a temporary folder.

    A part holds groups next to each other, so that only one part of ``PARTS`` is ever in memory.
    """

    def __init__(self, groups: int, parts: int = PARTS) -> None:
        """``groups`` is how many there are; they are numbered from 0."""
        self._groups, self._parts = groups, max(1, min(parts, groups))
        self._open = ExitStack()
        self._folder = Path(self._open.enter_context(TemporaryDirectory(prefix="kbnav-")))
        self._files: dict[int, gzip.GzipFile] = {}

    def __enter__(self) -> Grouped:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, group: int, line: bytes) -> None:
        """Put a line, which has no line break, behind those of its group."""
        part = group * self._parts // self._groups
        if part not in self._files:
            file = gzip.GzipFile(self._path(part), "wb", _LEVEL)
            self._files[part] = self._open.enter_context(file)
        self._files[part].write(b"%d %s\n" % (group, line))

    def __iter__(self) -> Iterator[list[bytes]]:
        """The lines of every group, in the order of groups, each group's as they came; nothing is added any more."""
        for file in self._files.values():
            file.close()
        for part in range(self._parts):
            found: dict[int, list[bytes]] = {}
            if part in self._files:
                with gzip.open(self._path(part), "rb") as lines:
                    for packed in lines:
                        number, _, line = packed.rstrip(b"\n").partition(b" ")
                        found.setdefault(int(number), []).append(line)
            for group in range(-(-part * self._groups // self._parts), -(-(part + 1) * self._groups // self._parts)):
                yield found.pop(group, [])

    def _path(self, part: int) -> Path:
        return self._folder / f"{part}.gz"
