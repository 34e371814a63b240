"""Programs run beyond this process: by processes of this machine, or by the workers of a Ray cluster.

Each has the knowledge base, the API and a sandbox open for itself. What a program makes of a query depends on neither,
so that a training gives the same programs wherever they run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from queue import Queue
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Literal

from kbnav.errors import ServiceError
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import connected, share_of
from kbnav.knowledge.skb.kb import as_skb
from kbnav.programs.first_stage import open_parts
from kbnav.programs.program import Outcome, Program
from kbnav.programs.sandbox import Sandbox
from kbnav.settings.model import OFFLINE, Settings

Where = Literal["here", "processes", "ray"]
"""Where programs run: in the sandboxes of this process, or in those of other processes."""


class Worker:
    """One process, with everything open until it ends."""

    def __init__(self, settings: Settings, api_model: str) -> None:
        kb = as_skb(open_kb(settings).__enter__(), "kbnav train programs")
        self._parts = open_parts(kb, settings, api_model=api_model)
        self._sandbox = Sandbox(workers=1).__enter__()

    def first(self, query: str) -> Sequence[str]:
        """The candidates of a query, ids, best first."""
        return list(self._parts.first(query, None))

    def run(self, source: str, query: str, candidates: Sequence[str]) -> Outcome:
        """See ``Sandbox.run``."""
        return self._sandbox.run(Program.read(source), query, candidates, self._parts.api)


class Bench:
    """What ``TrialRunner`` needs, done by ``count`` workers; threads share it. Raises what they met."""

    def __init__(self, call: Callable[..., Any], count: int) -> None:
        """``call`` gives what a method of a worker that has nothing else to do gives, by the method's name."""
        self.count = count
        self.first: Callable[[str], Sequence[str]] = partial(call, "first")
        self.run: Callable[[Program, str, Sequence[str]], Outcome] = lambda program, query, candidates: call(
            "run", program.source, query, list(candidates)
        )


_HERE: list[Worker] = []
"""In a process that was started for it, its worker."""


def _begin(settings: Settings, api_model: str) -> None:
    signal(SIGINT, SIG_IGN)  # ^C ends the training behind its step, which these are needed for
    _HERE.append(Worker(settings, api_model))


def _do(method: str, arguments: Sequence[Any]) -> Any:
    return getattr(_HERE[0], method)(*arguments)


@contextmanager
def open_bench(where: Where, settings: Settings, api_model: str, count: int | None) -> Iterator[Bench]:
    """``count`` workers, by default as many as there are processors; they end with it. Raises as ``connected``."""
    kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - or a name
    settings = settings.model_copy(update={"kb": kb, "home": settings.home.resolve()}).asking(OFFLINE)
    if where == "ray":
        with connected("--set on=ray") as ray:
            number, share = share_of(ray, count)
            # One that dies is started again, and what it was at is done once more.
            kind = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=1)(Worker)
            workers = [kind.remote(settings, api_model) for _ in range(number)]
            free: Queue[Any] = Queue()
            for worker in workers:
                free.put(worker)

            def call(method: str, *arguments: Any) -> Any:
                worker = free.get()
                try:
                    return ray.get(getattr(worker, method).remote(*arguments))
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                finally:
                    free.put(worker)

            try:
                yield Bench(call, number)
            finally:
                for worker in workers:
                    ray.kill(worker)
        return
    number = count or os.cpu_count() or 1
    begun = (settings, api_model)
    with ProcessPoolExecutor(number, get_context("spawn"), initializer=_begin, initargs=begun) as pool:

        def submit(method: str, *arguments: Any) -> Any:
            try:
                return pool.submit(_do, method, arguments).result()
            except BrokenProcessPool as error:
                raise ServiceError("a process that ran programs was ended; the same command continues it") from error

        yield Bench(submit, number)
