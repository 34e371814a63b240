"""What a synthesized question says of itself, and the file it is written to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import to_json

Split = Literal["test", "train", "val"]
SPLITS: tuple[Split, ...] = ("test", "train", "val")


@dataclass(frozen=True)
class Route:
    """One branch: from a start node by ``hops`` (relation and ``out``, ``in`` or ``both``) through ``types``.

    ``walk`` is one way from the start node to the gold node, ids.
    """

    start: str
    start_name: str
    hops: tuple[tuple[str, str], ...]
    types: tuple[str, ...]
    walk: tuple[str, ...]


@dataclass(frozen=True)
class Synthesized:
    """A question that was kept.

    ``text`` is the phrase as it is asked for, ``text_source`` as the gold node's document has it, ``text_words`` the
    words that decide whether a node has it; all are empty where the question has relations only. ``candidates`` counts
    the nodes that the relations lead to, ``holders`` those of the type that have the text.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    split: Split
    template: str
    shape: str
    answer_type: str
    gold: str
    paths: tuple[Route, ...]
    candidates: int
    without: tuple[tuple[str, str, str], ...] = ()
    """What no answer has: a type, a relation and the way from a node of that type to the answer."""
    text: str = ""
    text_source: str = ""
    text_words: tuple[str, ...] = ()
    reworded_by: str = ""
    holders: int = 0
    worded_by: str = "rules"
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    """Of a question that models made: the requirements of the text, those used, and the query before its rewriting."""

    def record(self) -> dict[str, Any]:
        """As ``kbnav.evaluation.datasets`` reads one's own questions."""
        meta = asdict(self)
        if not self.pipeline:
            del meta["pipeline"]
        return {"id": meta.pop("id"), "question": meta.pop("question"), "nodes": meta.pop("answers"), "meta": meta}


@dataclass
class Report:
    """How a set came about: what was sampled, kept, and dropped for which reason."""

    kb: str
    seed: int
    sampled: int = 0
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    dropped: dict[str, int] = field(default_factory=dict)
    templates: dict[str, int] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    """Types and relations that the wording has words for and the SKB does not have."""
    pipeline: dict[str, Any] = field(default_factory=dict)
    """Where models made the questions: which, what they cost, and what verification found."""
    made_of: dict[str, str] = field(default_factory=dict)
    """What the SKB was made of, such as an archive, its date and a hash, where that is known."""

    def drop(self, reason: str) -> None:
        """Count one that was left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


def write_questions(out: Path, questions: Sequence[Synthesized], report: Report) -> list[Path]:
    """Write ``out`` (the test questions), ``-train`` and ``-val`` beside it, and the report; the files made."""
    path = out.with_name(f"{out.name.removesuffix('.jsonl')}.report.json")
    made = write_splits(out, questions)
    write_whole(path, to_json(report) + "\n")
    return [*made, path]


def write_splits(out: Path, questions: Sequence[Synthesized]) -> list[Path]:
    """Write ``out`` (the test questions), ``-train`` and ``-val`` beside it; the files made."""
    stem = out.name.removesuffix(".jsonl")
    made = []
    for split in SPLITS:
        chosen = [question for question in questions if question.split == split]
        if chosen:
            path = out if split == "test" else out.with_name(f"{stem}-{split}.jsonl")
            lines = [json.dumps(question.record(), ensure_ascii=False) for question in chosen]
            write_whole(path, "\n".join(lines) + "\n")
            made.append(path)
    return made


def reworded_file(out: Path) -> Path:
    """Where the questions of a file stand in other words."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}-reworded.jsonl")
