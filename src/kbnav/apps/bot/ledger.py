"""What the bot has seen, answered and posted, in one SQLite file that survives a kill at any moment."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from kbnav.apps.bot.talk import Question
from kbnav.errors import UsageError
from kbnav.runs.journal import locked, private_file

Status = Literal["seen", "answered", "posted", "shown", "gone", "refused", "old"]
"""``seen``: to be answered; ``answered``: the reply is kept and to be posted; the others are ends.

``shown``: a dry run printed what it would post; ``gone``: the question is no longer on its page; ``refused``: the
page, the wiki or a quota does not allow a reply; ``old``: it was there before the bot first looked.
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY, page TEXT NOT NULL, section TEXT NOT NULL, author TEXT NOT NULL, time TEXT NOT NULL,
    text TEXT NOT NULL, depth INTEGER NOT NULL, earlier TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'seen',
    tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, run TEXT NOT NULL DEFAULT '',
    reply TEXT NOT NULL DEFAULT '', revision INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '',
    seen_at REAL NOT NULL, changed_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_status ON questions (status);
CREATE INDEX IF NOT EXISTS by_time ON questions (seen_at);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Entry:
    """A question and how far it is.

    ``tries`` counts attempts since the last success, ``due`` is when the next may be (seconds since 1970), ``run`` is
    the id of its saved run, ``revision`` that of the posted edit.
    """

    question: Question
    status: Status
    tries: int = 0
    due: float = 0.0
    run: str = ""
    reply: str = ""
    revision: int = 0
    note: str = ""
    changed_at: float = 0.0
    seen_at: float = 0.0


class Ledger:
    """Every change is on the disk when the call returns. One process writes, from any thread; others may read."""

    def __init__(self, path: Path, *, alone: bool = True) -> None:
        """Open or make the file; ``alone``: as the one that writes. Raises UsageError, also where another does."""
        self._lock = threading.Lock()
        self._path = path
        try:
            private_file(path)
            with ExitStack() as opened:
                if alone:
                    lock = private_file(path.with_suffix(".lock"))
                    opened.enter_context(locked(lock, f"another bot is running on {path}"))
                self._db = opened.enter_context(
                    closing(sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10))
                )
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.executescript(_TABLES)
                self._opened = opened.pop_all()
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"cannot open the bot's state {path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._opened.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:  # a full disk: the bot ends, and goes on from what is kept
            raise UsageError(f"{self._path}: the bot's state cannot be kept: {error}") from error

    def add(self, question: Question, now: float, *, status: Status = "seen", note: str = "") -> bool:
        """Remember a question; False where it was known already."""
        row = {**vars(question), "earlier": ",".join(question.earlier)}
        row |= {"status": status, "note": note, "seen_at": now, "changed_at": now}
        places = ", ".join("?" * len(row))
        insert = f"INSERT OR IGNORE INTO questions ({', '.join(row)}) VALUES ({places}) RETURNING id"
        return bool(self._run(insert, (*row.values(),)))

    def update(self, question_id: str, now: float, **changes: str | float) -> None:
        """Change columns of a question: ``status``, ``tries``, ``due``, ``run``, ``reply``, ``revision``, ``note``."""
        columns = ", ".join(f"{name} = ?" for name in changes)
        update = f"UPDATE questions SET {columns}, changed_at = ? WHERE id = ?"  # names are the callers' own
        self._run(update, (*changes.values(), now, question_id))

    def entries(self) -> list[Entry]:
        """All questions, the oldest first."""
        return self._select("ORDER BY seen_at, rowid")

    def due(self, now: float, longest: float = math.inf) -> list[Entry]:
        """The questions due now, oldest first; what is due beyond ``longest`` seconds was put off by a wrong clock."""
        condition = "WHERE status IN ('seen', 'answered') AND (due <= ? OR due > ?) ORDER BY seen_at, rowid"
        return self._select(condition, now, now + longest)

    def entry(self, question_id: str) -> Entry | None:
        """One question by its id."""
        return next(iter(self._select("WHERE id = ?", question_id)), None)

    def asked_since(self, when: float, author: str = "", *, now: float = math.inf) -> int:
        """Questions seen since a time that a model was asked, or is to be; of one user, or of all.

        Those from later than ``now``, which a clock that has jumped back left, do not count.

        What was asked counts whatever became of it: else who takes each question away while the model thinks could ask
        without end.
        """
        [[count]] = self._run(
            "SELECT count(*) FROM questions WHERE seen_at BETWEEN ? AND ? AND (? = '' OR author = ?) "
            "AND (status NOT IN ('refused', 'gone', 'old') OR reply <> '' OR tries > 0)",
            (when, now, author, author),
        )
        return int(count)

    def _select(self, condition: str, *values: str | float) -> list[Entry]:
        of_question, of_entry = ([one.name for one in fields(kind)] for kind in (Question, Entry))
        columns = ", ".join([*of_question, *of_entry[1:]])
        found = []
        for row in self._run(f"SELECT {columns} FROM questions {condition}", values):  # conditions are our own
            question = dict(zip(of_question, row, strict=False))
            question["earlier"] = tuple(filter(None, question["earlier"].split(",")))
            found.append(Entry(Question(**question), *row[len(of_question) :]))
        return found

    def mark(self, name: str) -> str:
        """Where reading of a stream of events stopped, or what was learnt of the wiki; empty at first."""
        rows = self._run("SELECT value FROM marks WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else ""

    def set_mark(self, name: str, value: str) -> None:
        """Remember where reading stopped, or what was learnt."""
        self._run("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))
