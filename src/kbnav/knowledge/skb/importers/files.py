"""Text files as people have them: packed or not, in the encoding and with the delimiter that their program chose.

UTF-16 is known by its mark; a CSV or TSV that is neither is read as Windows-1252, which older
programs write, and counted. The delimiter of a CSV is the one that its first line has most of.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.schema import Losses

DELIMITED = (".csv", ".tsv", ".tab")
FORMATS = (".jsonl", ".ndjson", *DELIMITED, ".parquet")
_DELIMITERS = ",;\t|"
"""Those of CSV files; of equally many the first."""
_PARSED = 32
"""How many times its line a record may take: 20 where it is full of empty lists, and more while it is read."""
_GZIP = b"\x1f\x8b"
_SAMPLE = 1 << 12
_CHUNK = 1 << 20


def suffix_of(path: Path) -> str:
    """The suffix that says a file's format, without ``.gz``. Raises UsageError where it says none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    if suffix not in FORMATS:
        raise UsageError(f"{path}: the format must show in the name: {', '.join(FORMATS)}, or one of these with .gz")
    return suffix


def at(path: Path, number: int) -> str:
    """Where in a file a record is, as errors say it."""
    return f"{path}, {'row' if path.suffix.lower() == '.parquet' else 'line'} {number}"


@contextmanager
def opened(path: Path, losses: Losses | None = None) -> Iterator[IO[str]]:
    """The file as text. With ``losses`` it may be in Windows-1252 too, which is counted there.

    Raises UsageError where it cannot be opened, DataError while it is read where it is damaged or in no such encoding.
    """
    try:
        encoding = _encoding(path, losses)
        errors = "replace" if encoding == "cp1252" else "strict"
        with _bytes(path) as binary, io.TextIOWrapper(binary, encoding, errors, newline="") as file:
            yield file
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (OSError, EOFError, UnicodeError) as error:  # cut off or damaged gzip, another encoding
        raise DataError(f"{path}: {error}") from error


def bounded_lines(path: Path, file: IO[str], memory: int) -> Iterator[str]:
    """The lines of a file. Raises DataError at one that is too long to be read."""
    longest = memory // _PARSED
    for number, line in enumerate(iter(partial(file.readline, longest + 1), ""), 1):
        if len(line) > longest:
            raise DataError(f"{at(path, number)}: longer than {longest / (1 << 20):.3g} MiB")
        yield line


def cells(path: Path, losses: Losses, memory: int) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV or TSV file, the header first, all of one length. Raises UsageError, DataError."""
    width = 0
    with opened(path, losses) as file:
        lines = bounded_lines(path, file, memory)
        for number, line in _tsv_lines(lines) if suffix_of(path) == ".tsv" else _csv_lines(path, lines, memory):
            width = width or len(line)
            if len(line) != width:
                raise DataError(f"{at(path, number)}: {len(line)} columns where the header has {width}")
            yield number, line


@contextmanager
def _bytes(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=raw) as once, ExitStack() as inner:
                unpacked = once
                if once.peek(len(_GZIP)).startswith(_GZIP):  # as some servers send what is packed already
                    unpacked = inner.enter_context(gzip.GzipFile(fileobj=once, mode="rb"))
                yield unpacked  # type: ignore[misc]  # all that a text wrapper asks of a binary file
        else:
            yield raw


def _encoding(path: Path, losses: Losses | None) -> str:
    with _bytes(path) as file:
        first = file.read(_SAMPLE)
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if losses is None:
            return "utf-8-sig"
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        try:
            for chunk in chain([first], iter(partial(file.read, _CHUNK), b"")):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            losses.add("files that are not UTF-8, read as Windows-1252 (look at their letters with accents)", path.name)
            return "cp1252"
        return "utf-8-sig"


def _tsv_lines(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        parts = line.rstrip("\r\n").split("\t")
        if parts != [""]:
            yield number, parts


def _csv_lines(path: Path, lines: Iterator[str], memory: int) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(memory // _PARSED)  # a cell may have many lines
    header = next(lines, "")
    reader: Any = csv.reader(chain([header], lines), delimiter=_delimiter(header), strict=True)
    try:
        for parts in reader:
            if parts:
                yield reader.line_num, parts
    except csv.Error as error:
        raise DataError(f"{at(path, reader.line_num)}: {error}") from error


def _delimiter(header: str) -> str:
    """What a header has most of, outside of quotation marks."""
    outside = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


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
