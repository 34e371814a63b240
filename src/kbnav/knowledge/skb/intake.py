"""From records to numbers: the first two stages of a build."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbnav.errors import DataError
from kbnav.knowledge.skb.arrays import Array, write_strings
from kbnav.knowledge.skb.documents import DocumentWriter
from kbnav.knowledge.skb.nodes import Nodes
from kbnav.knowledge.skb.records import EdgeArrays, EdgeRecord, Losses, NodeRecord
from kbnav.knowledge.skb.schema import type_starts


class NodeWriter:
    """Writes ``nodes/`` and ``documents/`` from records in any order."""

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
        """Take the next record, or count why it is left out."""
        reason = _left_out(record, self._seen)
        if reason:
            losses.add(reason, f"{record.id} {record.name}".strip())
            self._kind.append(-1)
            self._index.append(-1)
            return
        self._seen.add(record.id)
        kind = self._types.setdefault(record.type or "node", len(self._types))
        if kind == len(self._ids):
            self._ids.append([])
            self._names.append([])
        if not record.name:
            losses.add("node without a name (kept, its id is shown)", record.id)
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
        kind = np.frombuffer(self._kind, np.int32) if self._kind else np.empty(0, np.int32)
        index = np.frombuffer(self._index, np.int32) if self._index else np.empty(0, np.int32)
        # The number of nodes stands behind the last type, where kind -1 finds it.
        positions = np.where(kind < 0, -1, np.array(type_starts(counts), np.int32)[kind] + index)
        return positions.astype(np.int32), list(zip(self._types, counts, strict=True))


def _left_out(record: NodeRecord, seen: set[str]) -> str:
    """Why a node is left out; empty where it is not."""
    if not record.id:
        return "node without an id"
    if not _is_text(record.id):
        return "node whose id is no text"
    if record.deleted:
        return "node deleted"
    return "node id given twice" if record.id in seen else ""


def _is_text(name: str) -> bool:
    """Whether a string can be written; halves of characters, which JSON may hold, cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class EdgeCollector:
    """Turns edges by id or by position into numbers."""

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

    def add(self, item: EdgeRecord | EdgeArrays) -> None:
        """Take an edge, or many; those with an end that does not exist are counted and left out."""
        if isinstance(item, EdgeArrays):
            self._add_arrays(item)
            return
        self.edges += 1
        if item.deleted:
            self._losses.add("edge deleted", f"{item.source} {item.relation} {item.target}")
            return
        source, target = self._numbers.get(item.source), self._numbers.get(item.target)
        if source is None or target is None or not item.relation:
            reason = "edge without a relation" if not item.relation else "edge to a node that does not exist"
            self._losses.add(reason, f"{item.source} {item.relation} {item.target}")
            return
        relation = self._relations.setdefault(item.relation, len(self._relations))
        sources, relations, targets = self._columns
        sources.append(source)
        relations.append(relation)
        targets.append(target)

    def finish(self) -> tuple[list[str], tuple[Array, Array, Array]]:
        """The relations by number, and the columns: source, relation, target, shape [edges] each."""
        source, relation, target = (
            np.frombuffer(column, np.int32) if column else np.empty(0, np.int32) for column in self._columns
        )
        return list(self._relations), (source, relation, target)

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
            self._losses.add("edge to a node that does not exist", case, int(missing.sum()))
        for column, values in zip(self._columns, (source, relation, target), strict=True):
            column.frombytes(np.ascontiguousarray(values[~missing], np.int32).tobytes())

    def _in_range(self, values: Array, size: int, what: str) -> Array:
        if len(values) and (values.min() < 0 or values.max() >= size):
            raise DataError(f"edges name {what} {values.min()} to {values.max()}; there are {size}, numbered from 0")
        return values
