"""A folder to build in, beside what is built; those that killed builds left are deleted by the next."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""


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
    with ExitStack() as held:
        locked = False
        while not locked:  # another that begins now may take it for one that was left, before it is locked
            work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".unfinished", dir=parent))
            with suppress(FileNotFoundError, BlockingIOError):
                held.enter_context(_locked(work))
                locked = work.is_dir()
        held.callback(shutil.rmtree, work, ignore_errors=True)
        yield work


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders at once: each name is there at any moment. False, and nothing done, where that cannot be."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # only Linux has it
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
