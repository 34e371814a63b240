"""Writing a built SKB into tables of LanceDB, checking it, and deleting old versions.

A build is written in batches; what was written of one that was killed is kept.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.build import Options, Updated, fingerprint, same_encoder
from kbnav.knowledge.skb.build import build as build_files
from kbnav.knowledge.skb.files import reading
from kbnav.knowledge.skb.lance.store import LanceStore, counted_length, matrix
from kbnav.knowledge.skb.lance.tables import (
    BUILDS,
    DOCUMENT,
    FIELDS,
    FILES,
    KEY,
    NODES,
    TYPE,
    UNFINISHED,
    WORDS,
    Build,
    Table,
    TextStats,
    asking,
    build_tag,
    column,
    connect,
    file_schema,
    finish,
    is_address,
    is_file,
    open_table,
    piece,
    pieces,
    reaching,
    read_build,
    read_builds,
    require,
    table_names,
)
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import (
    META,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    VECTORS,
    Fields,
    FileInfo,
    Meta,
    NodeText,
    Progress,
    Source,
    no_progress,
)
from kbnav.knowledge.skb.store import SKB, LocalStore, cache_of
from kbnav.knowledge.skb.vectors import HASHES_FILE, VECTORS_FILE, text_hash

ROWS = 1_000
"""Rows that are in memory at once."""
COMMIT = 20_000
"""Rows that are written at once: what a build that is killed loses."""
_KEPT = timedelta(days=36_500)  # older than any version
_MARGIN = timedelta(seconds=1)  # what was written so shortly before a version that is kept stays
_WORDS_AT_ONCE = 50_000
_FEWEST = 1_000  # vectors worth an approximate index
_A_PARTITION = 1 << 20  # vectors
_DIGEST = 16  # bytes


class Content:
    """What rows hold together, in whatever order they come: the sum of their digests.

    It finds damage. It is no proof against somebody who wants rows to be exchanged for others.
    """

    def __init__(self) -> None:
        self._sum = 0

    def add(self, rows: Any) -> None:
        """Add the rows of a batch or table of Arrow's."""
        columns = [_cells(rows[name]) for name in sorted(rows.schema.names)]
        for cells in zip(*columns, strict=True):
            digest = blake2b(digest_size=_DIGEST)
            for cell in cells:
                digest.update(len(cell).to_bytes(8, "little") + cell)
            self._sum += int.from_bytes(digest.digest(), "little")

    def hex(self) -> str:
        """As text."""
        return f"{self._sum % (1 << 8 * _DIGEST):032x}"


def _cells(values: Any) -> list[bytes]:
    """The cells of a column as bytes."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(values.type):
        return [vector.tobytes() for vector in matrix(values)]
    if pa.types.is_integer(values.type):
        return [number.to_bytes(8, "little") for number in values.to_pylist()]
    return [str(value).encode() for value in values.to_pylist()]


class _Words:
    """The words of the texts of one index, and how many nodes have each."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._analyzer = text.analyzer(text.LANGUAGE)
        self._holders = {field: Counter[str]() for field in FIELDS}
        self._totals = Counter[str]()
        self._stretch = 1.0

    def columns(self, nodes: Sequence[NodeText]) -> dict[str, list[str]]:
        """The words of nodes as they are written, by column; they are counted."""
        names = [[word for name in (node.name, *node.aliases) for word in self._words(name)] for node in nodes]
        bodies = [self._words(node.document) for node in nodes]
        texts = dict(zip(FIELDS, (names, bodies), strict=True))
        for field, many in texts.items():
            for words in many:
                self._totals[field] += len(words)
                self._holders[field].update(set(words))
                if words:
                    self._stretch = max(self._stretch, len(words) / counted_length(len(words)))
        return {column(self.part, field): [" ".join(words) for words in many] for field, many in texts.items()}

    def batches(self) -> Iterator[Any]:
        """Rows of the table ``words``, once all are counted."""
        import pyarrow as pa

        names, bodies = self._holders.values()
        words = sorted(names.keys() | bodies.keys())
        for first in range(0, len(words), _WORDS_AT_ONCE):
            some = words[first : first + _WORDS_AT_ONCE]
            counts = [pa.array([held[word] for word in some], pa.int32()) for held in (names, bodies)]
            columns = [pa.array([self.part] * len(some), pa.string()), pa.array(some, pa.string()), *counts]
            yield pa.record_batch(columns, schema=_word_schema())

    def stats(self) -> TextStats:
        """What BM25 must know, once all are counted."""
        return TextStats(self._totals["name"], self._totals["body"], self._stretch)

    def _words(self, said: str) -> list[str]:
        return list(self._analyzer.analyze(text.spelled(said)))


