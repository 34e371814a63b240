"""Building an SKB: stage by stage in a folder beside the data in use, then put in its place in one step.

A build that was killed leaves ``build/`` behind; the same build called again goes on behind its last finished stage.

Where an update changes some nodes that stay where they are, files that stay are linked, not copied, and keep their
checksums. A search in texts counts the words of replaced ones as still there when it weighs how rare a word is; the
next build forgets them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import (
    LOCK,
    Array,
    file_info,
    forget,
    link,
    open_array,
    prepare,
    remove_unused,
    write_strings,
)
from kbnav.knowledge.skb.graph import Graph, edge_key, edges_of, write_graph
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import (
    DANGLING,
    FORMAT,
    GRAPH,
    LSA,
    NAMES,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    TRIPLES,
    UNNAMED,
    UNTYPED,
    VECTORS,
    WORK,
    EdgeArrays,
    EdgeRecord,
    Fields,
    FileInfo,
    Losses,
    Meta,
    NodeRecord,
    NodeText,
    NodeType,
    Progress,
    Relation,
    Source,
    no_progress,
    read_meta,
    type_starts,
    write_meta,
)
from kbnav.knowledge.skb.store import SKB, DocumentWriter, LocalSKB, Nodes, StoredDocuments, aliases
from kbnav.runs.journal import locked, write_whole

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.vectors import Made, Window

POSITIONS, STATE = "positions.npy", "progress.json"
"""Files of a build under way, which are no part of the SKB."""
REPORT_EVERY = 10_000
_CHUNK = 1 << 20
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_MOST_CHANGED = 0.1
"""Of all nodes; where more change in an update, a build is no slower."""

Stage = Callable[[], dict[str, Any]]
"""Writes its files, and returns what later stages must know."""


class Options(NamedTuple):
    """What is built besides the graph and the documents."""

    text: bool = True
    """BM25 and name matching."""
    vectors: bool = True
    encoder: Encoder | None = None
    """What embeds the texts; None: latent semantic analysis, fitted on them."""
    sparql: bool = True
    relations: bool = False
    """Texts and vectors once more, of documents with their relations, as STaRK's retrieval systems search them."""
    workers: Workers | None = None
    """Who encodes the texts; None: this process. What is built is the same."""

    @property
    def encoder_name(self) -> str:
        """As ``meta.json`` has it; empty without vectors."""
        return (self.encoder.name if self.encoder else LSA) if self.vectors else ""


@dataclass(frozen=True)
class Texts:
    """What the indexes are built from, short enough to be sent to a worker."""

    folder: Path
    meta: Meta
    """Of what is built so far: nodes, documents and graph."""
    relations: bool
    """Whether documents have their relations at their end."""

    def opened(self) -> SKB:
        """What is built so far, as if it were finished. Raises OSError where the folder is not to be seen."""
        return LocalSKB(self.folder, self.meta)

    def rendered(self) -> Iterator[NodeText]:
        """Every node in number order."""
        with self.opened() as skb:
            yield from indexed_texts(skb, relations=self.relations)


class Workers(Protocol):
    """Who renders and encodes texts; the files are written by the process that builds."""

    def encoded(
        self, texts: Texts, encoder: Encoder, windows: Iterable[Window], *, folder: Path, previous: Path | None
    ) -> Iterator[Made]:
        """As ``vectors.encode`` gives for each window, in any order.

        ``folder`` has what the encoder was fitted to, ``previous`` vectors that may be used again.
        """


def build(
    source: Source,
    out: Path,
    options: Options | None = None,
    *,
    name: str = "",
    previous: Path | None = None,
    recipe: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    job_of: Callable[..., Job] | None = None,
) -> Meta:
    """Build an SKB in the folder ``out``, or replace the one that is there; readers of that one are not disturbed.

    ``previous`` is a folder of data whose vectors are taken over for texts that did not change, ``recipe`` what
    ``Meta.recipe`` will say. ``job_of`` makes what runs the stages, where it is not all of them.

    Raises UsageError where ``out`` is something else or is being built by another process, or where a package that the
    options need is not installed, DataError where the input cannot be read.
    """
    options = options or Options()
    made = prepare(out)
    try:
        with locked(out / LOCK, f"{out} is being built by another process"):
            state = _State(out / WORK, _fingerprint(source, options, previous))
            job = (job_of or Job)(source, options, out / WORK, state, previous, progress)
            try:
                job.run()
            except UsageError as error:
                if GRAPH not in state.done and not isinstance(error.__cause__, (OSError, MemoryError)):
                    forget(out, made=made)  # the input must be mended, and is another one then
                raise
            meta = job.put_in_place(out, name or out.name.removesuffix(".skb"), recipe or {})
            remove_unused(out, meta.data)
            return meta
    except OSError as error:  # a full disk, no right to write
        raise UsageError(f"{out} could not be built: {error}; what was there before is as it was") from error


