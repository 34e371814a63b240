"""What is seen while a run goes on: each step as it happens, and what is waited for."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from kbnav.apps.console import call_lines, drop_line, observation_lines, printable, short_arguments
from kbnav.runs.trajectory import Call
from kbnav.settings.model import OFFLINE

if TYPE_CHECKING:
    from kbnav.agents.machine import Event

_SOON = 1.0
"""Seconds after which it is said how long something has been waited for."""


class Progress:
    """Shows a run: its steps, unless they are not wanted, and on a terminal what is awaited, for how long."""

    def __init__(self, console: Console, model: str, *, steps: bool = True) -> None:
        """``model`` is whom the run asks for its next step."""
        self._console = console
        self._steps = steps
        self._thinking = "looking for the next step" if model == OFFLINE else f"waiting for {model}"
        self._awaited = _Awaited()
        waiting = Spinner("dots", self._awaited)
        self._live = Live(waiting, console=console, transient=True) if console.is_terminal else None
        self._running: list[Call] = []
        self._together = False

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        self._await(self._thinking)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Listen to a run. Where calls run side by side, each observation is headed by its call."""
        if event.call:
            self._running.append(event.call)
            self._together = len(self._running) > 1
            self._show(call_lines(event.call))
        for step in event.steps:
            if event.kind == "dropped":
                self._show(drop_line(step))
                continue
            if self._together:
                self._show(Text(f"← {printable(step.call.tool)} {short_arguments(step.call.arguments)}", style="cyan"))
            self._show(observation_lines(step))
            self._running = [call for call in self._running if call is not step.call]
        tools = dict.fromkeys(printable(call.tool) for call in self._running)
        self._await(f"running {', '.join(tools)}" if tools else self._thinking)

    def _show(self, lines: RenderableType) -> None:
        if self._steps:
            self._console.print(lines, crop=False)

    def _await(self, what: str) -> None:
        self._awaited.what, self._awaited.since = what, time.monotonic()
        if self._live:
            self._live.refresh()


class _Awaited:
    """What is waited for, and for how long, at the moment it is drawn."""

    def __init__(self) -> None:
        self.what = ""
        self.since = time.monotonic()

    def __rich__(self) -> Text:
        seconds = time.monotonic() - self.since
        return Text(f"{self.what} … {seconds:.0f} s" if seconds >= _SOON else f"{self.what} …", style="dim")
