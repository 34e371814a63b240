"""What the server remembers beside the chats' checkpoints: sessions, runs and their events; and where the rest is."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal

from kbnav.apps.web import edits, keeping, logouts, opinions, saved
from kbnav.apps.web.database import Database, kept_json
from kbnav.apps.web.edits import Edits
from kbnav.apps.web.keeping import Results, forget_rows
from kbnav.apps.web.logouts import Logouts
from kbnav.apps.web.opinions import Opinions
from kbnav.apps.web.saved import Saved, SavedRows
from kbnav.errors import DataError
from kbnav.runs.database import Rows, Run

Status = Literal["queued", "running", "done", "failed", "stopped"]
Refusal = Literal["too many at once", "too many a day", "session busy", "session gone"]
DAY = 24 * 3600.0
_UNDER_WAY = "status IN ('queued', 'running')"
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS web_sessions (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, kb TEXT NOT NULL, system TEXT NOT NULL, model TEXT NOT NULL,
        title TEXT NOT NULL, made DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS web_sessions_owner ON web_sessions (owner, made)",
    """CREATE TABLE IF NOT EXISTS web_runs (
        id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, kb TEXT NOT NULL, system TEXT NOT NULL,
        model TEXT NOT NULL, question TEXT NOT NULL, status TEXT NOT NULL, worker TEXT NOT NULL,
        beat DOUBLE PRECISION NOT NULL, stopping INTEGER NOT NULL, share TEXT, made DOUBLE PRECISION NOT NULL,
        answer TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS web_runs_session ON web_runs (session, made)",
    "CREATE INDEX IF NOT EXISTS web_runs_owner ON web_runs (owner, made)",
    "CREATE UNIQUE INDEX IF NOT EXISTS web_runs_share ON web_runs (share)",
    # One session answers one question at a time, whichever worker is asked.
    f"CREATE UNIQUE INDEX IF NOT EXISTS web_runs_one ON web_runs (session) WHERE session <> '' AND {_UNDER_WAY}",
    """CREATE TABLE IF NOT EXISTS web_events (
        run TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, number))""",
    # Apart from the runs, because a deleted session has been asked all the same.
    "CREATE TABLE IF NOT EXISTS web_asked (owner TEXT NOT NULL, made DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS web_alive (worker TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS web_asked_owner ON web_asked (owner, made)",
    *keeping.SCHEMA,
    *opinions.SCHEMA,
    *edits.SCHEMA,
    *logouts.SCHEMA,
    *saved.SCHEMA,
)


@dataclass(frozen=True)
class Session:
    """A chat of one owner with one system on one knowledge base; ``title`` is its first question."""

    id: str
    owner: str
    kb: str
    system: str
    model: str
    title: str
    made: float


@dataclass(frozen=True)
class StoredRun:
    """A question and how far it is; ``session`` is empty for one that was asked without a chat.

    ``worker`` answers it, and was last seen at ``beat``. ``answer`` is what the page shows, once there is one.
    """

    id: str
    session: str
    owner: str
    kb: str
    system: str
    model: str
    question: str
    status: Status
    worker: str
    beat: float
    stopping: bool
    share: str | None
    made: float
    answer: Mapping[str, Any] | None

    @property
    def under_way(self) -> bool:
        """Whether it waits or is answered now."""
        return self.status in ("queued", "running")


@dataclass(frozen=True)
class StoredEvent:
    """Something that happened in a run; numbers count from 1."""

    number: int
    data: Mapping[str, Any]


def unguessable(prefix: str) -> str:
    """An id with 144 random bits."""
    return f"{prefix}-{secrets.token_urlsafe(18)}"


