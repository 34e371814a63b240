"""What the bot has seen, answered and posted, in one SQLite file that survives a kill at any moment."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kbnav.apps.bot.talk import Question
from kbnav.errors import UsageError

Status = Literal["seen", "answered", "posted", "gone", "refused", "failed"]
"""``seen``: to be answered; ``answered``: the reply is kept and to be posted; the others are ends.

``gone``: the question is no longer on its page; ``refused``: the page, the wiki or a quota does not allow a reply;
``failed``: it could not be answered, however often it was tried.
"""
OPEN: tuple[Status, ...] = ("seen", "answered")
_TABLES = """
CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY, page TEXT NOT NULL, section TEXT NOT NULL, author TEXT NOT NULL, time TEXT NOT NULL,
    text TEXT NOT NULL, depth INTEGER NOT NULL, earlier TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'seen',
    tries INTEGER NOT NULL DEFAULT 0, run TEXT NOT NULL DEFAULT '', reply TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', seen_at REAL NOT NULL, changed_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_status ON questions (status);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Entry:
    """A question and how far it is. ``run`` is the id of its saved run, ``revision`` that of the posted edit."""

    question: Question
    status: Status
    tries: int = 0
    run: str = ""
    reply: str = ""
    revision: int = 0
    note: str = ""
    changed_at: float = 0.0


class Ledger:
    """Every change is on the disk when the call returns. Used by one process at a time, from any thread."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. Raises UsageError where it cannot be, or where another bot has it open."""
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=2)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            hint = "; is another bot running?" if "locked" in str(error) else ""
            raise UsageError(f"cannot open the bot's state {path}: {error}{hint}") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, question: Question, now: float) -> bool:
        """Remember a question; False where it was known already."""
        row = (question.id, question.page, question.section, question.author, question.time, question.text)
        with self._writing() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO questions (id, page, section, author, time, text, depth, earlier, seen_at, "
                "changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, question.depth, ",".join(question.earlier), now, now),
            )
        return done.rowcount == 1

    def update(self, question_id: str, now: float, **changes: str | int) -> None:
        """Change columns of a question: ``status``, ``tries``, ``run``, ``reply``, ``revision``, ``note``."""
        columns = ", ".join(f"{name} = ?" for name in changes)
        with self._writing() as db:
            db.execute(
                f"UPDATE questions SET {columns}, changed_at = ? WHERE id = ?",  # names are this module's own
                (*changes.values(), now, question_id),
            )

    def entries(self, statuses: Sequence[Status] = ()) -> list[Entry]:
        """Questions, the oldest first; all, or those of some statuses."""
        chosen = f"WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
        query = (
            "SELECT id, page, section, author, time, text, depth, earlier, status, tries, run, reply, revision, note, "
            f"changed_at FROM questions {chosen} ORDER BY seen_at, rowid"
        )
        with self._lock:
            return [_entry(row) for row in self._db.execute(query, tuple(statuses))]

    def entry(self, question_id: str) -> Entry | None:
        """One question by its id or the start of it."""
        found = [entry for entry in self.entries() if entry.question.id.startswith(question_id)]
        return found[0] if len(found) == 1 else None

    def asked_since(self, when: float, author: str = "") -> int:
        """Questions that were answered, or are to be, since a time; of one user, or of all."""
        with self._lock:
            row = self._db.execute(
                "SELECT count(*) FROM questions WHERE seen_at >= ? AND status NOT IN ('refused', 'gone') "
                "AND (? = '' OR author = ?)",
                (when, author, author),
            ).fetchone()
        return int(row[0])

    def mark(self, name: str) -> str:
        """Where reading of a stream of events stopped; empty at first."""
        with self._lock:
            row = self._db.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def set_mark(self, name: str, value: str) -> None:
        """Remember where reading stopped."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._db


def _entry(row: Sequence[str]) -> Entry:
    number, page, section, author, time, text, depth, earlier, status, tries, run, reply, revision, note, changed = row
    question = Question(
        number, page, section, author, time, text, int(depth), tuple(name for name in earlier.split(",") if name)
    )
    return Entry(question, status, int(tries), run, reply, int(revision), note, float(changed))  # type: ignore[arg-type]
