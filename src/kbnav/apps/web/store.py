"""What the server remembers beside the chats' checkpoints, in SQLite or PostgreSQL: sessions, runs, events, results."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from kbnav.answers.language import plural
from kbnav.apps.web.results import PART, Result, sorted_rows, stored_result
from kbnav.errors import Busy, DatabaseAway, DataError, LimitReached, NotOffered, UsageError
from kbnav.runs.database import Execute, Rows, execute
from kbnav.runs.journal import LARGEST, private_file, unpacked
from kbnav.runs.trajectory import Run, load_run, parse_run, save_run, to_json

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

Status = Literal["queued", "running", "done", "failed", "stopped"]
DAY = 24 * 3600.0
EMPTY_SESSIONS = 20
"""Sessions of one owner in which nothing was asked; of more, the oldest go."""
RESULT_BYTES = 200_000_000
"""What the results of one owner may take; beyond, the rows of the oldest are forgotten."""
AWAY = "The database of sessions is away, full or read-only; try again in a while."
LOGIN = 31 * 24 * 3600.0
"""Seconds after which no browser keeps a login any more."""
LOGOUT_SECONDS = 10.0
"""Seconds until a logout at one worker counts at the others."""
_LOCKS = 0x6B626E
"""The class of the advisory locks of ``transaction``, apart from that of the tables."""
_UNDER_WAY = "status IN ('queued', 'running')"
_EMPTY = "title = '' AND NOT EXISTS (SELECT 1 FROM web_runs WHERE web_runs.session = web_sessions.id)"


def has_failed(error: BaseException | None) -> bool:
    """Whether an error is that of a database that is away, full or read-only; the library of one may not be there."""
    if isinstance(error, sqlite3.OperationalError):
        return True
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("psycopg")}
    return not names.isdisjoint({"OperationalError", "InterfaceError", "InternalError"})


@contextmanager
def _failing() -> Iterator[None]:
    """Raise DatabaseAway for what a database raises that has failed."""
    try:
        yield
    except Exception as error:
        if not has_failed(error):
            raise
        raise DatabaseAway(AWAY) from error


class SqliteDatabase:
    """A file of one server, which has one writer: so one lock is enough."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """The rows of a statement, with ``?`` for its values, or those of its RETURNING; from any thread."""
        with _failing(), self._lock:
            return self._execute(statement, values)

    @contextmanager
    def transaction(self, lock: str) -> Iterator[Execute]:  # noqa: ARG002
        """Several statements, all of them or none, and one after another with all others of the same ``lock``."""
        with _failing(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # commits, or rolls back where something is raised
                yield self._execute

    def close(self) -> None:
        """Close the file once no thread is at a statement; closed in the middle of one, SQLite ends the process."""
        with self._lock:
            self._connection.close()

    def _execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        return self._connection.execute(statement, values).fetchall()


class PostgresDatabase:
    """A database that several servers share."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """As of ``SqliteDatabase``."""
        with _failing(), self._pool.connection() as connection:
            return execute(connection, statement, values)

    @contextmanager
    def transaction(self, lock: str) -> Iterator[Execute]:
        """As of ``SqliteDatabase``; a statement sees what was committed before it, so the lock has one of its own."""
        with _failing(), self._pool.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCKS, lock))
            yield partial(execute, connection)


Database = SqliteDatabase | PostgresDatabase


@contextmanager
def open_sqlite(path: Path) -> Iterator[SqliteDatabase]:
    """A database file, made where there is none. Raises UsageError."""
    try:
        private_file(path).chmod(0o600)  # an older one may be open to others
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"cannot open {path}: {error}") from error
    with closing(SqliteDatabase(connection)) as database:
        yield database


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
    """A question and how far it is; ``worker`` took it on at ``beat``, ``answer`` is what the page shows."""

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


Event = Mapping[str, Any]
"""Something that happened in a run, as the page reads it."""


@dataclass(frozen=True)
class StoredEvent:
    """An event that is kept; numbers count from 1."""

    number: int
    data: Event


@dataclass(frozen=True)
class StoredResult:
    """Whose a table or ranking is; ``document`` is that of ``Result.to_document``."""

    id: str
    owner: str
    kb: str
    language: str
    session: str
    document: Mapping[str, Any]


_RUN = ", ".join(field.name for field in fields(StoredRun))
_SESSION = ", ".join(field.name for field in fields(Session))
_FILL = "SELECT count(t) FROM (SELECT repeat(n::text, 1000) AS t FROM generate_series(100, 399) AS n ORDER BY n) AS f"
"""Writes some 900 kB, where a file may grow."""
_COUNT_QUESTION = "INSERT INTO web_asked (owner, made) VALUES (?, ?)"


def unguessable(prefix: str) -> str:
    """An id with 144 random bits."""
    return f"{prefix}-{secrets.token_urlsafe(18)}"


class Store:
    """Every statement on the database; those on results and logouts by subject. Threads may share it."""

    def __init__(self, database: Database, folder: Path | None = None) -> None:
        """Whole runs are saved as files in ``folder``, which ``kbnav show`` reads too; without one, in the database."""
        self._run, self._transaction, self._folder = database.run, database.transaction, folder
        self.results, self.logouts = Results(database), Logouts(database)

    def set_up(self) -> None:
        """Make the tables that are missing."""
        for statement in Path(__file__).with_name("store.sql").read_text(encoding="utf-8").strip(";\n").split(";\n"):
            self._run(statement)

    # Sessions

    def add_session(self, owner: str, kb: str, system: str, model: str) -> Session:
        """A new session without questions."""
        session = Session(unguessable("chat"), owner, kb, system, model, "", time.time())
        self._run(f"INSERT INTO web_sessions ({_SESSION}) VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(vars(session).values()))
        self._run(
            f"DELETE FROM web_sessions WHERE owner = ? AND {_EMPTY} AND id NOT IN "
            f"(SELECT id FROM web_sessions WHERE owner = ? AND {_EMPTY} ORDER BY made DESC LIMIT ?)",
            (owner, owner, EMPTY_SESSIONS),
        )
        return session

    def session(self, session_id: str) -> Session | None:
        """A session by its id."""
        rows = self._run(f"SELECT {_SESSION} FROM web_sessions WHERE id = ?", (session_id,))
        return Session(*rows[0]) if rows else None

    def sessions(self, owner: str, limit: int = 100) -> list[Session]:
        """The latest sessions of an owner in which something was asked, newest first."""
        where = "owner = ? AND title <> '' ORDER BY made DESC LIMIT ?"
        rows = self._run(f"SELECT {_SESSION} FROM web_sessions WHERE {where}", (owner, limit))
        return [Session(*row) for row in rows]

    def sessions_with(self, owner: str, text: str) -> set[str]:
        """The ids of an owner's sessions with a text in a question or answer; upper and lower case alike."""
        wanted = text.casefold()
        runs = self._runs("owner = ?", owner)
        said = ((run.session, run.question, (run.answer or {}).get("text") or "") for run in runs)
        return {session for session, *words in said if wanted in "\n".join(words).casefold()}

    def rename(self, session_id: str, title: str) -> None:
        """Call a session something else."""
        self._run("UPDATE web_sessions SET title = ? WHERE id = ?", (title, session_id))

    def delete_session(self, session: Session) -> None:
        """Delete a session with all that belongs to it.

        The lock keeps its owner from asking meanwhile. Runs go first: one that ends at this moment has left its last
        event before, or finds itself gone.
        """
        with self._transaction(f"owner {session.owner}") as run:
            runs = run("DELETE FROM web_runs WHERE session = ? RETURNING id, answer", (session.id,))
            _delete_results(run, "session = ?", session.id)
            run("DELETE FROM web_sessions WHERE id = ?", (session.id,))
            self._delete_traces(run, runs)

    # Runs

    def add_run(self, new: StoredRun, *, at_once: int, a_day: int, title: str = "") -> bool:
        """Keep a new run; whether it is its session's first. ``title`` is the session's, where that has none.

        ``at_once`` questions of an owner may be under way, and ``a_day`` be asked in 24 hours. However many are asked
        at the same moment, and of however many servers, no more are kept. Raises LimitReached, NotOffered where its
        session is gone, Busy where that is at another question.
        """
        with self._transaction(f"owner {new.owner}") as run:
            if run(f"SELECT COUNT(*) FROM web_runs WHERE owner = ? AND {_UNDER_WAY}", (new.owner,))[0][0] >= at_once:
                raise LimitReached(f"you have {plural(at_once, 'question')} under way; wait for one to end")
            _check_day(run, new.owner, a_day)
            if new.session and not run("SELECT id FROM web_sessions WHERE id = ?", (new.session,)):
                raise NotOffered("you have no such session")
            # After its session's others, which are listed in that order, whatever the clock says.
            rows = run("SELECT MAX(made) FROM web_runs WHERE session = ?", (new.session,)) if new.session else [(None,)]
            made = new.made if rows[0][0] is None else max(new.made, rows[0][0] + 0.001)
            row = {**vars(new), "made": made, "stopping": int(new.stopping), "answer": json.dumps(new.answer)}
            statement = f"INSERT INTO web_runs ({_RUN}) VALUES ({_places(row)}) ON CONFLICT DO NOTHING RETURNING id"
            if not run(statement, tuple(row.values())):
                raise Busy("this session is still at another question")
            named = (title or new.question)[:200]
            run("UPDATE web_sessions SET title = ? WHERE id = ? AND title = ''", (named, new.session))
            run(_COUNT_QUESTION, (new.owner, made))
            return rows[0][0] is None

    def may_ask(self, owner: str, a_day: int) -> None:
        """Raise LimitReached where an owner has asked all that they may in 24 hours."""
        _check_day(self._run, owner, a_day)

    def count_question(self, owner: str, a_day: int) -> None:
        """Count what costs as much as a question. Raises LimitReached."""
        with self._transaction(f"owner {owner}") as run:
            _check_day(run, owner, a_day)
            run(_COUNT_QUESTION, (owner, time.time()))

    def run(self, run_id: str) -> StoredRun | None:
        """A run by its id."""
        return next(iter(self._runs("id = ?", run_id)), None)

    def shared(self, share: str) -> StoredRun | None:
        """The run that a link shares."""
        return next(iter(self._runs("share = ?", share)), None)

    def runs(self, session_id: str) -> list[StoredRun]:
        """The questions of a session, oldest first."""
        return self._runs("session = ? ORDER BY made", session_id)

    def asked_before(self, owners: tuple[str, str], question: str) -> Run | None:
        """The last run in which one of two owners asked this outside a session."""
        where = "owner IN (?, ?) AND question = ? AND session = '' ORDER BY made DESC LIMIT 1"
        run = next(iter(self._runs(where, *owners, question)), None)
        return self.saved(run.answer.get("run") or "") if run and run.answer else None

    def _runs(self, where: str, *values: object) -> list[StoredRun]:
        return _stored(self._run(f"SELECT {_RUN} FROM web_runs WHERE {where}", values))

    def begin(self, run_id: str, worker: str, event: Event) -> list[StoredEvent]:
        """Mark a run as being answered by its worker, by an event; none where it is another's now, or is gone."""
        where = f"id = ? AND worker = ? AND {_UNDER_WAY} RETURNING id"
        with self._transaction(run_id) as run:
            begun = run(f"UPDATE web_runs SET status = 'running' WHERE {where}", (run_id, worker))
            return _add_events(run, run_id, [event]) if begun else []

    def end(
        self, run_id: str, worker: str, status: Status, answer: Mapping[str, Any], events: Sequence[Event] = ()
    ) -> list[StoredEvent]:
        """Keep a run's last events and how it ended; none where it has ended, is another worker's now, or is gone.

        Without a worker, one that has begun is not ended. All at once: whoever sees the last event finds the run
        ended, and can ask the next question.
        """
        where = "worker = ?" if worker else "status = ?"
        with self._transaction(run_id) as run:
            ended = run(
                f"UPDATE web_runs SET status = ?, answer = ? WHERE id = ? AND {_UNDER_WAY} AND {where} RETURNING id",
                (status, json.dumps(answer), run_id, worker or "queued"),
            )
            if not ended:
                return []
            return _add_events(run, run_id, [*events, {"kind": "end", "status": status, "answer": answer}])

    def ask_to_stop(self, run_id: str) -> None:
        """Tell the worker of a run, wherever it is, to stop it."""
        self._run(f"UPDATE web_runs SET stopping = 1 WHERE id = ? AND {_UNDER_WAY}", (run_id,))

    def share(self, run_id: str, share: str | None) -> None:
        """Share a run by a link, or no longer."""
        self._run("UPDATE web_runs SET share = ? WHERE id = ?", (share, run_id))

    def add_events(self, run_id: str, worker: str, events: Sequence[Event]) -> list[StoredEvent]:
        """Keep events behind the others of their run; none where that is another worker's now, or is gone.

        Workers add a run's events one after another, so that those of one call are all kept, or none.
        """
        with self._transaction(run_id) as run:
            return _add_events(run, run_id, events, worker)

    def events(self, run_id: str, after: int = 0) -> list[StoredEvent]:
        """The events of a run behind a number, in their order. Raises DataError where they are damaged."""
        where = "run = ? AND number > ? ORDER BY number"
        rows = self._run(f"SELECT number, data FROM web_events WHERE {where}", (run_id, after))
        return [StoredEvent(number, _event(data)) for number, data in rows]

    def last_events(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The number of the last event of each run that is under way, of those that are named; 0 where it has none."""
        number = "COALESCE((SELECT MAX(number) FROM web_events WHERE run = id), 0)"
        named = f"id IN ({_places(run_ids)})"
        return dict(self._run(f"SELECT id, {number} FROM web_runs WHERE {named} AND {_UNDER_WAY}", run_ids))

    def places(self) -> dict[str, int]:
        """How many of its worker's that wait were asked before each run that waits."""
        place = "ROW_NUMBER() OVER (PARTITION BY worker ORDER BY made) - 1"
        return dict(self._run(f"SELECT id, {place} FROM web_runs WHERE {_UNDER_WAY} AND status = 'queued'"))

    # Workers

    def still_of(self, worker: str, run_ids: Sequence[str]) -> dict[str, bool]:
        """Those of some runs that are under way and a worker's, and whether it is to stop them."""
        rows = self._run(
            f"SELECT id, stopping FROM web_runs WHERE id IN ({_places(run_ids)}) AND worker = ? AND {_UNDER_WAY}",
            (*run_ids, worker),
        )
        return {run_id: bool(stopping) for run_id, stopping in rows}

    def alive(self, worker: str) -> None:
        """Say that a worker lives; in PostgreSQL write what needs new room too, so that one without room is known."""
        self._run(
            "INSERT INTO web_alive (worker, seen) VALUES (?, ?) "
            "ON CONFLICT (worker) DO UPDATE SET seen = excluded.seen",
            (worker, time.time()),
        )
        self._run("DELETE FROM web_alive WHERE seen < ?", (time.time() - DAY,))
        if self._folder is None:
            with self._transaction(worker) as run:
                run("SET LOCAL work_mem = '64kB'")
                run(_FILL)

    def workers(self) -> dict[str, float]:
        """Workers with runs under way, and when each was last seen, if only as it took one."""
        runs = f"SELECT worker, MAX(beat) AS taken FROM web_runs WHERE {_UNDER_WAY} GROUP BY worker"
        seen = "(SELECT seen FROM web_alive WHERE web_alive.worker = runs.worker)"
        return dict(self._run(f"SELECT worker, COALESCE({seen}, taken) FROM ({runs}) AS runs"))

    def take_over(self, dead: str, seen: float, worker: str) -> list[StoredRun]:
        """Make a dead worker's runs another's, unless it was seen since; of several takers each run gets one."""
        return _stored(
            self._run(
                f"UPDATE web_runs SET worker = ?, beat = ? WHERE worker = ? AND {_UNDER_WAY} AND NOT EXISTS "
                f"(SELECT 1 FROM web_alive WHERE web_alive.worker = ? AND seen > ?) RETURNING {_RUN}",
                (worker, time.time(), dead, dead, seen),
            )
        )

    # What belongs to a run

    def save(self, run_id: str, record: Run) -> None:
        """Save the whole run that a question ended with. Raises UsageError where files cannot be written."""
        if self._folder:
            save_run(record, self._folder)
            return
        self._run(
            "INSERT INTO web_saved (id, run, document) VALUES (?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET document = excluded.document",
            (record.id, run_id, zlib.compress(to_json(record).encode())),
        )

    def saved(self, saved_id: str) -> Run | None:
        """A whole run by the id that its answer names; None where there is none. Raises DataError."""
        if self._folder:
            try:
                return load_run(self._folder / f"{saved_id}.json")
            except UsageError:
                return None
        rows = self._run("SELECT document FROM web_saved WHERE id = ? AND length(document) <= ?", (saved_id, LARGEST))
        if not rows:
            return None
        document = unpacked(rows[0][0])
        if document is None:
            raise DataError(f"the run {saved_id} in the database cannot be read")
        return parse_run(document, saved_id)

    def delete_traces(self, run_id: str, saved_id: str) -> None:
        """Delete what a run has left behind whose session was deleted meanwhile; it may be saved under an id."""
        with self._transaction(run_id) as run:
            _delete_results(run, "id = ?", run_id)
            self._delete_traces(run, [(run_id, json.dumps({"run": saved_id}))])

    def delete_old(self, age: float) -> None:
        """Delete after ``age`` seconds counts and unshared questions without a session, with their results."""
        before = time.time() - age
        old = "session = '' AND made < ? AND id NOT IN (SELECT id FROM web_runs WHERE share IS NOT NULL)"
        with self._transaction("what is old") as run:
            _delete_results(run, old, before)
            run(f"DELETE FROM web_sessions WHERE {_EMPTY} AND made < ?", (before,))
            runs = run(f"DELETE FROM web_runs WHERE {old} AND NOT ({_UNDER_WAY}) RETURNING id, answer", (before,))
            run("DELETE FROM web_asked WHERE made < ?", (before,))
            self._delete_traces(run, runs)

    def _delete_traces(self, run: Execute, runs: Rows) -> None:
        """Delete what belongs to deleted runs, of rows of id and answer, which names the file of a whole run."""
        for run_id, answer in runs:
            for table in ("web_events", "web_saved"):
                run(f"DELETE FROM {table} WHERE run = ?", (run_id,))
            if self._folder and (saved := _saved_id(answer)):
                (self._folder / f"{saved}.json").unlink(missing_ok=True)


class Results:
    """Tables and rankings: their rows in parts, as many as their owner may have, and read a few at a time."""

    def __init__(self, database: Database) -> None:
        self._run, self._transaction = database.run, database.transaction
        self.order = lru_cache(16)(self._sort)
        """The numbers of a result's rows, sorted by a column, or descending. Raises KeyError where it is gone."""
        self.labels: Callable[[str], dict[str, str]] = lru_cache(16)(lambda result_id: {})  # noqa: ARG005
        """Labels that were looked up for a result."""

    def keep(self, head: StoredResult, result: Result, most: int = RESULT_BYTES) -> Result:
        """Keep a table or ranking, in place of one of the same id; what of it was kept.

        An owner's results take ``most`` bytes at most: rows of the oldest are deleted, and of one that is larger by
        itself only its first are kept.
        """
        document = json.dumps(head.document)
        _delete_rows(self._run, head.id)
        number, size = 0, len(document)
        for part in result.parts():
            if size + len(part) > most:
                break
            self._run("INSERT INTO web_parts (result, number, data) VALUES (?, ?, ?)", (head.id, number, part))
            number, size = number + 1, size + len(part)
        count, now = min(result.count, number * PART), time.time()
        last = count - (number - 1) * PART if number else 0
        with self._transaction(f"results of {head.owner}") as run:
            run(
                "INSERT INTO web_results (id, owner, kb, language, session, made, document) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document",
                (head.id, head.owner, head.kb, head.language, head.session, now, document),
            )
            run(
                "INSERT INTO web_kept (result, owner, parts, last, bytes, made) VALUES (?, ?, ?, ?, ?, ?)",
                (head.id, head.owner, number, last, size, now),
            )
            kept = run(  # rows go until the others fit: first of results without a session, then the oldest
                "SELECT k.result, k.bytes FROM web_kept k JOIN web_results r ON r.id = k.result "
                "WHERE k.owner = ? ORDER BY r.session <> '', k.made",
                (head.owner,),
            )
            size = sum(taken for _, taken in kept)
            for result_id, taken in kept:
                if size > most and result_id != head.id:
                    _delete_rows(run, result_id)
                    size -= taken
        return result if result.ranking else replace(result, count=count)

    def find(self, result_id: str) -> tuple[StoredResult, Result] | None:
        """A result whose rows are read when they are asked for; None where there is none. Raises DataError."""
        rows = self._run(
            "SELECT id, r.owner, kb, language, session, document, COALESCE(parts, 0), COALESCE(last, 0) "
            "FROM web_results r LEFT JOIN web_kept ON result = id WHERE id = ?",
            (result_id,),
        )
        if not rows:
            return None
        *about, parts, last = rows[0]
        head = replace(StoredResult(*about), document=_json(about[-1]))
        return head, stored_result(head.document, parts, partial(self.part, result_id), last)

    def part(self, result_id: str, number: int) -> str | None:
        """Some rows of a result, by the number of their part from 0 on; None where they are not kept."""
        rows = self._run("SELECT data FROM web_parts WHERE result = ? AND number = ?", (result_id, number))
        return str(rows[0][0]) if rows else None

    def _sort(self, result_id: str, column: str, descending: bool) -> Sequence[int]:
        found = self.find(result_id)
        if found is None:
            raise KeyError(result_id)
        return sorted_rows(found[1], column, descending)


class Logouts:
    """Logins that were taken back before they were over; known to every worker, those of this process at once."""

    def __init__(self, database: Database) -> None:
        self._run = database.run
        self._look = lru_cache(1_000)(
            lambda key, when: bool(self._run("SELECT login FROM web_logouts WHERE login = ?", (key,)))  # noqa: ARG005
        )

    def add(self, key: str) -> None:
        """Keep one."""
        self._run("INSERT INTO web_logouts (login, made) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, time.time()))
        self._run("DELETE FROM web_logouts WHERE made < ?", (time.time() - LOGIN,))
        self._look.cache_clear()

    def has(self, key: str) -> bool:
        """Whether a login was taken back; by another worker, known here after ``LOGOUT_SECONDS``."""
        return self._look(key, int(time.monotonic() // LOGOUT_SECONDS))


def logouts_in_memory() -> Logouts:
    """For servers without a database."""
    store = Store(SqliteDatabase(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)))
    store.set_up()
    return store.logouts


def _places(values: Collection[object]) -> str:
    """Places for values in a statement; for none, what equals nothing."""
    return ", ".join("?" * len(values)) or "NULL"


def _stored(rows: Rows) -> list[StoredRun]:
    """Runs of rows of ``_RUN``. Raises DataError."""
    pairs: Iterator[tuple[StoredRun, Any]] = ((StoredRun(*row), row[-1]) for row in rows)
    return [replace(run, stopping=bool(run.stopping), answer=_answer(answer)) for run, answer in pairs]


def _add_events(run: Execute, run_id: str, events: Sequence[Event], worker: str = "") -> list[StoredEvent]:
    """Keep events by one statement; with a worker, only where the run is its."""
    new = ", ".join(f"({place}, ?)" for place in range(1, len(events) + 1))
    last = "SELECT COALESCE(MAX(number), 0) AS last FROM web_events WHERE run = ?"
    own = "EXISTS (SELECT 1 FROM web_runs WHERE id = ? AND ? IN (worker, ''))"
    rows = run(
        f"INSERT INTO web_events (run, number, data) SELECT ?, last + column1, column2 FROM (VALUES {new}) AS new, "
        f"({last}) AS before WHERE {own} RETURNING number",
        (run_id, *map(json.dumps, events), run_id, run_id, worker),
    )
    numbers = sorted(number for (number,) in rows)
    return [StoredEvent(number, data) for number, data in zip(numbers, events, strict=False)]


def _delete_results(run: Execute, where: str, value: object) -> None:
    for (result_id,) in run(f"DELETE FROM web_results WHERE {where} RETURNING id", (value,)):
        _delete_rows(run, result_id)


def _delete_rows(run: Execute, result_id: str) -> None:
    """Delete a result's rows; that there was one is still known."""
    run("DELETE FROM web_parts WHERE result = ?", (result_id,))
    run("DELETE FROM web_kept WHERE result = ?", (result_id,))


def _check_day(run: Execute, owner: str, a_day: int) -> None:
    """What was asked before the clock was put back by more than a day is not counted until it is that late again."""
    now = time.time()
    where = "owner = ? AND made > ? AND made < ?"
    if run(f"SELECT COUNT(*) FROM web_asked WHERE {where}", (owner, now - DAY, now + DAY))[0][0] >= a_day:
        raise LimitReached(f"you have asked {plural(a_day, 'question')} in 24 hours")


def _json(text: str, *kinds: type) -> Any:
    """JSON of a column, of one of some types, by default an object. Raises DataError where somebody has changed it."""
    with suppress(ValueError, TypeError, RecursionError):
        if isinstance(value := json.loads(text), kinds or dict):
            return value
    raise DataError("what the server's database has kept of this was damaged: it is no JSON of the right type")


_READ: Mapping[str, type] = dict.fromkeys(("run", "text", "note", "query", "status"), str) | {"result": dict}
"""Parts of an answer that the server itself reads."""


def _answer(text: str) -> dict[str, Any] | None:
    answer: dict[str, Any] | None = _json(text, dict, NoneType)
    if answer and not all(isinstance(answer.get(name) or kind(), kind) for name, kind in _READ.items()):
        raise DataError("what the server's database has kept of an answer was damaged")
    return answer


def _event(text: str) -> dict[str, Any]:
    event: dict[str, Any] = _json(text)
    if event.get("kind") == "end" and not isinstance(event.get("answer"), dict):
        raise DataError("what the server's database has kept of this was damaged: an end without an answer")
    return event


def _saved_id(answer: str) -> str:
    """The id under which a run is saved; empty where its answer does not say."""
    with suppress(DataError):
        return (_answer(answer) or {}).get("run") or ""
    return ""
