"""Writing a built SKB into tables of LanceDB, changing some of its rows, checking it, and deleting old versions.

A build is written in batches; what was written of one that was killed is kept. An update merges rows in, and writes
none that did not change: words are analysed, and vectors made, of changed nodes only, and where there are indexes of
documents with relations, of the nodes next to them. What every reader maps (graph, ids, names, triples) is made anew,
from the documents that are there: that reads all of them once.
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

from kbnav.encoders import Vectors
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.build import Options, Updated, fingerprint, same_encoder
from kbnav.knowledge.skb.build import build as build_files
from kbnav.knowledge.skb.files import file_info, reading
from kbnav.knowledge.skb.lance.store import LanceStore, counted_length, matrix
from kbnav.knowledge.skb.lance.tables import (
    BUILDS,
    DOCUMENT,
    FIELDS,
    FILES,
    KEY,
    NODES,
    PLACES,
    TYPE,
    UNFINISHED,
    WORDS,
    Build,
    Numbers,
    Places,
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
    where_keys,
    where_words,
)
from kbnav.knowledge.skb.rendering import indexed_node, indexed_texts
from kbnav.knowledge.skb.schema import (
    META,
    RELATIONAL_TEXT,
    RELATIONAL_VECTORS,
    TEXT,
    VECTORS,
    EdgeRecord,
    Fields,
    FileInfo,
    Losses,
    Meta,
    NodeText,
    Progress,
    Source,
    no_progress,
)
from kbnav.knowledge.skb.store import SKB, LocalStore, cache_of

ROWS = 1_000
"""Rows that are in memory at once."""
COMMIT = 20_000
"""Rows that are written at once: what a build that is killed loses."""
_KEPT = timedelta(days=36_500)  # older than any version
_MARGIN = timedelta(seconds=1)  # what was written so shortly before a version that is kept stays
_WORDS_AT_ONCE, _MERGED_AT_ONCE = 50_000, 2_000
_FEWEST = 1_000  # vectors worth an approximate index
_A_PARTITION = 1 << 20  # vectors
_DIGEST = 16  # bytes


class Content:
    """What rows hold together, in whatever order they come: the sum of their digests, so that rows can be taken away.

    It finds damage. It is no proof against somebody who wants rows to be exchanged for others.
    """

    def __init__(self, saved: str = "") -> None:
        """``saved`` is what ``hex`` gave."""
        self._sum = int(saved or "0", 16)

    def add(self, rows: Any, sign: int = 1) -> None:
        """Add the rows of a batch or table of Arrow's, or with a ``sign`` of -1 take them away."""
        columns = [_cells(rows[name]) for name in sorted(rows.schema.names)]
        for cells in zip(*columns, strict=True):
            digest = blake2b(digest_size=_DIGEST)
            for cell in cells:
                digest.update(len(cell).to_bytes(8, "little") + cell)
            self._sum += sign * int.from_bytes(digest.digest(), "little")

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
    """The words of the texts of one index, and how many nodes have each: counted as rows come and go."""

    def __init__(self, part: str, stats: TextStats | None = None) -> None:
        """``stats`` are those of the rows that are there already."""
        self.part = part
        self._analyzer = text.analyzer(text.LANGUAGE)
        self.holders = {field: Counter[str]() for field in FIELDS}
        """By field and word how many nodes more, or fewer, have it."""
        self._totals = Counter[str](name=stats.name_words, body=stats.body_words) if stats else Counter[str]()
        self._stretch = stats.stretch if stats else 1.0

    def columns(self, nodes: Sequence[NodeText]) -> dict[str, list[str]]:
        """The words of nodes as they are written, by column."""
        names = [" ".join(filter(None, map(self._words, (node.name, *node.aliases)))) for node in nodes]
        bodies = [self._words(node.document) for node in nodes]
        return {column(self.part, field): texts for field, texts in zip(FIELDS, (names, bodies), strict=True)}

    def count(self, rows: Any, sign: int = 1) -> None:
        """Count the rows of a batch or table of Arrow's, or with a ``sign`` of -1 take them away."""
        for field in FIELDS:
            holders = self.holders[field]
            for line in rows[column(self.part, field)].to_pylist():
                words = line.split()
                self._totals[field] += sign * len(words)
                for word in set(words):
                    holders[word] += sign
                if words and sign > 0:
                    self._stretch = max(self._stretch, len(words) / counted_length(len(words)))

    def rows(self, words: Sequence[str], before: Mapping[str, Sequence[int]]) -> Any:
        """Rows of the table ``words``: the counts of some words, added to those there were ``before``."""
        import pyarrow as pa

        counts = [
            pa.array([before.get(word, (0, 0))[place] + self.holders[field][word] for word in words], pa.int32())
            for place, field in enumerate(FIELDS)
        ]
        columns = [pa.array([self.part] * len(words), pa.string()), pa.array(words, pa.string()), *counts]
        return pa.record_batch(columns, schema=_word_schema())

    def changed(self) -> list[str]:
        """The words whose counts are not what they were, in order."""
        names, bodies = (self.holders[field] for field in FIELDS)
        return sorted(word for word in names.keys() | bodies.keys() if names[word] or bodies[word])

    def stats(self) -> TextStats:
        """What BM25 must know, once all are counted."""
        return TextStats(self._totals["name"], self._totals["body"], self._stretch)

    def _words(self, said: str) -> str:
        return " ".join(self._analyzer.analyze(text.spelled(said)))


