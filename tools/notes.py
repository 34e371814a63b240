"""Notes and solved examples of a knowledge base, kept in TOML files that people read, edit, share and switch off.

A note is a short warning that is tied to a property, a class or another thing, and reaches the model with the first
result that shows it. An example is a question with a query that answered it; those most like a question are in its
prompt. Each says where it is from and of which day.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kbnav.answers.relevance import relevance, words
from kbnav.errors import UsageError

_MOST = 3
"""Examples in a prompt, and notes with one result."""


class Note(BaseModel):
    """A warning on ``about``: an id as results show it, such as ``P2044``, or a prefixed name or IRI."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    about: str = Field(min_length=1)
    text: str = Field(min_length=1, max_length=500)
    source: str = ""
    """Where it is from, such as a person or a run."""
    made: str = ""
    """The day, as ``2026-01-31``."""
    accepted: str = ""
    """The evaluation with and without it that let it stay."""
    off: str = ""
    """Why it is switched off; empty: it is on."""


class Solved(BaseModel):
    """A question and the query that answered it."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    question: str = Field(min_length=1)
    query: str = Field(min_length=1)
    source: str = ""
    made: str = ""
    accepted: str = ""
    off: str = ""


@dataclass(frozen=True)
class Notes:
    """What one or more files hold; what is switched off is there and not used."""

    notes: tuple[Note, ...] = ()
    examples: tuple[Solved, ...] = ()

    def on(self, shown: str, before: str = "") -> list[Note]:
        """The notes on what a text shows and ``before`` did not, each once; those named first come first."""
        found = [(place, note) for note in self.notes if not note.off and (place := _place(note.about, shown)) >= 0]
        new = [(place, note) for place, note in found if _place(note.about, before) < 0]
        return [note for _, note in sorted(new, key=lambda pair: pair[0])][:_MOST]

    def like(self, question: str) -> list[Solved]:
        """The examples most like a question, best first; never the question itself, and none that shares no word."""
        asked = words(question)
        pool = [one for one in self.examples if not one.off and words(one.question) != asked]
        scored = zip(relevance(question, [one.question for one in pool]), pool, strict=True)
        best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
        return [one for _, one in best[:_MOST]]

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of what is used, saved with every run; empty where nothing is."""
        used = [one.model_dump_json() for one in self.notes if not one.off]
        used += [one.model_dump_json() for one in self.examples if not one.off]
        return {"notes": hashlib.sha256("\n".join(used).encode()).hexdigest()} if used else {}


NO_NOTES = Notes()


def note_lines(notes: Sequence[Note]) -> str:
    """Notes as they stand behind a result."""
    return "\n".join(f"Note on {note.about}: {note.text}" for note in notes)


def read_notes(paths: Iterable[Path]) -> Notes:
    """All that the files hold, in their order. Raises UsageError for one that cannot be read or is none."""
    notes: list[Note] = []
    examples: list[Solved] = []
    for path in paths:
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
            notes += TypeAdapter(list[Note]).validate_python(told.pop("note", []))
            examples += TypeAdapter(list[Solved]).validate_python(told.pop("example", []))
        except OSError as error:
            raise UsageError(f"notes: {path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(f"notes: {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except ValueError as error:
            raise UsageError(f"notes: {path} is no TOML: {error}") from error
        if told:
            raise UsageError(f"notes: {path}: it has {', '.join(told)}; there are [[note]] and [[example]]")
    return Notes(tuple(notes), tuple(examples))


def _place(about: str, text: str) -> int:
    found = re.search(rf"(?<![\w:/#-]){re.escape(about)}(?![\w-])", text)
    if found is None and re.fullmatch(r"[PQL]\d+", about):
        found = re.search(rf"(?<=:){about}(?!\d)", text)
    return found.start() if found else -1
