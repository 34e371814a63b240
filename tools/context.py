"""What tools are given, ``Context``, and what they give back, ``Observation``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, QueryTimeout
from kbnav.knowledge.base import Entry, KnowledgeBase, Meter
from kbnav.runs.trajectory import Fact, Step, Usage
from kbnav.tools.notes import Notes


@dataclass(frozen=True)
class Observation:
    """What the model reads.

    ``rows`` is set where a query ran, and ``result`` where its result has a number; ``usage`` where the tool asked a
    model itself; ``nodes`` are the ids of an SKB's nodes in the text, in its order, and ``facts`` the links in it.
    ``lost``: the look-up was not answered in time.
    """

    text: str
    ok: bool = True
    rows: int | None = None
    usage: Usage = Usage()
    nodes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    lost: bool = False
    result: int = 0

    @classmethod
    def of_error(cls, error: KbnavError) -> Observation:
        """What a model is told of an error."""
        return cls(str(error), ok=False, lost=isinstance(error, QueryTimeout))


Pruner = Callable[[Entry, str], tuple[Entry, Usage]]
"""Cuts an entry to what matters for a question."""


@dataclass(frozen=True)
class Shown:
    """How much of a result a model is shown (SPINACH, section 4.1)."""

    entities: int = 8
    properties: int = 4
    rows: int = 5
    """Rows from the start, and as many from the end, of a result that is cut."""
    whole_rows: int = 30
    """Rows up to which a result is not cut; 0: the paper's way, which cuts any with more than twice ``rows``."""
    whole_bytes: int = 8_000
    """Bytes of text up to which it is not, about 2,000 tokens."""
    statements: int = 40
    values: int = 8
    """Values of one property in an entry."""
    edges: int = 20
    examples: int = 5
    cell: int = 200
    """Characters of one value."""
    profiles: bool = True
    """Whether uses of properties and members of classes are counted, which the paper's agent does not do."""


_EARLIER = 3
"""Earlier questions beside which a question is read."""


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
    number: int = 0
    """What the result of a query is numbered by, so that it can be named; 0 outside a run."""
    ran: Mapping[int, Step] = field(default_factory=dict)
    """Steps of the run whose queries ran, by the number of their result, those taken back too."""
    earlier: tuple[str, ...] = ()
    """The conversation's earlier questions, oldest first."""
    meter: Meter = field(default_factory=Meter)
    """What the run has asked of services, and may."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Entities that came with the question, labels by id: what an evaluation gives of the gold answer."""

    notes: Notes = Notes()
    """What is known of the knowledge base's traps; each note comes with the first result that it concerns."""

    @property
    def asked(self) -> str:
        """The question with the last earlier ones before it, one a line: what "her husband" is about."""
        return "\n".join((*self.earlier[-_EARLIER:], self.question))
