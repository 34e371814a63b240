"""Deleting old versions of an SKB on LanceDB, with the rows and files that only they have."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kbnav.errors import UsageError
from kbnav.knowledge.skb.lance.storage import asking, connect
from kbnav.knowledge.skb.lance.tables import (
    BUILDS,
    FILES,
    NODES,
    UNFINISHED,
    WORDS,
    Build,
    build_tag,
    finish,
    read_builds,
    table_names,
)
from kbnav.knowledge.skb.lance.update import KEPT, restored

_TABLES = (NODES, WORDS, FILES)
_MARGIN = timedelta(seconds=1)  # what was written so shortly before a version that is kept stays


class Pruned(NamedTuple):
    """Numbers of versions."""

    kept: list[int]
    deleted: list[int]


def prune(place: str, keep: int) -> Pruned:
    """Delete all but the last ``keep`` versions, at least the last one.

    LanceDB deletes only where it may rewrite the newest rows without gaps, which makes a further version of the same
    content unless they have none. Who reads a deleted version fails. Raises UsageError where a build is unfinished,
    and as ``read_builds``.
    """
    builds = read_builds(place)
    kept, gone = builds[-max(keep, 1) :], builds[: -max(keep, 1)]
    with asking(place):
        tables = connect(place)
        if UNFINISHED in table_names(tables):
            raise UsageError(f"{place}: a build is unfinished there; end it before versions are deleted")
        if gone:
            kept = _compact(tables, kept)
            numbers = [build.number for build in gone]
            tables.open_table(BUILDS).delete(f"number IN ({', '.join(map(str, numbers))})")
            for name in _TABLES:
                _delete(tables.open_table(name), name, kept)
    return Pruned([build.number for build in kept], [build.number for build in gone])


def _compact(tables: Any, kept: list[Build]) -> list[Build]:
    """The builds, and behind them one with the last one's content and no gaps where that has some."""
    last, versions = kept[-1], {}
    for name in _TABLES:
        table = restored(tables, last, name)
        table.optimize(cleanup_older_than=KEPT)
        versions[name] = table.version
    return kept if versions == last.versions else [*kept, finish(tables, replace(last, versions=versions))]


def _delete(table: Any, name: str, kept: list[Build]) -> None:
    """Take away the names of other versions, and what was written before the oldest that is kept."""
    for tag in table.tags.list().keys() - {build_tag(build.number) for build in kept}:
        table.tags.delete(tag)
    oldest = min(build.versions[name] for build in kept)
    written = next(one["timestamp"] for one in table.list_versions() if one["version"] == oldest)
    table.optimize(cleanup_older_than=datetime.now(written.tzinfo) - written + _MARGIN)
