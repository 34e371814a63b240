"""What every benchmark becomes: questions with their gold query and gold answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kbnav.answers.tables import AnswerTable


@dataclass(frozen=True)
class Question:
    """One question of a benchmark.

    ``texts`` maps language codes to the question. ``query`` is the gold SPARQL query, empty where there is none.
    ``answers`` is the gold answer as stored with the dataset, None where it stores none: it was right on the day it was
    recorded. ``nodes`` are the gold answers of a retrieval benchmark, as node ids. ``meta`` keeps what else the record
    says, as plain JSON data. ``plain`` are stored answers that were given as ids or names; on an SKB they are nodes.
    """

    id: str
    texts: Mapping[str, str]
    query: str = ""
    answers: AnswerTable | None = None
    nodes: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    plain: tuple[str, ...] = ()

    def text(self, language: str = "en") -> str:
        """The question in ``language``, or in the first language it has."""
        return self.texts.get(language) or next(iter(self.texts.values()))


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from: what must be named when its figures are published."""

    title: str
    licence: str
    citation: str


@dataclass(frozen=True)
class Dataset:
    """The questions of one dataset, in the order of its file; ``sha256`` is that of the files' uncompressed bytes."""

    name: str
    questions: tuple[Question, ...]
    source: Source
    sha256: str

    def __len__(self) -> int:
        return len(self.questions)
