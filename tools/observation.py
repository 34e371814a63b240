"""What a tool gives back, and what it is given beside the model's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kbnav.answers import AnswerTable
from kbnav.knowledge.base import Entry, KnowledgeBase
from kbnav.trajectory import Fact, Usage


@dataclass(frozen=True)
class Observation:
    """What the model reads.

    ``rows`` is set where a query ran; ``usage`` where the tool asked a model itself; ``nodes`` are the ids of an SKB's
    nodes in the text, in its order, and ``facts`` the links in it.
    """

    text: str
    ok: bool = True
    rows: int | None = None
    usage: Usage = Usage()
    nodes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


Pruner = Callable[[Entry, str], tuple[Entry, Usage]]
"""Cuts an entry to what matters for a question."""


@dataclass(frozen=True)
class Shown:
    """How much of a result a model is shown (SPINACH, section 4.1)."""

    entities: int = 8
    properties: int = 4
    rows: int = 5
    """Rows from the start, and as many from the end."""
    statements: int = 40
    values: int = 8
    """Values of one property in an entry."""
    edges: int = 20
    examples: int = 5
    cell: int = 200
    """Characters of one value."""


@dataclass
class Context:
    """What one run's tools share; the whole tables of its queries are kept here, out of the model's sight."""

    kb: KnowledgeBase
    question: str
    language: str
    prune: Pruner
    shown: Shown = Shown()
    seen: str = ""
    tables: dict[str, AnswerTable] = field(default_factory=dict)
