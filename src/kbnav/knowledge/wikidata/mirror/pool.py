"""Queries in child processes, each with a hard limit of time and memory.

The store's engine does not stop a query by itself, and running out of memory would end the process. So a query runs in
a child (``worker``): past its time the child is killed, past its memory it dies, and the pool starts another. Waiting
for a child does not count as the query's time, and has its own limit; nor does its start, which on a busy machine may
take longer than a query may: each new child would be killed in its turn. A query that takes long gives way to others.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.replies import Reply, read_query
from kbnav.models.cancellation import current_cancellation

Form = Literal["json", "xml", "csv", "tsv", "ntriples", "turtle", "rdfxml"]
"""How a result is written."""
Reason = Literal["syntax", "timeout", "memory", "size", "failed", "broken", "busy", "stopped"]
Gone = Callable[[], bool]
"""Whether nobody waits for a query any more."""
MOST_BYTES = 64 << 20
"""Bytes of a result; as much as is taken from a query service."""
LONG = 1.0
"""Seconds after which a query gives way to others."""
_WORKER = "kbnav.knowledge.wikidata.mirror.worker"
_NICE = 19
_ALARM = getattr(signal, "SIGALRM", -1)
"""What ends a child by itself, some time after its time."""
_POLL = 0.2
"""Seconds between looks at whether a query is still wanted."""
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""Of a child's own: by default each of its threads sets aside 64 MiB of the address space that is limited."""
_START = 60.0
"""Seconds that a child may take to start."""
_STOPPED = "the query was stopped"
_CLOSING = "the server is being stopped"


class QueryError(Exception):
    """A query without a result.

    One that failed is at fault itself; where the store is broken no query may work, and where it is busy any may later.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Result:
    """A result as it goes over the wire."""

    media_type: str
    body: bytes

    def table(self) -> AnswerTable:
        """Its rows, boolean or triples."""
        return read_query(Reply(200, self.body, {"content-type": self.media_type}))


class QueryLimits(NamedTuple):
    """What queries may take: seconds and bytes of address space (0: any) for each, and how many run at once."""

    timeout: float = 60.0
    """That of Wikidata's query service."""
    memory: int = 2 << 30
    workers: int = 4


LIMITS = QueryLimits()
"""Unless others are given."""


