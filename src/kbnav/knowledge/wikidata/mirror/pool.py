"""Queries in child processes, each with a hard limit of time and memory.

The store's engine does not stop a query by itself, and running out of memory would end the process. So a query runs in
a child (``worker``): past its time the child is killed, past its memory it dies, and the pool starts another. Waiting
for a child does not count as the query's time, and has its own limit; nor does its start, which on a busy machine may
take longer than a query may: each new child would be killed in its turn. A query that takes long gives way to others.
"""

from __future__ import annotations

import json
import math
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
from typing import Any

from kbnav.knowledge.wikidata.mirror.worker import (
    BROKEN,
    FAILED,
    GONE,
    READY,
    RESULT,
    SIZE,
    SYNTAX,
    Form,
    read_frame,
    write_frame,
)
from kbnav.models.cancellation import current_brake

_WORKER = "kbnav.knowledge.wikidata.mirror.worker"
_REASONS = {SYNTAX: "syntax", FAILED: "failed", BROKEN: "broken", SIZE: "size"}
MOST_BYTES = 64 << 20
"""Bytes of a result; as much as is taken from a query service."""
LONG = 1.0
"""Seconds after which a query gives way to others."""
_NICE = 19
_ALARM = getattr(signal, "SIGALRM", -1)
"""What ends a child by itself, some time after its time."""
_LOOK = 0.2
"""Seconds between looks at whether a query is still wanted."""
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""Of a child's own: by default each of its threads sets aside 64 MiB of the address space that is limited."""
_START = 60.0
"""Seconds that a child may take to start."""
_KEPT_SECONDS = 30.0
"""Seconds for which a child is kept that no query needs."""
_MANY = 4
"""Queries at once from which on a pool is for many who ask: then a child more than are at work is kept ready."""
_READY = 2
"""Children that such a pool keeps although no query has needed them for long."""


class QueryError(Exception):
    """A query without a result.

    ``reason`` is ``syntax``, ``timeout``, ``memory``, ``size``, ``failed``, ``broken``, ``busy`` or ``stopped``. One
    that failed is at fault itself; where the store is broken no query may work, and where it is busy any may later.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Result:
    """A result as it goes over the wire."""

    media_type: str
    body: bytes


class QueryPool:
    """Child processes that answer queries over one store. Threads may share a pool."""

    def __init__(
        self,
        store: Path,
        *,
        size: int,
        timeout: float,
        memory_limit: int,
        union: bool = False,
        patience: float | None = None,
    ) -> None:
        """Keep up to ``size`` children; they start when first needed, or where that is 4 or more, a little before.

        Args:
            store: folder of the store.
            size: queries that run at once; further ones wait for their turn.
            timeout: seconds that a query may take, its turn not counted.
            memory_limit: bytes of address space for each child; 0: no limit.
            union: whether queries see all named graphs as one, beside the default graph.
            patience: seconds that a query may wait for its turn; as long as ``timeout`` unless given.
        """
        self._union = union
        self._timeout = timeout
        self._patience = timeout if patience is None else patience
        self._waiting = 0
        self._command = [sys.executable, "-P", "-m", _WORKER, str(store), str(memory_limit)]
        self._turns = threading.Semaphore(size)
        self._size, self._starting = size, False
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._closed = False

    def query(
        self,
        text: str,
        form: Form,
        graph_form: Form,
        *,
        graph: str = "",
        most_bytes: int = MOST_BYTES,
        gone: Gone | None = None,
    ) -> Result:
        """Run a query; SELECT and ASK come in ``form``, CONSTRUCT and DESCRIBE in ``graph_form``.

        ``graph`` is the IRI of the graph that the query is about; empty: the default graph. The query is stopped when
        the run that it belongs to ends, and when ``gone`` says that nobody waits for it any more. Raises QueryError.
        """
        request = {"query": text, "form": form, "graph_form": graph_form, "most_bytes": most_bytes}
        request |= {"union": self._union, "graph": graph}
        stopped = threading.Event()
        brake = current_brake()
        with brake.telling(stopped.set) if brake else nullcontext():
            self._wait(lambda: stopped.is_set() or (gone is not None and gone()))
            try:
                child = self._take()
                try:
                    return child.ask(request, self._timeout, lambda: stopped.is_set() or (gone is not None and gone()))
                finally:
                    self._give_back(child)
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
            while not self._turns.acquire(timeout=max(0.0, min(_LOOK, end - time.monotonic()))):
                if unwanted():
                    raise QueryError("stopped", STOPPED)
                if time.monotonic() >= end:
                    raise QueryError(
                        "busy",
                        f"it is too busy: the query waited {self._patience:g} s for its turn, {before} before it",
                    )
        finally:
            with self._lock:
                self._waiting -= 1

    def _take(self) -> _Child:
        with self._lock:
            if self._closed:
                raise QueryError("broken", CLOSING)
            while self._idle:
                child = self._idle.pop()
                if child.fresh():
                    break
                child.end()  # the system has ended it while nobody needed it
            else:
                try:
                    child = _Child(self._command)
                except OSError as error:
                    raise QueryError("broken", f"no process can be started for the query: {error}") from error
            self._busy.add(child)
            if self._size >= _MANY and not (self._idle or self._starting) and len(self._busy) < self._size:
                self._starting = True
                threading.Thread(target=self._start_one, daemon=True, name="kbnav-spare").start()
            return child

    def _start_one(self) -> None:
        """Start a child for who asks next; where none can be started, that is told to who needs one."""
        child = None
        with suppress(OSError):
            child = _Child(self._command)
        with self._lock:
            self._starting = False
            if child and not self._closed:
                child.idle_since = time.monotonic()
                self._idle.insert(0, child)
                return
        if child:
            child.end()

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            self._busy.discard(child)
            now, ended = time.monotonic(), []
            if child.fresh() and not self._closed:
                child.idle_since = now
                self._idle.append(child)
            else:
                ended.append(child)
            kept = _READY if self._size >= _MANY else 0
            while len(self._idle) > kept and self._idle[0].idle_since < now - _KEPT_SECONDS:  # the last is taken first
                ended.append(self._idle.pop(0))
        for one in ended:
            one.end()

    def close(self) -> None:
        """End all children; a query that one of them runs fails."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for child in self._busy:  # the thread that uses it does the rest
                child.kill()
        for child in idle:
            child.end()


