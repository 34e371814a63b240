"""The files of saved runs: all of a folder, one by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.runs.trajectory import Run, load_run


def saved_runs(folder: Path) -> list[Path]:
    """The files of saved runs, the newest last."""
    dated = []
    for path in folder.glob("*.json"):
        with suppress(OSError):  # a link to nowhere, or one that was deleted just now
            dated.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated)]


def find_run(name: str, folder: Path) -> Path:
    """The file of a run: a path, an id or its start, or ``last``. Raises UsageError where none or several fit."""
    try:
        if Path(name).is_file():
            return Path(name)
    except OSError as error:
        raise UsageError(f"not a run: {error.strerror}") from error
    saved = saved_runs(folder)
    if name == "last" and saved:
        return saved[-1]
    found = [path for path in saved if path.stem.startswith(name)]
    if len(found) != 1:
        raise UsageError(f"{len(found) or 'no'} saved runs match {name!r} in {folder}")
    return found[0]


def load_runs(paths: Iterable[Path], tell: Callable[[UsageError], object]) -> Iterator[Run]:
    """Read saved runs; of a file that cannot be read ``tell`` is told why, and the others are read all the same."""
    for path in paths:
        try:
            yield load_run(path)
        except UsageError as error:
            tell(error)
