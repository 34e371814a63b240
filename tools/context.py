"""What tools are given, ``Context``, and what they give back, ``Observation``; notes on a knowledge base."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, QueryTimeout, UsageError
from kbnav.knowledge.base import Entry, KnowledgeBase, Meter
from kbnav.runs.trajectory import Fact, Step, Usage

_NOTES = 3
"""Notes with one result."""


class Note(BaseModel):
    """A warning on ``about``: an id as results show it, such as ``P2044``, or a prefixed name or IRI."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    about: str = Field(min_length=1)
    text: str = Field(min_length=1, max_length=500)
    source: str = ""
    """Where it is from, and of which day, for people."""

    def place(self, text: str) -> int:
        """Where a text shows what the note is about; -1: nowhere."""
        found = re.search(rf"(?<![\w:/#-]){re.escape(self.about)}(?![\w-])", text)
        if found is None and re.fullmatch(r"[PQL]\d+", self.about):
            found = re.search(rf"(?<=:){self.about}(?!\d)", text)
        return found.start() if found else -1


def notes_on(notes: Sequence[Note], shown: str, before: str = "") -> list[Note]:
    """The notes on what a text shows and ``before`` did not, in the order of the text."""
    new = [note for note in notes if note.place(shown) >= 0 and note.place(before) < 0]
    return sorted(new, key=lambda note: note.place(shown))[:_NOTES]


def read_notes(paths: Iterable[Path]) -> tuple[Note, ...]:
    """The ``[[note]]`` tables of TOML files. Raises UsageError for one that cannot be read or is none."""
    notes: list[Note] = []
    for path in paths:
        try:
            read = tomllib.loads(path.read_text(encoding="utf-8"))
            notes += TypeAdapter(dict[Literal["note"], list[Note]]).validate_python(read).get("note", [])
        except OSError as error:
            raise UsageError(f"notes: {path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(f"notes: {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except ValueError as error:
            raise UsageError(f"notes: {path} is no TOML: {error}") from error
    return tuple(notes)


@dataclass(frozen=True)
class Observation:
    """What the model reads.

    ``rows`` is set where a query ran, and ``result`` where its result has a number; ``usage`` where the tool asked a
    model itself; ``nodes`` are the ids of an SKB's nodes in the text, in its order, and ``facts`` the links in it.
    ``lost``: the look-up was not answered in time. ``ran`` is the query that ran, where that is not the call's own.
    """

    text: str
    ok: bool = True
    rows: int | None = None
    usage: Usage = Usage()
    nodes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    lost: bool = False
    result: int = 0
    ran: str = ""

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
    whole_rows: int = 50
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
    """All that the model was shown before this call; an id that is not in it is new to it."""
    tables: dict[str, AnswerTable] = field(default_factory=dict)
    number: int = 0
    """What the result of a query is numbered by, so that it can be named; 0 outside a run."""
    results: Mapping[int, Step] = field(default_factory=dict)
    """Steps of the run whose queries ran, by the number of their result, those taken back too."""
    earlier: tuple[str, ...] = ()
    """The conversation's earlier questions, oldest first."""
    meter: Meter = field(default_factory=Meter)
    """What the run has asked of services, and may."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Entities that came with the question, labels by id: what an evaluation gives of the gold answer."""

    notes: Sequence[Note] = ()
    """What is known of the knowledge base's traps; each note comes with the first result that it concerns."""

    @property
    def asked(self) -> str:
        """The question with the last earlier ones before it, one a line: what "her husband" is about."""
        return "\n".join((*self.earlier[-_EARLIER:], self.question))
