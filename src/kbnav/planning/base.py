"""What a planner gives: relation paths that exist in an SKB's schema, each with a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from kbnav.runs.trace import Trace

Way = Literal["out", "in"]


class Hop(NamedTuple):
    """One relation, followed from source to target (``out``) or backwards (``in``)."""

    relation: str
    way: Way = "out"

    def __str__(self) -> str:
        return self.relation if self.way == "out" else f"^{self.relation}"


TEXT: tuple[Hop, ...] = ()
"""The path ``text``: no relation is followed, the answer is looked for by its document (PASemiQA, section 4.1.2)."""


@dataclass(frozen=True)
class PlannedPath:
    """A path from a matched node (any of its type where ``start`` is empty) to the answer.

    ``types`` are the node types met, one more than hops; empty where they are not known.
    """

    hops: tuple[Hop, ...]
    probability: float
    start: str = ""
    types: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether this is the path ``text``."""
        return self.hops == TEXT


@dataclass(frozen=True)
class Plan:
    """Paths, the most probable first, their probabilities summing to 1 at most; ``notes`` say what was mended."""

    paths: tuple[PlannedPath, ...] = ()
    notes: Sequence[str] = field(default=())


class Planner(Protocol):
    """Plans for one SKB. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """As in ``--planner``: ``none``, ``in-context``, ``ranker``, ``seq2seq``."""
        ...

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        """Paths for a question in which the nodes with these ids were matched; none for the planner ``none``.

        What a model was asked goes to ``trace``.
        """
        ...
