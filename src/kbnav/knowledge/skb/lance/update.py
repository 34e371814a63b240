"""Changing some nodes and edges of an SKB on LanceDB: rows are merged in, and none is written that did not change.

What every reader maps (graph, ids, names, triples) is made anew, from the documents that are there: that reads all of
them once. Words are analysed, and vectors made, of changed nodes only, and where there are indexes of documents with
relations, of the nodes next to them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.errors import UsageError
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.build import build as build_files
from kbnav.knowledge.skb.folder import file_info
from kbnav.knowledge.skb.lance import files
from kbnav.knowledge.skb.lance.build import ROWS, Begun, index_nodes, work_of, write_files
from kbnav.knowledge.skb.lance.places import FOLDER, Numbers, Places
from kbnav.knowledge.skb.lance.rows import Content, Words, batch, word_schema
from kbnav.knowledge.skb.lance.storage import asking, connect
from kbnav.knowledge.skb.lance.store import LanceStore
from kbnav.knowledge.skb.lance.tables import (
    FILES,
    KEY,
    NODES,
    UNFINISHED,
    WORDS,
    Build,
    Table,
    column,
    finish,
    listed,
    read_build,
    table_names,
)
from kbnav.knowledge.skb.maintenance import Updated, same_encoder
from kbnav.knowledge.skb.opening import cache_of
from kbnav.knowledge.skb.records import EdgeRecord, Losses, Source
from kbnav.knowledge.skb.rendering import indexed_node
from kbnav.knowledge.skb.schema import Meta, Progress, no_progress, read_meta
from kbnav.knowledge.skb.store import RELATIONAL_TEXT, RELATIONAL_VECTORS, SKB, VECTORS

KEPT = timedelta(days=36_500)
"""How old what was written may become: older than anything is."""
_WORDS_AT_ONCE = 2_000


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
        nodes = restored(tables, old, NODES)
        with SKB(LanceStore(place, old, cache_of(home)), options.encoder) as skb:
            merged = _merged(tables, nodes, skb, source, options, home, progress)
    return merged


def index(place: str, *, approximate: bool, progress: Progress = no_progress) -> Build:
    """Give the vectors of an SKB on LanceDB an approximate index, or take it away. Raises as ``update``."""
    old = read_build(place)
    with asking(place):
        tables = connect(place)
        nodes = restored(tables, old, NODES)
        _reindexed(nodes, old, progress, approximate=approximate)
        return finish(tables, replace(old, versions={**old.versions, NODES: nodes.version}, approximate=approximate))


def _reindexed(nodes: Table, build: Build, progress: Progress, *, approximate: bool) -> None:
    if not approximate:
        graphs = {column(part) for part in build.vectors}
        for found in nodes.list_indices():
            if graphs & set(found.columns):
                nodes.drop_index(found.name)
    index_nodes(nodes, build.text, build.vectors, progress, approximate=approximate)


def restored(tables: Any, build: Build, name: str) -> Table:
    """A table as a build left it, to be changed: what an update that was killed did since is undone."""
    table = tables.open_table(name)
    if table.version != build.versions[name]:
        table.checkout(build.versions[name])
        table.restore()
    return table


def _merged(
    tables: Any, nodes: Table, skb: SKB, source: Source, options: Options, home: Path, progress: Progress
) -> Build:
    store = skb.store
    assert isinstance(store, LanceStore)
    old = store.build
    combined = Updated(skb, source)
    small = options._replace(indexes=False, ann=False)
    work = work_of(combined, skb.place, small, home)
    try:
        build_files(combined, work, small, name=skb.meta.name, progress=progress)
        with SKB.open(work) as new:
            changes = _Changes(skb, new, store.places, old, source)
            rows = _Rows(skb, new, old, changes)
            rows.take_away(nodes, progress)
            rows.put(nodes, progress)
            nodes.optimize(cleanup_older_than=KEPT)
            _reindexed(nodes, old, progress, approximate=options.ann)
            words = _merge_words(restored(tables, old, WORDS), rows.words)
            meta = _described(work, new.meta, skb, rows.tokens, changes.keys, nodes, store)
            before = {FILES: tables.open_table(FILES).version}
            kept = write_files(Begun(tables, before), work / meta.data, meta, progress)
        build = Build(
            meta=meta,
            versions={NODES: nodes.version, WORDS: words.version, FILES: kept.version},
            text={one.part: one.stats() for one in rows.words},
            vectors=old.vectors,
            content=rows.content.hex(),
            next_key=changes.next_key,
            approximate=options.ann,
        )
        return finish(tables, build)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _Changes:
    """Which nodes keep their rows, which get new ones, and which go."""

    def __init__(self, old: SKB, new: SKB, places: Places, build: Build, source: Source) -> None:
        before = np.array([old.nodes.ids.find(new.id(node)) for node in range(len(new.nodes))], np.int64)
        fresh = before < 0
        self.keys: Numbers = np.where(fresh, 0, places.keys_of(np.maximum(before, 0)))
        """By new number."""
        self.keys[fresh] = build.next_key + np.arange(int(fresh.sum()))
        self.next_key = build.next_key + int(fresh.sum())
        self.removed = np.setdiff1d(np.arange(len(old.nodes)), before)
        """Old numbers."""
        relational = any(part in (RELATIONAL_TEXT, RELATIONAL_VECTORS) for part in (*build.text, *build.vectors))
        touched = _touched(old, new, source, relational=relational)
        self.written = np.array(sorted(new.nodes.ids.find(node) for node in touched), np.int64)
        """New numbers of the nodes whose rows are made."""
        self.replaced = before[self.written]
        self.replaced = self.replaced[self.replaced >= 0]
        """Their old numbers."""


def _touched(old: SKB, new: SKB, source: Source, *, relational: bool) -> set[str]:
    """Ids of the nodes, of those that there are now, whose rows change."""
    changed = {record.id for record in source.nodes(Losses())}
    touched = set(changed)
    if relational:
        for edge in source.edges(Losses()):
            assert isinstance(edge, EdgeRecord)  # arrays of positions were refused before
            touched |= {edge.source, edge.target}
        for skb in (old, new):
            numbers = (skb.nodes.ids.find(node) for node in changed)
            around = (skb.graph.neighbors(number).tolist() for number in numbers if number >= 0)
            touched |= {skb.id(node) for node in chain.from_iterable(around)}
    return {node for node in touched if new.nodes.ids.find(node) >= 0}


class _Rows:
    """The rows that change, and what is counted of all as they do."""

    def __init__(self, old: SKB, new: SKB, build: Build, changes: _Changes) -> None:
        self._old, self._new, self._changes = old, new, changes
        self.words = [Words(part, stats) for part, stats in build.text.items()]
        self.content = Content(build.content)
        self.tokens = old.meta.tokens
        self._sizes = build.vectors

    def take_away(self, nodes: Table, progress: Progress) -> None:
        """Take the rows that are replaced, and those removed, out of the counts; delete the latter."""
        store = self._old.store
        assert isinstance(store, LanceStore)
        gone = np.concatenate([self._changes.replaced, self._changes.removed])
        for some in _parts(gone):
            rows = nodes.take_offsets(store.places.rows(some).tolist()).select(_columns(nodes)).to_arrow()
            self._count(rows, -1)
            self._count_tokens(self._old, some, -1)
        for some in _parts(store.places.keys_of(self._changes.removed)):
            nodes.delete(f"{KEY} IN ({', '.join(map(str, some.tolist()))})")
        progress("rows taken away", len(gone), len(gone))

    def put(self, nodes: Table, progress: Progress) -> None:
        """Write the rows of changed and new nodes."""
        import pyarrow as pa

        done = 0
        for some in _parts(self._changes.written):
            made = self._batch(nodes.schema, some)
            self._count(made, 1)
            self._count_tokens(self._new, some, 1)
            merge = nodes.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_batches([made]))
            done += len(some)
            progress("rows", done, len(self._changes.written))

    def _batch(self, schema: Any, some: Numbers) -> Any:
        new, numbers = self._new, some.tolist()
        written: dict[str, list[str]] = {}
        for words in self.words:
            relations = words.part == RELATIONAL_TEXT
            written |= words.columns([indexed_node(new, node, relations=relations) for node in numbers])
        vectors = {}
        for part in self._sizes:
            index = self._old.vectors if part == VECTORS else self._old.relational_vectors
            assert index is not None
            relations = part == RELATIONAL_VECTORS
            texts = [indexed_node(new, node, relations=relations).document for node in numbers]
            vectors[part] = index.encoder.encode(texts)
        types = [new.nodes.type_of(node) for node in numbers]
        documents = [new.documents[node] for node in numbers]
        return batch(schema, self._changes.keys[some].tolist(), types, documents, written, vectors)

    def _count(self, rows: Any, sign: int) -> None:
        self.content.add(rows, sign)
        for words in self.words:
            words.count(rows, sign)

    def _count_tokens(self, skb: SKB, nodes: Numbers, sign: int) -> None:
        if self.tokens is not None:
            documents = (indexed_node(skb, node).document for node in nodes.tolist())
            self.tokens += sign * sum(len(document.split()) for document in documents)


def _columns(table: Table) -> list[str]:
    return [field.name for field in table.schema]


def _parts(numbers: Numbers) -> Iterator[Numbers]:
    for first in range(0, len(numbers), ROWS):
        yield numbers[first : first + ROWS]


def _merge_words(table: Table, texts: Iterable[Words]) -> Table:
    """Add to the counts of words what changed of them."""
    import pyarrow as pa

    for one in texts:
        names, bodies = one.holders["name"], one.holders["body"]
        changed = sorted(word for word in names.keys() | bodies.keys() if names[word] or bodies[word])
        for first in range(0, len(changed), _WORDS_AT_ONCE):
            some = changed[first : first + _WORDS_AT_ONCE]
            where = f"part = '{one.part}' AND word IN ({listed(some)})"
            there = {row["word"]: row for row in table.search().where(where).limit(len(some)).to_arrow().to_pylist()}
            counts = [
                [there.get(word, {}).get(field, 0) + more[word] for word in some]
                for field, more in (("names", names), ("bodies", bodies))
            ]
            rows = pa.table([[one.part] * len(some), some, *counts], schema=word_schema())
            merge = table.merge_insert(["part", "word"]).when_matched_update_all().when_not_matched_insert_all()
            merge.execute(rows)
    table.optimize(cleanup_older_than=KEPT)
    return table


def _described(
    work: Path, small: Meta, skb: SKB, tokens: int | None, keys: Numbers, nodes: Table, store: LanceStore
) -> Meta:
    """What the update made of the SKB; the files that it took over, and those of the places, come beside the new."""
    data = work / small.data
    kept = {name: info for name, info in skb.meta.files.items() if _is_of_index(name)}
    for name in kept:
        (data / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(store.fetched(name), data / name)
    order = nodes.search().select([KEY]).limit(nodes.count_rows()).to_arrow()[KEY].to_numpy()
    rows = np.argsort(order)[np.searchsorted(np.sort(order), keys)]
    Places.save(data / FOLDER, keys, rows)
    places = {f"{FOLDER}/{path.name}": file_info(path) for path in sorted((data / FOLDER).iterdir())}
    changed = {"files": {**small.files, **kept, **places}, "tokens": tokens}
    return read_meta(work).model_copy(update=changed)


def _is_of_index(name: str) -> bool:
    return files.is_file(name) and name.startswith(("text/", "relational-text/", "vectors/", "relational-vectors/"))