class Store:
    """Every statement on the database; those on results, opinions, logouts and saved runs by subject."""

    def __init__(self, database: Database, records: Saved | None = None) -> None:
        """``records`` keeps runs whole; by default the database does."""
        self._run, self._in_turn, self._together = database.run, database.in_turn, database.together
        self.results, self.opinions, self.logouts = Results(database), Opinions(database), Logouts(database)
        self.edits, self.saved = Edits(database), records or SavedRows(database)

    def set_up(self) -> None:
        """Make the tables that are missing."""
        for statement in _SCHEMA:
            self._run(statement)

    def add_session(self, owner: str, kb: str, system: str, model: str) -> Session:
        """A new session without questions."""
        session = Session(unguessable("chat"), owner, kb, system, model, "", time.time())
        self._run(
            "INSERT INTO web_sessions (id, owner, kb, system, model, title, made) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (session.id, owner, kb, system, model, "", session.made),
        )
        self._run(
            f"DELETE FROM web_sessions WHERE owner = ? AND {_EMPTY} AND id NOT IN "
            f"(SELECT id FROM web_sessions WHERE owner = ? AND {_EMPTY} ORDER BY made DESC LIMIT ?)",
            (owner, owner, EMPTY_SESSIONS),
        )
        return session

    def session(self, session_id: str) -> Session | None:
        """A session by its id."""
        rows = self._run(
            "SELECT id, owner, kb, system, model, title, made FROM web_sessions WHERE id = ?", (session_id,)
        )
        return Session(*rows[0]) if rows else None

    def sessions(self, owner: str, limit: int = 100) -> list[Session]:
        """The latest sessions of an owner in which something was asked, newest first."""
        rows = self._run(
            "SELECT id, owner, kb, system, model, title, made FROM web_sessions "
            "WHERE owner = ? AND title <> '' ORDER BY made DESC LIMIT ?",
            (owner, limit),
        )
        return [Session(*row) for row in rows]

    def rename(self, session_id: str, title: str) -> None:
        """Call a session something else."""
        self._run("UPDATE web_sessions SET title = ? WHERE id = ?", (title, session_id))

    def delete_session(self, session: Session) -> None:
        """Forget a session with all that belongs to it.

        The lock keeps its owner from asking meanwhile. Runs go first: one that ends at this moment has left its last
        event before, or finds itself gone.
        """
        with self._together(f"owner {session.owner}") as run:
            runs = run("DELETE FROM web_runs WHERE session = ? RETURNING id, answer", (session.id,))
            for run_id, _ in runs:
                for table in ("web_events", "web_opinions", "web_edits"):
                    run(f"DELETE FROM {table} WHERE run = ?", (run_id,))
            for result in run("DELETE FROM web_results WHERE session = ? RETURNING id", (session.id,)):
                forget_rows(run, result[0])
            run("DELETE FROM web_sessions WHERE id = ?", (session.id,))
            self._forget_saved(run, runs)

    def add_run(self, new: StoredRun, *, at_once: int, a_day: int) -> Refusal | None:
        """Keep a new run; why not, where its owner has reached a limit, or its session is gone or at another question.

        ``at_once`` questions of an owner may be under way, and ``a_day`` be asked in 24 hours. However many are asked
        at the same moment, and of however many servers, no more are kept.
        """
        owner = (new.owner,)
        with self._together(f"owner {new.owner}") as run:
            if run(f"SELECT COUNT(*) FROM web_runs WHERE owner = ? AND {_UNDER_WAY}", owner)[0][0] >= at_once:
                return "too many at once"
            if _asked_today(run, new.owner) >= a_day:
                return "too many a day"
            if new.session and not run("SELECT id FROM web_sessions WHERE id = ?", (new.session,)):
                return "session gone"
            new = replace(new, made=_after_the_last(run, new))
            added = run(
                f"INSERT INTO web_runs ({_COLUMNS}) VALUES ({', '.join('?' * 14)}) ON CONFLICT DO NOTHING RETURNING id",
                (new.id, new.session, new.owner, new.kb, new.system, new.model, new.question, new.status, new.worker,
                 new.beat, int(new.stopping), new.share, new.made, json.dumps(new.answer)),
            )  # fmt: skip
            if not added:
                return "session busy"
            run("UPDATE web_sessions SET title = ? WHERE id = ? AND title = ''", (new.question[:200], new.session))
            run(_COUNT, (new.owner, new.made))
        return None

    def asked_today(self, owner: str) -> int:
        """How many questions an owner has asked in 24 hours."""
        return _asked_today(self._run, owner)

    def count_question(self, owner: str, *, a_day: int) -> bool:
        """Count what is like a question and no run; False where its owner has asked ``a_day`` in 24 hours."""
        with self._together(f"owner {owner}") as run:
            free = _asked_today(run, owner) < a_day
            if free:
                run(_COUNT, (owner, time.time()))
        return free

    def run(self, run_id: str) -> StoredRun | None:
        """A run by its id."""
        return next(self._runs("id = ?", run_id), None)

    def under_way(self, run_id: str) -> bool:
        """Whether there is such a run, and it has not ended."""
        return bool(self._run(f"SELECT id FROM web_runs WHERE id = ? AND {_UNDER_WAY}", (run_id,)))

    def shared(self, share: str) -> StoredRun | None:
        """The run that a link shares."""
        return next(self._runs("share = ?", share), None)

    def runs(self, session_id: str) -> list[StoredRun]:
        """The questions of a session, oldest first."""
        return list(self._runs("session = ? ORDER BY made", session_id))

    def _runs(self, where: str, *values: object) -> Iterator[StoredRun]:
        for row in self._run(f"SELECT {_COLUMNS} FROM web_runs WHERE {where}", values):
            names = dict(zip(_COLUMNS.split(", "), row, strict=True))
            yield StoredRun(**{**names, "stopping": bool(names["stopping"]), "answer": _answer(names["answer"])})

    def begin(self, run_id: str, worker: str) -> bool:
        """Mark a run as being answered by its worker; False where it is another's now, or is gone."""
        return bool(
            self._run(
                f"UPDATE web_runs SET status = 'running', beat = ? WHERE id = ? AND worker = ? AND {_UNDER_WAY} "
                "RETURNING id",
                (time.time(), run_id, worker),
            )
        )

    def end(self, run_id: str, worker: str, status: Status, answer: Mapping[str, Any]) -> StoredEvent | None:
        """Keep how a run ended; its last event, None where it has ended, is another worker's now, or is gone."""
        return self._end(run_id, status, answer, "worker = ?", worker)

    def end_queued(self, run_id: str, answer: Mapping[str, Any]) -> bool:
        """Stop a run that has not begun; False where it has."""
        return self._end(run_id, "stopped", answer, "status = ?", "queued") is not None

    def _end(
        self, run_id: str, status: Status, answer: Mapping[str, Any], where: str, value: str
    ) -> StoredEvent | None:
        """Both at once: whoever hears of the end finds the run ended, and can ask the next question."""
        with self._together(run_id) as run:
            ended = run(
                f"UPDATE web_runs SET status = ?, answer = ? WHERE id = ? AND {_UNDER_WAY} AND {where} RETURNING id",
                (status, json.dumps(answer), run_id, value),
            )
            text = json.dumps({"kind": "end", "status": status, "answer": answer})
            return StoredEvent(run(_ADD_EVENT, (run_id, text, run_id))[0][0], json.loads(text)) if ended else None

    def forget_run(self, run_id: str, saved_id: str) -> None:
        """Forget what a run has left behind, whose session was deleted meanwhile; it may be saved under an id."""
        for table, column in (
            ("web_events", "run"),
            ("web_opinions", "run"),
            ("web_edits", "run"),
            ("web_results", "id"),
        ):
            self._run(f"DELETE FROM {table} WHERE {column} = ?", (run_id,))
        forget_rows(self._run, run_id)
        self.saved.forget(self._run, run_id, saved_id)

    def ask_to_stop(self, run_id: str) -> None:
        """Tell the worker of a run, wherever it is, to stop it."""
        self._run(f"UPDATE web_runs SET stopping = 1 WHERE id = ? AND {_UNDER_WAY}", (run_id,))

    def beat(self, worker: str) -> dict[str, bool]:
        """Say that a worker lives; its runs, and which of them it is to stop."""
        rows = self._run(
            f"UPDATE web_runs SET beat = ? WHERE worker = ? AND {_UNDER_WAY} RETURNING id, stopping",
            (time.time(), worker),
        )
        return {run_id: bool(stopping) for run_id, stopping in rows}

    def alive(self, worker: str) -> None:
        """Write something, so that a database that takes nothing more is known."""
        self._run(
            "INSERT INTO web_alive (worker, seen) VALUES (?, ?) "
            "ON CONFLICT (worker) DO UPDATE SET seen = excluded.seen",
            (worker, time.time()),
        )
        self._run("DELETE FROM web_alive WHERE seen < ?", (time.time() - DAY,))

    def workers(self) -> dict[str, float]:
        """Workers with runs under way, and when each was last seen."""
        return dict(self._run(f"SELECT worker, MAX(beat) FROM web_runs WHERE {_UNDER_WAY} GROUP BY worker"))

    def take_over(self, dead: str, seen: float, worker: str) -> list[StoredRun]:
        """Make a dead worker's runs another's, unless it was seen since; of several takers each run gets one."""
        taken = self._run(
            f"UPDATE web_runs SET worker = ?, beat = ? WHERE worker = ? AND beat <= ? AND {_UNDER_WAY} RETURNING id",
            (worker, time.time(), dead, seen),
        )
        return [run for (run_id,) in taken for run in self._runs("id = ?", run_id)]

    def share(self, run_id: str, share: str | None) -> None:
        """Share a run by a link, or no longer."""
        self._run("UPDATE web_runs SET share = ? WHERE id = ?", (share, run_id))

    def add_event(self, run_id: str, worker: str, data: Mapping[str, Any]) -> StoredEvent | None:
        """Keep an event behind the others of its run; None where that is another worker's now, or is gone."""
        text = json.dumps(data)
        rows = self._in_turn(run_id, _ADD_OWN_EVENT, (run_id, text, run_id, run_id, worker))
        return StoredEvent(int(rows[0][0]), json.loads(text)) if rows else None

    def events(self, run_id: str, after: int = 0) -> list[StoredEvent]:
        """The events of a run behind a number, in their order."""
        rows = self._run(
            "SELECT number, data FROM web_events WHERE run = ? AND number > ? ORDER BY number", (run_id, after)
        )
        return [StoredEvent(number, _event(data)) for number, data in rows]

    def delete_old(self, age: float) -> None:
        """Forget, after ``age`` seconds, that something was asked, and questions without a session and their results.

        Those that are shared, or that somebody has an opinion of, are kept.
        """
        before = (time.time() - age,)
        kept = "SELECT id FROM web_runs WHERE share IS NOT NULL UNION SELECT run FROM web_opinions"
        old = f"session = '' AND made < ? AND id NOT IN ({kept})"
        with self._together("what is old") as run:
            for result in run(f"DELETE FROM web_results WHERE {old} RETURNING id", before):
                forget_rows(run, result[0])
            run(f"DELETE FROM web_sessions WHERE {_EMPTY} AND made < ?", before)
            runs = run(f"DELETE FROM web_runs WHERE {old} AND NOT ({_UNDER_WAY}) RETURNING id, answer", before)
            for run_id, _ in runs:
                for table in ("web_events", "web_edits"):
                    run(f"DELETE FROM {table} WHERE run = ?", (run_id,))
            run("DELETE FROM web_asked WHERE made < ?", before)
            self._forget_saved(run, runs)

    def _forget_saved(self, run: Run, runs: Rows) -> None:
        """Forget whole runs, of rows of id and answer; one that never began was not saved."""
        for run_id, answer in runs:
            self.saved.forget(run, run_id, _saved_id(answer))


