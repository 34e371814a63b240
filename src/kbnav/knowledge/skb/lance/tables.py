"""The tables of an SKB on LanceDB, and how they are found.

``nodes`` has a row a node: key, type, document, for each index of texts the words of names and bodies, for each index
of vectors a vector. A node's key stays with it; its number, by which everything else knows it, may be another in each
build (see ``places``). ``words`` says how many nodes have a word. ``files`` has, in pieces, the files that every reader
maps into its memory: graph, ids, names, and what an encoder fitted. ``builds`` has a row for each finished build, which
names the versions of the other tables that belong together: it is written last, so that no reader meets half a build.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.lance.storage import asking, connect, is_address, reaching
from kbnav.knowledge.skb.schema import Meta

NODES, WORDS, FILES, BUILDS, UNFINISHED = "nodes", "words", "files", "builds", "unfinished"
FORMAT = 2
KEY, TYPE, DOCUMENT = "key", "type", "document"

Table = Any
"""A table of ``lancedb``."""


@dataclass(frozen=True)
class TextStats:
    """What BM25 must know of all texts of an index: the words of the names and of the bodies, counted together."""

    name_words: int
    body_words: int
    stretch: float
    """The most that a text is longer than the length it counts as (see ``lance.text``), as a ratio."""


@dataclass(frozen=True)
class Build:
    """One build of an SKB: its description, and the versions of the tables by name."""

    meta: Meta
    versions: dict[str, int]
    text: dict[str, TextStats]
    """By index of texts."""
    vectors: dict[str, int]
    """Numbers of a vector, by index of vectors."""
    content: str
    """Of the rows of ``nodes``: see ``rows.Content``."""
    next_key: int
    """That of the next new node."""
    approximate: bool = False
    """Whether there is an approximate index of the vectors."""
    number: int = 0
    """What names the build: 1 for the first in its place."""
    written: str = ""
    """When it was finished: ISO 8601, UTC."""

    def dump(self) -> str:
        """As JSON, without the number and the time."""
        rest = {name: value for name, value in asdict(self).items() if name not in ("meta", "number", "written")}
        return json.dumps({"format": FORMAT, "meta": self.meta.model_dump(mode="json"), **rest})

    @classmethod
    def load(cls, place: str, row: Mapping[str, Any]) -> Build:
        """What a row of ``builds`` says. Raises DataError."""
        try:
            found = json.loads(row["build"])
            if (written := found.pop("format")) != FORMAT:
                what = "build it again" if written < FORMAT else "a newer version of kbnav wrote them"
                raise DataError(f"{place}: tables of format {written}, where this version reads {FORMAT}: {what}")
            found["text"] = {name: TextStats(**one) for name, one in found["text"].items()}
            found["meta"] = Meta.model_validate(found["meta"])
            return cls(**found, number=row["number"], written=row["written"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{place}: not the description of an SKB: {error!r}") from error


def is_lance(place: str) -> bool:
    """Whether a place is, by its looks, that of tables: an address, or a folder with builds or one under way."""
    return is_address(place) or any((Path(place) / f"{name}.lance").is_dir() for name in (BUILDS, UNFINISHED))


def table_names(tables: Any) -> set[str]:
    """The tables that there are."""
    return set(tables.list_tables().tables)


def read_builds(place: str) -> list[Build]:
    """All finished builds, the oldest first. Raises UsageError where there is none."""
    if not is_address(place) and not Path(place).is_dir():
        raise UsageError(f"{place} is not an SKB on LanceDB: there is no such folder")
    with asking(place):
        tables = connect(place)
        names = table_names(tables)
        if BUILDS not in names:
            why = "its build was not finished; run it again" if UNFINISHED in names else "there are no tables of one"
            raise UsageError(f"{place} is not an SKB on LanceDB: {why}")
    if not (rows := _rows(place, tables)):
        raise DataError(f"{place}: the list of builds is empty")
    return sorted((Build.load(place, row) for row in rows), key=lambda build: build.number)


@reading("the list of builds")
def _rows(place: str, tables: Any) -> list[Mapping[str, Any]]:
    with reaching(place):
        rows: list[Mapping[str, Any]] = tables.open_table(BUILDS).to_arrow().to_pylist()
    return rows


def read_build(place: str, version: int | None = None) -> Build:
    """A build by its number; None: the last. Raises UsageError where there is none."""
    builds = read_builds(place)
    found = {build.number: build for build in builds}.get(version or builds[-1].number)
    if found is None:
        there = ", ".join(str(build.number) for build in builds)
        raise UsageError(f"{place} has no version {version}; there are: {there}")
    return found


def open_table(tables: Any, build: Build, name: str) -> Table:
    """A table as it was when a build was finished."""
    table = tables.open_table(name)
    table.checkout(build.versions[name])
    return table


def finish(tables: Any, build: Build) -> Build:
    """Let a build be the one in use: its tables' versions get a name, which keeps them, and readers are told of it."""
    there = BUILDS in table_names(tables)
    builds = tables.open_table(BUILDS) if there else tables.create_table(BUILDS, schema=_builds_schema())
    numbers = builds.search().select(["number"]).limit(builds.count_rows() or 1).to_arrow()["number"].to_pylist()
    number, now = max(numbers, default=0) + 1, datetime.now(UTC).isoformat(timespec="seconds")
    for name, version in build.versions.items():
        _tag(tables.open_table(name), build_tag(number), version)
    builds.add([{"number": number, "written": now, "build": build.dump()}])
    return Build(**{**vars(build), "number": number, "written": now})


def build_tag(number: int) -> str:
    """What the versions of a build's tables are called there."""
    return f"build-{number}"


def _tag(table: Table, name: str, version: int) -> None:
    tags = table.tags
    (tags.update if name in tags.list() else tags.create)(name, version)


def _builds_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("number", pa.int64()), ("written", pa.string()), ("build", pa.large_string())])


def column(part: str, field: str = "") -> str:
    """The column of an index; of one of texts, of its ``name`` or ``body``."""
    return "_".join(filter(None, (part.replace("-", "_"), field)))


def listed(words: Iterable[str]) -> str:
    """Words as a condition names them."""
    return ", ".join("'" + word.replace("'", "''") + "'" for word in words)
