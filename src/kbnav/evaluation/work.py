"""Work done side by side in a bounded number of threads, that can be stopped between two items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from kbnav.errors import ServiceError

T = TypeVar("T")
R = TypeVar("R")
PATIENCE = 10
"""Failures in a row after which a service is taken to be down."""


def side_by_side(
    items: Iterable[T], do: Callable[[T], R], *, jobs: int, stopped: Callable[[], object]
) -> Iterator[tuple[T, Future[R]]]:
    """Items with their ended futures, in the order in which they end; at most ``jobs`` are under way.

    No item is begun once ``stopped()`` is true; those under way are waited for. Where the consumer leaves early, they
    are left alone.
    """
    queue = iter(items)
    under_way: dict[Future[R], T] = {}
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="kbnav-eval")
    try:
        while True:
            while len(under_way) < jobs and not stopped():
                item = next(queue, None)
                if item is None:
                    break
                under_way[pool.submit(do, item)] = item
            if not under_way:
                return
            # Woken now and then, because a signal that another thread takes does not end a wait of the main thread.
            ended, _ = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ended:
                yield under_way.pop(future), future
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Patience:
    """Raises ServiceError after too many failures in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def heed(self, failure: str) -> None:
        """Count one item; ``failure`` is empty where it went well."""
        self._failures = self._failures + 1 if failure else 0
        if self._failures >= PATIENCE:
            raise ServiceError(
                f"{PATIENCE} failures in a row, so the run was stopped; run it again with --retry-failed "
                f"when this is mended: {failure}"
            )