def _word_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("part", pa.string()), ("word", pa.string()), ("names", pa.int32()), ("bodies", pa.int32())])


def _row_schema(texts: Iterable[str], sizes: Mapping[str, int]) -> Any:
    """The columns of the table ``nodes``, with indexes of ``texts`` and of vectors of so many numbers."""
    import pyarrow as pa

    fields = [(KEY, pa.int64()), (TYPE, pa.int32()), (DOCUMENT, pa.large_string())]
    fields += [(column(part, field), pa.large_string()) for part in texts for field in FIELDS]
    return pa.schema([*fields, *((column(part), pa.list_(pa.float32(), size)) for part, size in sizes.items())])


class _Rows:
    """All rows of an SKB in a folder, and what is counted of them on the way."""

    def __init__(self, skb: SKB) -> None:
        self.skb = skb
        indexed = {TEXT: skb.text, RELATIONAL_TEXT: skb.relational_text}
        self.words = [_Words(part) for part, index in indexed.items() if index is not None]
        found = {VECTORS: skb.vectors, RELATIONAL_VECTORS: skb.relational_vectors}
        self._vectors = {part: index for part, index in found.items() if index is not None}
        self.sizes = {part: index.dimensions for part, index in self._vectors.items()}
        self.content = Content()
        self.schema = _row_schema([words.part for words in self.words], self.sizes)

    def batches(self) -> Iterator[Any]:
        """The rows in batches of ``ROWS``."""
        documents = iter(self.skb.documents)
        texts = {words.part: indexed_texts(self.skb, relations=words.part == RELATIONAL_TEXT) for words in self.words}
        for first in range(0, len(self.skb.nodes), ROWS):
            numbers = range(first, min(first + ROWS, len(self.skb.nodes)))
            written: dict[str, list[str]] = {}
            for words in self.words:
                written |= words.columns(list(islice(texts[words.part], len(numbers))))
            made = self._batch(numbers, list(islice(documents, len(numbers))), written)
            self.content.add(made)
            yield made

    def _batch(self, numbers: range, documents: Sequence[Fields], words: Mapping[str, Sequence[str]]) -> Any:
        import pyarrow as pa

        columns: dict[str, Any] = {
            KEY: pa.array(numbers, pa.int64()),
            TYPE: pa.array([self.skb.nodes.type_of(number) for number in numbers], pa.int32()),
            DOCUMENT: pa.array([json.dumps(one, ensure_ascii=False) for one in documents], pa.large_string()),
            **{name: pa.array(some, pa.large_string()) for name, some in words.items()},
        }
        for part, index in self._vectors.items():
            made = index.rows(np.arange(numbers.start, numbers.stop))
            flat = pa.array(np.ascontiguousarray(made, np.float32).ravel())
            columns[column(part)] = pa.FixedSizeListArray.from_arrays(flat, made.shape[1])
        return pa.record_batch([columns[name] for name in self.schema.names], schema=self.schema)


def write(skb: SKB, place: str, *, approximate: bool = False, progress: Progress = no_progress) -> Build:
    """Write an SKB that was built in a folder to a folder of tables or an address; readers of an older one keep it.

    What an earlier call wrote of the same SKB, and was killed, is not written again. With ``approximate`` the vectors
    get an approximate index. Raises UsageError where the SKB is not in a folder or cannot be written there, and
    ServiceError where the object store does not answer.
    """
    if not isinstance(skb.store, LocalStore):
        raise UsageError(f"{skb.place} is on LanceDB already")
    with asking(place):
        tables = connect(place)
        begun = Begun.resume(tables, f"{skb.meta.data} {approximate}")
        if begun.finished:  # all that was missing is that it is forgotten
            begun.end()
            return read_build(place)
        rows = _Rows(skb)
        nodes = _write_nodes(begun, rows, progress)
        _index_nodes(nodes, [words.part for words in rows.words], rows.sizes, progress, approximate=approximate)
        words = _write_words(tables, rows.words)
        files = _write_files(begun, skb.store.data, skb.meta, progress)
        done = finish(
            tables,
            Build(
                meta=skb.meta,
                versions={NODES: nodes.version, WORDS: words.version, FILES: files.version},
                text={one.part: one.stats() for one in rows.words},
                vectors=rows.sizes,
                content=rows.content.hex(),
                approximate=approximate,
            ),
        )
        begun.end()
    return done


