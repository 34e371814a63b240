"""Systems that say what they are told to, and the mini mirror's questions as a dataset."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from kbnav.answers.tables import AnswerTable, Ranking, Term
from kbnav.errors import StopRun
from kbnav.evaluation.records import GOLD, INFO, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo
from kbnav.evaluation.runner import System
from kbnav.runs.journal import open_journal, write_whole
from kbnav.runs.trajectory import Attempt, Outcome, Run, to_json
from tests.data import MINI_QUESTIONS

ENTITY = "http://www.wikidata.org/entity/"
Answer = AnswerTable | Ranking | StopRun | None


def table(*rows: str | tuple[str, ...]) -> AnswerTable:
    """A table of entities, one string or tuple of strings a row."""
    cells = [(row,) if isinstance(row, str) else row for row in rows]
    width = max((len(row) for row in cells), default=1)
    names = tuple(f"column{number}" for number in range(width))
    return AnswerTable(names, tuple(tuple(Term("uri", ENTITY + cell) for cell in row) for row in cells))


def run_of(question: str, answer: Answer, cost: float | None = None) -> Run:
    """What a system without steps leaves."""
    failed = isinstance(answer, StopRun)
    outcome = Outcome(
        "failed" if failed else "answered" if answer is not None else "no answer",
        "error" if failed else "finish",
        table=answer if isinstance(answer, AnswerTable) else None,
        ranking=answer if isinstance(answer, Ranking) else None,
        note=str(answer) if failed else "",
    )
    return Run("run", question, "scripted", "script", "en", (), (), outcome, cost=cost)


class Script:
    """Answers by question text; counts what it is asked, and how many questions are under way at most."""

    def __init__(self, answers: Callable[[str], Answer], cost: float | None = None) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._answers = answers
        self._cost = cost

    @property
    def system(self) -> System:
        return System("scripted", "script", self._ask)

    def _ask(self, question: str, given: object) -> Attempt:
        with self._lock:
            self.asked.append(question)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        answer = self._answers(question)
        with self._lock:
            self._under_way -= 1
        return Attempt(run_of(question, answer, self._cost), answer if isinstance(answer, StopRun) else None)


def info_of(questions: list[str], **changes: object) -> RunInfo:
    fields: dict[str, object] = {
        "system": "scripted",
        "model": "script",
        "dataset": "own",
        "dataset_sha256": "00",
        "questions": tuple(questions),
        "language": "en",
    }
    return RunInfo(**{**fields, **changes})  # type: ignore[arg-type]


def saved_folder(
    folder: Path,
    gold: Mapping[str, AnswerTable | tuple[str, ...] | None],
    answers: Mapping[str, Answer],
    **changes: object,
) -> Path:
    """A run's folder, written by hand: gold by question, and an answer for those that were attempted."""
    write_whole(folder / INFO, to_json(info_of(list(gold), **changes)))
    with open_journal(folder / GOLD) as journal:
        journal.append(GoldInfo("own", "00"))
        for name, one in gold.items():
            nodes = one if isinstance(one, tuple) else ()
            rows = one if isinstance(one, AnswerTable) else None
            journal.append(GoldAnswer(name, name, "stored", table=rows, nodes=nodes))
    with open_journal(folder / QUESTIONS) as journal:
        for name, answer in answers.items():
            error = type(answer).__name__ if isinstance(answer, StopRun) else ""
            journal.append(QuestionRecord(name, run_of(name, answer), error))
    return folder


def mini_dataset(path: Path) -> Path:
    """The mini mirror's English questions that stand alone, in kbnav's own format with gold queries only."""
    lines = [
        json.dumps({"id": one["id"], "question": one["question"], "sparql": one["sparql"]})
        for one in MINI_QUESTIONS
        if "after" not in one and one["language"] == "en"
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
