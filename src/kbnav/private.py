"""Folders and files that are their owner's alone: questions, answers, and what stands in logs are nobody else's."""

from __future__ import annotations

from pathlib import Path


def private_folder(folder: Path) -> Path:
    """The folder, made with its parents where it is not there, for its owner alone. Raises OSError."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def private_file(path: Path) -> Path:
    """The file, made empty where it is not there, for its owner alone, in a folder that is as well. Raises OSError."""
    private_folder(path.parent)
    path.touch(mode=0o600)
    return path