def build(
    source: Source,
    place: str,
    options: Options,
    *,
    home: Path,
    name: str = "",
    progress: Progress = no_progress,
) -> Build:
    """Build an SKB in a folder below ``home``, write it into tables with ``write``, and delete the folder.

    Killed, it goes on where it was. ``options.ann`` is for an approximate index of LanceDB's own. Raises as ``write``
    and as ``kbnav.knowledge.skb.build.build``.
    """
    refuse_other(place)
    local = options._replace(ann=False)
    work = work_of(source, place, local, home)
    for other in work.parent.glob(f"{work.name.partition('-')[0]}-*"):
        if other != work:
            shutil.rmtree(other)  # of another input
    if not (work / META).is_file():
        called = name or place.rstrip("/").rpartition("/")[2].removesuffix(".skb")
        build_files(source, work, local, name=called, progress=progress)
    with SKB.open(work) as skb:
        built = write(skb, place, approximate=options.ann, progress=progress)
    shutil.rmtree(work)
    return built


def work_of(source: Source, place: str, options: Options, home: Path) -> Path:
    """The folder that an SKB is built in before it is written into tables: one for a place and an input."""
    where = place if is_address(place) else str(Path(place).resolve())
    mark = hashlib.sha256(where.encode()).hexdigest()[:12]
    return home / "builds" / f"{mark}-{fingerprint(source, options._replace(ann=False))[:12]}"


def refuse_other(place: str) -> None:
    """See that tables can be made in a place, before a long build does. Raises as ``write``."""
    if is_address(place):
        with asking(place):
            table_names(connect(place))
        return
    require()
    folder = Path(place)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not any(folder.glob("*.lance")))):
        raise UsageError(f"{place} is there and is not an SKB on LanceDB; choose another place")


class Begun:
    """A build under way in tables: the versions that they had before it, and whether all but its end is done."""

    def __init__(self, tables: Any, before: Mapping[str, int], *, finished: bool = False) -> None:
        self.tables, self._before, self.finished = tables, before, finished

    @classmethod
    def resume(cls, tables: Any, what: str) -> Begun:
        """Take up the build of this name, or begin it anew."""
        names = table_names(tables)
        builds = int(tables.open_table(BUILDS).count_rows()) if BUILDS in names else 0
        if UNFINISHED in names:
            found = json.loads(tables.open_table(UNFINISHED).to_arrow()["build"][0].as_py())
            if found["what"] == what:
                return cls(tables, found["before"], finished=builds > found["builds"])
        before = {name: tables.open_table(name).version for name in (NODES, FILES) if name in names}
        row = [{"build": json.dumps({"what": what, "before": before, "builds": builds})}]
        tables.create_table(UNFINISHED, row, mode="overwrite")
        return cls(tables, before)

    def table(self, name: str, schema: Any) -> Table:
        """The table that this build began, or a new one, empty; older versions stay."""
        if name in table_names(self.tables):
            table = self.tables.open_table(name)
            if table.version > self._before.get(name, 0):
                return table
        return self.tables.create_table(name, schema=schema, mode="overwrite")

    def end(self) -> None:
        """Forget it: it is finished."""
        self.tables.drop_table(UNFINISHED)


