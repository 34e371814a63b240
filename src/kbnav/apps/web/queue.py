"""The queue of questions: answered in threads, followed while they are, stopped, and taken over from a dead server.

Every question and every event is in the store before anybody is told of it. So a server that is killed loses nothing:
its questions are taken over by the next server of the same file, or by another server of the same PostgreSQL database.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.agent import Agent
from kbnav.answers.question import checked_question
from kbnav.apps.secrets import Secrets
from kbnav.apps.web.limiter import FairQueue, Ticket
from kbnav.apps.web.results import result_of
from kbnav.apps.web.service import Recorder, Served, Service, answer_data, failed_answer, first_rows
from kbnav.apps.web.store import (
    AWAY,
    DAY,
    Event,
    Session,
    Status,
    Store,
    StoredEvent,
    StoredResult,
    StoredRun,
    has_failed,
    unguessable,
)
from kbnav.errors import DatabaseAway, DataError, KbnavError, LimitReached, Stopped, StopRun
from kbnav.knowledge.base import is_mirror
from kbnav.knowledge.http import reporting_to
from kbnav.models.cancellation import ON_REQUEST, Cancellation
from kbnav.models.prices import cost_of, price_of
from kbnav.models.transport import Draft, streaming_to
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.base import attempt as retrieve
from kbnav.runs.trajectory import FINISH, Attempt, Run, Turn, Usage
from kbnav.sessions.session import Chat, attempt, repeated
from kbnav.settings.model import OFFLINE
from kbnav.settings.systems import find

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

RESUMPTIONS = 3
"""Times a question is resumed after its server died; one that ends its server each time must not do so for ever."""
LEASE = 15.0
"""Seconds without a sign of life after which a worker on another machine counts as dead."""
TICK = 0.5
"""Seconds between looks at limits, and at what other workers ask for."""
_BEAT = 4
"""Ticks between signs of life."""
_SWEEP = 1200
"""Ticks between looks for what is too old."""
SILENT = 2.0
"""Seconds without an answer of the database after which a server does not count as ready."""
ROOM = 64 << 20
"""Bytes that must be free where runs are saved."""
NEWS_SECONDS = 0.05
"""Seconds for which what happens in a run is gathered before its followers are told; its end is told at once."""
LONGEST_DRAFT = 8_000
REMEMBERED, FEW = 200, 200
"""Runs that ended here of which a follower need not ask the database; and answers of rules that are told again where
the same is asked, if they have few rows."""
LOOKED_AT = 200
"""Runs that wait of which it is looked at in one tick whether another worker has ended them, and that end there."""
FAR, LONGEST_SILENCE = 100, 15.0
"""Places in the line for which a follower is told its own a second later, up to so many seconds."""
BROKEN = "An error in kbnav itself; the server's log says more."
_LOG = logging.getLogger("kbnav.web")


@dataclass(eq=False)
class _Live:
    """A run of this process; its followers here read this, and need not ask the database.

    ``deadline`` is set when it begins, ``ended``, its last event, when it ends. ``events`` are those before it,
    ``unkept`` those of them that are not in the database yet. ``first``: there were no questions before.
    ``draft`` is what its model writes at this moment, and ``rows`` those that are told with its end: neither is stored.
    ``again``: it may have begun before, and its events are read from the database once its turn comes.
    """

    run: StoredRun
    history: Sequence[Turn] = ()
    again: bool = False
    events: Sequence[StoredEvent] = ()
    cancellation: Cancellation = field(init=False)
    ticket: Ticket = field(init=False)
    deadline: float = float("inf")
    ended: StoredEvent | None = None
    draft: Draft | None = None
    rows: dict[str, Any] | None = None
    first: bool = False
    unkept: list[Event] = field(default_factory=list)
    adding: threading.Lock = field(default_factory=threading.Lock)

    def since(self, after: int) -> tuple[list[StoredEvent], bool]:
        """The events behind a number, and whether there will be no more."""
        ended = self.ended  # looked at first, so that no event is missed
        events = [*self.events, *([ended] if ended else [])]
        return [event for event in events if event.number > after], ended is not None


class RunQueue:
    """Answers questions on a few threads, which begin with ``running``."""

    def __init__(self, service: Service, store: Store, saver: BaseCheckpointSaver[Any], hide: Secrets) -> None:
        self._service, self._store, self._saver, self._hide = service, store, saver, hide
        self._limits = service.settings.web
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(6)}"
        size = self._limits.runs
        of_kb = max(1, size - max(1, size // 4)) if service.many else size  # some are left whatever one of them does
        self._queue = FairQueue(size, of_owner=self._limits.runs_per_user, of_kb=of_kb)
        self._changed = threading.Condition()
        """Notified when somebody's turn may have come."""
        self._live: dict[str, _Live] = {}
        self._begun: dict[str, _Live] = {}
        """Those of them that are being answered."""
        self._ended: dict[str, _Live] = {}
        """Those that ended last."""
        self._unseen: list[str] = []
        """Runs of which it is looked at next whether another worker has ended them."""
        self._broken: dict[str, str] = {}
        """Runs that end once the database takes that, and why: an error of kbnav's own, or of the database itself."""
        self._answers: dict[tuple[str, str, str], tuple[Run, list[Event]]] = {}
        """Runs of rules, with their events, by knowledge base, system and question."""
        self._again: list[_Live] = []
        """Runs of sessions that broke off because the database failed; they go on once it is back."""
        self._well, self._trouble, self._away = time.monotonic(), "", False
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._waking: set[str] = set()
        """Runs whose followers are woken soon."""
        self._elsewhere: dict[str, int] = {}
        """The last event of each run that is followed here and is another worker's."""
        self._places: dict[str, int] = {}
        """Of runs that wait for other workers, if some are followed here."""
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        """The server's own."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunQueue]:
        """Answer, dead workers' questions first; what is under way at the end is left to the next server.

        What every session needs is loaded now: else the first question, and all others with it, would wait for that.
        """
        self._loop = asyncio.get_running_loop()
        importlib.import_module("langgraph.graph")
        if any(model != OFFLINE for model in self._service.models):
            importlib.import_module("langchain_openai")
        workers = [("run", self._work)] * self._limits.runs
        threads = [
            threading.Thread(target=target, daemon=True, name=f"kbnav-{name}")
            for name, target in (("beat", self._look_after), *workers)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            await asyncio.to_thread(self._close, threads)

    def _close(self, threads: Sequence[threading.Thread]) -> None:
        self._over.set()
        for live in list(self._live.values()):
            live.cancellation.abandon()
        with self._changed:
            self._changed.notify_all()
        for thread in threads:
            thread.join(5)

    @property
    def problem(self) -> str:
        """Why questions cannot be answered and kept now; empty where they can."""
        silent = time.monotonic() - self._well
        return self._trouble or (f"the database has not answered for {silent:.0f} s" if silent > SILENT else "")

    # Asking and stopping

    def ask(
        self,
        owner: str,
        question: str,
        choice: tuple[str, str, str],
        *,
        session: str = "",
        history: Sequence[Turn] = (),
    ) -> StoredRun:
        """Put a question into the queue; ``choice`` is knowledge base, system and model.

        Raises UsageError for what is no question, Busy for a session that is, NotOffered for one that is gone,
        LimitReached, DatabaseAway, at once where the database is known to take nothing.
        """
        if self._away:
            raise DatabaseAway(AWAY)
        title = checked_question(question.strip().partition("\n\n")[0])  # without the query that it may be about
        question, limits, now = checked_question(question), self._limits, time.time()
        run = StoredRun(
            unguessable("run"), session, owner, *choice, question, "queued", self.worker, now, False, None, now, None
        )
        first = self._store.add_run(run, at_once=limits.runs_per_user, a_day=limits.questions_per_day, title=title)
        self._put(_Live(run, history=history, first=first and not history and run.model == OFFLINE))
        return run

    def stop(self, run: StoredRun) -> None:
        """End a run at once, in whichever process it is."""
        if self._store.end(run.id, "", "stopped", {**failed_answer(ON_REQUEST), "status": "stopped"}):
            self._give_up(run.id)
        elif live := self._live.get(run.id):
            live.cancellation.stop()
        elif run.under_way:
            self._store.ask_to_stop(run.id)

    def stop_soon(self, run: StoredRun) -> None:
        """The same for coroutines, which must not wait for the database, and cannot once they are cancelled."""
        self._loop.run_in_executor(None, self.stop, run)

    def delete(self, session: Session) -> None:
        """Delete a session with all that belongs to it; a question under way is stopped."""
        for run in self._store.runs(session.id):
            self.stop(run)
        self._store.delete_session(session)
        self._saver.delete_thread(session.id)

    def before(self, run_id: str) -> int:
        """How many questions come before one that waits, of another worker those asked before it; 0 for all others."""
        live = self._live.get(run_id)
        return self._queue.before(live.ticket) if live else self._places.get(run_id, 0)

    # Following

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[list[StoredEvent]]:
        """The events of a run behind a number, as they happen, until its end; none now and then while nothing does.

        A run outside a session ends at once where the database fails.
        What a model is writing here meanwhile comes as an event ``draft`` of number 0.
        """
        live: _Live | None = None
        seen: Draft | None = None
        with self._listening(run_id) as news:
            while True:
                news.clear()
                if self._broken.get(run_id) == AWAY:
                    yield [StoredEvent(after + 1, {"kind": "end", "status": "failed", "answer": failed_answer(AWAY)})]
                    return
                live = self._live.get(run_id) or self._ended.get(run_id)
                if live is None:
                    # Looked at first, so that no event is missed.
                    over = not await asyncio.to_thread(self._store.last_events, [run_id])
                    events = await asyncio.to_thread(self._store.events, run_id, after)
                else:
                    events, over = live.since(after)
                if events:
                    after = events[-1].number
                    yield events
                if over:
                    return
                if live and (draft := live.draft) and draft != seen:
                    seen = draft
                    yield [StoredEvent(0, self._hide.hidden_in(_draft_data(draft)))]
                if self.before(run_id):
                    yield []
                while not news.is_set():
                    silence = min(LONGEST_SILENCE, 2 * TICK + self.before(run_id) / FAR)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), silence)
                        break
                    yield []
                    if self._live.get(run_id) is not live or run_id in self._begun:
                        break  # else it waits here, or is another worker's: there is nothing until it is told

    @contextmanager
    def _listening(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever a run of this process has news."""
        event = asyncio.Event()
        self._listeners.setdefault(run_id, set()).add(event)
        try:
            yield event
        finally:
            self._listeners[run_id].discard(event)
            if not self._listeners[run_id]:
                del self._listeners[run_id]

    def _notify(self, run_id: str, *, soon: bool = False) -> None:
        """Wake who follows a run, from any thread, at once or ``soon``, with what happens until then.

        The loop is left alone where nobody follows, or they are woken soon: each time costs as much as an event.
        """

        def wake() -> None:
            self._waking.discard(run_id)
            for event in self._listeners.get(run_id, ()):
                event.set()

        if run_id not in self._listeners or self._loop.is_closed():
            return
        if not soon:
            self._loop.call_soon_threadsafe(wake)
        elif run_id not in self._waking:
            self._waking.add(run_id)
            self._soon(wake)

    def _soon(self, call: Callable[[], object]) -> None:
        """Have something called in the loop in a moment."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.call_later, NEWS_SECONDS, call)

    # Answering

    def _put(self, live: _Live) -> None:
        """Let a run wait for its turn, for what waits or works for it already. Raises LimitReached; it ends then."""
        run, most = live.run, self._limits.question_dollars
        price = price_of(self._service.settings, run.model)

        def limit(used: Usage) -> str:
            reached = (cost_of(used, price) or 0) >= most
            return f"The limit of ${most:.2f} for a question was reached." if reached else ""

        live.cancellation = Cancellation(limit=limit if price else None)
        try:
            with self._changed:
                self._give_up(run.id)
                live.ticket = self._queue.join(run.owner, run.kb, run.id)
                self._live[run.id] = live
                self._changed.notify()
        except LimitReached as error:
            self._broken[run.id] = str(error)
            raise

    def _give_up(self, run_id: str) -> None:
        """Let a run wait no longer that was ended, or is another worker's, and stop working at it."""
        with self._changed:
            if run_id in self._begun:
                self._begun[run_id].cancellation.abandon()
            elif live := self._live.pop(run_id, None):
                self._queue.leave(live.ticket)
        self._notify(run_id)

    def _work(self) -> None:
        """One of the threads that answer."""
        while (live := self._next()) is not None:
            away = False
            try:
                self._answer(live)
            except BaseException as error:  # noqa: BLE001 - neither a database nor a library may end the thread
                if away := isinstance(error, DatabaseAway):
                    _LOG.warning("run: %s", error)
                    self._away, self._trouble = True, str(error)
                elif not self._over.is_set():
                    _LOG.error("run: %s", self._hide.hidden(repr(error)))
                if not self._over.is_set() and not (away and live.run.session):
                    self._broken[live.run.id] = AWAY if away else BROKEN
            finally:
                with self._changed:
                    for runs in (self._live, self._begun):
                        if runs.get(live.run.id) is live:
                            del runs[live.run.id]
                    self._queue.leave(live.ticket)
                    if away and live.run.session:
                        self._again.append(live)
                    if live.ended:
                        _put_last(self._ended, live.run.id, live)
                self._notify(live.run.id)

    def _next(self) -> _Live | None:
        """The question whose turn it is; None once the server ends."""
        with self._changed:
            while not self._over.is_set():
                if (ticket := self._queue.begin()) is not None:
                    self._changed.notify()  # another's turn may have come too
                    live = self._begun[ticket.name] = self._live[ticket.name]
                    return live
                self._changed.wait()
        return None

    def _answer(self, live: _Live) -> None:
        """Answer a question, from its first event to its last; whatever happens, it ends."""
        run = live.run
        before = self._store.events(run.id) if live.again else []
        begun = self._store.begin(run.id, self.worker, _timed({"kind": "resumed" if before else "started"}))
        if not begun:  # stopped or deleted while it waited, or another's now
            return
        live.deadline, live.events = time.monotonic() + self._limits.question_seconds, [*before, *begun]
        self._notify(run.id, soon=True)
        calls = max((event.data.get("call", 0) for event in before), default=0)
        recorder = Recorder(lambda data: self._record(live, data), calls)
        try:
            if sum(event.data["kind"] == "resumed" for event in before) >= RESUMPTIONS:  # waiting does not count
                raise StopRun(
                    f"The server ended {RESUMPTIONS + 1} times while this question was being answered; "
                    "it is not tried again."
                )
            live.cancellation.check()
            served, system = live.cancellation.run(lambda: self._service.system(run.kb, run.system, run.model))
            status, answer = self._ended_as(live, served, self._attempt(live, served, system, recorder))
        except CancelledError:
            self._delete_if_gone(run)
            return
        except Stopped as error:
            status, answer = "stopped", {**failed_answer(str(error)), "status": "stopped"}
        except DatabaseAway:
            raise
        except KbnavError as error:
            status, answer = "failed", failed_answer(str(error))
        except BaseException as error:
            if has_failed(error):  # of the checkpoints
                raise DatabaseAway("The database of checkpoints fails.") from error
            _LOG.error("run: %s", self._hide.hidden(repr(error)))
            status, answer = "failed", failed_answer(BROKEN)
        with live.adding:
            answer = self._hide.hidden_in(answer)
            kept = self._store.end(run.id, self.worker, status, answer, live.unkept)
            live.events = [*live.events, *kept[:-1]]
            live.ended = replace(kept[-1], data={**kept[-1].data, "rows": live.rows}) if kept else None
            live.unkept.clear()
        if not live.ended:
            self._delete_if_gone(run, answer.get("run", ""))

    def _delete_if_gone(self, run: StoredRun, saved_id: str = "") -> None:
        """Leave nothing of a run whose session was deleted while it was answered."""
        if self._store.run(run.id) is None:
            self._store.delete_traces(run.id, saved_id)
            self._saver.delete_thread(run.session)

    def _attempt(self, live: _Live, served: Served, system: Agent | Retriever, recorder: Recorder) -> Attempt:
        run, cancellation = live.run, live.cancellation

        def hear(draft: Draft) -> None:
            live.draft = draft
            self._notify(run.id, soon=True)

        with reporting_to(served.breaker.counting), streaming_to(hear):
            if told := self._told_again(live, system):
                return Attempt(told, None)
            if not isinstance(system, Agent):  # it ranks nodes for each question by itself, whatever was asked before
                how, over = served.asking(run.system, run.model), recorder.over
                return retrieve(system, served.kb, how, run.question, on_step=over, cancellation=cancellation)
            if not run.session:
                return attempt(system, run.question, on_event=recorder, history=live.history, cancellation=cancellation)
            chat = Chat(system, run.session, self._saver)
            again = any(event.data["kind"] == "resumed" for event in live.events)
            return chat.attempt(
                run.question,
                again=again,
                on_event=recorder,
                cancellation=cancellation,
                durability="exit" if run.model == OFFLINE else "sync",  # the rules start over in milliseconds
            )

    def _told_again(self, live: _Live, system: Agent | Retriever) -> Run | None:
        """A run told again whose question rules have answered, on the same copy; None where they are to be asked."""
        run = live.run
        earlier, events = self._answers.get((run.kb, run.system, run.question), (None, []))
        if not (live.first and earlier and isinstance(system, Agent) and earlier.kb == system.kb.state()):
            return None
        live.unkept += map(_timed, events)
        return Chat(system, run.session, self._saver).repeat(earlier) if run.session else repeated(earlier)

    def _remember(self, live: _Live, ended: Run) -> None:
        """Have a run told again: one of kbnav's own rules, which go by the question, on a copy that nobody changes."""
        run, outcome = live.run, ended.outcome
        copied = is_mirror(ended.kb) or ended.kb.get("kind") == "skb"
        if not (live.first and copied and outcome.status == "answered" and find(run.system).origin == "kbnav"):
            return
        if len(outcome.table or outcome.ranking or ()) <= FEW and not ended.repeated:
            with live.adding:
                events = [event.data for event in live.events] + live.unkept
            with self._changed:
                _put_last(self._answers, (run.kb, run.system, run.question), (ended, events[1:]))

    def _ended_as(self, live: _Live, served: Served, ended: Attempt) -> tuple[Status, dict[str, Any]]:
        """Keep a run's record and its result; how it ended, and what the page shows of it."""
        run = live.run
        self._remember(live, ended.run)
        if isinstance(ended.failure, DataError):
            served.breaker.damaged(ended.failure)
        self._store.save(run.id, ended.run)
        result = result_of(ended.run.outcome.table, ended.run.outcome.ranking)
        if result:
            head = StoredResult(run.id, run.owner, run.kb, ended.run.language, run.session, result.to_document())
            result = self._store.results.keep(head, result)
            live.rows = first_rows(result, served)
        failed: Status = "stopped" if isinstance(ended.failure, Stopped) else "failed"
        return failed if ended.failure else "done", answer_data(ended, served, run.id, result)

    def _record(self, live: _Live, event: Event) -> None:
        """Keep an event, of rules a moment later with others, as they begin anew after a kill."""
        with live.adding:
            live.unkept.append(self._hide.hidden_in(_timed(event)))
            several = len(live.unkept) > 1
        live.draft = None
        if live.run.model != OFFLINE:
            self._keep(live)
        elif not several:
            self._soon(lambda: self._loop.run_in_executor(None, self._keep_soon, live) if live.unkept else None)

    def _keep_soon(self, live: _Live) -> None:
        with suppress(DatabaseAway):  # then they are kept with the run's end, or that breaks off
            self._keep(live)

    def _keep(self, live: _Live) -> None:
        """Keep events, and tell of them; a run that another worker has taken over, or that is gone, is left."""
        with live.adding:
            if not live.unkept:
                return
            kept = self._store.add_events(live.run.id, self.worker, live.unkept)
            live.unkept.clear()
            live.events = [*live.events, *kept]
        if not kept:
            live.cancellation.abandon()
        self._notify(live.run.id, soon=live.run.model != OFFLINE)

    # Looking after runs: this process's stay within their time, and dead workers' are taken over

    def _look_after(self) -> None:
        ticks = 0
        while not self._over.is_set():
            for live in list(self._begun.values()):
                if time.monotonic() > live.deadline:
                    live.cancellation.stop(
                        f"The limit of {self._limits.question_seconds:g} s for a question was reached."
                    )
            try:
                self._look(often=ticks % _BEAT == 0, sweep=ticks % _SWEEP == 0)
                self._well = time.monotonic()
            except Exception as error:  # noqa: BLE001 - a database that is away for a moment must not end the thread
                self._away = isinstance(error, DatabaseAway)
                self._trouble = f"the database fails: {type(error).__name__}"
                _LOG.error("watch: %s", self._hide.hidden(repr(error)))
            ticks += 1
            self._over.wait(TICK)

    def _look(self, *, often: bool, sweep: bool) -> None:
        if often:
            self._take_over()
        if sweep:
            self._store.delete_old(DAY)
        begun, broken_off, waiting = dict(self._begun), list(self._again), self._unseen[:LOOKED_AT]
        self._unseen = self._unseen[LOOKED_AT:] or list(self._live)
        mine = self._store.still_of(self.worker, [*begun, *waiting, *(live.run.id for live in broken_off)])
        for run_id in (*begun, *waiting):
            if run_id not in mine:  # taken over while the database was away, or deleted; where it has ended, no matter
                self._give_up(run_id)
            elif mine[run_id] and run_id in begun:
                begun[run_id].cancellation.stop()
        followed = [run_id for run_id in list(self._listeners) if run_id not in self._live]
        elsewhere = self._store.last_events(followed) if followed else {}
        for run_id in followed:
            if elsewhere.get(run_id) != self._elsewhere.get(run_id, -1):  # it went on, ended, or was deleted
                self._notify(run_id)
        self._elsewhere = elsewhere
        if often:
            self._places = self._store.places() if elsewhere else {}
        for run_id, why in list(self._broken.items())[:LOOKED_AT]:
            self._store.end(run_id, self.worker, "failed", failed_answer(why))
            del self._broken[run_id]
            self._notify(run_id)
        if not self._away:
            for live in broken_off:
                with suppress(LimitReached):
                    if live.run.id in mine:
                        self._put(_Live(live.run, live.history, again=True))
                self._again.remove(live)
        if often:
            self._store.alive(self.worker)
            self._away = False
            home = self._service.settings.home
            free = shutil.disk_usage(home).free
            self._trouble = f"the disk of {home.name} is full: {free >> 20} MiB are free" if free < ROOM else ""

    def _take_over(self) -> None:
        for worker, seen in self._store.workers().items():
            if worker != self.worker and is_dead(worker, seen):
                for run in self._store.take_over(worker, seen, self.worker):
                    if run.session:
                        with suppress(LimitReached):
                            self._put(_Live(run, again=True))
                    else:  # whoever asked it is no longer connected
                        self._broken[run.id] = "The server was restarted."


