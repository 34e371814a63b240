"""Who is told whether a service answers: a server, that leaves one alone for a while which does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from kbnav.errors import ServiceError


class Watch(Protocol):
    """Counts how requests to a knowledge base's services end; threads share it."""

    def failed(self) -> None:
        """One failed, after all tries."""
        ...

    def answered(self) -> None:
        """One was answered."""
        ...


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """Have ``watch`` told of every request that is made within, in threads with this context too."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


@contextmanager
def told() -> Iterator[None]:
    """Tell whoever watches how the request within ends; a query that is at fault itself is neither."""
    watch = _WATCH.get()
    if watch is None:
        yield
        return
    try:
        yield
    except ServiceError:
        watch.failed()
        raise
    watch.answered()