EMPTY_SESSIONS = 20
"""Sessions of one owner in which nothing was asked; of more, the oldest go."""
_EMPTY = "title = '' AND NOT EXISTS (SELECT 1 FROM web_runs WHERE web_runs.session = web_sessions.id)"


_NEXT_EVENT = (
    "INSERT INTO web_events (run, number, data) SELECT ?, COALESCE(MAX(number), 0) + 1, ? FROM web_events WHERE run = ?"
)
_ADD_EVENT = f"{_NEXT_EVENT} RETURNING number"
_ADD_OWN_EVENT = f"{_NEXT_EVENT} HAVING EXISTS (SELECT 1 FROM web_runs WHERE id = ? AND worker = ?) RETURNING number"
_COUNT = "INSERT INTO web_asked (owner, made) VALUES (?, ?)"
_COLUMNS = "id, session, owner, kb, system, model, question, status, worker, beat, stopping, share, made, answer"


_PARTS: Mapping[str, type] = dict.fromkeys(("run", "text", "note", "query", "status"), str) | {"result": dict}
"""Parts of an answer that the server itself reads."""


def _answer(text: str) -> dict[str, Any] | None:
    """What was told at the end; None before. Raises DataError where it is not what was kept."""
    answer: dict[str, Any] | None = kept_json(text, dict, NoneType)
    if answer and not all(isinstance(answer.get(name) or kind(), kind) for name, kind in _PARTS.items()):
        raise DataError("what the server's database has kept of an answer was damaged")
    return answer


