"""Writing a built SKB into tables of LanceDB."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from kbnav.errors import UsageError
from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.lance import files
from kbnav.knowledge.skb.lance.tables import (
    BUILDS,
    DOCUMENT,
    FILES,
    NODES,
    NUMBER,
    TYPE,
    WORDS,
    Build,
    TextStats,
    column,
    connect,
)
from kbnav.knowledge.skb.lance.text import FIELDS, counted_length
from kbnav.knowledge.skb.local import LocalStore
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress
from kbnav.knowledge.skb.spelling import spelled
from kbnav.knowledge.skb.store import RELATIONAL_TEXT, RELATIONAL_VECTORS, SKB, VECTORS

_ROWS = 1_000
_ENGLISH = "english"


class _Texts:
    """The words of the texts of one index, counted as they are written."""

    def __init__(self, skb: SKB, part: str) -> None:
        self.part = part
        self._nodes = indexed_texts(skb, relations=part == RELATIONAL_TEXT)
        self._analyzer = text.analyzer(_ENGLISH)
        self.holders = {field: Counter[str]() for field in FIELDS}
        self._totals = Counter[str]()
        self._stretch = 1.0

    def columns(self, count: int) -> dict[str, list[str]]:
        """The words of the next nodes, by column."""
        some = list(islice(self._nodes, count))
        return {
            column(self.part, "name"): [self._counted("name", self._names(node)) for node in some],
            column(self.part, "body"): [self._counted("body", self._words(node.document)) for node in some],
        }

    def stats(self) -> TextStats:
        """What BM25 must know, once all are written."""
        return TextStats(self._totals["name"], self._totals["body"], self._stretch)

    def _names(self, node: NodeText) -> list[str]:
        return [word for name in (node.name, *node.aliases) for word in self._words(name)]

    def _words(self, said: str) -> list[str]:
        return list(self._analyzer.analyze(spelled(said)))

    def _counted(self, field: str, words: list[str]) -> str:
        self.holders[field].update(set(words))
        self._totals[field] += len(words)
        if words:
            self._stretch = max(self._stretch, len(words) / counted_length(len(words)))
        return " ".join(words)


def write(skb: SKB, place: str, *, progress: Progress = no_progress) -> Build:
    """Write an SKB that was built in a folder to a folder of tables or an address; readers of an older one keep it.

    Raises UsageError where the SKB is not in a folder, has an approximate index, or cannot be written there.
    """
    if not isinstance(skb.store, LocalStore):
        raise UsageError(f"{skb.place} is on LanceDB already")
    if any(name.split("/")[0].endswith("-ann") for name in skb.meta.files):
        raise UsageError("LanceDB searches all vectors: build without --ann")
    tables = connect(place)
    texts = [
        _Texts(skb, part) for part in ("text", RELATIONAL_TEXT) if getattr(skb, part.replace("-", "_")) is not None
    ]
    sizes = {
        part: index.dimensions
        for part, index in ((VECTORS, skb.vectors), (RELATIONAL_VECTORS, skb.relational_vectors))
        if index is not None
    }
    try:
        nodes = _create(tables, NODES, _node_schema(texts, sizes), _nodes(skb, texts, sizes, progress))
        _index_nodes(nodes, texts)
        words = _create(tables, WORDS, _word_schema(), _words(texts))
        _index(words, {"word": "BTree"})
        kept = _create(tables, FILES, files.schema(), files.pieces(skb.store.data, skb.meta))
        _index(kept, {"name": "BTree"})
        versions = {NODES: nodes.version, WORDS: words.version, FILES: kept.version}
        build = Build(skb.meta, versions, {one.part: one.stats() for one in texts}, sizes)
        tables.create_table(BUILDS, [{"build": build.dump()}], mode=_mode(tables, BUILDS))
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{place} could not be written: {str(error).splitlines()[0]}") from error
    return build


def _create(tables: Any, name: str, schema: Any, batches: Iterable[Any]) -> Any:
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_batches(schema, batches)
    return tables.create_table(name, reader, mode=_mode(tables, name))


def _mode(tables: Any, name: str) -> str:
    return "overwrite" if name in tables.list_tables().tables else "create"


def _node_schema(texts: Iterable[_Texts], sizes: Mapping[str, int]) -> Any:
    import pyarrow as pa

    fields = [(NUMBER, pa.int32()), (TYPE, pa.int32()), (DOCUMENT, pa.large_string())]
    fields += [(column(one.part, field), pa.large_string()) for one in texts for field in FIELDS]
    return pa.schema([*fields, *((column(part), pa.list_(pa.float32(), size)) for part, size in sizes.items())])


def _nodes(skb: SKB, texts: list[_Texts], sizes: Mapping[str, int], progress: Progress) -> Iterator[Any]:
    """The rows of all nodes, in batches."""
    import pyarrow as pa

    schema = _node_schema(texts, sizes)
    documents = iter(skb.documents)
    for first in range(0, len(skb.nodes), _ROWS):
        numbers = range(first, min(first + _ROWS, len(skb.nodes)))
        columns: dict[str, Any] = {
            NUMBER: pa.array(numbers, pa.int32()),
            TYPE: pa.array(map(skb.nodes.type_of, numbers), pa.int32()),
            DOCUMENT: pa.array(
                [json.dumps(one, ensure_ascii=False) for one in islice(documents, _ROWS)], pa.large_string()
            ),
        }
        for one in texts:
            columns |= {name: pa.array(some, pa.large_string()) for name, some in one.columns(len(numbers)).items()}
        for part, size in sizes.items():
            index = skb.vectors if part == VECTORS else skb.relational_vectors
            assert index is not None
            rows = index.rows(np.arange(numbers.start, numbers.stop))
            columns[column(part)] = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), size)
        yield pa.record_batch([columns[name] for name in schema.names], schema=schema)
        progress("tables", numbers.stop, len(skb.nodes))


def _word_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("part", pa.string()), ("word", pa.string()), ("names", pa.int32()), ("bodies", pa.int32())])


def _words(texts: Iterable[_Texts]) -> Iterator[Any]:
    import pyarrow as pa

    for one in texts:
        words = sorted(one.holders["name"].keys() | one.holders["body"].keys())
        counts = [pa.array([one.holders[field][word] for word in words], pa.int32()) for field in FIELDS]
        parts = pa.array([one.part] * len(words), pa.string())
        yield pa.record_batch([parts, pa.array(words, pa.string()), *counts], schema=_word_schema())


def _index_nodes(nodes: Any, texts: Iterable[_Texts]) -> None:
    from lancedb.index import FTS

    _index(nodes, {NUMBER: "BTree", TYPE: "Bitmap"})
    # The words are those of the analyzer: nothing is to be done to them again.
    plain = FTS(
        base_tokenizer="whitespace",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )
    for one in texts:
        for field in FIELDS:
            nodes.create_index(column(one.part, field), config=plain)


def _index(table: Any, kinds: Mapping[str, str]) -> None:
    from lancedb import index

    for name, kind in kinds.items():
        table.create_index(name, config=getattr(index, kind)())
