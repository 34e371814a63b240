"""Files and folders that survive a kill at any moment: of JSON lines, written whole, locked, and to build in."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from kbnav.errors import DataError, UsageError

LARGEST = 256 * 1024 * 1024
"""Bytes of one saved run, or of one line of a journal: four times the largest answer that is taken of a service."""
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""


def read_file(path: Path) -> bytes:
    """A file of at most ``LARGEST`` bytes. Raises OSError, and DataError for a larger one or what is no file."""
    with _opened(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise DataError(f"{path} is larger than {LARGEST >> 20} MiB")
    return content


def unpacked(packed: object, most: int = LARGEST) -> bytes | None:
    """What zlib has packed; None where it has not, where a part is missing, or where there are more than ``most``."""
    if not isinstance(packed, bytes):
        return None
    unpacking = zlib.decompressobj()
    with suppress(zlib.error):
        plain = unpacking.decompress(packed, most + 1)
        return plain if unpacking.eof and len(plain) <= most else None
    return None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    at_once = getattr(os, "O_NONBLOCK", 0)  # Windows has none
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DataError(f"{path} is no file")
        yield file


class Journal:
    """A file open for appending, without a buffer; ``append`` returns when the line is on the disk."""

    def __init__(self, file: RawIOBase, path: Path) -> None:
        self._file, self._path = file, path

    def append(self, value: Any) -> None:
        """Write a dataclass as one line and sync it. Raises UsageError; what stood there before is kept."""
        line = memoryview(json_line(value))
        end = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(end)
            said = f"{self._path}: cannot be written: {error.strerror}"
            raise UsageError(f"{said}; what is in it is kept, and the same command continues it") from error


def json_line(value: Any) -> bytes:
    """A dataclass as one line of JSON."""
    kind: Any = type(value)
    return bytes(adapter(kind).dump_json(value)) + b"\n"


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Open for appending, alone; what a kill left of a last line is cut off. Raises UsageError, DataError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    with file, locked(path, f"{path} is being written by another run"):
        file.truncate(sum(map(len, whole_lines(path))))
        _sync_folder(path.parent)
        yield Journal(file, path)


def read_journal(path: Path, kind: Any) -> list[Any]:
    """The records of a journal, dataclasses of ``kind``; it may be being written. Raises UsageError, DataError."""
    return [read_record(line, kind, f"{path}: record {number}") for number, line in enumerate(whole_lines(path), 1)]


def read_record(line: bytes, kind: Any, name: str) -> Any:
    """One record, a dataclass of ``kind``; ``name`` says which. Raises DataError."""
    try:
        return adapter(kind).validate_json(line)
    except ValidationError as error:
        raise DataError(f"{name}: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """The place of the first fault, and what it is."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"


def read_toml(path: Path, kind: Any, problem: Callable[[ValidationError], str] = first_problem) -> Any:
    """A file of TOML, or JSON by its name, as a ``kind``; ``problem`` words a fault. Raises UsageError, DataError."""
    try:
        text = path.read_text(encoding="utf-8")
        return adapter(kind).validate_python(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}, in {path.resolve().parent}") from error
    except ValidationError as error:
        raise DataError(f"{path}: {problem(error)}") from error
    except ValueError as error:
        raise DataError(f"{path}: not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from error


def read_document(path: Path, kind: Any, missing: str, newest: int = 1) -> Any:
    """A file that is one document: a dataclass or model of ``kind``, whose ``format`` may be the ``newest`` or older.

    Raises UsageError, which says ``missing``, where there is no such file, and DataError for what is none.
    """
    try:
        found = read_record(read_file(path), kind, str(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(missing) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if found.format > newest:
        raise DataError(f"{path}: format {found.format} is newer than {newest}, the newest this version reads")
    return found


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file such that a kill leaves the old one or the new one. Raises UsageError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines without a torn or garbled last one. Raises UsageError, and DataError for one that is too long."""
    last = b""
    try:
        with _opened(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(LARGEST + 1), b""), 1):
                if len(line) > LARGEST:
                    raise DataError(f"{path}: line {number} is longer than {LARGEST >> 20} MiB")
                if last:
                    yield last
                last = line
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if last.endswith(b"\n"):
        with suppress(RecursionError):  # nested deeper than anything that is written: no record, and not torn
            try:
                json.loads(last)
            except ValueError:
                return
        yield last


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What reads and writes a class as JSON."""
    return TypeAdapter(kind)


@contextmanager
def locked(path: Path, busy: str = "") -> Iterator[None]:
    """Hold the lock of a file or folder. Where another has it: UsageError, which says ``busy``; or BlockingIOError."""
    import fcntl

    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if busy:
                raise UsageError(busy) from error
            raise
        yield
    finally:
        os.close(handle)


@contextmanager
def work_folder(parent: Path, name: str, *, rescue: Callable[[Path], None] = lambda _folder: None) -> Iterator[Path]:
    """A new folder ``.<name>.<something>.unfinished`` in ``parent`` to build in, deleted at the end.

    A build holds a lock on its own. What has no lock was left by one that was killed: it is given to ``rescue`` and
    deleted. Raises OSError where no folder can be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f".{name}.*.unfinished"):
        with suppress(OSError), locked(left):
            rescue(left)
            shutil.rmtree(left, ignore_errors=True)
    with ExitStack() as held:
        alone = False
        while not alone:  # another that begins now may take it for one that was left, before it is locked
            work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".unfinished", dir=parent))
            with suppress(FileNotFoundError, BlockingIOError):
                held.enter_context(locked(work))
                alone = work.is_dir()
        held.callback(shutil.rmtree, work, ignore_errors=True)
        yield work


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders at once: each name is there at any moment. False, and nothing done, where that cannot be."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # only Linux has it
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def private_file(path: Path) -> Path:
    """The file, made empty where it is not there, for its owner alone, in a folder that is as well. Raises OSError."""
    if not (folder := path.parent).is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    return path