def _event(text: str) -> dict[str, Any]:
    """What happened; the last event has the answer. Raises DataError where it is not what was kept."""
    event: dict[str, Any] = kept_json(text)
    if event.get("kind") == "end" and not isinstance(event.get("answer"), dict):
        raise DataError("what the server's database has kept of this was damaged: an end without an answer")
    return event


def _saved_id(text: str) -> str:
    """Under which id a run is saved, by what was told at its end; empty where that does not say."""
    try:
        saved = (_answer(text) or {}).get("run")
    except DataError:
        return ""
    return saved if isinstance(saved, str) else ""


def _asked_today(run: Run, owner: str) -> int:
    """What was asked before the clock was put back by more than a day is not counted until it is that late again."""
    day = time.time() - DAY, time.time() + DAY
    rows = run("SELECT COUNT(*) FROM web_asked WHERE owner = ? AND made > ? AND made < ?", (owner, *day))
    return int(rows[0][0])


def _after_the_last(run: Run, new: StoredRun) -> float:
    """When a question was asked, but after its session's others, which are told in that order, whatever the clock."""
    rows = run("SELECT MAX(made) FROM web_runs WHERE session = ?", (new.session,)) if new.session else []
    last = rows[0][0] if rows else None
    return new.made if last is None or new.made > last else last + 0.001
