"""Where a node's row is: the keys of nodes by their numbers, and the rows by theirs.

In a first build, number, key and row are one. An update adds rows and takes some away, which moves the numbers of other
nodes, since those of one type follow one another; their rows stay as they are, under their keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbnav.errors import DamagedKB
from kbnav.knowledge.skb.arrays import Array, open_array
from kbnav.knowledge.skb.lance.tables import KEY, TYPE
from kbnav.knowledge.skb.parts import Range

FOLDER = "places"
_KEYS, _ROWS = "keys.npy", "rows.npy"

Numbers = npt.NDArray[np.int64]


class Places:
    """Keys, numbers and rows of the nodes of one build."""

    def __init__(self, type_start: Sequence[int], folder: Path | None) -> None:
        """``folder`` holds what ``save`` wrote; None for a first build."""
        self._kinds = {bounds: number for number, bounds in enumerate(pairwise(type_start))}
        self.keys: Array | None = None
        self._rows: Array | None = None
        if folder is not None:
            self.keys, self._rows = open_array(folder / _KEYS, np.int64), open_array(folder / _ROWS, np.int64)
            self._order = np.argsort(self.keys)
            self._sorted = self.keys[self._order]

    @staticmethod
    def save(folder: Path, keys: Numbers, rows: Numbers) -> None:
        """Write keys [nodes] and rows [nodes] by node number."""
        folder.mkdir(exist_ok=True)
        np.save(folder / _KEYS, keys)
        np.save(folder / _ROWS, rows)

    def rows(self, nodes: Numbers) -> Numbers:
        """The rows [n] of nodes [n] in the table as it was."""
        return nodes if self._rows is None else np.asarray(self._rows[nodes])

    def keys_of(self, nodes: Numbers) -> Numbers:
        """The keys [n] of nodes [n]."""
        return nodes if self.keys is None else np.asarray(self.keys[nodes])

    def numbers(self, keys: Numbers) -> Numbers:
        """The nodes [n] that have keys [n]. Raises DamagedKB where none has."""
        if self.keys is None:
            return keys
        found = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        if not np.array_equal(self._sorted[found], keys):
            raise DamagedKB("rows in the table of nodes that the SKB does not know")
        return np.asarray(self._order[found])

    def conditions(self, ranges: Sequence[Range] | None, among: Collection[int] | None, most: int) -> list[str]:
        """Conditions that keep nodes in any of the ranges and among those given; to be asked one by one, "" for all.

        One names ``most`` nodes at most.
        """
        if among is not None:
            keys = np.sort(self.keys_of(inside(among, ranges)))
            return [f"{KEY} IN ({', '.join(map(str, some.tolist()))})" for some in _parts(keys, most)]
        if ranges is None:
            return [""]
        within = [one for first, end in ranges if first < end for one in self._within(first, end)]
        return [f"({' OR '.join(within)})"] if within else []

    def _within(self, first: int, end: int) -> list[str]:
        if (first, end) in self._kinds:
            return [f"{TYPE} = {self._kinds[first, end]}"]
        keys = np.sort(self.keys_of(np.arange(first, end)))
        runs = np.split(keys, np.flatnonzero(np.diff(keys) > 1) + 1)
        return [f"({KEY} >= {run[0]} AND {KEY} <= {run[-1]})" for run in runs]


def inside(among: Collection[int], ranges: Sequence[Range] | None) -> Numbers:
    """The nodes of a collection, each once, ascending, that are in any of the ranges."""
    nodes = np.unique(np.fromiter(among, np.int64, len(among)))
    if ranges is None:
        return nodes
    kept = [(nodes >= first) & (nodes < end) for first, end in ranges]
    return nodes[np.any([np.zeros(len(nodes), bool), *kept], axis=0)]


def _parts(keys: Numbers, most: int) -> list[Numbers]:
    return [keys[first : first + most] for first in range(0, len(keys), most)]
