"""Disks that are small, full or cannot be written."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, kilobytes: int, *, read_only: bool = False) -> Iterator[Path]:
    """A file system of that size in a folder; the test is skipped where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={kilobytes}k,mode=0700{',ro' if read_only else ''}"
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Leave so many bytes free, in whole pages."""
    with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass
    size = (folder / "ballast").stat().st_size
    with (folder / "ballast").open("r+b") as file:
        file.truncate(max(0, size - leave))
