"""A folder to build in, beside what is built; those that killed builds left are deleted by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def work_folder(parent: Path, name: str, *, rescue: Callable[[Path], None] = lambda _folder: None) -> Iterator[Path]:
    """A new folder ``.<name>.<something>.unfinished`` in ``parent``, deleted at the end.

    A build holds a lock on its own. What has no lock was left by one that was killed: it is given to ``rescue`` and
    deleted. Raises OSError where no folder can be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f".{name}.*.unfinished"):
        with suppress(OSError), _locked(left):
            rescue(left)
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".unfinished", dir=parent))
    try:
        with _locked(work):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock. Raises BlockingIOError where another process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
