"""The mark that every key, password and token of a test has in it, and the files that hold it although none may.

Whatever a test gives as a secret is left nowhere: at the end of a run of tests all that it leaves is searched.
"""

import base64
import os
import sqlite3
import stat
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

MARK = "nevertobeleft"
ROOT = Path(__file__).resolve().parent.parent
WRITTEN = (".env", ".py", ".pyc", ".toml")
"""Endings of files that tests write themselves: settings and programs, with keys in them."""
_SKIPPED = ("build", "dist", "node_modules")
_MOST, _UNPACKED = 128 << 20, 64 << 20
"""Bytes that are read of a file, some of which are holes of many GiB; and of what is packed in it."""


@pytest.fixture(scope="session", autouse=True)
def nothing_secret_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests leave, in their folders and in the checkout, holds no mark; whoever leaves one fails at the end.

    pytest keeps all folders of a run until later runs (``tmp_path_retention_policy``). Each worker searches its own.
    """
    began = time.time()
    yield
    left = [*marked_files(tmp_path_factory.getbasetemp()), *marked_files(ROOT, since=began)]
    assert not left, f"secrets of tests are left in {', '.join(map(str, left))}"


def marked_files(folder: Path, texts: Iterable[str] = (MARK,), since: float = 0.0) -> Iterator[Path]:
    """The files below a folder, changed ``since`` then, in which a text stands as it is, in Base64 or packed."""
    wanted = [form for text in texts for form in forms(text)]
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and (since == 0 or name not in _SKIPPED)]
        for path in (f"{place}/{name}" for name in names if not name.endswith(WRITTEN)):
            with suppress(OSError):  # what ends just now deletes its files; some must not be read
                about = os.lstat(path)
                if not stat.S_ISREG(about.st_mode) or about.st_mtime < since:
                    continue
                if any(form in body for body in bodies(path) for form in wanted):
                    yield Path(path)


def forms(text: str) -> list[bytes]:
    """A text as it is, and as it stands in Base64 behind a multiple of three bytes, one more, or two more."""
    raw = text.encode()
    found = [raw]
    for before, start in enumerate((0, 2, 3)):  # characters in which bytes before it have no part, nor those behind
        end = 8 * (before + len(raw)) // 6
        found.append(base64.b64encode(bytes(before) + raw)[start:end])
    return found


def bodies(path: str) -> Iterator[bytes]:
    """A file's bytes, and what is packed in it."""
    with open(path, "rb") as file:  # noqa: PTH123 - of thousands of files, a Path each takes longer than the search
        body = file.read(_MOST)
    yield body
    if body[:2] == b"\x1f\x8b":
        yield _unpacked(body, 31)
    elif body.startswith(b"SQLite format 3"):
        for cells in _cells(path):
            yield b"\0".join(cells)
            yield from (_unpacked(cell, 15) for cell in cells if cell[:1] == b"\x78")
    elif body[:2] == b"PK":
        yield from _inside(path)


def _unpacked(body: bytes, bits: int) -> bytes:
    try:
        return zlib.decompressobj(wbits=bits).decompress(body, _UNPACKED)
    except zlib.error:  # some tests damage files
        return b""


def _inside(path: str) -> Iterator[bytes]:
    """The files of an archive."""
    damage = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    with suppress(*damage), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                yield file.read(_UNPACKED)


def _cells(path: str) -> Iterator[list[bytes]]:
    """The texts and bytes of each table of a database, what is only in its log included."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                cells = [cell for row in database.execute(f'SELECT * FROM "{table}"') for cell in row]
                texts = [one.encode("utf-8", "replace") for one in cells if isinstance(one, str)]
                yield texts + [one for one in cells if isinstance(one, bytes)]
    except sqlite3.Error:  # some tests damage files; what is not packed is seen all the same
        return