def _write_nodes(begun: Begun, rows: _Rows, progress: Progress) -> Table:
    """The table of nodes, with all rows: those that are there are made once more, to be counted, but not written."""
    import pyarrow as pa

    table = begun.table(NODES, rows.schema)
    there, done = table.count_rows(), 0
    batches = rows.batches()
    while first := list(islice(batches, 1)):
        # One commit of several batches, which are made as they are written.
        size = min(COMMIT, len(rows.skb.nodes) - done)
        commit = chain(first, islice(batches, -(-size // ROWS) - 1))
        if done < there:
            for _ in commit:
                continue
        else:
            table.add(pa.RecordBatchReader.from_batches(rows.schema, commit))
        done += size
        progress("tables", done, len(rows.skb.nodes))
    return table


def _write_words(tables: Any, texts: Iterable[_Words]) -> Table:
    """Write the table of words anew; older versions stay."""
    import pyarrow as pa

    batches = chain.from_iterable(one.batches() for one in texts)
    table = tables.create_table(WORDS, pa.RecordBatchReader.from_batches(_word_schema(), batches), mode="overwrite")
    _index(table, "word")
    return table


def _write_files(begun: Begun, data: Path, meta: Meta, progress: Progress) -> Table:
    """The table of files with all of a build, each written at once; those that are there are not written again."""
    import pyarrow as pa

    table = begun.table(FILES, file_schema())
    there = Counter(table.search().select(["name"]).limit(table.count_rows() or 1).to_arrow()["name"].to_pylist())
    names = [name for name in meta.files if is_file(name)]
    for done, name in enumerate(names, 1):
        if not there[name]:
            table.add(pa.RecordBatchReader.from_batches(file_schema(), pieces(data, name)))
        progress("files", done, len(names))
    _index(table, "name")
    return table


def _index(table: Table, name: str) -> None:
    from lancedb.index import BTree

    if all(index.columns[0] != name for index in table.list_indices()):
        table.create_index(name, config=BTree())


def _index_nodes(
    nodes: Table, texts: Iterable[str], vectors: Iterable[str], progress: Progress, *, approximate: bool
) -> None:
    """Make the indexes of the table of nodes that are not there yet, and take those of vectors away if so asked."""
    from lancedb.index import FTS, Bitmap, BTree, HnswSq

    # The words are those of the analyzer: nothing is to be done to them again.
    plain = FTS(
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    wanted: dict[str, Any] = {KEY: BTree(), TYPE: Bitmap()}
    wanted |= {column(part, field): plain for part in texts for field in FIELDS}
    rows, graphs = nodes.count_rows(), {column(part) for part in vectors}
    if approximate and rows >= _FEWEST:
        graph = HnswSq(distance_type="dot", num_partitions=-(-rows // _A_PARTITION))
        wanted |= dict.fromkeys(graphs, graph)
    there = set()
    for index in nodes.list_indices():
        there.add(index.columns[0])
        if not approximate and graphs & set(index.columns):
            nodes.drop_index(index.name)
    for done, (name, config) in enumerate(wanted.items(), 1):
        if name not in there:
            nodes.create_index(name, config=config)
        progress("indexes", done, len(wanted))


def update(place: str, source: Source, options: Options, *, home: Path, progress: Progress = no_progress) -> Build:
    """Add the nodes and edges of ``source`` to an SKB on LanceDB, and take away those that it marks as deleted.

    The records mean what they mean to ``maintenance.update``, and answers are as after that. The tables are written
    anew as another version, but vectors of texts that did not change are taken over; an open reader goes on with its
    own. ``options.ann`` says whether there is to be an approximate index. Killed, it goes on where it was. Raises as
    ``LanceStore.open``, ``build``, and UsageError where ``options`` name another encoder.
    """
    old = read_build(place)
    same_encoder(place, old.meta, options)
    with asking(place):
        store = LanceStore(place, old, cache_of(home))
        with SKB(store) as skb:
            combined, local = Updated(skb, source), options._replace(ann=False)
            work = work_of(combined, place, local, home)
            previous = work.with_name(f"{work.name}-previous")
            if not (work / META).is_file():
                if not skb.meta.outdated:
                    _copy_vectors(skb, store, previous)
                build_files(combined, work, local, name=skb.meta.name, previous=previous, progress=progress)
        with SKB.open(work) as new:
            built = write(new, place, approximate=options.ann, progress=progress)
        for folder in (work, previous):
            shutil.rmtree(folder, ignore_errors=True)
    return built


def _copy_vectors(skb: SKB, store: LanceStore, folder: Path) -> None:
    """Write the vectors of tables as an SKB in a folder has them."""
    for part, dimensions in store.build.vectors.items():
        index, out, count = store.vectors(part, None), folder / part, skb.meta.nodes
        assert index is not None
        shutil.copytree(store.fetched(f"{part}/"), out, dirs_exist_ok=True)
        vectors = np.lib.format.open_memmap(out / VECTORS_FILE, "w+", np.float32, (count, dimensions))
        for first in range(0, count, COMMIT):
            vectors[first : first + COMMIT] = index.rows(np.arange(first, min(first + COMMIT, count)))
        texts = indexed_texts(skb, relations=part == RELATIONAL_VECTORS)
        np.save(out / HASHES_FILE, np.array([text_hash(node.document) for node in texts], "S16"))


def index(place: str, *, approximate: bool, progress: Progress = no_progress) -> Build:
    """Give the vectors of an SKB on LanceDB an approximate index, or take it away. Raises as ``update``."""
    old = read_build(place)
    with asking(place):
        tables = connect(place)
        nodes = _restored(tables, old, NODES)
        _index_nodes(nodes, old.text, old.vectors, progress, approximate=approximate)
        return finish(tables, replace(old, versions={**old.versions, NODES: nodes.version}, approximate=approximate))


def _restored(tables: Any, build: Build, name: str) -> Table:
    """A table as a build left it, to be changed: what an update that was killed did since is undone."""
    table = tables.open_table(name)
    if table.version != build.versions[name]:
        table.checkout(build.versions[name])
        table.restore()
    return table


class Pruned(NamedTuple):
    """Numbers of versions."""

    kept: list[int]
    deleted: list[int]


def prune(place: str, keep: int) -> Pruned:
    """Delete all but the last ``keep`` versions, at least the last one, with the rows and files that only they have.

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
            last, versions = kept[-1], {}
            for name in last.versions:
                table = _restored(tables, last, name)
                table.optimize(cleanup_older_than=_KEPT)
                versions[name] = table.version
            if versions != last.versions:
                kept = [*kept, finish(tables, replace(last, versions=versions))]
            numbers = ", ".join(str(build.number) for build in gone)
            tables.open_table(BUILDS).delete(f"number IN ({numbers})")
            for name in last.versions:
                _delete(tables.open_table(name), name, kept)
    return Pruned([build.number for build in kept], [build.number for build in gone])


def _delete(table: Any, name: str, kept: list[Build]) -> None:
    """Take away the names of other versions, and what was written before the oldest that is kept."""
    for tag in table.tags.list().keys() - {build_tag(build.number) for build in kept}:
        table.tags.delete(tag)
    oldest = min(build.versions[name] for build in kept)
    written = next(one["timestamp"] for one in table.list_versions() if one["version"] == oldest)
    table.optimize(cleanup_older_than=datetime.now(written.tzinfo) - written + _MARGIN)


def check(place: str, version: int | None, progress: Progress) -> list[str]:
    """Compare a build's rows and files with what was written; returns the faults, none where it is whole.

    Nothing says what was written of the words and the indexes: of these, faults are what cannot be read. Raises
    UsageError where it is not an SKB, ServiceError where its object store does not answer.
    """
    build = read_build(place, version)
    tables = connect(place)
    faults = []

    @reading("a table")
    def read(part: Callable[[], list[str]]) -> list[str]:
        with reaching(place):
            return part()

    for part in (_check_rows, _check_files, _check_words, _check_indexes):
        try:
            faults += read(partial(part, tables, build, progress))
        except DataError as error:
            faults.append(str(error))
    return faults


def _check_rows(tables: Any, build: Build, progress: Progress) -> list[str]:
    nodes = open_table(tables, build, NODES)
    columns, content, done = [field.name for field in nodes.schema], Content(), 0
    for rows in nodes.search().select(columns).limit(build.meta.nodes + 1).to_batches(ROWS):
        content.add(rows)
        done += rows.num_rows
        progress("rows", done, build.meta.nodes)
    if done != build.meta.nodes:
        return [f"{NODES}: {done} rows where {build.meta.nodes} were written"]
    return [] if content.hex() == build.content else [f"{NODES}: its content is not what was written"]


def _check_files(tables: Any, build: Build, progress: Progress) -> list[str]:
    table = open_table(tables, build, FILES)
    names = [name for name in build.meta.files if is_file(name)]
    faults = []
    for done, name in enumerate(names, 1):
        digest, size, place = hashlib.sha256(), 0, 0
        while part := piece(table, name, place):
            digest.update(part)
            size, place = size + len(part), place + 1
        if FileInfo(bytes=size, sha256=digest.hexdigest()) != build.meta.files[name]:
            faults.append(f"{name}: its content is not what was written")
        progress("files", done, len(names))
    return faults


def _check_words(tables: Any, build: Build, progress: Progress) -> list[str]:
    table, done = open_table(tables, build, WORDS), 0
    for rows in table.search().limit(table.count_rows() or 1).to_batches(ROWS):
        done += rows.num_rows
        progress("words", done, table.count_rows())
    return []


def _check_indexes(tables: Any, build: Build, progress: Progress) -> list[str]:
    found = [(name, index.name) for name in build.versions for index in open_table(tables, build, name).list_indices()]
    faults = []

    @reading("an index")
    def read(table: Table, index: str) -> None:
        with reaching(table.uri):
            table.prewarm_index(index)

    for done, (name, index) in enumerate(found, 1):
        try:
            read(open_table(tables, build, name), index)
        except DataError as error:
            faults.append(str(error))
        progress("indexes", done, len(found))
    return faults
