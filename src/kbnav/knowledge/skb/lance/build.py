"""Writing a built SKB into tables of LanceDB, in batches; what was written of one that was killed is kept."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.errors import UsageError
from kbnav.knowledge.skb.build import Options, fingerprint
from kbnav.knowledge.skb.build import build as build_files
from kbnav.knowledge.skb.lance import files
from kbnav.knowledge.skb.lance.rows import Content, Words, batch, row_schema, word_schema
from kbnav.knowledge.skb.lance.storage import asking, connect, is_address, require
from kbnav.knowledge.skb.lance.tables import (
    BUILDS,
    FILES,
    KEY,
    NODES,
    TYPE,
    UNFINISHED,
    WORDS,
    Build,
    Table,
    column,
    finish,
    read_build,
    table_names,
)
from kbnav.knowledge.skb.lance.text import FIELDS
from kbnav.knowledge.skb.local import LocalStore
from kbnav.knowledge.skb.records import Source
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import META, Meta, Progress, no_progress
from kbnav.knowledge.skb.store import RELATIONAL_TEXT, RELATIONAL_VECTORS, SKB, VECTORS

ROWS = 1_000
"""Rows that are in memory at once."""
COMMIT = 20_000
"""Rows that are written at once: what a build that is killed loses."""
_WORDS_AT_ONCE = 50_000
_FEWEST = 1_000  # vectors worth an approximate index
_A_PARTITION = 1 << 20  # vectors


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
        nodes = _nodes(begun, rows, progress)
        index_nodes(nodes, [words.part for words in rows.words], rows.sizes, progress, approximate=approximate)
        words = write_words(tables, rows.words)
        kept = write_files(begun, skb.store.data, skb.meta, progress)
        build = Build(
            meta=skb.meta,
            versions={NODES: nodes.version, WORDS: words.version, FILES: kept.version},
            text={one.part: one.stats() for one in rows.words},
            vectors=rows.sizes,
            content=rows.content.hex(),
            next_key=len(skb.nodes),
            approximate=approximate,
        )
        done = finish(tables, build)
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
        called = name or _name_of(place)
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


def _name_of(place: str) -> str:
    """What an SKB is called that is nobody's but its place's."""
    return place.rstrip("/").rpartition("/")[2].removesuffix(".skb")


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
        if UNFINISHED in names:
            found = json.loads(tables.open_table(UNFINISHED).to_arrow()["build"][0].as_py())
            if found["what"] == what:
                return cls(tables, found["before"], finished=_finished(tables) > found["builds"])
        before = {name: tables.open_table(name).version for name in (NODES, FILES) if name in names}
        row = [{"build": json.dumps({"what": what, "before": before, "builds": _finished(tables)})}]
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


def _finished(tables: Any) -> int:
    """How many builds were finished."""
    return int(tables.open_table(BUILDS).count_rows()) if BUILDS in table_names(tables) else 0


class _Rows:
    """All rows of an SKB, and what is counted of them on the way."""

    def __init__(self, skb: SKB) -> None:
        self.skb = skb
        indexed = {"text": skb.text, RELATIONAL_TEXT: skb.relational_text}
        self.words = [Words(part) for part, index in indexed.items() if index is not None]
        found = {VECTORS: skb.vectors, RELATIONAL_VECTORS: skb.relational_vectors}
        self._vectors = {part: index for part, index in found.items() if index is not None}
        self.sizes = {part: index.dimensions for part, index in self._vectors.items()}
        self.content = Content()
        self.schema = row_schema([words.part for words in self.words], self.sizes)

    def batches(self) -> Iterator[Any]:
        """The rows in batches of ``ROWS``."""
        documents = iter(self.skb.documents)
        texts = {words.part: indexed_texts(self.skb, relations=words.part == RELATIONAL_TEXT) for words in self.words}
        for first in range(0, len(self.skb.nodes), ROWS):
            numbers = range(first, min(first + ROWS, len(self.skb.nodes)))
            written: dict[str, list[str]] = {}
            for words in self.words:
                written |= words.columns(list(islice(texts[words.part], len(numbers))))
            made = batch(
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


def _nodes(begun: Begun, rows: _Rows, progress: Progress) -> Table:
    """The table of nodes, with all rows: those that are there are made once more, to be counted, but not written."""
    import pyarrow as pa

    table = begun.table(NODES, rows.schema)
    there, done = table.count_rows(), 0
    batches = rows.batches()
    while some := list(islice(batches, 1)):
        # One commit of several batches, which are made as they are written.
        size = min(COMMIT, len(rows.skb.nodes) - done)
        rest = islice(batches, -(-size // ROWS) - 1)
        if done < there:
            for _ in rest:
                continue
        else:
            table.add(pa.RecordBatchReader.from_batches(rows.schema, _chained(some, rest)))
        done += size
        progress("tables", done, len(rows.skb.nodes))
    return table


def _chained(some: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    yield from some
    yield from rest


def write_words(tables: Any, texts: Iterable[Words]) -> Table:
    """Write the table of words anew; older versions stay."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_batches(word_schema(), _words(texts))
    table = tables.create_table(WORDS, reader, mode="overwrite")
    _index(table, {"word": "BTree"})
    return table


def _words(texts: Iterable[Words]) -> Iterator[Any]:
    import pyarrow as pa

    for one in texts:
        words = sorted(one.holders["name"].keys() | one.holders["body"].keys())
        for first in range(0, len(words), _WORDS_AT_ONCE):
            some = words[first : first + _WORDS_AT_ONCE]
            counts = [pa.array([one.holders[field][word] for word in some], pa.int32()) for field in FIELDS]
            parts = pa.array([one.part] * len(some), pa.string())
            yield pa.record_batch([parts, pa.array(some, pa.string()), *counts], schema=word_schema())


def write_files(begun: Begun, data: Path, meta: Meta, progress: Progress) -> Table:
    """The table of files with all of a build, each written at once; those that are there are not written again."""
    import pyarrow as pa

    table = begun.table(FILES, files.schema())
    there = Counter(table.search().select(["name"]).limit(table.count_rows() or 1).to_arrow()["name"].to_pylist())
    names = [name for name in meta.files if files.is_file(name)]
    for done, name in enumerate(names, 1):
        if not there[name]:
            table.add(pa.RecordBatchReader.from_batches(files.schema(), files.pieces(data, name)))
        progress("files", done, len(names))
    _index(table, {"name": "BTree"})
    return table


def index_nodes(
    nodes: Table, texts: Iterable[str], vectors: Iterable[str], progress: Progress, *, approximate: bool
) -> None:
    """Make the indexes of the table of nodes that are not there yet."""
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
    rows = nodes.count_rows()
    if approximate and rows >= _FEWEST:
        graph = HnswSq(distance_type="dot", num_partitions=-(-rows // _A_PARTITION))
        wanted |= {column(part): graph for part in vectors}
    there = {index.columns[0] for index in nodes.list_indices()}
    for done, (name, config) in enumerate(wanted.items(), 1):
        if name not in there:
            nodes.create_index(name, config=config)
        progress("indexes", done, len(wanted))


def _index(table: Table, kinds: Mapping[str, str]) -> None:
    from lancedb import index

    there = {found.columns[0] for found in table.list_indices()}
    for name, kind in kinds.items():
        if name not in there:
            table.create_index(name, config=getattr(index, kind)())