class QueryPool:
    """Child processes that answer queries over one store. Threads may share a pool."""

    now = ""
    """What ``NOW()`` is to say, as an xsd:dateTime; empty: the clock."""

    def __init__(
        self,
        store: Path,
        limits: QueryLimits,
        *,
        union: bool = False,
        links: tuple[Path, str] | None = None,
        patience: float | None = None,
    ) -> None:
        """Keep a child for each query that runs at once; they start when they are first needed.

        Args:
            store: folder of the store.
            limits: those of its queries; waiting for a turn is not counted.
            union: whether queries see all named graphs as one, beside the default graph.
            links: index of a mirror's names, and its concept base, where ``links`` may answer from them.
            patience: seconds that a query may wait for its turn; as long as it may run unless given.
        """
        self.timeout = limits.timeout
        self._union = union
        self._patience = self.timeout if patience is None else patience
        self._command = [sys.executable, "-P", "-m", _WORKER, str(store), str(limits.memory), *map(str, links or ())]
        self._turns = threading.Semaphore(limits.workers)
        self._waiting, self._closed = 0, False
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()

    def query(
        self,
        text: str,
        form: Form = "json",
        graph_form: Form = "ntriples",
        *,
        graph: str = "",
        most_bytes: int = MOST_BYTES,
        gone: Gone | None = None,
    ) -> Result:
        """Run a query; SELECT and ASK come in ``form``, CONSTRUCT and DESCRIBE in ``graph_form``.

        ``graph``: IRIs of the graphs that the query is about; empty: the default graph. The query is stopped when
        the run that it belongs to ends, and when ``gone`` says that nobody waits for it any more. Raises QueryError.
        """
        request = {"query": text, "form": form, "graph_form": graph_form, "most_bytes": most_bytes}
        request |= {"union": self._union, "graph": graph}
        stopped, cancellation = threading.Event(), current_cancellation()

        def unwanted() -> bool:
            return stopped.is_set() or (gone is not None and gone())

        with cancellation.on_cancel(stopped.set) if cancellation else nullcontext():
            self._wait(unwanted)
            try:
                child = self._take()
                try:
                    return child.ask(request, self.timeout, unwanted)
                finally:
                    with self._lock:
                        self._busy.discard(child)
                        if kept := child.usable() and not self._closed:
                            self._idle.append(child)
                    if not kept:
                        child.end()
            finally:
                self._turns.release()

    def _wait(self, unwanted: Gone) -> None:
        """Wait for a turn. Raises QueryError where that takes too long."""
        if self._turns.acquire(blocking=False):
            return
        end = time.monotonic() + self._patience
        with self._lock:
            before = self._waiting
            self._waiting += 1
        try:
            while not self._turns.acquire(timeout=max(0.0, min(_POLL, end - time.monotonic()))):
                if unwanted():
                    raise QueryError("stopped", _STOPPED)
                if time.monotonic() >= end:
                    waited = f"the query waited {self._patience:g} s for its turn, {before} before it"
                    raise QueryError("busy", f"it is too busy: {waited}")
        finally:
            with self._lock:
                self._waiting -= 1

    def _take(self) -> _Child:
        with self._lock:
            if self._closed:
                raise QueryError("broken", _CLOSING)
            child = None
            while self._idle and child is None:
                last = self._idle.pop()
                if last.usable():
                    child = last
                else:  # the system has ended it while nobody needed it
                    last.end()
            try:
                child = child or _Child(self._command)
            except OSError as error:
                raise QueryError("broken", f"no process can be started for the query: {error}") from error
            self._busy.add(child)
            return child

    def close(self) -> None:
        """End all children; a query that one of them runs fails."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for child in self._busy:  # the thread that uses it does the rest
                child.kill()
        for child in idle:
            child.end()


class _Child:
    """One child process, used by one thread at a time."""

    def __init__(self, command: list[str]) -> None:
        self._killed = self._gave_way = self._ready = False
        self._connection, its_own = multiprocessing.Pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=its_own.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what its engine prints when memory runs out would only be in the way
                env=os.environ | _ENVIRONMENT,
                process_group=0,  # a Ctrl-C is for the process that serves, which may end in good order
            )
        except OSError:
            self._connection.close()
            raise
        finally:
            its_own.close()

    def usable(self) -> bool:
        """Whether it lives and did not have to give way, which cannot be taken back."""
        return not (self._killed or self._gave_way) and self._process.poll() is None

    def ask(self, request: dict[str, Any], timeout: float, unwanted: Gone) -> Result:
        """The result of a query. Raises QueryError."""
        try:
            if not self._ready:
                slow = QueryError("busy", f"it is too busy: no process could be started in {_START:g} s")
                self._await(_START, slow, unwanted)
                self._connection.recv_bytes()
                self._ready = True
            self._connection.send_bytes(json.dumps(request | {"timeout": timeout}).encode())
            self._await(timeout, _too_long(timeout), unwanted)
            kind, _, said = self._connection.recv_bytes().decode(errors="replace").partition(" ")
            if kind == "result":
                return Result(said, self._connection.recv_bytes())
        except (OSError, EOFError) as error:
            raise self._ended(timeout) from error
        raise QueryError(cast(Reason, kind), said)

    def _await(self, timeout: float, late: QueryError, unwanted: Gone) -> None:
        """Wait for what the child says; it is killed where that takes too long or is not wanted any more."""
        began = time.monotonic()
        while not self._connection.poll(max(0.0, min(_POLL, began + timeout - time.monotonic()))):
            taken = time.monotonic() - began
            if taken >= timeout or unwanted():
                self.kill()
                raise late if taken >= timeout else QueryError("stopped", _STOPPED)
            if self._ready and taken >= LONG and not self._gave_way:
                self._gave_way = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)

    def _ended(self, timeout: float) -> QueryError:
        """Why the child is gone."""
        if self._killed:
            return QueryError("broken", _CLOSING)
        code = self._process.wait()
        if code == -_ALARM:  # it was not ended from here in its time
            return _too_long(timeout)
        if code > 0:  # out of memory it ends by a signal, or by itself in good order
            return QueryError("broken", "the process that was to run the query ended unexpectedly")
        return QueryError("memory", "the query needed more memory than it may have")

    def kill(self) -> None:
        """End the process, from any thread."""
        self._killed = True  # the system may take a moment
        self._process.kill()

    def end(self) -> None:
        """Kill the process, where it still lives, and let go of what belongs to it."""
        self._process.kill()
        self._connection.close()
        self._process.wait()


def _too_long(timeout: float) -> QueryError:
    return QueryError("timeout", f"the query took longer than {timeout:g} s")
