"""The Ray cluster that work is given to: that of ``RAY_ADDRESS``, or one on this machine; needs the extra ``ray``."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from kbnav.errors import ServiceError
from kbnav.settings.model import Settings
from kbnav.settings.plugins import needs

_CONNECT = 10.0
"""Seconds in which the head of a cluster must take a connection; Ray itself would try for minutes."""


@contextmanager
def connected(use: str) -> Iterator[Any]:
    """Ray, connected; a cluster that is started here ends with it.

    Raises UsageError, which names the ``use``, where Ray is not installed, and ServiceError where ``RAY_ADDRESS`` has
    no cluster, or one of another version, or where none could be started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or Ray would tell its makers about the machine
    with needs("ray", use):
        import ray

    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        host, colon, port = address.rpartition("://")[2].rpartition(":")
        if colon and port.isdecimal():
            socket.create_connection((host, int(port)), _CONNECT).close()
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except Exception as error:  # Ray raises no other, where a machine is too busy to start it
        place = f"no Ray cluster at RAY_ADDRESS={address}" if address else "no Ray cluster could be started here"
        raise ServiceError(f"{place}: {str(error).strip().splitlines()[0]}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def share_of(ray: Any, workers: int | None, most: int | None = None) -> tuple[int, float]:
    """How many workers, by processors up to ``most`` unless ``workers`` says, and processors of each (≤ 1)."""
    processors = ray.cluster_resources().get("CPU", 1.0)
    count = workers or max(1, int(processors))
    if most is not None:
        count = min(count, most)
    return count, min(1.0, processors / count)


def for_workers(settings: Settings) -> Settings:
    """The settings with whole paths: a worker is not started where this process was."""
    kb = str(Path(settings.kb).resolve()) if os.path.exists(settings.kb) else settings.kb  # noqa: PTH110 - or a URL
    return settings.model_copy(update={"kb": kb, "home": settings.home.resolve()})


class Pool:
    """Workers of a cluster that threads share; begun with the first call, and begun again once where killed."""

    def __init__(
        self, ray: Any, kind: type, given: tuple[Any, ...], count: int, share: float, at_once: int = 1
    ) -> None:
        """``count`` of a ``kind`` that is made with ``given``, each with a ``share`` of a processor.

        Each does ``at_once`` calls at most.
        """
        made = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=1)(kind)
        self._ray, self._kind = ray, made.options(max_concurrency=at_once)
        self._given, self._count = given, count
        self._lock = Lock()
        self._under_way: dict[Any, int] = {}

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the worker with least to do gives or raises. Raises RayError where a worker died twice."""
        with self._lock:
            if not self._under_way:
                self._under_way = {self._kind.remote(*self._given): 0 for _ in range(self._count)}
            worker = min(self._under_way, key=lambda one: self._under_way[one])
            self._under_way[worker] += 1
        try:
            return self._ray.get(getattr(worker, method).remote(*arguments))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        finally:
            with self._lock:
                self._under_way[worker] -= 1

    def close(self) -> None:
        """End the workers."""
        for worker in self._under_way:
            self._ray.kill(worker)
