"""Few-shot demonstrations: questions that were answered, with the steps that led to the answer (PASemiQA, appendix A).

A question is never shown as its own example; in an evaluation one that is evaluated is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from kbnav.errors import UsageError

_KEY = "demonstrations"
_WORDS = re.compile(r"\w+")

About = Callable[[str], Mapping[str, object]]
"""Values of a prompt that depend on the question."""


class Demonstration(BaseModel):
    """One example; steps are links or sentences, and the answer has nodes as results show them, ``name (id)``."""

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


@dataclass
class Demonstrations:
    """Those of a pool that are none of the questions asked."""

    pool: Sequence[Demonstration] = ()

    def of(self, question: str) -> list[Demonstration]:
        """Those that a prompt for this question has."""
        return [one for one in self.pool if _normalised(one.question) != _normalised(question)]

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raises UsageError where one of the questions (id, text) that are to be evaluated is a demonstration."""
        asked = list(questions)
        ids, texts = {name for name, _ in asked if name}, {_normalised(text) for _, text in asked}
        found = [one for one in self.pool if one.id in ids or _normalised(one.question) in texts]
        if found:
            raise UsageError(
                f"{len(found)} of the {len(self.pool)} demonstrations are among the questions to be evaluated, such as "
                f"{found[0].question!r}; take others"
            )

    def about(self, then: About | None = None) -> About:
        """The demonstrations as values of a prompt, beside others."""
        return lambda question: {**(then(question) if then else {}), _KEY: self.of(question)}

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of all, saved with every run as those of prompts are; empty where there are none."""
        text = "\n".join(one.model_dump_json() for one in self.pool)
        return {_KEY: hashlib.sha256(text.encode()).hexdigest()} if self.pool else {}


def read_demonstrations(file: str) -> Demonstrations:
    """A JSON list, or the ``demonstrations`` of a JSON or TOML file; none without a file. Raises UsageError."""
    if not file:
        return Demonstrations()
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        listed = found.get(_KEY, ()) if isinstance(found, dict) else found
        return Demonstrations(TypeAdapter(tuple[Demonstration, ...]).validate_python(listed))
    except OSError as error:
        raise UsageError(f"{_KEY}: {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{_KEY}: {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:  # JSON, TOML or text that is none
        raise UsageError(f"{_KEY}: {path} is no JSON or TOML: {error}") from error


def _normalised(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))
