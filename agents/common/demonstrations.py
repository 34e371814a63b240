"""Few-shot demonstrations: questions of one knowledge base that were answered, with the steps that led to the answer.

A question is never shown as its own example: it is left out by its text, and in an evaluation whatever is evaluated is
left out for every question.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings.plugins import load
from kbnav.settings.systems import Options

MADE = re.compile(r"made:([1-9]|1\d|20)$")
"""So many as fit into a prompt: 20 at most."""
_KEY = "demonstrations"
_MAKER = "kbnav.evaluation.synthesis.demonstrations:make_demonstrations"
"""By its name, as systems are: what makes questions stands above the agents."""
_WORDS = re.compile(r"\w+")

About = Callable[[str], Mapping[str, object]]
"""Values of a prompt that depend on the question."""


class Demonstration(BaseModel):
    """One example; steps are told as links or in words, and the answer as results show nodes, ``name (id)``."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    question: str = Field(min_length=1)
    steps: tuple[str, ...] = Field(min_length=1)
    answer: str = Field(min_length=1)
    id: str = ""
    """The question's id in the dataset that it is from."""

    @field_validator("answer", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value


class DemonstratedOptions(Options):
    """Options of the agents whose prompts may have examples."""

    demonstrations: str = ""
    """Examples for the model: a JSON or TOML file of question, steps and answer, or ``made:3`` from the SKB itself."""

    @field_validator("demonstrations")
    @classmethod
    def _is_file_or_count(cls, value: str) -> str:
        if value.startswith("made:") and not MADE.match(value):
            raise ValueError(f"made:N takes a number from 1 to 20, not {value.removeprefix('made:')!r}")
        return value


@dataclass
class Demonstrations:
    """The first ``most`` of a pool that are none of the questions asked."""

    pool: Sequence[Demonstration] = ()
    most: int = 0
    left_out: set[str] = field(default_factory=set)
    """What is evaluated: texts as ``_plain`` has them."""

    def of(self, question: str) -> list[Demonstration]:
        """Those that a prompt for this question has."""
        without = {*self.left_out, _plain(question)}
        return [one for one in self.pool if _plain(one.question) not in without][: self.most]

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        """Leave these out for every question from now on, pairs of id and text.

        Raises UsageError where fewer are left than were asked for: one of a file's is evaluated, or too few were made.
        """
        asked = list(questions)
        ids = {name for name, _ in asked if name}
        evaluated = {_plain(text) for _, text in asked}
        found = [one for one in self.pool if one.id in ids or _plain(one.question) in evaluated]
        self.left_out |= {_plain(one.question) for one in found}
        if len(self.pool) - len(found) < self.most:
            raise UsageError(
                f"{len(found)} of the {len(self.pool)} demonstrations are among the questions to be evaluated, such as "
                f"{found[0].question!r}; take others, or fewer"
            )

    def about(self, then: About | None = None) -> About:
        """The demonstrations as values of a prompt, beside others."""
        return lambda question: {**(then(question) if then else {}), _KEY: self.of(question)}

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of all, saved with every run as those of prompts are; empty where there are none."""
        text = "\n".join(one.model_dump_json() for one in self.pool)
        return {_KEY: hashlib.sha256(text.encode()).hexdigest()} if self.pool else {}


def open_demonstrations(wanted: str, kb: KnowledgeBase) -> Demonstrations:
    """What the option names: nothing, a file, or questions made from the SKB.

    Raises UsageError for a file that is not there or cannot be read, and where questions cannot be made.
    """
    if not wanted:
        return Demonstrations()
    made = MADE.match(wanted)
    if not made:
        read = read_demonstrations(Path(wanted))
        return Demonstrations(read, len(read))
    from kbnav.knowledge.skb.kb import as_skb  # brings NumPy, which answers from Wikidata do without

    skb = as_skb(kb, f"{_KEY}={wanted}")
    count = int(made[1])
    pool: Sequence[Demonstration] = load(_MAKER)(skb, 2 * count)  # some may be left out
    if len(pool) < count:
        raise UsageError(f"only {len(pool)} questions could be made from {kb.name}: {_KEY}={wanted} needs {count}")
    return Demonstrations(pool, count)


def read_demonstrations(path: Path) -> tuple[Demonstration, ...]:
    """A JSON list, or a JSON or TOML file whose ``demonstrations`` are one. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        listed = found.get(_KEY, ()) if isinstance(found, dict) else found
        return TypeAdapter(tuple[Demonstration, ...]).validate_python(listed)
    except OSError as error:
        raise UsageError(f"{_KEY}: {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{_KEY}: {path}: {where}: {first['msg']}") from error
    except ValueError as error:  # JSON, TOML or text that is none
        raise UsageError(f"{_KEY}: {path} is no JSON or TOML: {error}") from error


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))
