"""Work in threads of its own, one pool for each kind of it, in fair turns; what takes too long is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from kbnav.apps.web.line import Line, Place
from kbnav.errors import LimitReached, NotOffered, Overdue, Stopped
from kbnav.models.cancellation import ON_REQUEST, Brake

T = TypeVar("T")
Gone = Callable[[], Awaitable[bool]]
"""Whether a client has hung up."""
LOOK = 0.5
"""Seconds between looks at whether the client is still there."""


@dataclass(eq=False)
class Job:
    """A piece of work: its place in the line, and what stops it."""

    place: Place
    turn: asyncio.Event
    brake: Brake


class Pool:
    """Runs calls in threads, of which there are never more than the line lets in. Used from the server's loop.

    The place of a call that is given up is taken until its thread is over: a thread cannot be ended from outside.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._jobs: dict[Place, Job] = {}
        self._named: dict[tuple[str, str], Job] = {}

    async def run(
        self,
        owner: str,
        kb: str,
        call: Callable[[], T],
        *,
        gone: Gone,
        seconds: float,
        wait: float,
        refuse: Callable[[], None] = lambda: None,
        name: str = "",
    ) -> T:
        """What ``call`` gives. A client that hangs up stops it, and gives up its place.

        ``seconds`` are for the call, ``wait`` for its turn, of which nothing may come: ``refuse`` raises then. By its
        ``name`` a user can look after it. Raises LimitReached, Overdue, Stopped, and as ``refuse`` and ``call``.
        """
        refuse()
        job = Job(self._line.join(owner, kb), asyncio.Event(), Brake())
        self._jobs[job.place] = job
        if name:
            self._named[owner, name] = job
        try:
            try:
                self._let_in()
                await self._turn(job, wait, gone, refuse)
            except BaseException:
                self._leave(job)
                raise
            return await self._work(job, call, seconds, gone)
        finally:
            self._named.pop((owner, name), None)

    @asynccontextmanager
    async def turn(self, owner: str, kb: str, *, gone: Gone, wait: float, name: str = "") -> AsyncIterator[None]:
        """A place for work that is done in the loop; ``name`` as of ``run``. Raises LimitReached, Stopped."""
        job = Job(self._line.join(owner, kb), asyncio.Event(), Brake())
        self._jobs[job.place] = job
        if name:
            self._named[owner, name] = job
        try:
            self._let_in()
            await self._turn(job, wait, gone)
            yield
        finally:
            self._named.pop((owner, name), None)
            self._leave(job)

    def before(self, owner: str, name: str) -> int:
        """How many are before a call; 0 where it is at work. Raises NotOffered."""
        return self._line.before(self._find(owner, name).place)

    def stop(self, owner: str, name: str) -> None:
        """End a call. Raises NotOffered."""
        self._find(owner, name).brake.stop()

    def _find(self, owner: str, name: str) -> Job:
        job = self._named.get((owner, name))
        if job is None:
            raise NotOffered("nothing of yours by that name is under way")
        return job

    async def _turn(self, job: Job, wait: float, gone: Gone, refuse: Callable[[], None] = lambda: None) -> None:
        """Wait for the turn."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        while not job.turn.is_set():
            if loop.time() >= end:
                before = self._line.before(job.place)
                raise LimitReached(f"the server is too busy: it was not your turn in {wait:g} s, {before} before you")
            with suppress(TimeoutError):
                await asyncio.wait_for(job.turn.wait(), min(LOOK, end - loop.time()))
            job.brake.check()
            refuse()
            if await gone():
                raise Stopped(ON_REQUEST)

    async def _work(self, job: Job, call: Callable[[], T], seconds: float, gone: Gone) -> T:
        """Have the call made in a thread of its own, and wait for it as long as somebody does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        news = asyncio.Event()

        def settle(result: T | None, error: Exception | None) -> None:
            self._leave(job)
            if not done.done():
                done.set_exception(error) if error else done.set_result(result)  # type: ignore[arg-type]
            news.set()

        threading.Thread(target=_call, args=(loop, job.brake, call, settle), daemon=True, name="kbnav-pool").start()
        end = loop.time() + seconds
        try:
            with job.brake.telling(lambda: _tell(loop, news.set)):
                while not done.done():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), max(0.0, min(LOOK, end - loop.time())))
                    if done.done():
                        break
                    job.brake.check()
                    if loop.time() >= end:
                        raise Overdue(f"no answer in {seconds:g} s")
                    if await gone():
                        raise Stopped(ON_REQUEST)
            return done.result()
        finally:
            if not done.done():
                done.cancel()
                job.brake.stop()

    def _let_in(self) -> None:
        while (place := self._line.begin()) is not None:
            self._jobs[place].turn.set()

    def _leave(self, job: Job) -> None:
        self._line.leave(job.place)
        self._jobs.pop(job.place, None)
        self._let_in()


def _call(
    loop: asyncio.AbstractEventLoop,
    brake: Brake,
    call: Callable[[], T],
    settle: Callable[[T | None, Exception | None], None],
) -> None:
    """The thread's work; whatever is raised is told, also what is no Exception."""
    try:
        result = brake.within(call)
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        _tell(loop, settle, None, error if isinstance(error, Exception) else RuntimeError(repr(error)))
    else:
        _tell(loop, settle, result, None)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *values: object) -> None:
    """Have something called in the loop, unless the server is gone."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *values)
