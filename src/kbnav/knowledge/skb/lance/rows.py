"""The rows of the table of nodes: made from an SKB in a folder, and what they hold together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from kbnav.encoders import Vectors
from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.documents import Fields
from kbnav.knowledge.skb.lance.tables import DOCUMENT, KEY, TYPE, TextStats, column
from kbnav.knowledge.skb.lance.text import FIELDS, counted_length
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.spelling import spelled

ENGLISH = "english"
_BYTES = 16


class Content:
    """What rows hold together, in whatever order they come: the sum of their digests, so that rows can be taken away.

    It finds damage. It is no proof against somebody who wants rows to be exchanged for others.
    """

    def __init__(self, told: str = "") -> None:
        """``told`` is what ``hex`` gave."""
        self._sum = int(told or "0", 16)

    def add(self, rows: Any, sign: int = 1) -> None:
        """Add the rows of a batch or table of Arrow's, or with a ``sign`` of -1 take them away."""
        columns = [_cells(rows, name) for name in sorted(rows.schema.names)]
        for cells in zip(*columns, strict=True):
            digest = blake2b(digest_size=_BYTES)
            for cell in cells:
                digest.update(len(cell).to_bytes(8, "little") + cell)
            self._sum += sign * int.from_bytes(digest.digest(), "little")

    def hex(self) -> str:
        """As text."""
        return f"{self._sum % (1 << 8 * _BYTES):032x}"


def _cells(rows: Any, name: str) -> list[bytes]:
    """The cells of a column as bytes."""
    import pyarrow as pa

    values = rows[name]
    if pa.types.is_fixed_size_list(values.type):
        return [vector.tobytes() for vector in matrix(values)]
    if pa.types.is_integer(values.type):
        return [number.to_bytes(8, "little") for number in values.to_pylist()]
    return [str(value).encode() for value in values.to_pylist()]


def matrix(values: Any) -> Vectors:
    """The vectors [n, d] in a column of Arrow's."""
    whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    flat = np.asarray(whole.flatten().to_numpy(zero_copy_only=False), np.float32)
    found: Vectors = flat.reshape(-1, values.type.list_size)
    return found


class Words:
    """The words of the texts of one index, and how many nodes have each: counted as rows come and go."""

    def __init__(self, part: str, stats: TextStats | None = None) -> None:
        """``stats`` are those of the rows that are there already."""
        self.part = part
        self._analyzer = text.analyzer(ENGLISH)
        self.holders = {field: Counter[str]() for field in FIELDS}
        """By field and word how many nodes more, or fewer, have it."""
        self._totals = Counter[str](name=stats.name_words, body=stats.body_words) if stats else Counter[str]()
        self._stretch = stats.stretch if stats else 1.0

    def columns(self, nodes: Sequence[NodeText]) -> dict[str, list[str]]:
        """The words of nodes as they are written, by column."""
        return {
            column(self.part, "name"): [" ".join(self._names(node)) for node in nodes],
            column(self.part, "body"): [" ".join(self._words(node.document)) for node in nodes],
        }

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

    def stats(self) -> TextStats:
        """What BM25 must know, once all are counted."""
        return TextStats(self._totals["name"], self._totals["body"], self._stretch)

    def _names(self, node: NodeText) -> list[str]:
        return [word for name in (node.name, *node.aliases) for word in self._words(name)]

    def _words(self, said: str) -> list[str]:
        return list(self._analyzer.analyze(spelled(said)))


def row_schema(texts: Iterable[str], sizes: Mapping[str, int]) -> Any:
    """The columns of the table ``nodes``, with indexes of ``texts`` and of vectors of so many numbers."""
    import pyarrow as pa

    fields = [(KEY, pa.int64()), (TYPE, pa.int32()), (DOCUMENT, pa.large_string())]
    fields += [(column(part, field), pa.large_string()) for part in texts for field in FIELDS]
    return pa.schema([*fields, *((column(part), pa.list_(pa.float32(), size)) for part, size in sizes.items())])


def batch(
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


def word_schema() -> Any:
    """The columns of the table ``words``."""
    import pyarrow as pa

    return pa.schema([("part", pa.string()), ("word", pa.string()), ("names", pa.int32()), ("bodies", pa.int32())])
