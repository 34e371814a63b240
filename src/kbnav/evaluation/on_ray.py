"""An evaluation's questions asked by the machines of a Ray cluster; needs the extra ``ray``.

The journal, the limits of cost and time, and the scores stay with the process that was started; each worker has the
knowledge base and the system open for itself. What they ask of live services is limited together where
``settings.shared`` is set.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.evaluation.evaluate import Build
from kbnav.evaluation.systems import System, build_system
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import connected, share_of
from kbnav.runs.trajectory import Attempt
from kbnav.settings.model import Settings


class Worker:
    """One process of the cluster."""

    def __init__(self, name: str, settings: Settings, left_out: list[tuple[str, str]]) -> None:
        """``left_out`` are the questions that must not be among the examples in prompts."""
        self._open = ExitStack()
        kb = self._open.enter_context(open_kb(settings))
        self._system = build_system(name, kb, settings)
        self._system.leave_out(left_out)

    def ask(self, question: str, given: Mapping[str, str] | None) -> Attempt | Exception:
        """An answer, or what asking for it raised, which Ray would wrap."""
        try:
            if given is None or self._system.ask_given is None:
                return self._system.ask(question)
            return self._system.ask_given(question, given)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is waited for
            return error


class Workers:
    """Workers, each of which has a share of the questions under way; threads share it.

    They are started when the first question is asked. One that is killed is started again, and its questions are asked
    once more, each once.
    """

    def __init__(self, ray: Any, count: int, share: float, at_once: int, name: str, settings: Settings) -> None:
        """``count`` workers, each with a ``share`` of a processor and at ``at_once`` questions at most."""
        self._ray, self._count, self._share, self._at_once, self._name = ray, count, share, at_once, name
        self._settings = _anywhere(settings)
        self._left_out: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._under_way: dict[Any, int] = {}

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        """Have questions left out of the examples in prompts."""
        self._left_out.extend(questions)

    def ask(self, question: str, given: Mapping[str, str] | None = None) -> Attempt:
        """The answer of the worker with least to do. Raises as the system, and RayError where a worker died twice."""
        worker = self._least_busy()
        try:
            answer = self._ray.get(worker.ask.remote(question, given))
        finally:
            with self._lock:
                self._under_way[worker] -= 1
        if isinstance(answer, Exception):
            raise answer
        attempt: Attempt = answer
        return attempt

    def _least_busy(self) -> Any:
        with self._lock:
            if not self._under_way:
                kind = self._ray.remote(num_cpus=self._share, max_restarts=-1, max_task_retries=1)(Worker)
                kind = kind.options(max_concurrency=self._at_once)
                told = (self._name, self._settings, self._left_out)
                self._under_way = {kind.remote(*told): 0 for _ in range(self._count)}
            worker = min(self._under_way, key=lambda one: self._under_way[one])
            self._under_way[worker] += 1
            return worker

    def close(self) -> None:
        """End the workers."""
        for worker in self._under_way:
            self._ray.kill(worker)


@contextmanager
def on_ray(jobs: int, workers: int | None = None) -> Iterator[Build]:
    """What builds systems whose questions a cluster answers: that of ``RAY_ADDRESS``, or one on this machine.

    Of ``jobs`` questions at once, each of ``workers`` has an equal share; as many as the cluster has processors unless
    that is given. Raises as ``connected``.
    """
    with ExitStack() as stack:
        ray = stack.enter_context(connected("--on ray"))
        count, share = share_of(ray, workers, jobs)

        def build(name: str, kb: KnowledgeBase, settings: Settings) -> System:
            here = build_system(name, kb, settings)
            there = Workers(ray, count, share, -(-jobs // count), name, settings)
            stack.callback(there.close)

            def leave_out(questions: Iterable[tuple[str, str]]) -> None:
                named = list(questions)
                here.leave_out(named)
                there.leave_out(named)

            return replace(
                here,
                ask=there.ask,
                ask_given=there.ask if here.ask_given else None,
                watched=None,
                leave_out=leave_out,
            )

        yield build


def _anywhere(settings: Settings) -> Settings:
    """The settings with whole paths: a worker is not started where this process was."""
    kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - it may be a URL
    return settings.model_copy(update={"kb": kb, "home": settings.home.resolve(), "data": settings.data.resolve()})
