"""What commands share at a terminal: errors, JSON, Ctrl-C, and what is seen while work goes on."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.text import Text

from kbnav.apps.console import call_lines, drop_line, observation_lines, printable, short_arguments
from kbnav.errors import UsageError
from kbnav.models.cancellation import Cancellation
from kbnav.runs.trajectory import Call
from kbnav.settings.model import OFFLINE

if TYPE_CHECKING:
    from rich.progress import TaskID

    from kbnav.agents.machine import Event

_SOON = 1.0
"""Seconds after which the waiting line shows how long it has been."""
_EVERY = 10.0
"""Seconds between lines of progress where standard error is no terminal."""


def print_error(error: object) -> None:
    """One line, or a few, on standard error."""
    print(f"kbnav: {printable(str(error))}", file=sys.stderr)


def print_json(value: object) -> None:
    """Plain data, for programs."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def emit(as_json: bool, value: object, *lines: str) -> None:
    """The result of a command: ``value`` for programs, the lines for people."""
    if as_json:
        print_json(value)
    else:
        print("\n".join(lines))


def read_text(path: Path) -> str:
    """The text of a file. Raises UsageError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


@contextmanager
def stop_on_signals(
    message: str = "waiting for the questions under way", cancellation: Cancellation | None = None, why: str = ""
) -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets, printing ``message``; a second one ends the process at once.

    That is safe at any moment, as a kill is, and waits for no thread that a slow service holds up. The first also stops
    a ``cancellation``, for ``why``.
    """
    stop, signalled = threading.Event(), False

    def end() -> None:
        stop.set()
        if cancellation:
            cancellation.stop(why)

    def note(number: int, frame: Any) -> None:  # noqa: ARG001 - a signal handler
        nonlocal signalled
        if signalled:
            for terminal in filter(os.isatty, (1, 2)):
                os.write(terminal, b"\x1b[?25h")  # the cursor, which progress hides
            os._exit(128 + number)
        signalled = True
        threading.Thread(target=end).start()  # because the code that was interrupted may hold their locks
        os.write(2, f"\n{message}; once more to leave at once\n".encode())

    usual = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


class RunProgress:
    """Prints the steps of a run as they happen, and on a terminal a line with what is awaited and for how long."""

    def __init__(self, console: Console, model: str, *, steps: bool = True) -> None:
        self._console, self._steps = console, steps
        self._thinking = "looking for the next step" if model == OFFLINE else f"waiting for {model}"
        self._awaited, self._since = "", time.monotonic()
        self._running: list[Call] = []
        self._called: Call | None = None
        self._together = False
        self._live: Any = None
        if console.is_terminal:
            from rich.live import Live
            from rich.spinner import Spinner

            self._live = Live(Spinner("dots", self), console=console, transient=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        self._wait_for(self._thinking)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event. Where calls run side by side, each observation is headed by its call."""
        if event.call:
            self._running.append(event.call)
            self._together = len(self._running) > 1
            self._print(call_lines, event.call, self._called)
            self._called = event.call
        for step in event.steps:
            if event.kind == "dropped":
                self._print(drop_line, step)
                continue
            if self._together and self._steps:
                self._print(Text, f"← {printable(step.call.tool)} {short_arguments(step.call.arguments)}", "cyan")
            self._print(observation_lines, step)
            self._running = [call for call in self._running if call is not step.call]
        tools = dict.fromkeys(printable(call.tool) for call in self._running)
        self._wait_for(f"running {', '.join(tools)}" if tools else self._thinking)

    def _print(self, lines: Callable[..., Any], *what: Any) -> None:
        if self._steps:
            self._console.print(lines(*what), crop=False)

    def _wait_for(self, what: str) -> None:
        self._awaited, self._since = what, time.monotonic()
        if self._live:
            self._live.refresh()

    def __rich__(self) -> Any:
        seconds = time.monotonic() - self._since
        return Text(f"{self._awaited} … {seconds:.0f} s" if seconds >= _SOON else f"{self._awaited} …", style="dim")


class StageProgress:
    """Shows each stage of a build and the time left; where there is no terminal, a line for each that took long.

    Called as ``kbnav.knowledge.skb.schema.Progress``.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import Progress

        from kbnav.knowledge.skb.schema import TRIPLES

        self._beside = TRIPLES
        self._console = console
        shown = console.is_terminal
        # An encoder may take minutes from one report to the next.
        self._bars = Progress(console=console, speed_estimate_period=600, transient=True, disable=not shown)
        self._stages: dict[str, TaskID] = {}
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            for name in list(self._stages):
                self._end(name)
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """That ``done`` of ``total`` (0: not known) are done. Stages follow one another, but for the triples."""
        with self._lock:
            if stage not in self._stages:
                for name in [one for one in self._stages if self._beside not in (one, stage)]:
                    self._end(name)
                self._stages[stage] = self._bars.add_task(stage, total=None)
            self._bars.update(self._stages[stage], completed=done, total=total or None)
            if stage == self._beside and done == total:
                self._end(stage)

    def _end(self, name: str) -> None:
        task = self._bars.tasks[self._bars.task_ids.index(self._stages.pop(name))]
        self._bars.update(task.id, total=task.completed)
        seconds = task.elapsed or 0.0
        if seconds > _EVERY and not self._console.is_terminal:
            self._console.print(f"{name}: {task.completed:,.0f} in {seconds:.0f} s", highlight=False)


class Counter:
    """So many of so many, on one line of standard error: written over on a terminal, else now and then."""

    def __init__(self, what: str = "") -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._last = 0.0
        self._open = ""

    def __call__(self, done: int, total: int) -> None:
        """Show the count."""
        self.show(f"{done}/{total} {self._what}", ended=done == total)

    def show(self, text: str, *, ended: bool) -> None:
        """Show a text in place of the last."""
        self._open = "" if ended else text
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if ended else "", file=sys.stderr, flush=True)
        elif ended or time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the last text standing, where the work stopped before its end."""
        if self._open:
            self.show(self._open, ended=True)
