"""The folder of an SKB while it is built and after: made, kept to one builder, rid of what nobody reads."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.knowledge.skb.schema import META, WORK, FileInfo, read_meta

LOCK = "build.lock"
COPY_BYTES = 1 << 20


def prepare(out: Path) -> bool:
    """Make the folder, or see that it is an SKB, or one whose first build was cut off; whether it was made."""
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: {error}") from error
    if any(out.iterdir()) and not any((out / mark).exists() for mark in (LOCK, META)):
        raise UsageError(f"{out} is there and is not an SKB; choose another folder")
    return made


@contextmanager
def only_builder(out: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises UsageError where another process has it."""
    with (out / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{out} is being built by another process") from error
        yield


def forget(out: Path, *, made: bool) -> None:
    """Delete what the builder that holds the folder's lock has begun, and the folder if that builder made it."""
    shutil.rmtree(out / WORK, ignore_errors=True)
    if made and [path.name for path in out.iterdir()] == [LOCK]:
        with suppress(OSError):  # what was wrong with the input is to be told, and not this
            (out / LOCK).unlink()
            out.rmdir()


def tidy(out: Path) -> None:
    """Delete the data of earlier builds that no process has open; not while another build is under way."""
    try:
        with only_builder(out):
            remove_unused(out, read_meta(out).data)
    except UsageError:  # that build will
        return


def remove_unused(out: Path, used: str) -> None:
    """Delete the data of earlier builds that no process has open."""
    for folder in out.glob("data-*"):
        if folder.name == used:
            continue
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        except BlockingIOError:
            continue  # a reader has it; the next build tries again
        finally:
            os.close(handle)


def file_info(path: Path, *, sync: bool = False) -> FileInfo:
    """Size and SHA-256 of a file; with ``sync`` it is on disk when this returns."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while part := file.read(COPY_BYTES):
            digest.update(part)
            size += len(part)
        if sync:
            os.fsync(file.fileno())
    return FileInfo(bytes=size, sha256=digest.hexdigest())
