"""Looking after a built SKB: what it holds, whether it is whole, and changing some of its nodes and edges."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, Updated, build
from kbnav.knowledge.skb.files import file_info, only_builder, remove_unused
from kbnav.knowledge.skb.lance.tables import is_lance
from kbnav.knowledge.skb.schema import Meta, Progress, Source, no_progress, read_meta
from kbnav.knowledge.skb.store import SKB, open_store


@dataclass(frozen=True)
class Info:
    """What ``kbnav skb info`` shows; ``bytes`` by part of the data, as in ``graph``."""

    meta: Meta
    bytes: dict[str, int]
    isolated: int
    """Nodes without an edge."""
    largest_degree: int
    largest_degree_node: str
    """Id of the node with the most edges."""
    approximate: bool
    """Whether there is an approximate index of the vectors."""

    def record(self) -> dict[str, Any]:
        """As plain JSON data: the description without its files, and what is worked out from it (STaRK, Table 2)."""
        return {
            **self.meta.model_dump(mode="json", exclude={"files"}),
            "nodes": self.meta.nodes,
            "edges": self.meta.edges,
            "average_degree": self.meta.average_degree,
            "isolated": self.isolated,
            "largest_degree": self.largest_degree,
            "largest_degree_node": self.largest_degree_node,
            "bytes": self.bytes,
        }


def info(place: Path | str, home: Path | None = None) -> Info:
    """Describe an SKB, wherever it is; ``home`` as of ``open_store``. Raises as that."""
    with SKB(open_store(str(place), home)) as skb:
        degrees = skb.graph.degrees("out") + skb.graph.degrees("in")
        largest = int(degrees.argmax()) if len(degrees) else -1
        return Info(
            meta=skb.meta,
            bytes=skb.store.sizes(),
            isolated=int((degrees == 0).sum()),
            largest_degree=int(degrees[largest]) if len(degrees) else 0,
            largest_degree_node=skb.id(largest) if len(degrees) else "",
            approximate=skb.store.approximate,
        )


def check(path: Path | str, home: Path | None = None, *, progress: Progress = no_progress) -> list[str]:
    """Read all of an SKB and compare it with its checksums; returns the faults, none where it is whole.

    ``home`` as of ``open_store``. Raises UsageError where it is not an SKB, DataError where its description itself is
    damaged or too new.
    """
    place = str(path)
    if is_lance(place):
        from kbnav.knowledge.skb.lance.build import check as check_tables

        faults = check_tables(place, progress)
    else:
        faults = _check_files(Path(place), progress)
    if not faults:
        try:
            open_store(place, home).close()
        except DataError as error:
            faults.append(str(error))
    return faults


def _check_files(path: Path, progress: Progress) -> list[str]:
    meta = read_meta(path)
    data = path / meta.data
    faults = []
    for done, (name, expected) in enumerate(meta.files.items(), 1):
        progress("check", done, len(meta.files))
        try:
            found = file_info(data / name)
        except OSError as error:
            faults.append(f"{meta.data}/{name}: {error.strerror}")
            continue
        if found.bytes != expected.bytes:
            faults.append(f"{meta.data}/{name}: {found.bytes} bytes where {expected.bytes} were written")
        elif found != expected:
            faults.append(f"{meta.data}/{name}: its content is not what was written")
    return faults


def update(path: Path, source: Source, options: Options, *, progress: Progress = no_progress) -> Meta:
    """Add the nodes and edges of ``source`` to an SKB, and take away those that it marks as deleted.

    The record of a node whose id is there already takes the old one's place, but keeps its type where it has none; the
    edges of a node that is deleted go with it.
    Everything is built anew beside the data in use and put in its place in one step; vectors of texts that did not
    change are taken over. Without any records the indexes alone are built anew. Raises DataError, and UsageError where
    ``options`` name another encoder than the SKB has.
    """
    with SKB.open(path) as skb:
        if options.encoder_name != skb.meta.encoder:
            has, wanted = (name or "no vectors" for name in (skb.meta.encoder, options.encoder_name))
            raise UsageError(f"{path} was built with {has}, not {wanted}: update it with the same, or build it anew")
        source = Updated(skb, source)
        previous = path / skb.meta.data
        meta = build(source, path, options, name=skb.meta.name, previous=previous, progress=progress)
    with suppress(UsageError), only_builder(path):  # another build under way will
        remove_unused(path, read_meta(path).data)  # the data that was read from
    return meta