def _fingerprint(source: Source, options: Options, previous: Path | None) -> str:
    wanted: list[object] = [options.text, options.encoder_name, options.sparql, options.relations]
    parts = [FORMAT, source.fingerprint, *wanted, previous and previous.name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _State:
    def __init__(self, work: Path, fingerprint: str) -> None:
        """Take up a build of the same input, or begin a new one."""
        self._path, self._fingerprint, self._lock = work / STATE, fingerprint, Lock()
        self.done: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            saved = json.loads(self._path.read_text())
            if saved["fingerprint"] == fingerprint:
                self.done = saved["done"]
                return
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        self._save()

    def finish(self, stage: str, found: dict[str, Any]) -> None:
        """Remember a finished stage."""
        with self._lock:
            self.done[stage] = found
            self._save()

    def _save(self) -> None:
        write_whole(self._path, json.dumps({"fingerprint": self._fingerprint, "done": self.done}))


class Job:
    """The stages of a build."""

    def __init__(
        self, source: Source, options: Options, work: Path, state: _State, previous: Path | None, progress: Progress
    ) -> None:
        self._source, self._options, self._work = source, options, work
        self._state, self._previous, self._progress = state, previous, progress
        self._stopped = Event()

    def run(self) -> None:
        """Run the stages that are not done; the triples, which a library sorts on threads of its own, beside others."""
        triples: Future[None] | None = None
        with ThreadPoolExecutor(1) as beside:
            try:
                for stage, work in self._stages():
                    if stage in self._state.done:
                        continue
                    if stage == TRIPLES:
                        triples = beside.submit(lambda work=work: self._state.finish(TRIPLES, work()))  # type: ignore[misc]
                        continue
                    if triples is not None and triples.done():
                        triples.result()  # a full disk should show before hours of embedding
                    self._state.finish(stage, work())
                if triples is not None:
                    triples.result()
            except BaseException:
                self._stopped.set()
                raise

    def put_in_place(self, out: Path, name: str, recipe: Mapping[str, Any]) -> Meta:
        """Checksum everything, rename ``build/`` to its final name, and let ``meta.json`` name it."""
        leftovers = (POSITIONS, STATE)
        paths = sorted(path for path in self._work.rglob("*") if path.is_file() and path.name not in leftovers)
        old = read_meta(out).files if self._previous else {}
        files = {}
        for done, path in enumerate(paths, 1):
            file = path.relative_to(self._work).as_posix()
            taken_over = self._previous and file in old and path.samefile(self._previous / file)
            files[file] = old[file] if taken_over else file_info(path, sync=True)
            self._progress("checksums", done, len(paths))
        meta = self._meta(name, files, f"data-{os.urandom(6).hex()}").model_copy(update={"recipe": recipe})
        self._work.rename(out / meta.data)
        write_meta(out, meta)
        for leftover in leftovers:
            (out / meta.data / leftover).unlink()
        return meta

    def _stages(self) -> Iterator[tuple[str, Stage]]:
        options = self._options
        yield "nodes", self._nodes
        yield GRAPH, self._graph
        if options.sparql:
            yield TRIPLES, self._triples
        if options.text:
            yield TEXT, partial(self._text, TEXT, relations=False)
            yield NAMES, self._names
        for part, relations in ((VECTORS, False), (RELATIONAL_VECTORS, True)):
            if relations and not options.relations:
                continue
            if relations and options.text:
                yield RELATIONAL_TEXT, partial(self._text, RELATIONAL_TEXT, relations=True)
            if options.vectors:
                yield part, partial(self._vectors, part, relations=relations)

    def _meta(self, name: str, files: dict[str, FileInfo], data: str) -> Meta:
        nodes, graph = self._state.done["nodes"], self._state.done[GRAPH]
        lost = Losses()
        if isinstance(self._source, Updated):  # but for what is counted again
            earlier = self._source.skb.meta.dropped
            lost.take({reason: one.model_dump() for reason, one in earlier.items() if reason != UNNAMED})
            find = self._source.skb.nodes.ids.find
            given = (one for one in self._source.records[1] if DANGLING.format(one.relation) in lost.counts)
            were_lost = [
                one._replace(deleted=False) for one in given if (find(one.source) < 0) != (find(one.target) < 0)
            ]
            lost.take_back(were_lost, {*self._source.lost[1].again})
        lost.take(nodes["dropped"] | graph["dropped"])
        return Meta(
            types=tuple(NodeType(name=kind, count=count) for kind, count in nodes["types"]),
            relations=tuple(Relation(name=relation, count=count) for relation, count in graph["relations"]),
            tuples=graph["tuples"],
            dropped=dict(sorted(lost.dropped.items())),
            tokens=self._state.done.get(TEXT, {}).get("tokens"),
            name=name,
            source=self._source.description,
            data=data,
            style=self._source.style,
            indexed=self._source.style,
            alias_fields=tuple(self._source.alias_fields),
            encoder=self._options.encoder_name,
            sparql=self._options.sparql,
            files=files,
        )

    @property
    def _type_start(self) -> list[int]:
        return type_starts([count for _, count in self._state.done["nodes"]["types"]])

    def _open_nodes(self) -> Nodes:
        documents = StoredDocuments(self._work / "documents")
        return Nodes(self._work / "nodes", documents, self._type_start, self._source.alias_fields)

    def _folder(self, name: str) -> Path:
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _nodes(self) -> dict[str, Any]:
        losses, done = Losses(), 0
        writer = _NodeWriter(self._folder("nodes"), self._folder("documents"), self._source.types)
        for done, record in enumerate(self._source.nodes(losses), 1):
            writer.add(record, losses)
            if done % REPORT_EVERY == 0:
                self._progress("nodes", done, 0)
        self._progress("nodes", done, done)
        positions, types = writer.finish()
        if not any(count for _, count in types):
            raise DataError(f"no nodes in {self._source.description}")
        np.save(self._work / POSITIONS, positions)
        return {"types": types, "dropped": losses.report()}

    def _graph(self) -> dict[str, Any]:
        losses = Losses()
        nodes = self._open_nodes()
        folder = self._folder(GRAPH)
        collector = _EdgeCollector(nodes, open_array(self._work / POSITIONS, np.int32), self._source.relations, losses)
        for item in self._source.edges(losses):
            collector.add(item)
            if collector.edges % REPORT_EVERY == 0:
                self._progress("edges", collector.edges, 0)
        self._progress("edges", collector.edges, collector.edges)
        relations, edges = collector.finish()
        repeated = write_graph(folder, len(nodes), len(relations), edges)
        if repeated:
            losses.add("edge given twice", "the same source, relation and target", repeated)
        tuples = Graph(folder, len(relations)).tuple_counts(nodes.type_start)
        counts = [0] * len(relations)
        for (_, relation, _), count in tuples.items():
            counts[relation] += count
        types = [kind for kind, _ in self._state.done["nodes"]["types"]]
        return {
            "relations": list(zip(relations, counts, strict=True)),
            "tuples": [
                {"source": types[source], "relation": relations[relation], "target": types[target], "count": count}
                for (source, relation, target), count in tuples.items()
            ],
            "dropped": losses.report(),
        }

    def _triples(self) -> dict[str, Any]:
        from kbnav.knowledge.skb import rdf

        types = [kind for kind, _ in self._state.done["nodes"]["types"]]
        relations = [relation for relation, _ in self._state.done[GRAPH]["relations"]]
        graph = Graph(self._work / GRAPH, len(relations))
        folder = self._folder(TRIPLES)
        rdf.build(self._open_nodes(), graph, types, relations, folder, self._progress, self._stopped.is_set)
        return {}

    def _text(self, part: str, *, relations: bool) -> dict[str, Any]:
        from kbnav.knowledge.skb import text

        tokens = 0

        def counted() -> Iterator[NodeText]:
            nonlocal tokens
            for node in self._texts(relations=relations).rendered():
                tokens += len(node.document.split())
                yield node

        text.build(counted(), self._folder(part), type_start=self._type_start, progress=self._progress)
        return {"tokens": tokens}

    def _names(self) -> dict[str, Any]:
        from kbnav.knowledge.skb.text import build_names

        build_names(
            self._open_nodes().bare(), self._folder(NAMES), type_start=self._type_start, progress=self._progress
        )
        return {}

    def _texts(self, *, relations: bool) -> Texts:
        meta = self._meta("", {}, "data-" + 12 * "0").model_copy(update={"data": WORK})
        return Texts(self._work.parent.resolve(), meta, relations)

    def _vectors(self, part: str, *, relations: bool) -> dict[str, Any]:
        from kbnav.knowledge.skb import vectors

        texts, folder, workers = self._texts(relations=relations), self._work / part, self._options.workers
        folder.mkdir(exist_ok=True)  # not emptied: embedding goes on where it was
        previous = self._previous and self._previous / part

        vectors.build(
            texts.rendered,
            folder,
            encoder=self._options.encoder,
            type_start=self._type_start,
            previous=previous,
            progress=self._progress,
            elsewhere=partial(workers.encoded, texts, folder=folder.resolve(), previous=previous and previous.resolve())
            if workers
            else None,
        )
        return {}


class _NodeWriter:
    def __init__(self, nodes: Path, documents: Path, types: Sequence[str]) -> None:
        self._folder = nodes
        self._documents = DocumentWriter(documents)
        self._seen: set[str] = set()
        self._types = {name: number for number, name in enumerate(types)}
        self._ids: list[list[str]] = [[] for _ in self._types]
        self._names: list[list[str]] = [[] for _ in self._types]
        self._kind = array("i")
        self._index = array("i")

    def add(self, record: NodeRecord, losses: Losses) -> None:
        """Take the next record, or count the reason it is left out for."""
        reason = record.left_out or ("node id given twice" if record.id in self._seen else "")
        try:
            record.id.encode()
        except UnicodeEncodeError:  # halves of characters, which JSON may hold
            reason = "node whose id is no text"
        if reason or not record.id:
            losses.add(reason or "node without an id", f"{record.id} {record.name}".strip() or str(record.fields))
            self._kind.append(-1)
            self._index.append(-1)
            return
        self._seen.add(record.id)
        kind = self._types.setdefault(record.type or UNTYPED, len(self._types))
        if kind == len(self._ids):
            self._ids.append([])
            self._names.append([])
        if not record.name:
            losses.add(UNNAMED, record.id)
        self._kind.append(kind)
        self._index.append(len(self._ids[kind]))
        self._ids[kind].append(record.id)
        self._names[kind].append(record.name)
        self._documents.add(kind, record.fields)

    def finish(self) -> tuple[npt.NDArray[np.int32], list[tuple[str, int]]]:
        """Returns each record's node number, -1 where it was left out, and the types with their counts."""
        self._documents.finish(len(self._types))
        write_strings(self._folder, "ids", chain.from_iterable(self._ids), searchable=True)
        write_strings(self._folder, "names", chain.from_iterable(self._names))
        counts = [len(ids) for ids in self._ids]
        kind, index = _column(self._kind), _column(self._index)
        # The number of nodes stands behind the last type, where kind -1 finds it.
        positions = np.where(kind < 0, -1, np.array(type_starts(counts), np.int32)[kind] + index)
        return positions.astype(np.int32), list(zip(self._types, counts, strict=True))


class _EdgeCollector:
    def __init__(self, nodes: Nodes, positions: Array, relations: Sequence[str], losses: Losses) -> None:
        self._nodes = nodes
        self._positions = positions
        self._relations = {name: number for number, name in enumerate(relations)}
        self._declared = len(self._relations)
        self._losses = losses
        self._columns = (array("i"), array("i"), array("i"))
        self.edges = 0

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node_id: number for number, node_id in enumerate(self._nodes.ids)}

    @cached_property
    def _without_zeros(self) -> dict[str, str]:
        return {_ZEROS.sub("", one, 1): one for one in self._numbers if _ZEROS.search(one)}

    def _near(self, end: str) -> str:
        """The id that differs from an unknown one by zeros before its first number; empty where there is none."""
        bare = _ZEROS.sub("", end, 1)
        return "" if end in self._numbers else bare if bare in self._numbers else self._without_zeros.get(bare, "")

    def add(self, item: EdgeRecord | EdgeArrays) -> None:
        """Take an edge, or many; those with an end that does not exist are counted and left out."""
        if isinstance(item, EdgeArrays):
            self._add_arrays(item)
            return
        self.edges += 1
        source, target = self._numbers.get(item.source), self._numbers.get(item.target)
        if item.deleted or source is None or target is None or not item.relation:
            reason, case = DANGLING.format(item.relation), item.case
            if item.deleted or not item.relation:
                reason = "edge deleted" if item.deleted else "edge without a relation"
            elif near := self._near(item.source) or self._near(item.target):
                reason, case = "edge to an id that differs by zeros before a number", f"{case}: there is {near}"
            self._losses.add(reason, case)
            return
        relation = self._relations.setdefault(item.relation, len(self._relations))
        sources, relations, targets = self._columns
        sources.append(source)
        relations.append(relation)
        targets.append(target)

    def _add_arrays(self, item: EdgeArrays) -> None:
        self.edges += len(item.source)
        relation = self._in_range(item.relation, self._declared, "relation").astype(np.int32)
        source, target = (
            self._positions[self._in_range(side, len(self._positions), "node")] for side in (item.source, item.target)
        )
        missing = (source < 0) | (target < 0)
        if missing.any():
            first = int(missing.argmax())
            case = f"{item.source[first]} {item.relation[first]} {item.target[first]}"
            self._losses.add("edge to a node that was left out", case, int(missing.sum()))
        for column, values in zip(self._columns, (source, relation, target), strict=True):
            column.frombytes(np.ascontiguousarray(values[~missing], np.int32).tobytes())

    def _in_range(self, values: Array, size: int, what: str) -> Array:
        if len(values) and (values.min() < 0 or values.max() >= size):
            raise DataError(f"edges name {what} {values.min()} to {values.max()}; there are {size}, numbered from 0")
        return values

    def finish(self) -> tuple[list[str], tuple[Array, Array, Array]]:
        """The relations that have edges, by number, and the columns: source, relation, target, shape [edges] each."""
        source, relation, target = map(_column, self._columns)
        counts = np.bincount(relation, minlength=len(self._relations))
        names = [name for name, count in zip(self._relations, counts.tolist(), strict=True) if count]
        return names, (source, (np.cumsum(counts > 0, dtype=np.int32) - 1)[relation], target)


