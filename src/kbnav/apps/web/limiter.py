"""How much is done at once, and for whom: fair turns, work in threads that may hang, and knowledge bases that fail."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from kbnav.errors import DataError, LimitReached, NotAnswering, NotOffered, Overdue, ServiceError, Stopped, TooBusy
from kbnav.models.cancellation import ON_REQUEST, Cancellation, in_thread

T = TypeVar("T")
Gone = Callable[[], Awaitable[bool]]
"""Whether a client has hung up."""
LONGEST = 10_000
"""Tickets that wait, of all users together."""
WAIT = 120.0
"""Longest wait for a turn, in seconds."""
LOOK = 0.5
"""Seconds between looks at whether the client is still there."""
FAILURES = 3
"""Failures in a row after which a knowledge base is left alone."""
PAUSE = 30.0
"""Seconds for which it is, until one request tries it again."""
SOUND_FOR = 600.0
"""Seconds for which files that were found whole are not read through again."""
HALF_LIFE = 60.0
"""Seconds after which what a user has had counts half."""


@dataclass(frozen=True, eq=False)
class Ticket:
    """A place in a queue: whose it is, on which knowledge base it works, when it was taken, and what for."""

    owner: str
    kb: str
    number: int
    name: str = ""


_SHORT, _MOMENT = 50, 1.0
"""Tickets that are put in order whenever one asks for its place, and seconds for which the order of more is kept."""
_NOTHING = float("-inf")
"""The weight of a user who has had no time."""


class FairQueue:
    """So much at once, and of that so much of one user and on one knowledge base; threads may share it.

    Of those that may begin, whoever has least at work comes first, among equals who has had least time of late (as
    schedulers by least attained service do), then who came first. So a user who asks for much waits behind one who asks
    for little, also where they take turns, and a knowledge base that hangs holds up none of the others.

    Time at work counts once it is over. A turn takes as long however many users wait, as what they have had fades for
    all alike, which leaves their order as it is; it looks through the tickets of one user.
    """

    def __init__(
        self, size: int, *, of_owner: int, of_kb: int, most_of_owner: int = LONGEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Each limit is 1 or more; ``most_of_owner``: tickets of a user, also those that wait; ``clock`` in seconds."""
        self._clock = clock
        self._size, self._of_owner, self._of_kb, self._most = size, of_owner, of_kb, most_of_owner
        self._lock, self._numbers = threading.Lock(), count(1)
        self._waiting: dict[Ticket, None] = {}
        self._of: dict[str, dict[Ticket, None]] = defaultdict(dict)
        """Tickets that wait, of each owner."""
        self._next: dict[str, list[tuple[int, float, int, Ticket]]] = defaultdict(list)
        """For each knowledge base the first ticket of every owner who may begin one, as they come."""
        self._at_work: dict[Ticket, float] = {}
        """When each began."""
        self._weights: dict[str, float] = {}
        """Of a user the binary logarithm of the seconds had, as if all had been had when the clock stood at 0."""
        self._places: dict[Ticket, int] = {}
        self._placed = float("-inf")
        """When the places were told last."""

    def join(self, owner: str, kb: str = "", name: str = "") -> Ticket:
        """A ticket behind all others. Raises LimitReached."""
        with self._lock, self._moving(owner):
            if len(self._of[owner]) + self._busy(owner) >= self._most:
                raise LimitReached(f"{self._most} of yours are under way; wait for one")
            if len(self._waiting) >= LONGEST:
                raise TooBusy("too many are waiting; try again in a moment")
            ticket = Ticket(owner, kb, next(self._numbers), name)
            self._waiting[ticket] = self._of[owner][ticket] = None
            return ticket

    def begin(self) -> Ticket | None:
        """The ticket that begins now; None where nobody waits, or may."""
        with self._lock:
            kbs = Counter(one.kb for one in self._at_work)
            first = min((line[0] for kb, line in self._next.items() if line and kbs[kb] < self._of_kb), default=None)
            if first is None or len(self._at_work) >= self._size:
                return None
            ticket = first[-1]
            with self._moving(ticket.owner):
                del self._waiting[ticket], self._of[ticket.owner][ticket]
                self._at_work[ticket] = self._clock()
            return ticket

    def leave(self, ticket: Ticket) -> None:
        """The work is over, or is waited for no longer."""
        owner = ticket.owner
        with self._lock, self._moving(owner):
            if self._waiting.pop(ticket, ticket) is None:
                del self._of[owner][ticket]
            elif ticket in self._at_work:
                now = self._clock()
                had = 2 ** (self._weights.get(owner, _NOTHING) - now / HALF_LIFE) + now - self._at_work.pop(ticket)
                self._weights[owner] = math.log2(had) + now / HALF_LIFE if had > 0 else _NOTHING
                if len(self._weights) > 2 * LONGEST:  # the least of those that do not wait are forgotten
                    idle = self._weights.keys() - {one.owner for one in self._waiting}
                    for one in sorted(idle, key=self._weights.__getitem__)[:LONGEST]:
                        del self._weights[one]

    def before(self, ticket: Ticket) -> int:
        """How many of those that wait come first; 0 for one at work. In a long queue as it was a moment ago."""
        with self._lock:
            if ticket not in self._waiting:
                return 0
            if len(self._waiting) <= _SHORT or self._clock() > self._placed + _MOMENT:
                self._places, self._placed = {one: place for place, one in enumerate(self._order())}, self._clock()
            return self._places.get(ticket, len(self._waiting) - 1)

    def _order(self) -> list[Ticket]:
        ahead, ranked = Counter(one.owner for one in self._at_work), []
        for one in self._waiting:
            ranked.append((ahead[one.owner], self._weights.get(one.owner, _NOTHING), one.number, one))
            ahead[one.owner] += 1
        return [rank[-1] for rank in sorted(ranked)]

    @contextmanager
    def _moving(self, owner: str) -> Iterator[None]:
        """Take an owner's tickets out of what comes next, and put in what does then."""
        for rank in self._ranks(owner):
            line = self._next[rank[-1].kb]
            del line[bisect_left(line, rank)]
        try:
            yield
        finally:
            for rank in self._ranks(owner):
                insort(self._next[rank[-1].kb], rank)
            if not self._of[owner]:
                del self._of[owner]

    def _ranks(self, owner: str) -> list[tuple[int, float, int, Ticket]]:
        busy, weight, firsts = self._busy(owner), self._weights.get(owner, _NOTHING), dict[str, Ticket]()
        for ticket in self._of[owner] if busy < self._of_owner else ():
            firsts.setdefault(ticket.kb, ticket)
        return [(busy, weight, ticket.number, ticket) for ticket in firsts.values()]

    def _busy(self, owner: str) -> int:
        return sum(one.owner == owner for one in self._at_work)


