"""What is kept for later and may have been changed by somebody else meanwhile, read with a bound on the memory."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kbnav.errors import DataError

LARGEST = 256 * 1024 * 1024
"""Bytes of one saved run, or of one line of a journal: four times the largest answer that is taken of a service."""


def read_file(path: Path, most: int = LARGEST) -> bytes:
    """A file of at most ``most`` bytes. Raises OSError, and DataError for a larger one or what is no file."""
    with _opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path} is larger than {most >> 20} MiB")
    return content


def read_lines(path: Path, most: int = LARGEST) -> Iterator[bytes]:
    """The lines of a file with their ends, one at a time. Raises as ``read_file``, for a line of more bytes too."""
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(most + 1), b""), 1):
            if len(line) > most:
                raise DataError(f"{path}: line {number} is longer than {most >> 20} MiB")
            yield line


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
    with open(path, "rb", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DataError(f"{path} is no file")
        yield file


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for whoever writes into a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has none
