"""A run's folder: what was run, the gold answers it is scored against, and a record of every question.

::

    run.json          RunInfo, written once
    gold.jsonl        GoldInfo, then a GoldAnswer a line
    questions.jsonl   a QuestionRecord a line, appended as questions end
    scores.json       written by ``kbnav eval score``; always the same for the same three files above
    labels.json       English labels of the ids in answers, where the run was scored by labels
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from kbnav.answers.tables import AnswerTable
from kbnav.errors import DataError
from kbnav.runs.journal import read_document, read_journal
from kbnav.runs.trajectory import Run
from kbnav.settings.systems import GIVEN, FromGold

FORMAT = 1
INFO, GOLD, QUESTIONS, SCORES = "run.json", "gold.jsonl", "questions.jsonl", "scores.json"
LABELS = "labels.json"


@dataclass(frozen=True)
class RunInfo:
    """What was run: everything that must stay the same for a run to continue, and its date.

    ``questions`` are the ids of all questions of the run, in order, answered or not. ``dataset_sha256`` is that of the
    dataset's files and ``gold_sha256`` that of the gold file given, empty where the gold was collected by the run.
    ``settings`` hold the model, the budget and what was left out; they are without secrets. ``prompts`` are hashes.
    """

    system: str
    model: str
    dataset: str
    dataset_sha256: str
    questions: tuple[str, ...]
    language: str
    gold_sha256: str = ""
    kb: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    started: str = ""
    origin: str = ""
    """Where answers come from that were not asked for here: the name of an imported file."""
    sample: Mapping[str, Any] = field(default_factory=dict)
    """How ``questions`` were taken of the dataset: ``share`` and ``seed`` of a random part, ``only`` where they were
    named, ``answerable`` where those without a gold answer with rows were left out, ``limit``; empty: they are all."""
    from_gold: FromGold = ""
    """What the system was given of each question's gold answer; empty where nothing, as is usual."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Where it was given entities of the gold answer: ``most`` of them, drawn with ``seed``."""
    named: str = ""
    """What ``--system`` named, such as ``module:function``; empty where that is ``system``."""
    format: int = FORMAT

    @property
    def display_name(self) -> str:
        """The system, with its preset, what is left out of it, and what it was given of the gold answers."""
        own = flat_settings(self.settings)
        groups = (own.get("budget.without"), own.get("without_tools"), own.get("options.without"))
        left = [name for group in groups if isinstance(group, list | tuple) for name in group]
        left += ["pruning"] if own.get("pruning") == "none" else []
        preset = own.get("options.preset", "kbnav")
        about = [f"preset {preset}"] if preset != "kbnav" else []
        about += [f"without {', '.join(map(str, left))}"] if left else []
        about += [f"given {GIVEN[self.from_gold]}"] if self.from_gold else []
        return f"{self.system} ({'; '.join(about)})" if about else self.system


@dataclass(frozen=True)
class QuestionRecord:
    """One question as it was answered, or why it was not.

    ``run`` is the trajectory with its outcome, tokens, cost and seconds; a retriever's has no steps and a ranking. What
    is the same for all questions (settings, versions, prompts, the KB's state) is left to RunInfo. ``error`` is the
    name of the exception that ended the question, empty where it came to an end; ``run.outcome.note`` is its text.
    """

    id: str
    run: Run
    error: str = ""


@dataclass(frozen=True)
class GoldInfo:
    """Of which dataset the gold answers are, where queries were run, and when that began."""

    dataset: str
    dataset_sha256: str
    kb: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    format: int = FORMAT


@dataclass(frozen=True)
class GoldAnswer:
    """The gold answer of one question: a table, node ids, or neither where the gold query failed with ``error``.

    ``source`` is ``stored`` (with the dataset) or ``query`` (the gold query was run, at ``recorded``).
    """

    id: str
    question: str
    source: Literal["stored", "query", "none"]
    query: str = ""
    table: AnswerTable | None = None
    nodes: tuple[str, ...] = ()
    grades: tuple[float, ...] = ()
    """Of the nodes, in their order, for nDCG; empty: 1 each."""
    recorded: str = ""
    error: str = ""
    plain: bool = False
    """Whether it is ids, numbers, days and texts as somebody wrote them, without datatypes."""
    ordered: bool = False
    """Whether the order of the rows is a part of the answer, as the dataset has it."""

    @property
    def known(self) -> bool:
        """Whether there is anything to score against; an empty table is."""
        return self.table is not None or bool(self.nodes)

    @property
    def graded(self) -> Mapping[str, float]:
        """The nodes with their grades."""
        return dict(zip(self.nodes, self.grades or repeat(1.0), strict=False))

    @property
    def has_rows(self) -> bool:
        """Whether the answer is not empty."""
        return bool(self.nodes) or (self.table is not None and len(self.table) > 0)


@dataclass(frozen=True)
class SavedRun:
    """A run as its folder holds it; ``records`` has no entry for a question that was not reached yet."""

    info: RunInfo
    gold: Mapping[str, GoldAnswer]
    records: Mapping[str, QuestionRecord]
    candidates: tuple[str, ...] = ()
    """All nodes that may answer, in the order in which STaRK ranks equals: given where it is to be scored as STaRK's
    code does, see ``stark_compat``."""
    by: Literal["ids", "labels"] = "ids"
    """``labels``: the tables hold normalised labels, see ``by_labels``."""


def read_saved_run(folder: Path | str) -> SavedRun:
    """Read a run's folder, also while it is being written. Raises UsageError, DataError."""
    folder = Path(folder)
    return SavedRun(read_info(folder), read_gold(folder / GOLD)[1], read_records(folder))


def flat_settings(settings: Mapping[str, Any], less: Collection[str] = ()) -> dict[str, Any]:
    """The settings of a run ``less`` some, those of groups by names such as ``budget.steps``."""
    grouped = ((one, value if isinstance(value, Mapping) else {"": value}) for one, value in settings.items())
    kept = (one for one in grouped if one[0] not in less)
    return {f"{name}.{part}".rstrip("."): value for name, parts in kept for part, value in parts.items()}


def read_info(folder: Path) -> RunInfo:
    """What was run in a folder. Raises UsageError, DataError."""
    missing = f"no run in {folder}: it is not a folder with a {INFO}"
    found: RunInfo = read_document(folder / INFO, RunInfo, missing, FORMAT)
    return found


def read_records(folder: Path) -> dict[str, QuestionRecord]:
    """The questions answered so far by id; where one was asked again, its last record. Raises DataError."""
    path = folder / QUESTIONS
    records = read_journal(path, QuestionRecord) if path.exists() else []
    return {record.id: record for record in records}


def read_gold(path: Path) -> tuple[GoldInfo, dict[str, GoldAnswer]]:
    """A gold file: its head, and its answers by question. Raises UsageError, DataError."""
    lines = read_journal(path, GoldInfo | GoldAnswer)
    if not lines or not isinstance(lines[0], GoldInfo):
        raise DataError(f"{path}: not a file of gold answers")
    return lines[0], {line.id: line for line in lines[1:] if isinstance(line, GoldAnswer)}
