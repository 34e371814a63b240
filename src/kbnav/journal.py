"""Append-only files of JSON lines that survive a kill at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from kbnav.bounded import read_lines
from kbnav.errors import DataError, UsageError


class Appending(Protocol):
    """What records are appended to, one after another."""

    def append(self, value: Any) -> None:
        """Keep a dataclass for good. Raises UsageError."""
        ...


OpenJournal = Callable[[Path], AbstractContextManager[Appending]]
"""Opens a file for appending, as ``open_journal`` does."""


class Journal:
    """A file open for appending, without a buffer; ``append`` returns when the line is on the disk."""

    def __init__(self, file: RawIOBase, path: Path) -> None:
        self._file, self._path = file, path

    def append(self, value: Any) -> None:
        """Write a dataclass as one line and sync it. Raises UsageError; what stood there before is kept."""
        self.append_line(json_line(value))

    def append_line(self, written: bytes) -> None:
        """The same of a line as ``json_line`` makes it."""
        line = memoryview(written)
        end = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(end)
            said = f"{self._path}: cannot be written: {error.strerror}"
            raise UsageError(f"{said}; what is in it is kept, and the same command goes on") from error


def json_line(value: Any) -> bytes:
    """A dataclass as one line of JSON."""
    kind: Any = type(value)
    return bytes(_adapter(kind).dump_json(value)) + b"\n"


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open for appending, alone; what a kill left of a last line is cut off. Raises UsageError, DataError."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{path} is being written by another run") from error
        file.truncate(sum(map(len, whole_lines(path))))
        _sync_folder(path.parent)
        yield Journal(file, path)


def read_journal(path: Path, kind: Any) -> list[Any]:
    """The records of a journal, dataclasses of ``kind``; it may be being written. Raises UsageError, DataError."""
    records = []
    for number, line in enumerate(whole_lines(path), 1):
        records.append(read_record(line, kind, f"{path}: record {number}"))
    return records


def read_record(line: bytes, kind: Any, name: str) -> Any:
    """One record, a dataclass of ``kind``; ``name`` says which. Raises DataError."""
    try:
        return _adapter(kind).validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{name}: {where + ': ' if where else ''}{first['msg']}") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file such that a kill leaves the old one or the new one. Raises UsageError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines without a torn one at the end: one without its line break, or, after a power cut, one of garbage.

    Raises UsageError, and DataError for a line that is too long for any memory.
    """
    last = b""
    try:
        for line in read_lines(path):
            if last:
                yield last
            last = line
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if last.endswith(b"\n") and _is_json(last):
        yield last


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except RecursionError:  # nested deeper than anything that is written: no record, and not torn
        return True
    except ValueError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
