"""Looking after a built SKB: what it holds, whether it is whole, and changing some of its nodes and edges."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.files import file_info, tidy
from kbnav.knowledge.skb.schema import (
    EXAMPLES,
    EdgeArrays,
    EdgeRecord,
    Losses,
    Meta,
    NodeRecord,
    Progress,
    Source,
    no_progress,
    read_meta,
)
from kbnav.knowledge.skb.store import SKB, is_tables, open_store, split_version

_CHUNK = 1 << 20


class Version(NamedTuple):
    """A build that is kept: the number that ``--version`` takes, when it was finished, and what it holds."""

    number: int
    written: str
    nodes: int
    edges: int


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
    versions: tuple[Version, ...] = ()
    """Of an SKB on LanceDB, the oldest first."""
    outdated: str = ""
    """The reason to build the indexes anew, and the command; empty where they are as they should be."""

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
            **({"versions": [one._asdict() for one in self.versions]} if self.versions else {}),
            "outdated": self.outdated,
        }


def info(place: Path | str, home: Path | None = None) -> Info:
    """Describe an SKB, wherever it is; ``home`` as of ``open_store``. Raises as that."""
    versions: tuple[Version, ...] = ()
    if is_tables(str(place)):
        from kbnav.knowledge.skb.lance.tables import read_builds

        builds = read_builds(split_version(str(place))[0])
        versions = tuple(Version(one.number, one.written, one.meta.nodes, one.meta.edges) for one in builds)
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
            versions=versions,
            outdated=skb.outdated,
        )


def check(path: Path | str, home: Path | None = None, *, progress: Progress = no_progress) -> list[str]:
    """Read all of an SKB and compare it with its checksums; returns the faults, none where it is whole.

    ``home`` as of ``open_store``. Raises UsageError where it is not an SKB, DataError where its description itself is
    damaged or too new.
    """
    place = str(path)
    if is_tables(place):
        from kbnav.knowledge.skb.lance.build import check as check_tables

        faults = check_tables(*split_version(place), progress)
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
        same_encoder(str(path), skb.meta, options)
        # An encoder fitted on texts that are rendered otherwise now does not fit the new ones.
        previous = None if skb.meta.outdated else path / skb.meta.data
        source = Updated(skb, source)
        meta = build(source, path, options, name=skb.meta.name, previous=previous, progress=progress)
    tidy(path)  # the data that was read from
    return meta


def same_encoder(place: str, meta: Meta, options: Options) -> None:
    """Raise UsageError where the options of an update name another encoder than the SKB has."""
    if options.encoder_name != meta.encoder:
        has, wanted = (name or "no vectors" for name in (meta.encoder, options.encoder_name))
        raise UsageError(f"{place} was built with {has}, not {wanted}: update it with the same, or build it anew")


class Updated:
    """An SKB with the records of another source over it, as a source."""

    def __init__(self, skb: SKB, source: Source) -> None:
        self._skb, self._source = skb, source
        self.description = f"{skb.meta.source}; then {source.description}"
        self.fingerprint = hashlib.sha256(f"{skb.meta.data} {source.fingerprint}".encode()).hexdigest()
        self.style = skb.meta.style
        self.types: Sequence[str] = skb.type_names
        self.relations: Sequence[str] = skb.relation_names
        self.alias_fields: Sequence[str] = skb.meta.alias_fields

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """The SKB's nodes in their order, each with its new record where there is one; then those that are new."""
        changed = self._changed(losses)
        for number, fields in enumerate(self._skb.documents):
            node_id = self._skb.id(number)
            old = NodeRecord(node_id, self._skb.type_name(number), self._skb.nodes.names[number], fields)
            new = changed.pop(node_id, old)
            yield new._replace(type=new.type or old.type)
        for record in changed.values():
            if record.deleted:
                losses.add("deletion of a node that does not exist", record.id)
            else:
                yield record

    def _changed(self, losses: Losses) -> dict[str, NodeRecord]:
        return {record.id: record for record in self._source.nodes(losses)}

    def edges(self, losses: Losses) -> Iterator[EdgeRecord | EdgeArrays]:
        """The SKB's edges but for those deleted, then the new ones."""
        changed: dict[EdgeRecord, EdgeRecord] = {}
        for item in self._source.edges(losses):
            if isinstance(item, EdgeArrays):
                raise DataError("an SKB is updated with records, not with arrays of positions")
            changed[item._replace(deleted=False)] = item
        yield from self._kept_edges([key for key, item in changed.items() if item.deleted], losses)
        yield from (item for item in changed.values() if not item.deleted)

    def _kept_edges(self, deleted: Sequence[EdgeRecord], losses: Losses) -> Iterator[EdgeArrays]:
        graph = self._skb.graph
        gone = self._edge_numbers(deleted, losses)
        without = np.zeros(graph.nodes, bool)  # read anew, for a build that was killed may have done the nodes' stage
        numbers = (self._skb.nodes.ids.find(one.id) for one in self._changed(Losses()).values() if one.deleted)
        without[[number for number in numbers if number >= 0]] = True
        sources = np.repeat(np.arange(graph.nodes), graph.degrees("out"))
        _, targets, relations = graph.arrays("out")
        for first in range(0, graph.edges, _CHUNK):
            part = slice(first, first + _CHUNK)
            keys = self._edge_number(sources[part], relations[part].astype(np.int64), targets[part].astype(np.int64))
            asked = np.isin(keys, gone)
            dangling = (without[sources[part]] | without[targets[part]]) & ~asked
            for place in np.flatnonzero(dangling)[:EXAMPLES].tolist():
                ends = (self._skb.id(int(column[part][place])) for column in (sources, targets))
                relation = self.relations[int(relations[part][place])]
                losses.add("edge of a deleted node", f" {relation} ".join(ends))
            more = int(dangling.sum()) - EXAMPLES
            if more > 0:
                losses.add("edge of a deleted node", "", more)
            kept = ~(asked | dangling)
            yield EdgeArrays(sources[part][kept], relations[part][kept], targets[part][kept])

    def _edge_numbers(self, edges: Sequence[EdgeRecord], losses: Losses) -> npt.NDArray[np.int64]:
        """The numbers of edges that the SKB has; others are counted."""
        found = []
        for edge in edges:
            source, target = (self._skb.nodes.ids.find(node) for node in (edge.source, edge.target))
            case = f"{edge.source} {edge.relation} {edge.target}"
            if source < 0 or target < 0 or edge.relation not in self.relations:
                losses.add("deletion of an edge that does not exist", case)
                continue
            relation = self._skb.relation_number(edge.relation)
            there = self._skb.graph.has_edge(source, relation, target)
            losses.add("edge deleted" if there else "deletion of an edge that does not exist", case)
            found.append(self._edge_number(source, relation, target))
        return np.array(found, np.int64)

    def _edge_number(self, source: Any, relation: Any, target: Any) -> Any:
        """One number for an edge, for numbers or for arrays of them."""
        return (source * len(self.relations) + relation) * self._skb.graph.nodes + target
