"""From the place of an SKB, as a person names it, to the store that holds it: a folder, or tables of LanceDB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.errors import UsageError
from kbnav.knowledge.skb.lance.tables import is_lance

if TYPE_CHECKING:
    from kbnav.knowledge.skb.store import Store

_VERSION = re.compile(r"(.+)@(\d+)")


def cache_of(home: Path) -> Path:
    """Where what is fetched from tables is kept."""
    return home / "skbs" / "fetched"


def split_version(place: str) -> tuple[str, int | None]:
    """The place of tables, and the version that ``place@3`` names; None: the last."""
    if (found := _VERSION.fullmatch(place)) and not Path(place).exists():
        return found[1], int(found[2])
    return place, None


def is_tables(place: str) -> bool:
    """Whether a place, with a version or without, is by its looks that of an SKB on LanceDB."""
    return is_lance(split_version(place)[0])


def open_store(place: str, home: Path | None = None) -> Store:
    """Open an SKB wherever it is; ``home`` is where what is fetched from tables is kept, which need it.

    Raises as ``LocalStore.open`` and ``LanceStore.open``; UsageError for a version of an SKB in a folder.
    """
    path, version = split_version(place)
    if is_lance(path):
        from kbnav.knowledge.skb.lance.store import LanceStore

        if home is None:
            raise ValueError(f"{place} is on LanceDB: nothing says where what is fetched is to be kept")
        return LanceStore.open(path, cache_of(home), version)
    if version is not None and Path(path).is_dir():
        raise UsageError(f"{path} has no versions: only an SKB on LanceDB does")
    from kbnav.knowledge.skb.local import LocalStore

    return LocalStore.open(Path(place))
