"""Ending a run from outside: on request, out of time, out of money, or because its server shuts down or dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from kbnav.errors import Stopped

T = TypeVar("T")
ON_REQUEST = "Stopped on request."
_MOST_IDLE = 16
_CANCELLATION: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Have a context variable say so in what is run within."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def current_cancellation() -> Cancellation | None:
    """The cancellation of the run that this code is a part of, if it has one."""
    return _CANCELLATION.get()


class OutOfTime(Exception):
    """What was waited for took longer than there was time; it is left alone, and what it brings is dropped."""


def in_thread(call: Callable[[], T], cancellation: Cancellation | None = None) -> Future[T]:
    """What ``call`` gives in a thread that keeps no process alive; ``cancellation`` is that of the code within."""
    future: Future[T] = Future()
    context = copy_context()
    if cancellation:
        context.run(_CANCELLATION.set, cancellation)

    def work() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            with suppress(InvalidStateError):  # nobody waits any more
                future.set_exception(error)
        else:
            with suppress(InvalidStateError):
                future.set_result(result)

    try:
        _IDLE.pop().put(partial(context.run, work))
    except IndexError:
        threading.Thread(target=_serve, args=(partial(context.run, work),), daemon=True, name="kbnav-call").start()
    return future


_IDLE: list[SimpleQueue[Callable[[], None]]] = []
"""Threads that wait for their next call, as starting one costs a tenth of a short question; a fork has none."""
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_IDLE.clear)


def _serve(work: Callable[[], None]) -> None:
    """Do one call after another; of the threads that are idle a few are kept."""
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    while True:
        work()
        del work  # and what it holds
        if len(_IDLE) >= _MOST_IDLE:
            return
        _IDLE.append(calls)
        work = calls.get()


class _Daemons(ThreadPoolExecutor):
    """A loop's threads, as of ``in_thread``: for models that are not asynchronous, and for names of hosts."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return in_thread(partial(fn, *args, **kwargs))


def shared_loop() -> asyncio.AbstractEventLoop:
    """One loop for the calls of models of all threads; it never ends, and keeps no process alive."""
    with _STARTING:
        if not _SHARED:
            loop = asyncio.new_event_loop()
            loop.set_default_executor(_Daemons())
            threading.Thread(target=loop.run_forever, daemon=True, name="kbnav-models").start()
            _SHARED.append(loop)
        return _SHARED[0]


_STARTING = threading.Lock()
_SHARED: list[asyncio.AbstractEventLoop] = []
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_SHARED.clear)


def end_with_parent() -> None:
    """Have this process ended by SIGTERM once the process that started it by ``multiprocessing`` has ended."""
    from multiprocessing import parent_process

    def wait() -> None:
        if parent := parent_process():
            parent.join()
            signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="kbnav-parent").start()


def sleep(seconds: float) -> None:
    """Wait so long, unless the run ends that this code is a part of. Raises as ``Cancellation.check``."""
    cancellation, over = current_cancellation() or Cancellation(), threading.Event()
    with cancellation.on_cancel(over.set):
        over.wait(seconds)
    cancellation.check()


class Cancellation:
    """Ends one run at once, from any thread.

    What the run does is waited for and no longer: a model's call is cancelled, which closes its connection; a tool that
    is at work is left alone and what it brings is dropped.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, limit: Callable[[Any], str] | None = None
    ) -> None:
        """``loop`` (of another thread) makes the model's calls, else one that all such share.

        ``limit`` says why no model may be asked any more.
        """
        self._loop = loop
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._why = ""
        self._ended = False

    def stop(self, why: str = ON_REQUEST) -> None:
        """End the run; it is concluded with what it has, and ``why``."""
        with self._lock:
            if self._ended:
                return
            self._ended, self._why = True, why
            waiting = list(self._waiting)
        for future in waiting:
            future.cancel()

    def abandon(self) -> None:
        """End the run in the middle, so that its session can go on with it later; it raises CancelledError."""
        self.stop("")

    def check(self, used: object = None) -> None:
        """Raises Stopped where the run was stopped or ``used`` is over its limit, CancelledError where abandoned."""
        if used is not None and self._limit and (why := self._limit(used)):
            self.stop(why)
        if self._ended:
            raise self._error()

    def run(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """The result of ``call``, made in a thread of its own. Raises as ``check``, OutOfTime, what ``call`` raises.

        When the time is over, what ``call`` asks of a model ends as it does when the run is stopped.
        """
        part = Cancellation(self._loop)
        with self.on_cancel(lambda: part.stop(self._why)):
            try:
                return self._wait(in_thread(call, part), seconds)
            except OutOfTime:
                part.abandon()
                raise

    def run_here(self, call: Callable[[], T]) -> T:
        """The result of ``call``, made in this thread, to its end; only a model that it asks is given up at once."""
        with within(_CANCELLATION, self):
            return call()

    def ask(self, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine brings that is cancelled when the run ends; raises as ``check``."""
        self.check()
        coroutine = awaited()
        try:
            asked = asyncio.run_coroutine_threadsafe(coroutine, self._loop or shared_loop())
        except RuntimeError as error:  # the loop was closed with the run
            coroutine.close()
            raise self._error() from error
        return self._wait(asked)

    @contextmanager
    def on_cancel(self, end: Callable[[], None]) -> Iterator[None]:
        """Have ``end`` called, from any thread, if the run is ended meanwhile: for what can stop a look-up's work."""
        future: Future[None] = Future()
        future.add_done_callback(lambda done: end() if done.cancelled() else None)
        with self._cancelling(future):
            yield

    @contextmanager
    def _cancelling(self, future: Future[Any]) -> Iterator[None]:
        """Have a future cancelled if the run is ended meanwhile, or was before."""
        with self._lock:
            self._waiting.add(future)
            ended = self._ended
        try:
            if ended:
                future.cancel()
            yield
        finally:
            with self._lock:
                self._waiting.discard(future)

    def _wait(self, future: Future[T], seconds: float | None = None) -> T:
        try:
            with self._cancelling(future):
                return future.result(None if seconds is None else max(0.0, seconds))
        except CancelledError as error:
            raise self._error() from error
        except TimeoutError as error:
            if not future.done():
                raise OutOfTime from error
            if future.cancelled():
                raise self._error() from error
            return future.result()  # at the last moment, or with an error of the call's own

    def _error(self) -> Exception:
        return Stopped(self._why) if self._why else CancelledError()
