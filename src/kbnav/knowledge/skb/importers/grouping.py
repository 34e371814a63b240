"""Lines that come in any order, given back group by group, on disk: what is in memory is one part of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

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