Gone = Callable[[], bool]
"""Whether nobody waits for a query any more."""
STOPPED = "the query was stopped"
CLOSING = "the server is being stopped"


def _too_long(timeout: float) -> QueryError:
    return QueryError("timeout", f"the query took longer than {timeout:g} s")


class _Child:
    """One child process, used by one thread at a time."""

    def __init__(self, command: list[str]) -> None:
        # What its engine prints when memory runs out would only clutter the server's output.
        self._lock = threading.Lock()
        self._killed = self._behind = self._ready = False
        self._began: float | None = None
        """When its query began; None while it starts."""
        self.idle_since = 0.0
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ENVIRONMENT,
            process_group=0,  # a Ctrl-C in the terminal is for the process that serves, which may end in good order
        )

    def fresh(self) -> bool:
        """Whether it lives and did not have to give way, which cannot be taken back."""
        return not (self._killed or self._behind) and self._process.poll() is None

    def ask(self, request: dict[str, Any], timeout: float, unwanted: Gone) -> Result:
        done, why = threading.Event(), list[QueryError]()
        self._began = time.monotonic() if self._ready else None
        watch = threading.Thread(target=self._watch, args=(done, timeout, unwanted, why), daemon=True)
        watch.start()
        kind, body = self._exchange(request | {"timeout": timeout})
        with self._lock:  # a look that is under way must not end the query that comes next
            done.set()
        if kind == RESULT:
            media_type, _, rest = body.partition(b"\n")
            return Result(media_type.decode(), rest)
        if why:
            raise why[0]
        if kind == GONE and self._killed:
            raise QueryError("broken", CLOSING)
        if kind == GONE:
            code = self._process.wait()
            if code == -_ALARM:  # it was not ended from here in its time
                raise _too_long(timeout)
            # Out of memory it ends by a signal, or by itself in good order.
            if code > 0:
                raise QueryError("broken", "the process that was to run the query ended unexpectedly")
            raise QueryError("memory", "the query needed more memory than it may have")
        raise QueryError(_REASONS[kind], body.decode(errors="replace"))

    def _watch(self, done: threading.Event, timeout: float, unwanted: Gone, why: list[QueryError]) -> None:
        """End a query that takes too long or is not wanted any more, and put one that takes long behind others."""
        asked = time.monotonic()
        while not done.wait(max(0.0, min(_LOOK, (self._began or math.inf) + timeout - time.monotonic()))):
            began, now, over = self._began, time.monotonic(), None
            taken = now - began if began is not None else 0.0
            if taken >= timeout:
                over = _too_long(timeout)
            elif began is None and now >= asked + _START:
                over = QueryError("busy", f"it is too busy: no process could be started in {_START:g} s")
            elif unwanted():
                over = QueryError("stopped", STOPPED)
            with self._lock:
                if done.is_set():
                    return
                if over:
                    why.append(over)
                    self.kill()
                    return
                if taken >= LONG and not self._behind:
                    self._give_way()

    def _give_way(self) -> None:
        self._behind = True
        if sys.platform != "win32":
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)

    def kill(self) -> None:
        self._killed = True  # the system may take a moment
        self._process.kill()

    def end(self) -> None:
        """Kill the process, where it still lives, and let go of what belongs to it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not yet sent can no longer be
                continue
        self._process.wait()

    def _exchange(self, request: dict[str, Any]) -> tuple[int, bytes]:
        if self._process.stdin is None or self._process.stdout is None:
            return GONE, b""
        try:
            write_frame(self._process.stdin, 0, json.dumps(request).encode())
            if not self._ready:
                self._ready = (read_frame(self._process.stdout) or (GONE, b""))[0] == READY
                self._began = time.monotonic()
            return read_frame(self._process.stdout) or (GONE, b"")
        except OSError:  # the pipe broke
            return GONE, b""