def _column(values: array[int]) -> npt.NDArray[np.int32]:
    return np.frombuffer(values, np.int32) if values else np.empty(0, np.int32)


class Updated:
    """An SKB with the records of another source over it, as a source."""

    def __init__(self, skb: SKB, source: Source) -> None:
        self.skb, self._source = skb, source
        self.lost = Losses(), Losses()
        """What the records leave out: of nodes, of edges."""
        self.description = f"{skb.meta.source}; then {source.description}"
        self.fingerprint = hashlib.sha256(f"{skb.meta.data} {source.fingerprint}".encode()).hexdigest()
        self.style = skb.meta.style
        self.types: Sequence[str] = skb.type_names
        self.relations: Sequence[str] = skb.relation_names
        self.alias_fields: Sequence[str] = skb.meta.alias_fields

    @cached_property
    def records(self) -> tuple[list[NodeRecord], list[EdgeRecord]]:
        """The nodes and edges that are put over the SKB, read once."""
        nodes, edges = list(self._source.nodes(self.lost[0])), list(self._source.edges(self.lost[1]))
        own = [edge for edge in edges if isinstance(edge, EdgeRecord)]
        if len(own) < len(edges):
            raise DataError("an SKB is updated with records, not with arrays of positions")
        return nodes, own

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """The SKB's nodes in their order, each with its new record where there is one; then those that are new."""
        changed = {record.id: record for record in self.records[0]}
        losses.take(self.lost[0].report())
        for number, fields in enumerate(self.skb.documents):
            yield _over(self.skb, number, fields, changed.pop(self.skb.id(number), None))
        for record in changed.values():
            if record.left_out:
                losses.add("deletion of a node that does not exist", record.id)
            else:
                yield record

    def edges(self, losses: Losses) -> Iterator[EdgeRecord | EdgeArrays]:
        """The SKB's edges but for those deleted, then the new ones."""
        graph, find = self.skb.graph, self.skb.nodes.ids.find
        without = np.zeros(graph.nodes, bool)
        last = {record.id: record.left_out for record in self.records[0]}
        numbers = (find(node_id) for node_id, left_out in last.items() if left_out)
        without[[number for number in numbers if number >= 0]] = True
        losses.take(self.lost[1].report())
        changed = {item._replace(deleted=False): item for item in self.records[1]}
        gone, sizes = [], (graph.nodes, len(self.relations))
        for edge in (key for key, item in changed.items() if item.deleted):
            source, target = find(edge.source), find(edge.target)
            relation = self.relations.index(edge.relation) if edge.relation in self.relations else -1
            there = min(source, target, relation) >= 0 and graph.has_edge(source, relation, target)
            losses.add("edge deleted" if there else "deletion of an edge that does not exist", edge.case)
            gone += [edge_key(source, relation, target, *sizes)] if there else []
        sources, relations, targets = graph.columns()
        for first in range(0, graph.edges, _CHUNK):
            part = slice(first, first + _CHUNK)
            keys = edge_key(sources[part], relations[part], targets[part], *sizes)
            asked = np.isin(keys, np.array(gone, np.int64))
            dangling = (without[sources[part]] | without[targets[part]]) & ~asked
            for place in np.flatnonzero(dangling).tolist():
                one, other = (self.skb.id(int(column[part][place])) for column in (sources, targets))
                losses.add("edge of a deleted node", f"{one} {self.relations[int(relations[part][place])]} {other}")
            kept = ~(asked | dangling)
            yield EdgeArrays(sources[part][kept], relations[part][kept], targets[part][kept])
        yield from (item for item in changed.values() if not item.deleted)