def _word_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("part", pa.string()), ("word", pa.string()), ("names", pa.int32()), ("bodies", pa.int32())])


def _row_schema(texts: Iterable[str], sizes: Mapping[str, int]) -> Any:
    """The columns of the table ``nodes``, with indexes of ``texts`` and of vectors of so many numbers."""
    import pyarrow as pa

    fields = [(KEY, pa.int64()), (TYPE, pa.int32()), (DOCUMENT, pa.large_string())]
    fields += [(column(part, field), pa.large_string()) for part in texts for field in FIELDS]
    return pa.schema([*fields, *((column(part), pa.list_(pa.float32(), size)) for part, size in sizes.items())])


def _batch(
    schema: Any,
    keys: Sequence[int],
    types: Sequence[int],
    documents: Sequence[Fields],
    words: Mapping[str, Sequence[str]],
    vectors: Mapping[str, Vectors],
) -> Any:
    """Rows as a batch of Arrow's; ``words`` by column, ``vectors`` [n, d] by index."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        KEY: pa.array(keys, pa.int64()),
        TYPE: pa.array(types, pa.int32()),
        DOCUMENT: pa.array([json.dumps(one, ensure_ascii=False) for one in documents], pa.large_string()),
        **{name: pa.array(some, pa.large_string()) for name, some in words.items()},
    }
    for part, made in vectors.items():
        flat = pa.array(np.ascontiguousarray(made, np.float32).ravel())
        columns[column(part)] = pa.FixedSizeListArray.from_arrays(flat, made.shape[1])
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)


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
            made = _batch(
                self.schema,
                numbers,
                [self.skb.nodes.type_of(number) for number in numbers],
                list(islice(documents, len(numbers))),
                written,
                {part: index.rows(np.arange(numbers.start, numbers.stop)) for part, index in self._vectors.items()},
            )
            for words in self.words:
                words.count(made)
            self.content.add(made)
            yield made


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
                next_key=len(skb.nodes),
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

    batches = (
        one.rows(words[first : first + _WORDS_AT_ONCE], {})
        for one in texts
        for words in [one.changed()]
        for first in range(0, len(words), _WORDS_AT_ONCE)
    )
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

    The records mean what they mean to ``maintenance.update``, and answers are as after that. ``options.ann`` says
    whether there is to be an approximate index. An open reader goes on with its version; an update that is killed
    leaves that in use as it was, and begins anew. Raises as ``LanceStore.open``, ``build``, and UsageError where
    ``options`` name another encoder or another build is unfinished there.
    """
    old = read_build(place)
    same_encoder(place, old.meta, options)
    with asking(place):
        tables = connect(place)
        if UNFINISHED in table_names(tables):
            raise UsageError(f"{place}: a build is unfinished there; end it, or begin it anew, before an update")
        nodes = _restored(tables, old, NODES)
        store = LanceStore(place, old, cache_of(home))
        with SKB(store, options.encoder) as skb:
            combined = Updated(skb, source)
            small = options._replace(indexes=False, ann=False)
            work = work_of(combined, place, small, home)
            try:
                build_files(combined, work, small, name=skb.meta.name, progress=progress)
                with SKB.open(work) as new:
                    merging = _Merging(store, skb, new, source, nodes, progress)
                    return finish(tables, merging.run(tables, work / new.meta.data, approximate=options.ann))
            finally:
                shutil.rmtree(work, ignore_errors=True)


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


