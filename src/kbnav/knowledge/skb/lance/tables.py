"""The tables of an SKB on LanceDB, and how they are found and read.

``nodes`` has a row a node, in the order of their numbers: number, type, document, for each index of texts the words of
names and bodies, for each index of vectors a vector. ``words`` says how many nodes have a word. ``files`` has, in
pieces, the files that every reader maps into its memory: graph, ids, names, and what an encoder fitted. ``builds`` has
a row that names the versions of the others that belong together: it is written last, so that no reader meets half a
build.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.extras import needs
from kbnav.knowledge.skb.parts import Range
from kbnav.knowledge.skb.schema import Meta

NODES, WORDS, FILES, BUILDS = "nodes", "words", "files", "builds"
FORMAT = 1
NUMBER, TYPE, DOCUMENT = "number", "type", "document"

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

    def dump(self) -> str:
        """As JSON."""
        rest = {"versions": self.versions, "text": {name: asdict(one) for name, one in self.text.items()}}
        meta = self.meta.model_dump(mode="json")
        return json.dumps({"format": FORMAT, "meta": meta, **rest, "vectors": self.vectors})

    @classmethod
    def load(cls, place: str, text: str) -> Build:
        """What ``dump`` wrote. Raises DataError."""
        try:
            found = json.loads(text)
            if found["format"] > FORMAT:
                raise DataError(f"{place}: tables of format {found['format']}; this version reads {FORMAT}")
            stats = {name: TextStats(**one) for name, one in found["text"].items()}
            return cls(Meta.model_validate(found["meta"]), found["versions"], stats, found["vectors"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{place}: not the description of an SKB: {error!r}") from error


def connect(place: str) -> Any:
    """The tables in a folder or below an address such as s3://bucket/name; what that asks for is in the environment.

    Raises UsageError without ``lancedb``.
    """
    with needs("lance", "an SKB on LanceDB"):
        import lancedb
    return lancedb.connect(place)


def read_build(place: str, tables: Any) -> Build:
    """The build in use. Raises UsageError where there is none."""
    try:
        rows = tables.open_table(BUILDS).search().limit(1).to_arrow()
    except (ValueError, OSError) as error:
        raise UsageError(f"{place} is not an SKB on LanceDB: {str(error).splitlines()[0]}") from error
    return Build.load(place, rows["build"][0].as_py())


def open_table(tables: Any, build: Build, name: str) -> Table:
    """A table as it was when a build was finished."""
    table = tables.open_table(name)
    table.checkout(build.versions[name])
    return table


def column(part: str, field: str = "") -> str:
    """The column of an index; of one of texts, of its ``name`` or ``body``."""
    return "_".join(filter(None, (part.replace("-", "_"), field)))


def filters(
    type_start: Sequence[int], ranges: Sequence[Range] | None, among: Collection[int] | None, most: int
) -> list[str]:
    """Conditions that keep nodes in any of the ranges and among those given; to be asked one by one, "" for all.

    One names ``most`` nodes at most.
    """
    kinds = {bounds: number for number, bounds in enumerate(pairwise(type_start))}
    within = [
        f"{TYPE} = {kinds[first, end]}" if (first, end) in kinds else f"({NUMBER} >= {first} AND {NUMBER} < {end})"
        for first, end in ranges or ()
    ]
    either = f"({' OR '.join(within)})" if within else ""
    if ranges is not None and not within:
        return []
    if among is None:
        return [either]
    nodes = sorted({int(node) for node in among})
    lists = [
        f"{NUMBER} IN ({', '.join(map(str, nodes[first : first + most]))})" for first in range(0, len(nodes), most)
    ]
    return [" AND ".join(filter(None, (either, one))) for one in lists]
