"""The approximate index of an SKB's vectors, with faiss: a graph of near neighbours over vectors of a byte a number.

It proposes candidates, which ``VectorIndex`` then compares with the stored float32 vectors: scores are exact, and only
a node that was not proposed can be missed. Within a node type it would miss many (its recall falls to 0.44 to 0.93),
and is not asked; the rows of a type lie together and are soon read.

Equal vectors stand in the graph once. A thousand nodes of one text would otherwise be each other's only neighbours, and
an island that no search leaves.
"""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Vectors
from kbnav.errors import DamagedKB, DataError, UsageError
from kbnav.knowledge.skb.arrays import consecutive, open_array
from kbnav.knowledge.skb.folder import file_info
from kbnav.knowledge.skb.schema import FileInfo, Progress, no_progress
from kbnav.settings.plugins import missing

MOST = 1_000
"""Results that are asked of the graph at most; more are found sooner by reading all vectors."""

_META = "ann.json"
GRAPH = "graph.faiss"
"""The file that faiss reads."""
_FORMAT = 1
_KIND = "HNSW32,SQ8"
_BUILD_WIDTH = 80  # neighbours considered when a vector is linked
_WIDTH = 192  # vectors that a search keeps in view, for up to half as many results; twice the results beyond
_TRAINING = 65_536  # vectors from which the byte's range is taken, for each number by itself
_ROWS_AT_ONCE = 16_384

Numbers = npt.NDArray[np.int64]


def folder(part: str) -> str:
    """The name of the folder that holds the approximate index of a part of an SKB."""
    return f"{part}-ann"


def require() -> None:
    """Raises UsageError where faiss is not installed."""
    if not installed():
        raise absent()


def absent() -> UsageError:
    """What is said where faiss is not installed."""
    return missing("the approximate index", "faiss", extra="ann")


def installed() -> bool:
    """Whether faiss is there."""
    return find_spec("faiss") is not None


def build(vectors: Vectors, content: str, out: Path, *, progress: Progress = no_progress) -> None:
    """Write the index of ``vectors``, shape [nodes, d], into ``out``, which must be empty.

    ``content`` names the vectors, and must be named again to open the index. Raises UsageError without faiss.
    """
    require()
    import faiss

    distinct, nodes, start = _distinct(vectors)
    if len(distinct):
        graph: Any = faiss.index_factory(vectors.shape[1], _KIND, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _BUILD_WIDTH
        graph.train(vectors[distinct[:: len(distinct) // _TRAINING + 1]])
        for first in range(0, len(distinct), _ROWS_AT_ONCE):
            graph.add(vectors[distinct[first : first + _ROWS_AT_ONCE]])
            progress("ann", min(first + _ROWS_AT_ONCE, len(distinct)), len(distinct))
        faiss.write_index(graph, str(out / GRAPH))
    np.save(out / "nodes.npy", nodes)
    np.save(out / "start.npy", start)
    meta = {"format": _FORMAT, "content": content, "nodes": len(vectors), "distinct": len(distinct), "kind": _KIND}
    (out / _META).write_text(json.dumps(meta))


class Approximate:
    """An open index; safe to share between threads. Use ``open`` of this module."""

    def __init__(self, graph: Any, nodes: npt.NDArray[np.int32], start: Numbers) -> None:
        self._graph = graph
        self._nodes = nodes
        self._start = start

    def candidates(self, query: Vectors, limit: int) -> Numbers:
        """Nodes that are likely to hold the ``limit`` nearest to a vector [d], each once, ascending; a few more."""
        from faiss import SearchParametersHNSW  # type: ignore[attr-defined]  # its stubs leave it out

        width = max(_WIDTH, 2 * limit)
        wanted = min(limit + _WIDTH // 4, self._graph.ntotal)
        _, found = self._graph.search(query[None], wanted, params=SearchParametersHNSW(efSearch=width))
        places = found[0][found[0] >= 0]
        # Of nodes with one vector only the first can be in the ranking: its order is by number where scores are equal.
        sizes = np.minimum(self._start[places + 1] - self._start[places], limit)
        numbers = self._nodes[consecutive(self._start[places], sizes)].astype(np.int64)
        numbers.sort()
        return numbers


def open(path: Path, content: str, written: FileInfo | None = None) -> Approximate:
    """Open a built index by memory map.

    faiss believes what a file says of its sizes, and ends the process where that is wrong. So a graph is read through
    before, and compared with what was ``written`` where that is known; a gigabyte takes a second or two.

    Raises DamagedKB where it is another, DataError where the index is missing, damaged, too new, or made from other
    vectors than those ``content`` names; UsageError without faiss.
    """
    require()
    import faiss

    try:
        meta = json.loads((path / _META).read_bytes())
        if int(meta["format"]) > _FORMAT:
            raise DataError(f"{path}: approximate index of format {meta['format']}; this version reads {_FORMAT}")
        if not content or meta["content"] != content:
            raise DataError(f"{path}: made from other vectors than those beside it; build it again")
        nodes, start = open_array(path / "nodes.npy", np.int32), open_array(path / "start.npy", np.int64)
        if written is not None and (path / GRAPH).is_file() and file_info(path / GRAPH) != written:
            raise DamagedKB(f"{path / GRAPH}: its content is not what was written; build it again")
        graph = faiss.read_index(str(path / GRAPH), faiss.IO_FLAG_MMAP_IFC)
        if (len(nodes), len(start) - 1, graph.ntotal) != (meta["nodes"], meta["distinct"], meta["distinct"]):
            raise ValueError(f"{len(nodes)} nodes and {graph.ntotal} vectors where other numbers were written")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path}: not an approximate index: {error!r}") from error
    return Approximate(graph, nodes, start)


def _distinct(vectors: Vectors) -> tuple[Numbers, npt.NDArray[np.int32], Numbers]:
    """The first node of each different vector, ascending; then all nodes, vector by vector, and where each begins."""
    digests = np.array([hashlib.blake2b(row, digest_size=16).digest() for row in vectors], dtype="S16")
    _, first, owner = np.unique(digests, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    owner = rank[owner]
    start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(owner, minlength=len(first)))])
    return np.sort(first), np.argsort(owner, kind="stable").astype(np.int32), start
