"""Readers of STaRK: the published CSV with its split indices, and the same questions as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kbnav.evaluation.datasets.question import Question
from kbnav.evaluation.datasets.records import File, Record

KBS = ("amazon", "mag", "prime")
HUMAN = "stark_qa_human_generated_eval.csv"
"""The questions that people wrote; early versions have ``written`` in the name."""
HUMAN_TOP_V = 10
"""Nodes of such a question that a model scores, in place of 20 (STaRK, section 3.1)."""
HUMAN_LEFT_OUT = frozenset({"recall@20"})
"""Metrics that are not reported of such questions, which may have more answers (section 3.2)."""


def is_human(dataset: str) -> bool:
    """Whether a dataset's name is that of a set of human-generated questions, STaRK's or one's own."""
    return dataset == "human" or dataset.endswith("-human")


def is_human_file(path: Path) -> bool:
    """Whether a file is named as STaRK names that of human-generated questions."""
    return path.name.startswith("stark_qa_human_")


def table(folder: Path, *, human: bool) -> Path:
    """The CSV of the questions in ``stark_qa/``."""
    if not human:
        return folder / "stark_qa.csv"
    return next((path for path in sorted(folder.glob("*.csv*")) if is_human_file(path)), folder / HUMAN)


def read_stark(file: File) -> Iterator[Question]:
    """STaRK's questions from the published CSV, or from JSON lines, told apart by the file's name."""
    yield from read_stark_csv(file) if ".csv" in file.path.suffixes else read_stark_jsonl(file)


def read_stark_csv(file: File) -> Iterator[Question]:
    """``stark_qa.csv`` or ``stark_qa_human_generated_eval.csv``: ``id``, ``query``, ``answer_ids`` as a list's text."""
    for record in file.csv(("id", "query", "answer_ids")):
        try:
            answers = json.loads(record.text("answer_ids"))
        except ValueError as error:
            raise record.error("'answer_ids' is not a list of node ids") from error
        yield _question(record, answers)


def read_stark_jsonl(file: File) -> Iterator[Question]:
    """One question a line: ``id``, ``query``, ``answer_ids``; ``mor_plan``, where it is, goes to ``meta``."""
    for record in file.json_lines():
        yield _question(record, record.get("answer_ids", list))


def _question(record: Record, answers: object) -> Question:
    if not isinstance(answers, list) or not all(type(answer) is int for answer in answers):
        raise record.error("'answer_ids' is not a list of node ids")
    if not answers:
        raise record.error("a question without an answer")
    return Question(
        id=record.identifier("id"),
        texts={"en": record.text("query")},
        nodes=tuple(map(str, answers)),
        meta=record.meta("mor_plan"),
    )


def read_split(file: File) -> tuple[str, ...]:
    """A split index: the id of one question a line, in its order. Raises DataError naming a line that is not an id."""
    lines = [(number, line.strip()) for number, line in enumerate(file.text().split("\n"), 1) if line.strip()]
    for number, line in lines:
        if not line.isdecimal():
            raise file.error(f"record {number}: {line[:40]!r} is not a question id")
    return tuple(line for _, line in lines)


def split_file(folder: Path, split: str) -> tuple[Path, float]:
    """The index of a split in ``split/``, and the share of its first ids that is meant.

    Of ``test-0.1``, where it has no file of its own, it is the first tenth of the test split, as in STaRK's code.
    """
    path = folder / f"{split}.index"
    whole, dash, share = split.rpartition("-")
    if path.exists() or not dash:
        return path, 1.0
    return folder / f"{whole}.index", float(share)