def fair_queue(of_kb: int, kbs: int = 1) -> FairQueue:
    """A queue with ``of_kb`` places of its own for each knowledge base, and half as many for one user in all."""
    return FairQueue(of_kb * kbs, of_owner=max(1, of_kb // 2), of_kb=of_kb)


@dataclass(eq=False)
class Job:
    """A piece of work: its ticket, its turn, and what stops it; ``in_thread``: it leaves once its thread is over."""

    ticket: Ticket
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    cancellation: Cancellation = field(default_factory=Cancellation)
    in_thread: bool = False


class Limiter:
    """Runs calls, from the server's loop, in as many threads as the queue lets in; each keeps its place till over."""

    def __init__(self, queue: FairQueue, wait: float = WAIT) -> None:
        """Nobody waits longer than ``wait`` seconds for their turn."""
        self._queue, self.wait = queue, wait
        self._jobs: dict[Ticket, Job] = {}
        self._named: dict[tuple[str, str], Job] = {}

    async def run(
        self, owner: str, kb: str, call: Callable[[], T], *, gone: Gone, seconds: float,
        refuse: Callable[[], None] = lambda: None, name: str = "",
    ) -> T:  # fmt: skip
        """What ``call`` gives. A client that hangs up stops it, and gives up its place.

        ``seconds`` are for the call. ``refuse`` raises where waiting for the turn is in vain. By its ``name`` a user
        can ask for it and stop it. Raises LimitReached, Overdue, Stopped, and as ``refuse`` and ``call``.
        """
        async with self.turn(owner, kb, gone=gone, refuse=refuse, name=name) as job:
            return await self._work(job, call, seconds, gone)

    @asynccontextmanager
    async def turn(
        self, owner: str, kb: str, *, gone: Gone, refuse: Callable[[], None] = lambda: None, name: str = ""
    ) -> AsyncIterator[Job]:
        """A place for work that is done in the loop; the arguments as of ``run``. Raises LimitReached, Stopped."""
        refuse()
        job = Job(self._queue.join(owner, kb))
        self._jobs[job.ticket] = job
        if name:
            self._named[owner, name] = job
        try:
            self._let_in()
            await self._wait(job, gone, refuse)
            yield job
        finally:
            self._named.pop((owner, name), None)
            if not job.in_thread:
                self._leave(job)

    def before(self, owner: str, name: str) -> int:
        """How many come before a call; 0 where it is at work. Raises NotOffered."""
        return self._queue.before(self._find(owner, name).ticket)

    def stop(self, owner: str, name: str) -> None:
        """End a call. Raises NotOffered."""
        self._find(owner, name).cancellation.stop()

    def _find(self, owner: str, name: str) -> Job:
        job = self._named.get((owner, name))
        if job is None:
            raise NotOffered("nothing of yours by that name is under way")
        return job

    async def _wait(self, job: Job, gone: Gone, refuse: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.wait
        while not job.turn.is_set():
            if loop.time() >= end:
                before = self._queue.before(job.ticket)
                raise TooBusy(f"the server is too busy: it was not your turn in {self.wait:g} s, {before} before you")
            with suppress(TimeoutError):
                await asyncio.wait_for(job.turn.wait(), min(LOOK, end - loop.time()))
            job.cancellation.check()
            refuse()
            if await gone():
                raise Stopped(ON_REQUEST)

    async def _work(self, job: Job, call: Callable[[], T], seconds: float, gone: Gone) -> T:
        """Make the call in a thread of its own, and wait for it as long as the client does."""
        loop = asyncio.get_running_loop()

        def work() -> T:
            try:
                return job.cancellation.run_here(call)
            except Exception:
                raise
            except BaseException as error:
                raise RuntimeError(repr(error)) from error
            finally:
                with suppress(RuntimeError):  # the server is gone
                    loop.call_soon_threadsafe(self._leave, job)

        job.in_thread = True
        done = asyncio.wrap_future(in_thread(work))
        end = loop.time() + seconds
        try:
            while not (await asyncio.wait({done}, timeout=max(0.0, min(LOOK, end - loop.time()))))[0]:
                job.cancellation.check()
                if loop.time() >= end:
                    raise Overdue(f"no answer in {seconds:g} s")
                if await gone():
                    raise Stopped(ON_REQUEST)
            return done.result()
        finally:
            if not done.done():
                done.cancel()
                job.cancellation.stop()

    def _let_in(self) -> None:
        while (ticket := self._queue.begin()) is not None:
            self._jobs[ticket].turn.set()

    def _leave(self, job: Job) -> None:
        self._queue.leave(job.ticket)
        self._jobs.pop(job.ticket, None)
        self._let_in()


class CircuitBreaker:
    """Leaves a knowledge base alone that fails again and again, and takes a damaged one out of service."""

    def __init__(
        self, name: str, check: Callable[[], list[str]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``check`` reads the knowledge base through and gives its faults; ``clock`` counts seconds."""
        self._name, self._check, self._clock = name, check, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = self._sound_until = 0.0
        self._damage = ""

    @property
    def problem(self) -> str:
        """Why nothing is asked of it now; empty where it is in service."""
        wait = self._open_until - self._clock()
        return self._damage or (f"it does not answer; it is tried again in {wait:.0f} s" if wait > 0 else "")

    def check(self) -> None:
        """Raise NotAnswering where the knowledge base is out of service, or does not answer."""
        with self._lock:
            self.refuse()
            if self._failures >= FAILURES:  # one goes ahead and tries it, the others wait for what comes of that
                self._open_until = self._clock() + PAUSE

    def refuse(self) -> None:
        """Raise NotAnswering where nothing may be asked now; before waiting for a turn, so that it tries nothing."""
        if self.problem:
            raise NotAnswering(f"the knowledge base {self._name} is out of service: {self.problem}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count how what is done within ends. Raises as ``check``, and as that does."""
        self.check()
        try:
            with self.counting():
                yield
        except DataError as error:
            self.damaged(error)
            raise

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count whether what is asked within is answered; a query that is at fault itself is neither."""
        try:
            yield
        except ServiceError:
            self.failed()
            raise
        self.answered()

    def failed(self) -> None:
        """It did not answer."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._open_until = self._clock() + PAUSE

    def answered(self) -> None:
        """It did."""
        with self._lock:
            self._failures, self._open_until = 0, 0.0

    def damaged(self, error: DataError) -> None:
        """Its files cannot be read: out of service, unless reading them through finds them whole."""
        with self._lock:
            if self._damage or self._clock() < self._sound_until:
                return
            self._damage = str(error)
        if self._check is not None:
            threading.Thread(target=self._look, args=(self._check,), daemon=True, name="kbnav-check").start()

    def _look(self, check: Callable[[], list[str]]) -> None:
        try:
            faults = check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the files were not found whole
            faults = [str(error)]
        with self._lock:
            self._damage = "; ".join(faults[:3])
            if not faults:
                self._sound_until = self._clock() + SOUND_FOR