def _over(skb: SKB, number: int, fields: Fields, new: NodeRecord | None) -> NodeRecord:
    """A node with what a new record says of it."""
    old = NodeRecord(skb.id(number), skb.type(number), skb.nodes.names[number], fields)
    if not new:
        return old
    said = {name: value for name, value in new.fields.items() if value is not None or name in fields}
    return new._replace(type=new.type or old.type, name=new.name or old.name, fields={**fields, **said})


def job_of(updated: Updated, options: Options) -> Callable[..., Job]:
    """What builds an SKB with records over it: file by file where that can be, else all anew.

    It can be where some nodes get new documents or names and edges come or go, but no node comes, goes or changes its
    type, and no index holds relations.
    """
    skb, (nodes, edges) = updated.skb, updated.records
    has = {name.partition("/")[0] for name in skb.meta.files}
    wanted = {TEXT: options.text, TRIPLES: options.sparql, VECTORS: options.vectors}
    if options.relations or any((part in has) != one for part, one in wanted.items()):
        return Job
    changed = {skb.nodes.ids.find(record.id): record for record in nodes}
    linked = bool(edges or updated.lost[1].counts)
    stay = (
        number >= 0
        and not record.left_out
        and record.type in ("", skb.type(number))
        and bool(skb.nodes.names[number] or not record.name)
        for number, record in changed.items()
    )
    if not (changed or linked) or len(changed) > _MOST_CHANGED * skb.meta.nodes or not all(stay):
        return Job
    merged = {number: _over(skb, number, skb.documents[number], record) for number, record in sorted(changed.items())}
    return partial(_Update, skb=skb, changed=merged, edges=linked, losses=updated.lost[0])


