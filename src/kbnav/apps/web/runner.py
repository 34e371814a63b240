"""Answering questions in threads: put in line, answered, followed, and stopped."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.agent import Agent
from kbnav.answers.question import checked_question
from kbnav.apps.secrets import Secrets
from kbnav.apps.web.changes import Changes
from kbnav.apps.web.drafts import Writing
from kbnav.apps.web.following import drafts, here, left, since
from kbnav.apps.web.keeping import StoredResult
from kbnav.apps.web.metrics import Metrics, Uncounted
from kbnav.apps.web.results import result_of
from kbnav.apps.web.service import Service, line
from kbnav.apps.web.store import Session, Status, Store, StoredEvent, StoredRun, unguessable
from kbnav.apps.web.telling import Tell, Teller, answer_data, failed_answer
from kbnav.apps.web.watch import BROKEN, Live, Watch
from kbnav.errors import Busy, DataError, KbnavError, LimitReached, NotOffered, Stopped, StopRun
from kbnav.knowledge.http import reporting_to
from kbnav.models.cancellation import ON_REQUEST, Brake
from kbnav.models.prices import cost_of, price_of
from kbnav.models.streaming import heard_by
from kbnav.retrieval.attempt import attempt as retrieve
from kbnav.runs.trajectory import Attempt, Turn, Usage
from kbnav.sessions.session import Chat, attempt
from kbnav.settings.model import OFFLINE

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

RESUMPTIONS = 3
"""Times a question is gone on with after its server; one that ends its server each time must not do so for ever."""
_LOG = logging.getLogger("kbnav.web")


class Runner:
    """Answers questions on a few threads."""

    def __init__(
        self,
        service: Service,
        store: Store,
        saver: BaseCheckpointSaver[Any],
        hide: Secrets,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics | None = None,
    ) -> None:
        """``loop`` is the server's own."""
        self._metrics = metrics or Uncounted()
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(6)}"
        self.closing = asyncio.Event()
        self._service, self._store, self._saver, self._hide = service, store, saver, hide
        self._limits = service.settings.web
        self._loop, self._changes = loop, Changes(loop)
        self._line = line(self._limits.runs, service.many, of_owner=self._limits.runs_per_user)
        self._news = threading.Condition()
        """Told when somebody joins or leaves the line."""
        self._live: dict[str, Live] = {}
        self._watch = Watch(self.worker, self._live, store, service.settings, hide, self._changes, resume=self._put)
        self._ended = threading.Event()
        self._models = asyncio.new_event_loop()
        self._threads = [
            threading.Thread(target=target, daemon=True, name=f"kbnav-{name}")
            for name, target in (
                ("models", self._models.run_forever),
                ("beat", lambda: self._watch.until(self._ended)),
                *(("run", self._work) for _ in range(self._limits.runs)),
            )
        ]

    def start(self) -> None:
        """Begin to answer, dead workers' questions first; what every session needs is loaded now.

        Else the first one's question would wait for it, seconds where the machine is busy, and all others with it.
        """
        importlib.import_module("langgraph.graph")
        if any(model != OFFLINE for model in self._service.models):
            importlib.import_module("langchain_openai")
        for thread in self._threads:
            thread.start()

    def hang_up(self) -> None:
        """End every stream, whose client will come back; from any thread."""
        self._loop.call_soon_threadsafe(self._hang_up)

    @contextmanager
    def told_of_the_end(self) -> Iterator[None]:
        """Streams end with the first signal, or the server would wait for them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        usual: dict[int, Callable[[int, FrameType | None], Any]] = {}

        def end(number: int, frame: FrameType | None) -> None:
            self.hang_up()
            usual[number](number, frame)

        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            known = signal.getsignal(number)
            if callable(known):
                usual[number] = known
                signal.signal(number, end)
        try:
            yield
        finally:
            for number, handler in usual.items():
                signal.signal(number, handler)

    def _hang_up(self) -> None:
        self.closing.set()
        self._changes.wake_all()

    def close(self) -> None:
        """Leave what is under way in the middle; the next server goes on with it."""
        self._ended.set()
        for live in list(self._live.values()):
            live.brake.abandon()
        with self._news:
            self._news.notify_all()
        for thread in self._threads[1:]:
            thread.join(5)
        self._models.call_soon_threadsafe(self._models.stop)
        self._threads[0].join(5)
        if not self._models.is_running():
            self._models.close()

    @property
    def problem(self) -> str:
        """Why questions cannot be answered and kept now; empty where they can."""
        return self._watch.problem

    def ask(
        self,
        owner: str,
        question: str,
        choice: tuple[str, str, str],
        *,
        session: str = "",
        history: Sequence[Turn] = (),
    ) -> StoredRun:
        """Put a question in line.

        Raises UsageError for what is no question, Busy for a session that is, NotOffered for one that is gone,
        LimitReached.
        """
        question = checked_question(question)
        kb, system, model = choice
        now = time.time()
        run = StoredRun(
            unguessable("run"), session, owner, kb, system, model, question, "queued", self.worker, now, False, None,
            now, None,
        )  # fmt: skip
        limits = self._limits
        refused = self._store.add_run(run, at_once=limits.runs_per_user, a_day=limits.questions_per_day)
        if refused == "too many at once":
            raise LimitReached(f"{limits.runs_per_user} of your questions are being answered; wait for one")
        if refused == "too many a day":
            raise LimitReached(self._spent)
        if refused == "session gone":
            raise NotOffered("you have no such session")
        if refused:
            raise Busy("this session is still at another question")
        self._put(run, history)
        return run

    @property
    def _spent(self) -> str:
        return f"you have asked {self._limits.questions_per_day} questions in 24 hours"

    def count(self, owner: str) -> None:
        """Count a call of a model outside of any run as a question. Raises LimitReached."""
        if not self._store.count_question(owner, a_day=self._limits.questions_per_day):
            raise LimitReached(self._spent)

    def may_ask(self, owner: str) -> None:
        """Raise LimitReached where a user has asked all that they may in 24 hours."""
        if self._store.asked_today(owner) >= self._limits.questions_per_day:
            raise LimitReached(self._spent)

    def stop(self, run: StoredRun) -> None:
        """End a run at once, in whichever process it is."""
        answer = {**failed_answer(ON_REQUEST), "status": "stopped"}
        if self._store.end_queued(run.id, answer):
            self._changes.tell(run.id, over=True)
        elif live := self._live.get(run.id):
            live.brake.stop()
        elif run.under_way:
            self._store.ask_to_stop(run.id)

    def stop_soon(self, run: StoredRun) -> None:
        """The same for coroutines, which must not wait for the database, and cannot once they are cancelled."""
        self._loop.run_in_executor(None, self.stop, run)

    def forget(self, session: Session) -> None:
        """Delete a session with all that belongs to it; a question under way is stopped."""
        for run in self._store.runs(session.id):
            self.stop(run)
        self._store.delete_session(session)
        self._saver.delete_thread(session.id)

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[StoredEvent | None]:
        """The events of a run behind a number, as they happen, until its end; None now and then while nothing does.

        What a model is writing here meanwhile comes as an event ``draft`` of number 0.
        """
        live: Live | None = None
        with self._changes.listening(run_id) as news:
            while not self.closing.is_set():
                news.clear()
                live = here(self._live, run_id, live)
                stored = live.writing.stored if live else 0
                if (known := since(live, after)) is None:
                    known = await asyncio.to_thread(self._since, run_id, after)
                events, over = known
                for event in events:
                    after = event.number
                    yield event
                if over:
                    return
                async for draft in drafts(live, stored, news):
                    yield draft

    async def ending(self, run_id: str) -> AsyncGenerator[dict[str, Any] | None]:
        """The answer of a run once it has ended, and None now and then before; what else happens is not looked at."""
        live: Live | None = None
        with self._changes.listening(run_id, to_its_end=True) as news:
            while not self.closing.is_set():
                news.clear()
                live = here(self._live, run_id, live)
                if live and live.ended:
                    yield live.ended.data["answer"]
                    return
                if live is None or live.told is None:
                    found = await asyncio.to_thread(self._store.run, run_id)
                    if found is None or not found.under_way:
                        if found and found.answer is not None:
                            yield dict(found.answer)
                        return
                await left(self._live, run_id, news)
                yield None

    def _since(self, run_id: str, after: int) -> tuple[list[StoredEvent], bool]:
        """The events of a run behind a number, and whether it is over: looked at first, so that none is missed."""
        over = not self._store.under_way(run_id)
        return self._store.events(run_id, after), over

    def before(self, run_id: str) -> int:
        """How many questions come before one that waits here; 0 for all others."""
        live = self._live.get(run_id)
        return self._line.before(live.place) if live else 0

    def _put(self, run: StoredRun, history: Sequence[Turn] = ()) -> None:
        brake = Brake(self._models, self._budget(run.model))
        with self._news:
            writing = Writing(lambda: self._changes.tell(run.id), self._hide)
            live = Live(run, brake, self._line.join(run.owner, run.kb), writing, history)
            self._live[run.id] = live
            self._line_changed()

    def _budget(self, model: str) -> Any:
        price, most = price_of(self._service.settings, model), self._limits.question_dollars

        def reached(used: Usage) -> str:
            return (
                f"The limit of ${most:.2f} for a question was reached." if (cost_of(used, price) or 0) >= most else ""
            )

        return reached if price else None

    def _work(self) -> None:
        """One of the threads that answer."""
        while (live := self._next()) is not None:
            try:
                self._answer(live)
            except BaseException as error:  # noqa: BLE001 - neither a database nor a library may end the thread
                if not self._ended.is_set():
                    _LOG.error("run: %s", self._hide.hidden(repr(error)))
                    self._watch.broke_off(live.run.id)
            finally:
                with self._news:
                    self._live.pop(live.run.id, None)
                    self._line.leave(live.place)
                    self._line_changed()
                self._changes.tell(live.run.id, over=True)

    def _line_changed(self) -> None:
        """Tell who waits in it, with the lock held."""
        self._metrics.line(*self._line.lengths)
        self._news.notify_all()

    def _next(self) -> Live | None:
        """The question whose turn it is; None once the server ends."""
        with self._news:
            while not self._ended.is_set():
                if (place := self._line.begin()) is not None:
                    self._metrics.line(*self._line.lengths)
                    return next(live for live in self._live.values() if live.place is place)
                self._news.wait()
        return None

    def _answer(self, live: Live) -> None:
        """Answer a question, from its first event to its last; whatever happens, it ends."""
        run = live.run
        if not self._store.begin(run.id, self.worker):  # stopped or deleted while it waited, or another's now
            return
        live.deadline = time.monotonic() + self._limits.question_seconds
        told = self._store.events(run.id)
        live.told = [*told]
        tell = self._telling(live)
        tell({"kind": "resumed" if told else "started"})
        teller = Teller(tell, max((event.data.get("call", 0) for event in told), default=0))
        try:
            _check_resumptions(told)
            status, answer = self._ended_as(live, self._attempt(live, teller))
        except CancelledError:
            self._forget_if_gone(run)
            return
        except Stopped as error:
            status, answer = "stopped", {**failed_answer(str(error)), "status": "stopped"}
        except KbnavError as error:
            status, answer = "failed", failed_answer(str(error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, who asked is told
            _LOG.error("run: %s", self._hide.hidden(repr(error)))
            status, answer = "failed", failed_answer(BROKEN)
        live.ended = self._store.end(run.id, self.worker, status, self._hide.hidden_in(answer))
        if not live.ended:
            self._forget_if_gone(run, answer.get("run", ""))
        self._metrics.question(run, status, time.time() - run.made, live.record)

    def _forget_if_gone(self, run: StoredRun, saved_id: str = "") -> None:
        """Leave nothing of a run whose session was deleted while it was answered."""
        if self._store.run(run.id) is None:
            self._store.forget_run(run.id, saved_id)
            self._saver.delete_thread(run.session)

    def _attempt(self, live: Live, teller: Teller) -> Attempt:
        run, brake = live.run, live.brake
        brake.check()
        served = self._service.kb(run.kb)
        served.guard.check()
        system = self._service.system(run.kb, run.system, run.model)
        with reporting_to(served.guard), heard_by(live.writing.hear):
            if not isinstance(system, Agent):  # it ranks nodes for each question by itself, whatever was asked before
                settings = served.asking(run.system, run.model)
                return retrieve(system, served.kb, settings, run.question, on_step=teller.over, brake=brake)
            if not run.session:
                return attempt(system, run.question, on_event=teller, history=live.history, brake=brake)
            # The run itself is kept here, and begun again where nothing of it is kept there.
            chat = Chat(system, run.session, self._saver, begun=False)
            begun = any(event.data["kind"] == "resumed" for event in live.told or ())
            return chat.attempt_again(run.question, begun=begun, on_event=teller, brake=brake)

    def _ended_as(self, live: Live, ended: Attempt) -> tuple[Status, dict[str, Any]]:
        """Keep a run's record and its result; how it ended, and what the page shows of it."""
        run, served = live.run, self._service.kb(live.run.kb)
        live.record = ended.run
        if isinstance(ended.failure, DataError):
            served.guard.damaged(ended.failure)
        self._store.saved.keep(run.id, ended.run)
        result = result_of(ended.run.outcome.table, ended.run.outcome.ranking)
        if result:
            kept = StoredResult(run.id, run.owner, run.kb, ended.run.language, run.session, result.to_document())
            result = result.first(self._store.results.keep(kept, result, self._limits.result_bytes))
        status: Status = "done"
        if ended.failure:
            status = "stopped" if isinstance(ended.failure, Stopped) else "failed"
        return status, answer_data(ended, served, run.id, result)

    def _telling(self, live: Live) -> Tell:
        """Keeps events; a run that another worker has taken over, or that is gone, is left."""

        def tell(data: dict[str, Any]) -> None:
            timed = {**data, "at": round(time.time(), 2)}
            event = self._store.add_event(live.run.id, self.worker, self._hide.hidden_in(timed))
            if event is None:
                live.brake.abandon()
            elif live.told is not None:
                live.told.append(event)
            live.writing.over()
            self._changes.tell(live.run.id)

        return tell


def _check_resumptions(told: Sequence[StoredEvent]) -> None:
    """Raise StopRun for a run that has been begun and left in the middle too often; waiting in line does not count."""
    if sum(event.data["kind"] == "resumed" for event in told) >= RESUMPTIONS:
        times = RESUMPTIONS + 1
        raise StopRun(f"The server ended {times} times while this question was being answered; it is not tried again.")
