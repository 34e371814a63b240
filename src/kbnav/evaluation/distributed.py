"""Beyond one machine: a run's questions asked by the workers of a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.evaluation.runner import Build, System, build_system
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import connected, share_of
from kbnav.runs.trajectory import Attempt
from kbnav.settings.model import Settings


class Worker:
    """One process of the cluster, with the knowledge base and the system open for itself."""

    def __init__(self, name: str, settings: Settings, left_out: list[tuple[str, str]]) -> None:
        """``left_out`` are the questions that must not be among the examples in prompts."""
        self._open = ExitStack()
        self._system = build_system(name, self._open.enter_context(open_kb(settings)), settings)
        self._system.leave_out(left_out)

    def ask(self, question: str, given: Mapping[str, str]) -> Attempt | Exception:
        """An answer, or what asking for it raised, which Ray would wrap."""
        try:
            return self._system.ask(question, given)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is waited for
            return error


class _Workers:
    """Workers that share questions, for threads; begun with the first one, and begun again once where killed."""

    def __init__(self, ray: Any, count: int, share: float, at_once: int, name: str, settings: Settings) -> None:
        """``count`` workers, each with a ``share`` of a processor and at ``at_once`` questions at most."""
        kind = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=1)(Worker)
        self._ray, self._count, self._kind = ray, count, kind.options(max_concurrency=at_once)
        # With whole paths: a worker is not started where this process was.
        kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - or a URL
        paths = {"kb": kb, "home": settings.home.resolve()}
        self._name, self._settings = name, settings.model_copy(update=paths)
        self._left_out: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._under_way: dict[Any, int] = {}

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        self._left_out.extend(questions)

    def ask(self, question: str, given: Mapping[str, str]) -> Attempt:
        """The answer of the worker with least to do. Raises as the system, and RayError where a worker died twice."""
        with self._lock:
            if not self._under_way:
                started = (self._kind.remote(self._name, self._settings, self._left_out) for _ in range(self._count))
                self._under_way = dict.fromkeys(started, 0)
            worker = min(self._under_way, key=lambda one: self._under_way[one])
            self._under_way[worker] += 1
        try:
            answer: Attempt | Exception = self._ray.get(worker.ask.remote(question, given))
        finally:
            with self._lock:
                self._under_way[worker] -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        for worker in self._under_way:
            self._ray.kill(worker)


@contextmanager
def on_ray(jobs: int, workers: int | None = None) -> Iterator[Build]:
    """What builds systems whose questions a cluster answers: that of ``RAY_ADDRESS``, or one on this machine.

    Of ``jobs`` questions at once, each of ``workers`` has an equal share; as many as the cluster has processors unless
    that is given. The journal and the limits of cost and time stay with this process; what the workers ask of live
    services is limited together where the setting ``database`` is set. Raises as ``connected``.
    """
    with ExitStack() as stack:
        ray = stack.enter_context(connected("--on ray"))
        count, share = share_of(ray, workers, jobs)

        def build(name: str, kb: KnowledgeBase, settings: Settings) -> System:
            here = build_system(name, kb, settings)
            there = _Workers(ray, count, share, -(-jobs // count), name, settings)
            stack.callback(there.close)

            def leave_out(questions: Iterable[tuple[str, str]]) -> None:
                named = list(questions)
                here.leave_out(named)
                there.leave_out(named)

            return replace(here, ask=there.ask, leave_out=leave_out)

        yield build