class _Update(Job):
    def __init__(self, *given: Any, skb: SKB, changed: Mapping[int, NodeRecord], edges: bool, losses: Losses) -> None:
        super().__init__(*given)
        self._skb, self._changed, self._edges, self._losses = skb, changed, edges, losses

    def _linked(self, name: str) -> Path:
        """A folder of the build with all files of the old one."""
        folder = self._folder(name)
        for path in self._skb.folder(name).iterdir():
            link(path, folder / path.name)
        return folder

    def _nodes(self) -> dict[str, Any]:
        old, names = self._skb, {number: record.name for number, record in self._changed.items()}
        folder = self._linked("nodes")
        if any(old.nodes.names[number] != name for number, name in names.items()):
            for path in folder.glob("names-*"):
                path.unlink()
            write_strings(folder, "names", (names.get(n, name) for n, name in enumerate(old.nodes.names)))
        fields = {number: record.fields for number, record in self._changed.items()}
        StoredDocuments(self._skb.folder("documents")).write_changed(self._folder("documents"), fields)
        np.save(self._work / POSITIONS, np.arange(len(old.nodes), dtype=np.int32))
        kept = {UNNAMED: old.meta.dropped[UNNAMED].model_dump()} if UNNAMED in old.meta.dropped else {}
        return {"types": [(kind.name, kind.count) for kind in old.meta.types], "dropped": self._losses.report() | kept}

    def _graph(self) -> dict[str, Any]:
        if self._edges:
            return super()._graph()
        self._linked(GRAPH)
        meta = self._skb.meta
        relations = [(relation.name, relation.count) for relation in meta.relations]
        return {"relations": relations, "tuples": [one.model_dump() for one in meta.tuples], "dropped": {}}

    def _triples(self) -> dict[str, Any]:
        from kbnav.knowledge.skb import rdf

        relations = [relation for relation, _ in self._state.done[GRAPH]["relations"]]
        if relations != list(self._skb.relation_names):  # their names as IRIs may be others
            return super()._triples()
        come, gone = self._edges_changed(len(relations)) if self._edges else ([], [])
        nodes = self._open_nodes()
        about = (pair for number in self._changed for pair in nodes.named(range(number, number + 1)))
        rdf.change(self._skb.folder(TRIPLES), self._folder(TRIPLES), self._skb, about, come, gone)
        return {}

    def _edges_changed(self, relations: int) -> Iterator[list[tuple[int, int, int]]]:
        """The edges that come, then those that go: source, relation and target."""
        sizes = (self._skb.graph.nodes, relations)
        keys = [edge_key(*graph.columns(), *sizes) for graph in (Graph(self._work / GRAPH, relations), self._skb.graph)]
        for some, others in (keys, keys[::-1]):
            only = edges_of(np.setdiff1d(some, others, assume_unique=True), *sizes)
            yield list(zip(*(column.tolist() for column in only), strict=True))

    @cached_property
    def _new_texts(self) -> Sequence[NodeText]:
        with self._texts(relations=False).opened() as skb:
            return [text for number in self._changed for text in indexed_texts(skb, among=range(number, number + 1))]

    def _text(self, part: str, *, relations: bool) -> dict[str, Any]:  # noqa: ARG002
        from kbnav.knowledge.skb import text

        text.change(self._new_texts, self._skb.folder(part), self._folder(part))
        old = [one for number in self._changed for one in indexed_texts(self._skb, among=range(number, number + 1))]
        words = (sum(len(one.document.split()) for one in texts) for texts in (self._new_texts, old))
        tokens = self._skb.meta.tokens
        return {"tokens": tokens if tokens is None else tokens + next(words) - next(words)}

    def _names(self) -> dict[str, Any]:
        nodes, fields = self._skb.nodes, self._source.alias_fields
        for number, record in self._changed.items():
            if (record.name, aliases(record.fields, fields)) != (nodes.names[number], nodes.aliases(number)):
                return super()._names()
        self._linked(NAMES)
        return {}

    def _vectors(self, part: str, *, relations: bool) -> dict[str, Any]:  # noqa: ARG002
        from kbnav.knowledge.skb import vectors

        folder = self._folder(part)
        shutil.copytree(self._skb.folder(part), folder, dirs_exist_ok=True)  # they are written to
        vectors.change(self._new_texts, folder, encoder=self._options.encoder, type_start=self._type_start)
        return {}
