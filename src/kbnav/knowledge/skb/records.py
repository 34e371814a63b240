"""What an importer hands to a build: node records and edges, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kbnav.answers.tables import encodable
from kbnav.errors import DataError
from kbnav.knowledge.skb.schema import Dropped, Style

ALIAS_FIELDS = ("aliases", "alias", "synonyms")
"""Document fields that hold other names, where a source does not say otherwise; a dot goes into a nested field."""
EXAMPLES = 5


MEMORY = 2 << 30
"""Bytes that reading one record, pickle or tensor may take, unless a source is told another number."""
DEEPEST = 100
"""How deep the values of a record may be nested."""
_PER_VALUE = 128


def refuse_unbounded(value: Any, memory: int, place: str) -> None:
    """Raise DataError, which begins with ``place``, where plain data is nested too deep or unfolds to too much.

    Data from a pickle may hold one list many times, or itself; written out, it would have no end.
    """
    most = max(memory // _PER_VALUE, 1)
    left, todo = most, [(value, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > DEEPEST:
            raise DataError(f"{place}: nested more than {DEEPEST} deep")
        if isinstance(one, (list, tuple, dict)):
            left -= len(one)
            if left < 0:
                raise DataError(f"{place}: more than {most:,} values in one record")
            todo += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]


class NodeRecord(NamedTuple):
    """A node: its id, type, name, and the fields of its document (plain JSON values); or that it is to be deleted."""

    id: str
    type: str
    name: str
    fields: Mapping[str, Any]
    deleted: bool = False


class EdgeRecord(NamedTuple):
    """A directed edge between two node ids; or that it is to be deleted."""

    source: str
    relation: str
    target: str
    deleted: bool = False


class EdgeArrays(NamedTuple):
    """Many edges at once, shape [edges] each.

    Nodes are positions in the order of ``Source.nodes``, relations positions in ``Source.relations``.
    """

    source: npt.NDArray[np.integer[Any]]
    relation: npt.NDArray[np.integer[Any]]
    target: npt.NDArray[np.integer[Any]]


class Source(Protocol):
    """Where an SKB is built from. ``nodes`` is read to its end before ``edges``, each once a build."""

    @property
    def description(self) -> str:
        """One line for ``meta.json``: the format and the files' names."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when the input does; a build that was cut off goes on only where it is the same."""
        ...

    @property
    def style(self) -> Style:
        """How documents are rendered."""
        ...

    @property
    def types(self) -> Sequence[str]:
        """Types to number first, in this order; others follow as they appear."""
        ...

    @property
    def relations(self) -> Sequence[str]:
        """Relations to number first, in this order; others follow as they appear."""
        ...

    @property
    def alias_fields(self) -> Sequence[str]:
        """Document fields with other names of the node."""
        ...

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every node; what is left out is counted in ``losses``. Raises DataError with file and line."""
        ...

    def edges(self, losses: Losses) -> Iterator[EdgeRecord | EdgeArrays]:
        """Every edge; what is left out is counted in ``losses``. Raises DataError with file and line."""
        ...


@dataclass
class Losses:
    """Counts what a build leaves out, by reason, and keeps the first few cases of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, case: str, count: int = 1) -> None:
        """Count one case, or ``count`` cases of which ``case`` is the first."""
        self.counts[reason] += count
        kept = self.examples.setdefault(reason, [])
        if len(kept) < EXAMPLES:
            kept.append(encodable(case[:200]))

    def report(self) -> dict[str, Dropped]:
        """The counts and examples by reason."""
        return {
            reason: Dropped(count=count, examples=tuple(self.examples[reason]))
            for reason, count in sorted(self.counts.items())
        }
