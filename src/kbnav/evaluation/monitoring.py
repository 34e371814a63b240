"""Watching runs while they go on: what was appended to their records is read once, a line for each question."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kbnav.errors import UsageError
from kbnav.evaluation.records import (
    GOLD,
    INFO,
    QUESTIONS,
    GoldAnswer,
    GoldInfo,
    QuestionRecord,
    RunInfo,
    SavedRun,
    read_gold,
    read_info,
)
from kbnav.evaluation.runner import under_way
from kbnav.evaluation.scoring import main_values
from kbnav.runs.journal import read_record

DEEPEST = 3
"""Folders below the one that is watched in which runs are looked for."""


@dataclass(frozen=True)
class Sample:
    """One question of a run as it was answered, on a line; ``score`` is None where it has no gold answer."""

    id: str
    question: str
    status: str
    error: str
    score: float | None
    steps: int
    tool: str
    """That of the last step on the path."""
    tokens: int
    cost: float | None
    seconds: float


class MonitoredRun:
    """One run; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metric = ""
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._at = self.version = 0
        self._gold: dict[str, GoldAnswer] = {}
        self._gold_info: GoldInfo | None = None
        self._samples: dict[str, tuple[Sample, int]] = {}
        self._places: dict[str, tuple[int, int]] = {}

    @property
    def info(self) -> RunInfo:
        """What is run. Raises UsageError, DataError."""
        info = read_info(self.folder)
        if info is None:
            raise UsageError(f"no run in {self.folder}: there is no {INFO}")
        return info

    @property
    def open(self) -> list[dict[str, Any]] | None:
        """The questions under way; None where the run does not go on."""
        return under_way(self.folder)

    def samples(self, after: int = 0) -> list[Sample]:
        """What was answered, or answered again, behind a version; all by default. Raises UsageError, DataError."""
        with self._lock:
            self._read()
            return [one for one, version in self._samples.values() if version > after]

    def sample(self, name: str) -> tuple[QuestionRecord | None, GoldAnswer | None]:
        """The whole record of one question, and its gold answer. Raises UsageError, DataError."""
        with self._lock:
            self._read()
            place = self._places.get(name)
        return self._record(self._bytes(*place)) if place else None, self._gold.get(name)

    def _read(self) -> None:
        """Read on from where it was read to; a file that became shorter is read anew."""
        path = self.folder / QUESTIONS
        size = path.stat().st_size if path.exists() else 0
        if size < self._at:
            self._forget()
        if size == self._at:
            return
        if not self._gold and (self.folder / GOLD).exists():
            self._gold_info, self._gold = read_gold(self.folder / GOLD)
        info = self.info
        data = self._bytes(self._at, size - self._at)
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            record = self._record(line)
            self.version += 1
            self._samples[record.id] = self._sample(info, record), self.version
            self._places[record.id] = (self._at, len(line))
            self._at += len(line)

    def _bytes(self, start: int, count: int) -> bytes:
        with (self.folder / QUESTIONS).open("rb") as file:
            file.seek(start)
            return file.read(count)

    def _record(self, line: bytes) -> QuestionRecord:
        record: QuestionRecord = read_record(line, QuestionRecord, str(self.folder / QUESTIONS))
        return record

    def _sample(self, info: RunInfo, record: QuestionRecord) -> Sample:
        run, gold, score = record.run, self._gold.get(record.id), None
        if gold and gold.known and self._gold_info:
            alone = replace(info, questions=(record.id,))
            self.metric, values = main_values(SavedRun(alone, self._gold_info, {record.id: gold}, {record.id: record}))
            score = values[record.id]
        return Sample(
            record.id,
            run.question,
            run.outcome.status,
            record.error,
            score,
            steps=len(run.steps),
            tool=run.path[-1].call.tool if run.path else "",
            tokens=run.whole_usage.prompt + run.whole_usage.completion,
            cost=run.whole_cost,
            seconds=run.whole_seconds,
        )


class Monitor:
    """The runs below a folder, or that of the folder itself, by their paths there."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError where there is no such folder."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        self.folder = folder
        self._known: dict[str, MonitoredRun] = {}

    def runs(self) -> Mapping[str, MonitoredRun]:
        """Those that are there now; a run that begins later is seen once it has begun."""
        found = sorted(self._find(self.folder, 0))
        self._known = {name: self._known.get(name) or MonitoredRun(path) for name, path in found}
        return self._known

    def _find(self, folder: Path, depth: int) -> Iterator[tuple[str, Path]]:
        if (folder / INFO).is_file():
            yield str(folder.relative_to(self.folder)) if folder != self.folder else folder.resolve().name, folder
        if depth < DEEPEST:
            for path in folder.iterdir():
                if path.is_dir() and not path.name.startswith("."):
                    yield from self._find(path, depth + 1)