def _timed(event: Event) -> Event:
    return {**event, "at": round(time.time(), 2)}


def _put_last(kept: dict[Any, Any], key: object, value: object) -> None:
    """Put something into a dictionary, of which no more than ``REMEMBERED`` are kept."""
    kept[key] = value
    if len(kept) > REMEMBERED:
        del kept[next(iter(kept))]


def is_dead(worker: str, seen: float) -> bool:
    """Whether a worker's process is gone from this machine, or was not seen for too long, by any clock."""
    host, process, _ = worker.rsplit(":", 2)
    if abs(time.time() - seen) > LEASE:
        return True
    if host != socket.gethostname() or os.name == "nt":  # where a signal of 0 is none
        return False
    if int(process) == os.getpid():  # an earlier process of the same number, as in a container
        return True
    try:
        os.kill(int(process), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _draft_data(draft: Draft) -> dict[str, Any]:
    """What a model is writing as the page shows it: the thought and tool of the next step, or the answer."""
    from langchain_core.utils.json import parse_partial_json

    said: Any = None
    with suppress(ValueError):
        said = parse_partial_json(draft.arguments or "{}")
    given: dict[str, Any] = said if isinstance(said, dict) else {}
    answer = draft.text if draft.purpose == "answer" else given.get("answer", "") if draft.tool == FINISH else ""
    thought = "" if draft.purpose == "answer" else draft.text or given.get("thought", "")
    shown = {"thought": str(thought)[:LONGEST_DRAFT], "tool": draft.tool, "answer": str(answer)[:LONGEST_DRAFT]}
    return {"kind": "draft", **shown}
