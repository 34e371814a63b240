"""The files of an SKB: arrays and strings by memory map, checksums, locks, and one error for damage of any kind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import tokenize
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from kbnav.errors import DamagedKB, DataError, KbnavError, UsageError
from kbnav.knowledge.skb.schema import META, WORK, FileInfo
from kbnav.runs.journal import locked

Array = npt.NDArray[Any]
Mode = Literal["r", "r+"]
LOCK = "build.lock"
READ_THROUGH = 1 << 22
"""Numbers of one array that are looked at when it is opened, a few milliseconds' worth; larger ones are not."""
_COPY_BYTES = 1 << 20
_PARSING = threading.Lock()

P = ParamSpec("P")
T = TypeVar("T")


def reading(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function raise DamagedKB where the files behind it cannot be read.

    A panic inside a library written in Rust is no Exception: it would end the thread that meets it, and whoever waits
    for that would wait for ever. Numbers that lead out of an array are as sure a sign. Arguments of a wrong type are
    the caller's error: TypeError and AttributeError are raised as they are.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except (KbnavError, KeyboardInterrupt, SystemExit, GeneratorExit, TypeError, AttributeError):
                raise
            except BaseException as error:
                first = (str(error).splitlines() or [""])[0][:200]
                raise DamagedKB(
                    f"{what} cannot be read, its files seem to be damaged ({type(error).__name__}: {first}); "
                    "kbnav skb info --check names them"
                ) from error

        return call

    return decorate


def load(path: Path, mode: Mode | None = "r") -> Array:
    """The array of a ``.npy`` file, by memory map unless ``mode`` is None. Raises OSError, ValueError, EOFError.

    One thread at a time: NumPy reads the header with ``ast``, and CPython before 3.11.9 and 3.12.3 mixes up the counts
    of two threads that do so at once (SystemError, "AST constructor recursion depth mismatch"; cpython gh-106905).
    """
    try:
        with _PARSING:
            array: Array = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (tokenize.TokenError, SyntaxError, RecursionError, OverflowError, TypeError) as error:
        # NumPy tokenizes a header it cannot parse, and makes a map of any shape that one names
        raise ValueError(f"its header cannot be read: {error}") from error
    return array


def open_array(path: Path, dtype: npt.DTypeLike | None = None) -> Array:
    """A one-dimensional ``.npy`` by memory map, as a plain array, whose slices are quicker. Raises DataError."""
    try:
        array: Array = load(path).view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: {error}") from error
    if array.ndim != 1 or (dtype is not None and array.dtype != np.dtype(dtype)):
        raise DataError(f"{path}: {array.dtype}, {array.ndim} dimensions, where {dtype}, 1 was written")
    return array


def check_starts(path: Path, starts: Array, end: int) -> None:
    """Raise DataError unless ``starts`` are places that ascend from 0 to ``end``."""
    ends_fit = len(starts) > 0 and int(starts[0]) == 0 and int(starts[-1]) == end
    if not ends_fit or (len(starts) <= READ_THROUGH and bool((np.diff(starts) < 0).any())):
        raise DataError(f"{path}: its places do not ascend from 0 to {end}")


def check_numbers(path: Path, numbers: Array, end: int) -> None:
    """Raise DataError unless all ``numbers`` are at least 0 and below ``end``."""
    if 0 < len(numbers) <= READ_THROUGH and not (int(numbers.min()) >= 0 and int(numbers.max()) < end):
        raise DataError(f"{path}: numbers that are not from 0 to {end - 1}")


def consecutive(first: Array, sizes: Array) -> npt.NDArray[np.int64]:
    """The numbers of many runs, one run behind the other: ``sizes`` of them from ``first`` on, shape [runs] each."""
    return np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


class Strings(Sequence[str]):
    """An immutable list of strings: UTF-8 text, where each begins and, if searchable, the order of their bytes."""

    def __init__(self, folder: Path, name: str, *, searchable: bool = False) -> None:
        """Open what ``write_strings`` wrote. Raises DataError where it cannot be read."""
        self._start = open_array(folder / f"{name}-start.npy", np.int64)
        self._text = open_array(folder / f"{name}-text.npy", np.uint8)
        self._order = open_array(folder / f"{name}-order.npy", np.int32) if searchable else np.empty(0, np.int32)
        self._places, self._bytes = self._start.data, self._text.data  # five times as quick to read one by one
        check_starts(folder / f"{name}-start.npy", self._start, len(self._text))
        if searchable and len(self._order) != len(self):
            raise DataError(f"{folder}: the files of {name} do not fit together")
        check_numbers(folder / f"{name}-order.npy", self._order, len(self))

    def __len__(self) -> int:
        return len(self._start) - 1

    def __getitem__(self, index: Any) -> Any:
        """The string at ``index``, from 0 to ``len - 1``; slices and negative numbers are not supported."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.encoded(index).decode()

    def find(self, text: str) -> int:
        """Position of a string, the first where it is there more than once, or -1: a binary search over the map."""
        wanted = text.encode(errors="replace")
        low = bisect_left(self._order, wanted, key=self.encoded)
        if low < len(self._order) and self.encoded(self._order[low]) == wanted:
            return int(self._order[low])
        return -1

    def encoded(self, index: int) -> bytes:
        """The bytes of the string at ``index``."""
        return bytes(self._bytes[self._places[index] : self._places[index + 1]])


def write_strings(folder: Path, name: str, strings: Iterable[str], *, searchable: bool = False) -> None:
    """Write the files that ``Strings(folder, name)`` opens; half of a surrogate pair becomes a question mark."""
    encoded = [text.encode(errors="replace") for text in strings]
    start = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=start[1:])
    np.save(folder / f"{name}-start.npy", start)
    np.save(folder / f"{name}-text.npy", np.frombuffer(b"".join(encoded), np.uint8))
    if searchable:
        order = np.array(sorted(range(len(encoded)), key=encoded.__getitem__), np.int32)
        np.save(folder / f"{name}-order.npy", order)


def parse_json(text: str | bytes) -> Any:
    """A JSON text as plain values, in a third of the time of ``json``, whose errors it raises."""
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:
        return json.loads(text)


def as_json(value: Any) -> bytes:
    """A value as compact JSON; what JSON has no form for becomes text, half of a surrogate pair a question mark."""
    try:
        return to_json(value, fallback=str)
    except ValueError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_text).encode(errors="replace")


def _as_text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def file_info(path: Path, *, sync: bool = False) -> FileInfo:
    """Size and SHA-256 of a file; with ``sync`` it is on disk when this returns."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(_COPY_BYTES):
            digest.update(part)
            size += len(part)
        if sync:
            os.fsync(file.fileno())
    return FileInfo(bytes=size, sha256=digest.hexdigest())


def prepare(out: Path) -> bool:
    """Make the folder with a file to lock, or see that it is an SKB, or one begun before; whether it was made."""
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not any((out / mark).exists() for mark in (LOCK, META)):
            raise UsageError(f"{out} is there and is not an SKB; choose another folder")
        (out / LOCK).touch()
    except OSError as error:
        raise UsageError(f"{out}: {error}") from error
    return made


def link(old: Path, new: Path) -> None:
    """Have a file in another folder too; copied where links cannot be. It must not be written to."""
    try:
        new.hardlink_to(old)
    except OSError:
        shutil.copy2(old, new)


def forget(out: Path, *, made: bool) -> None:
    """Delete what the builder that holds the folder's lock has begun, and the folder if that builder made it."""
    shutil.rmtree(out / WORK, ignore_errors=True)
    if made and [path.name for path in out.iterdir()] == [LOCK]:
        with suppress(OSError):  # the user is to see what was wrong with the input, and not this
            (out / LOCK).unlink()
            out.rmdir()


def remove_unused(out: Path, used: str) -> None:
    """Delete the data of earlier builds that no process has open."""
    for folder in out.glob("data-*"):
        if folder.name != used:
            with suppress(BlockingIOError), locked(folder):  # where a reader has it, the next build tries again
                shutil.rmtree(folder)