class _Merging:
    """The rows that an update changes, and what is counted of all as they do."""

    def __init__(self, store: LanceStore, old: SKB, new: SKB, source: Source, nodes: Table, progress: Progress) -> None:
        """``new`` is the SKB as it is to be, without texts and vectors; ``nodes`` the table as it was."""
        self._store, self._old, self._new, self._nodes, self._progress = store, old, new, nodes, progress
        build = store.build
        self._words = [_Words(part, stats) for part, stats in build.text.items()]
        self._content = Content(build.content)
        self._tokens = old.meta.tokens
        before = np.array([old.nodes.ids.find(new.id(node)) for node in range(len(new.nodes))], np.int64)
        fresh = before < 0
        self._next_key = build.next_key + int(fresh.sum())
        self._keys: Numbers = np.where(fresh, 0, store.places.keys_of(np.maximum(before, 0)))
        """By new number."""
        self._keys[fresh] = np.arange(build.next_key, self._next_key)
        self._removed = np.setdiff1d(np.arange(len(old.nodes)), before)
        """Old numbers."""
        self._written = np.array(sorted(self._touched(source)), np.int64)
        """New numbers of the nodes whose rows are made."""
        replaced = before[self._written]
        self._replaced = replaced[replaced >= 0]
        """Their old numbers."""

    def _touched(self, source: Source) -> set[int]:
        """New numbers of the nodes, of those that there are now, whose rows change."""
        build = self._store.build
        touched = {record.id for record in source.nodes(Losses())}
        if any(part in (RELATIONAL_TEXT, RELATIONAL_VECTORS) for part in (*build.text, *build.vectors)):
            changed = set(touched)
            for edge in source.edges(Losses()):
                assert isinstance(edge, EdgeRecord)  # arrays of positions were refused before
                touched |= {edge.source, edge.target}
            for skb in (self._old, self._new):
                numbers = (skb.nodes.ids.find(node) for node in changed)
                around = (skb.graph.neighbors(number).tolist() for number in numbers if number >= 0)
                touched |= {skb.id(node) for node in chain.from_iterable(around)}
        return {number for number in map(self._new.nodes.ids.find, touched) if number >= 0}

    def run(self, tables: Any, data: Path, *, approximate: bool) -> Build:
        """Change the tables; ``data`` has the files of the new SKB."""
        old, nodes = self._store.build, self._nodes
        self._take_away()
        self._put()
        nodes.optimize(cleanup_older_than=_KEPT)
        _index_nodes(nodes, old.text, old.vectors, self._progress, approximate=approximate)
        words = self._merge_words(_restored(tables, old, WORDS))
        meta = self._described(data)
        files = _write_files(Begun(tables, {FILES: tables.open_table(FILES).version}), data, meta, self._progress)
        return Build(
            meta=meta,
            versions={NODES: nodes.version, WORDS: words.version, FILES: files.version},
            text={one.part: one.stats() for one in self._words},
            vectors=old.vectors,
            content=self._content.hex(),
            next_key=self._next_key,
            approximate=approximate,
        )

    def _take_away(self) -> None:
        """Take the rows that are replaced, and those removed, out of the counts; delete the latter."""
        places, columns = self._store.places, [field.name for field in self._nodes.schema]
        gone = np.concatenate([self._replaced, self._removed])
        for some in _parts(gone):
            self._count(self._nodes.take_offsets(places.rows(some).tolist()).select(columns).to_arrow(), -1)
            self._count_tokens(self._old, some, -1)
        for some in _parts(places.keys_of(self._removed)):
            self._nodes.delete(where_keys(some))
        self._progress("rows taken away", len(gone), len(gone))

    def _put(self) -> None:
        """Write the rows of changed and new nodes."""
        import pyarrow as pa

        done = 0
        for some in _parts(self._written):
            made = self._rows(some)
            self._count(made, 1)
            self._count_tokens(self._new, some, 1)
            merge = self._nodes.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_batches([made]))
            done += len(some)
            self._progress("rows", done, len(self._written))

    def _rows(self, some: Numbers) -> Any:
        new, numbers = self._new, some.tolist()
        written: dict[str, list[str]] = {}
        for words in self._words:
            relations = words.part == RELATIONAL_TEXT
            written |= words.columns([indexed_node(new, node, relations=relations) for node in numbers])
        vectors = {}
        for part in self._store.build.vectors:
            index = self._old.vectors if part == VECTORS else self._old.relational_vectors
            assert index is not None
            relations = part == RELATIONAL_VECTORS
            texts = [indexed_node(new, node, relations=relations).document for node in numbers]
            vectors[part] = index.encoder.encode(texts)
        types = [new.nodes.type_of(node) for node in numbers]
        documents = [new.documents[node] for node in numbers]
        return _batch(self._nodes.schema, self._keys[some].tolist(), types, documents, written, vectors)

    def _count(self, rows: Any, sign: int) -> None:
        self._content.add(rows, sign)
        for words in self._words:
            words.count(rows, sign)

    def _count_tokens(self, skb: SKB, nodes: Numbers, sign: int) -> None:
        if self._tokens is not None:
            documents = (indexed_node(skb, node).document for node in nodes.tolist())
            self._tokens += sign * sum(len(document.split()) for document in documents)

    def _merge_words(self, table: Table) -> Table:
        """Add to the counts of words what changed of them."""
        import pyarrow as pa

        for one in self._words:
            changed = one.changed()
            for first in range(0, len(changed), _MERGED_AT_ONCE):
                some = changed[first : first + _MERGED_AT_ONCE]
                rows = table.search().where(where_words(one.part, some)).limit(len(some)).to_arrow().to_pylist()
                before = {row["word"]: (row["names"], row["bodies"]) for row in rows}
                merge = table.merge_insert(["part", "word"]).when_matched_update_all().when_not_matched_insert_all()
                merge.execute(pa.Table.from_batches([one.rows(some, before)]))
        table.optimize(cleanup_older_than=_KEPT)
        return table

    def _described(self, data: Path) -> Meta:
        """The description of the updated SKB; files that it took over, and those of the places, come beside the new."""
        indexes = tuple(f"{part}/" for part in (TEXT, RELATIONAL_TEXT, VECTORS, RELATIONAL_VECTORS))
        files = self._old.meta.files.items()
        kept = {name: info for name, info in files if is_file(name) and name.startswith(indexes)}
        for name in kept:
            (data / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(self._store.fetched(name), data / name)
        order = self._nodes.search().select([KEY]).limit(self._nodes.count_rows()).to_arrow()[KEY].to_numpy()
        rows = np.argsort(order)[np.searchsorted(np.sort(order), self._keys)]
        Places.save(data / PLACES, self._keys, rows)
        places = {f"{PLACES}/{path.name}": file_info(path) for path in sorted((data / PLACES).iterdir())}
        changed = {"files": {**self._new.meta.files, **kept, **places}, "tokens": self._tokens}
        return self._new.meta.model_copy(update=changed)


def _parts(numbers: Numbers) -> Iterator[Numbers]:
    for first in range(0, len(numbers), ROWS):
        yield numbers[first : first + ROWS]


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
