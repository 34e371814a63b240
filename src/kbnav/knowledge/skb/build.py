"""Building an SKB: stage by stage in a folder beside the data in use, then put in its place in one step.

A build that was killed leaves ``build/`` behind; the same build called again goes on behind its last finished stage.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.arrays import open_array
from kbnav.knowledge.skb.folder import file_info, forget, only_builder, prepare, remove_unused
from kbnav.knowledge.skb.graph import Graph, write_graph
from kbnav.knowledge.skb.intake import EdgeCollector, NodeWriter
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.records import Losses, Source
from kbnav.knowledge.skb.resume import STATE, BuildState
from kbnav.knowledge.skb.schema import (
    FORMAT,
    LSA,
    TRIPLES,
    WORK,
    Dropped,
    FileInfo,
    Meta,
    NodeText,
    NodeType,
    Progress,
    Relation,
    TypeTuple,
    no_progress,
    type_starts,
    write_meta,
)
from kbnav.knowledge.skb.store import RELATIONAL_TEXT, RELATIONAL_VECTORS, VECTORS
from kbnav.knowledge.skb.texts import Texts, Workers

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb import embedding

POSITIONS = "positions.npy"
REPORT_EVERY = 10_000


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
    ann: bool = False
    """Also an approximate index of all vectors, with faiss."""
    workers: Workers | None = None
    """Who renders and encodes the texts; None: this process. What is built is the same."""
    indexes: bool = True
    """False: no texts and vectors, which are elsewhere; the names that go with texts are there."""

    @property
    def encoder_name(self) -> str:
        """As ``meta.json`` has it; empty without vectors."""
        return (self.encoder.name if self.encoder else LSA) if self.vectors else ""


def build(
    source: Source,
    out: Path,
    options: Options | None = None,
    *,
    name: str = "",
    previous: Path | None = None,
    progress: Progress = no_progress,
) -> Meta:
    """Build an SKB in the folder ``out``, or replace the one that is there; readers of that one are not disturbed.

    ``previous`` is a folder of data whose vectors are taken over for texts that did not change.

    Raises UsageError where ``out`` is something else or is being built by another process, or where a package that the
    options need is not installed, DataError where the input cannot be read.
    """
    options = options or Options()
    if options.ann:
        from kbnav.knowledge.skb import ann

        ann.require()
        if not options.vectors:
            raise UsageError("an approximate index is one of vectors, and none are to be built")
    made = prepare(out)
    try:
        with only_builder(out):
            work = out / WORK
            state = BuildState.resume(work, fingerprint(source, options, previous))
            job = _Job(source, options, work, state, previous, progress)
            try:
                _run(job, state)
            except DataError as error:
                if "graph" not in state.done and not isinstance(error.__cause__, (OSError, MemoryError)):
                    forget(out, made=made)  # the input must be mended, and is another one then
                raise
            meta = _put_in_place(job, out, name or out.name.removesuffix(".skb"))
            remove_unused(out, meta.data)
            return meta
    except OSError as error:  # a full disk, no right to write
        raise UsageError(f"{out} could not be built: {error}; what was there before is as it was") from error


def unfinished(source: Source, out: Path, options: Options) -> bool:
    """Whether ``build`` with these goes on behind what an earlier one, which was killed, did of the same input."""
    return BuildState.begun(out / WORK, fingerprint(source, options))


def _run(job: _Job, state: BuildState) -> None:
    """Run the stages that are not done; the triples, which a library sorts on its own threads, beside the indexes."""
    triples: Future[None] | None = None
    with ThreadPoolExecutor(1) as beside:
        try:
            for stage, run in job.stages():
                if stage in state.done:
                    continue
                if stage == TRIPLES:
                    triples = beside.submit(lambda run=run: state.finish(TRIPLES, run()))  # type: ignore[misc]
                    continue
                if triples is not None and triples.done():
                    triples.result()  # a full disk should not be told after hours of embedding
                state.finish(stage, run())
            if triples is not None:
                triples.result()
        except BaseException:
            job.stopped.set()
            raise


class _Job:
    """One build: its input, its folder, and a method for each stage, which returns what later stages must know."""

    def __init__(
        self, source: Source, options: Options, work: Path, state: BuildState, previous: Path | None, progress: Progress
    ) -> None:
        self.source = source
        self.options = options
        self.work = work
        self.progress = progress
        self.stopped = Event()
        self._state = state
        self._previous = previous

    def stages(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """The stages in their order; a later one may read what the earlier ones wrote."""
        yield "nodes", self._nodes
        yield "graph", self._graph
        if self.options.sparql:
            yield TRIPLES, self._rdf
        if self.options.text and self.options.indexes:
            yield "text", self._text
        if self.options.text:
            yield "names", self._names
        if not self.options.indexes:
            return
        if self.options.vectors:
            yield VECTORS, self._vectors
            yield from self._approximate(VECTORS)
        if self.options.relations and self.options.text:
            yield RELATIONAL_TEXT, self._relational_text
        if self.options.relations and self.options.vectors:
            yield RELATIONAL_VECTORS, self._relational_vectors
            yield from self._approximate(RELATIONAL_VECTORS)

    @property
    def types(self) -> list[NodeType]:
        """Node types, known after the stage ``nodes``."""
        return [NodeType(name=name, count=count) for name, count in self._state.done["nodes"]["types"]]

    @property
    def relations(self) -> list[Relation]:
        """Relations, known after the stage ``graph``."""
        return [Relation(name=name, count=count) for name, count in self._state.done["graph"]["relations"]]

    @property
    def tuples(self) -> list[TypeTuple]:
        """Which relation leads from which type to which, known after the stage ``graph``."""
        return [TypeTuple.model_validate(item) for item in self._state.done["graph"]["tuples"]]

    @property
    def dropped(self) -> dict[str, Dropped]:
        """What was left out, by reason."""
        both = self._state.done["nodes"]["dropped"] | self._state.done["graph"]["dropped"]
        return {reason: Dropped.model_validate(item) for reason, item in sorted(both.items())}

    def open_nodes(self) -> Nodes:
        """The nodes that the first stage wrote."""
        return Nodes.open(self.work, type_starts([kind.count for kind in self.types]), self.source.alias_fields)

    def meta(self, name: str, files: Mapping[str, FileInfo], data: str) -> Meta:
        """The description of what was built, known after the stage ``graph``."""
        return Meta(
            name=name,
            source=self.source.description,
            data=data,
            style=self.source.style,
            indexed=self.source.style,
            alias_fields=tuple(self.source.alias_fields),
            types=tuple(self.types),
            relations=tuple(self.relations),
            tuples=tuple(self.tuples),
            dropped=self.dropped,
            encoder=self.options.encoder_name,
            sparql=self.options.sparql,
            tokens=self._state.done.get("text", {}).get("tokens"),
            files=files,
        )

    def _folder(self, name: str) -> Path:
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _nodes(self) -> dict[str, Any]:
        losses, done = Losses(), 0
        writer = NodeWriter(self._folder("nodes"), self._folder("documents"), self.source.types)
        for done, record in enumerate(self.source.nodes(losses), 1):
            writer.add(record, losses)
            if done % REPORT_EVERY == 0:
                self.progress("nodes", done, 0)
        self.progress("nodes", done, done)
        positions, types = writer.finish()
        if not any(count for _, count in types):
            raise DataError(f"no nodes in {self.source.description}")
        np.save(self.work / POSITIONS, positions)
        return {"types": types, "dropped": _plain(losses)}

    def _graph(self) -> dict[str, Any]:
        losses = Losses()
        nodes = self.open_nodes()
        folder = self._folder("graph")
        collector = EdgeCollector(nodes, open_array(self.work / POSITIONS, np.int32), self.source.relations, losses)
        for item in self.source.edges(losses):
            collector.add(item)
            if collector.edges % REPORT_EVERY == 0:
                self.progress("edges", collector.edges, 0)
        self.progress("edges", collector.edges, collector.edges)
        relations, edges = collector.finish()
        repeated = write_graph(folder, len(nodes), len(relations), edges)
        if repeated:
            losses.add("edge given twice", "the same source, relation and target", repeated)
        graph = Graph(folder, len(relations))
        tuples = graph.tuple_counts(nodes.type_start)
        counts = np.zeros(len(relations), np.int64)
        for (_, relation, _), count in tuples.items():
            counts[relation] += count
        types = [kind.name for kind in self.types]
        return {
            "relations": list(zip(relations, counts.tolist(), strict=True)),
            "tuples": [
                {"source": types[source], "relation": relations[relation], "target": types[target], "count": count}
                for (source, relation, target), count in tuples.items()
            ],
            "dropped": _plain(losses),
        }

    def _text(self) -> dict[str, Any]:
        tokens = 0

        def counted(texts: Iterable[NodeText]) -> Iterator[NodeText]:
            nonlocal tokens
            for text in texts:
                tokens += len(text.document.split())
                yield text

        self._index_text(counted(self._rendered(self._texts())), "text")
        return {"tokens": tokens}

    def _relational_text(self) -> dict[str, Any]:
        self._index_text(self._rendered(self._texts(relations=True)), RELATIONAL_TEXT)
        return {}

    def _names(self) -> dict[str, Any]:
        from kbnav.knowledge.skb import names

        nodes = self.open_nodes()
        named = (node for node, _ in nodes.named())
        names.build(named, self._folder("names"), type_start=nodes.type_start, progress=self.progress)
        return {}

    def _vectors(self) -> dict[str, Any]:
        self._embed(self._texts(), VECTORS)
        return {}

    def _relational_vectors(self) -> dict[str, Any]:
        self._embed(self._texts(relations=True), RELATIONAL_VECTORS)
        return {}

    def _texts(self, *, relations: bool = False) -> Texts:
        meta = self.meta("", {}, "data-" + 12 * "0").model_copy(update={"data": WORK})
        return Texts(self.work.parent.resolve(), meta, relations)

    def _rendered(self, texts: Texts) -> Iterator[NodeText]:
        workers = self.options.workers
        return workers.rendered(texts) if workers else texts.rendered()

    def _index_text(self, texts: Iterable[NodeText], part: str) -> None:
        from kbnav.knowledge.skb import text

        starts = type_starts([kind.count for kind in self.types])
        text.build(texts, self._folder(part), type_start=starts, progress=self.progress)

    def _embed(self, texts: Texts, part: str) -> None:
        from kbnav.knowledge.skb.embedding import build

        folder, workers = self.work / part, self.options.workers
        folder.mkdir(exist_ok=True)  # not emptied: embedding goes on where it was
        previous = self._previous and self._previous / part

        def elsewhere(encoder: Encoder, windows: Iterable[embedding.Window]) -> Iterator[embedding.Made]:
            assert workers is not None
            return workers.encoded(texts, encoder, folder.resolve(), windows, previous and previous.resolve())

        build(
            lambda: self._rendered(texts),
            folder,
            encoder=self.options.encoder,
            type_start=texts.meta.type_start,
            previous=previous,
            progress=self.progress,
            elsewhere=elsewhere if workers else None,
        )

    def _approximate(self, part: str) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """The stage behind that of ``part``, where it is wanted."""
        from kbnav.knowledge.skb import ann, embedding

        def run() -> dict[str, Any]:
            embedding.build_approximate(self.work / part, self._folder(ann.folder(part)), progress=self.progress)
            return {}

        if self.options.ann:
            yield ann.folder(part), run

    def _rdf(self) -> dict[str, Any]:
        from kbnav.knowledge.skb import rdf

        relations = [relation.name for relation in self.relations]
        graph = Graph(self.work / "graph", len(relations))
        types = [kind.name for kind in self.types]
        source = rdf.triples(self.open_nodes(), graph, types, relations, self.progress, self.stopped.is_set)
        rdf.build(source, self._folder(TRIPLES))
        return {}


def _plain(losses: Losses) -> dict[str, Any]:
    return {reason: dropped.model_dump() for reason, dropped in losses.report().items()}


def fingerprint(source: Source, options: Options, previous: Path | None = None) -> str:
    """Of all that a build is made of: one of the same goes on where another was killed."""
    wanted: list[object] = [options.text, options.encoder_name, options.sparql, options.relations, options.ann]
    wanted += [] if options.indexes else ["without indexes"]
    parts = [FORMAT, source.fingerprint, *wanted, previous and previous.name]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _put_in_place(job: _Job, out: Path, name: str) -> Meta:
    """Checksum everything, rename ``build/`` to its final name, and let ``meta.json`` name it."""
    leftovers = (POSITIONS, STATE)
    paths = sorted(path for path in job.work.rglob("*") if path.is_file() and path.name not in leftovers)
    files = {}
    for done, path in enumerate(paths, 1):
        files[path.relative_to(job.work).as_posix()] = file_info(path, sync=True)
        job.progress("checksums", done, len(paths))
    meta = job.meta(name, files, f"data-{os.urandom(6).hex()}")
    job.work.rename(out / meta.data)
    write_meta(out, meta)
    for leftover in leftovers:
        (out / meta.data / leftover).unlink()
    return meta
