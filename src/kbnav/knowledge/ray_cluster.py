"""The Ray cluster that work is given to: that of ``RAY_ADDRESS``, or one on this machine; needs the extra ``ray``."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kbnav.errors import ServiceError
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
