"""Whatever tests start comes to an end: their threads and processes, and the process that runs them."""

import faulthandler
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

SECONDS = 300.0
"""That the end of the process may take."""


@contextmanager
def running(work: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Work in a thread, which is told to end and waited for."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end()
        joined(thread)


def joined(thread: Thread, seconds: float = 60.0) -> None:
    """Wait for the end of a thread. Raises AssertionError, with the place where it hangs, after so many seconds."""
    thread.join(seconds)
    if thread.is_alive():
        where = traceback.format_stack(sys._current_frames()[thread.ident or 0])
        raise AssertionError(f"{thread.name} does not end:\n{''.join(where)}")


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to be true. Raises AssertionError where it takes longer."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError("it took too long")
        time.sleep(0.02)


@contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process, as subprocess.Popen takes it; it is killed where it has not ended by then."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process though threads keep it alive; those of pytest-xdist's workers are ended by it."""
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
