"""Beyond one machine: a run's journal in PostgreSQL, and its questions asked by the workers of a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GOLD, INFO, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo
from kbnav.evaluation.runner import Build, System, build_system
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import connected, share_of
from kbnav.runs.database import alone, execute, open_postgres
from kbnav.runs.journal import (
    LARGEST,
    Appending,
    Journal,
    OpenJournal,
    json_line,
    open_journal,
    read_record,
    whole_lines,
    write_whole,
)
from kbnav.runs.trajectory import Attempt
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from psycopg import Connection

_KINDS: Mapping[str, Any] = {INFO: RunInfo, GOLD: GoldInfo | GoldAnswer, QUESTIONS: QuestionRecord}
_AT_ONCE = 16
"""Lines that are read from the database at once."""
_TABLE = """CREATE TABLE IF NOT EXISTS eval_journal (
    run text, file text, number bigint, line bytea NOT NULL, PRIMARY KEY (run, file, number))"""
_SELECT = """SELECT number, octet_length(line), CASE WHEN octet_length(line) <= ? THEN line END FROM eval_journal
    WHERE run = ? AND file = ? AND number >= ? ORDER BY number LIMIT ?"""


@contextmanager
def shared_run(url: str, folder: Path) -> Iterator[OpenJournal]:
    """Take up the run of a folder from a database, and write there what is appended to its journals.

    The database has the lines of the journals and ``run.json`` under the folder's path as it was given. A line is in
    the database before it is in the file; the one that has less gets what the other has. Without a URL the run is in
    its folder alone. Raises UsageError where another process has the run, or where folder and database have different
    ones.
    """
    if not url:
        yield open_journal
        return
    with open_postgres(url) as pool:
        from psycopg import Error

        try:
            with alone(pool), pool.connection() as connection:
                execute(connection, _TABLE)
            with pool.connection() as connection:
                shared = _SharedRun(connection, folder)
                shared.take_up()
                yield shared.open
        except Error as error:
            raise UsageError(
                f"the database failed: {type(error).__name__}; what was answered is kept, and the same command goes on"
            ) from error


class _SharedRun:
    """The run, over the connection that holds its lock: with the lock, the right to write is lost."""

    def __init__(self, connection: Connection[Any], folder: Path) -> None:
        self._connection, self._folder, self._run = connection, folder, folder.as_posix()
        if not execute(connection, "SELECT pg_try_advisory_lock(hashtextextended(?, 0))", [f"kbnav {self._run}"])[0][0]:
            raise UsageError(f"{self._run} is being written by another run, as the database says")

    def take_up(self) -> None:
        """Make the folder what it was where the run was left."""
        known, path = list(self._lines(INFO)), self._folder / INFO
        if known and not path.exists():
            self._check(INFO, 0, known[0])
            write_whole(path, known[0].decode())
        self._check_same_run(known)
        for name in (GOLD, QUESTIONS):
            if (self._folder / name).exists() or any(self._lines(name)):
                with open_journal(self._folder / name) as journal:
                    self._level(journal, name)

    @contextmanager
    def open(self, path: Path) -> Iterator[Appending]:
        """As ``open_journal``, for a journal in both places."""
        if path.name == QUESTIONS:  # the run has begun: its questions and gold answers are settled
            known = list(self._lines(INFO))
            self._check_same_run(known)
            with self._connection.transaction(), open_journal(self._folder / GOLD) as gold:
                self._level(gold, GOLD)
                if not known:
                    self.insert(INFO, 0, (self._folder / INFO).read_bytes())
        with open_journal(path) as journal:
            yield _SharedJournal(self, journal, path.name, self._level(journal, path.name))

    def insert(self, name: str, number: int, line: bytes) -> None:
        """Raises ``psycopg.Error``, also where another process, to which the lock went, has written that line."""
        execute(self._connection, "INSERT INTO eval_journal VALUES (?, ?, ?, ?)", [self._run, name, number, line])

    def _level(self, journal: Journal, name: str) -> int:
        """Give each what only the other has; returns how many lines there are."""
        count = 0
        for line, kept in zip_longest(whole_lines(self._folder / name), self._lines(name)):
            if line is None:
                self._check(name, count, kept)
                journal.append_line(kept)
            elif kept is None:
                self.insert(name, count, line)
            elif line != kept:
                raise self._differs(name)
            count += 1
        return count

    def _check_same_run(self, known: list[bytes]) -> None:
        path = self._folder / INFO
        if known and path.exists() and path.read_bytes() != known[0]:
            raise self._differs(INFO)

    def _check(self, name: str, number: int, line: bytes) -> None:
        """Raise DataError where a line of the database is none that a run has written."""
        read_record(line, _KINDS[name], self._where(name, number))
        if name != INFO and line.find(b"\n") != len(line) - 1:
            raise DataError(f"{self._where(name, number)}: it is not one line")

    def _where(self, name: str, number: int) -> str:
        return f"{self._run} in the database: {name}: record {number + 1}"

    def _differs(self, name: str) -> UsageError:
        path = self._folder / name
        return UsageError(f"{path} is not that of the run of this name in the database; choose another folder")

    def _lines(self, name: str) -> Iterator[bytes]:
        """The lines in order, a few at a time. Raises DataError where one is missing, or would fill the memory."""
        count = 0
        while rows := execute(self._connection, _SELECT, [LARGEST, self._run, name, count, _AT_ONCE]):
            for number, size, line in rows:
                if number != count or line is None:
                    what = f"it has {size} bytes" if number == count else "it is missing"
                    raise DataError(f"{self._where(name, count)}: {what}")
                yield bytes(line)
                count += 1


@dataclass
class _SharedJournal:
    """A journal in its file and in the database."""

    run: _SharedRun
    journal: Journal
    name: str
    lines: int

    def append(self, value: Any) -> None:
        """See ``Appending``."""
        line = json_line(value)
        self.run.insert(self.name, self.lines, line)
        self.lines += 1
        self.journal.append_line(line)


class Worker:
    """One process of the cluster, with the knowledge base and the system open for itself."""

    def __init__(self, name: str, settings: Settings, left_out: list[tuple[str, str]]) -> None:
        """``left_out`` are the questions that must not be among the examples in prompts."""
        self._open = ExitStack()
        self._system = build_system(name, self._open.enter_context(open_kb(settings)), settings)
        self._system.leave_out(left_out)

    def ask(self, question: str, given: Mapping[str, str]) -> Attempt | Exception:
        """An answer, or what asking for it raised, which Ray would wrap."""
        try:
            return self._system.ask(question, given)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is waited for
            return error


class _Workers:
    """Workers that share the questions under way; threads share it.

    They are started when the first question is asked. One that is killed is started again, and its questions are asked
    once more, each once.
    """

    def __init__(self, ray: Any, count: int, share: float, at_once: int, name: str, settings: Settings) -> None:
        """``count`` workers, each with a ``share`` of a processor and at ``at_once`` questions at most."""
        kind = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=1)(Worker)
        self._ray, self._count, self._kind = ray, count, kind.options(max_concurrency=at_once)
        # With whole paths: a worker is not started where this process was.
        kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - or a URL
        paths = {"kb": kb, "home": settings.home.resolve()}
        self._name, self._settings = name, settings.model_copy(update=paths)
        self._left_out: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._under_way: dict[Any, int] = {}

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        """Have questions left out of the examples in prompts."""
        self._left_out.extend(questions)

    def ask(self, question: str, given: Mapping[str, str]) -> Attempt:
        """The answer of the worker with least to do. Raises as the system, and RayError where a worker died twice."""
        with self._lock:
            if not self._under_way:
                started = (self._kind.remote(self._name, self._settings, self._left_out) for _ in range(self._count))
                self._under_way = dict.fromkeys(started, 0)
            worker = min(self._under_way, key=lambda one: self._under_way[one])
            self._under_way[worker] += 1
        try:
            answer: Attempt | Exception = self._ray.get(worker.ask.remote(question, given))
        finally:
            with self._lock:
                self._under_way[worker] -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the workers."""
        for worker in self._under_way:
            self._ray.kill(worker)


@contextmanager
def on_ray(jobs: int, workers: int | None = None) -> Iterator[Build]:
    """What builds systems whose questions a cluster answers: that of ``RAY_ADDRESS``, or one on this machine.

    Of ``jobs`` questions at once, each of ``workers`` has an equal share; as many as the cluster has processors unless
    that is given. The journal and the limits of cost and time stay with this process; what the workers ask of live
    services is limited together where the setting ``database`` is set. Raises as ``connected``.
    """
    with ExitStack() as stack:
        ray = stack.enter_context(connected("--on ray"))
        count, share = share_of(ray, workers, jobs)

        def build(name: str, kb: KnowledgeBase, settings: Settings) -> System:
            here = build_system(name, kb, settings)
            there = _Workers(ray, count, share, -(-jobs // count), name, settings)
            stack.callback(there.close)

            def leave_out(questions: Iterable[tuple[str, str]]) -> None:
                named = list(questions)
                here.leave_out(named)
                there.leave_out(named)

            return replace(here, ask=there.ask, leave_out=leave_out)

        yield build
