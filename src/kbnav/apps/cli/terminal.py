"""What commands that ask share: the answer printed, Ctrl-C taken, an error said."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.agents.common.agent import Agent
    from kbnav.settings import Settings
    from kbnav.stopping import Brake
    from kbnav.trajectory import Run


def print_outcome(run: Run, settings: Settings, as_json: bool, as_csv: bool) -> None:
    """Print the answer, for people or for programs."""
    from kbnav.apps.console import answer_json, print_answer, spent_words

    page = settings.endpoints.query_page
    if as_json:
        print(answer_json(run, page))
    elif as_csv:
        if run.outcome.table is not None:
            sys.stdout.write(run.outcome.table.to_csv())
        elif run.outcome.ranking is not None:
            sys.stdout.write(run.outcome.ranking.to_csv())
    else:
        from rich.console import Console

        console = Console()
        console.rule()
        print_answer(console, run, page)
        console.print(
            f"{spent_words(run)}; every step: kbnav show {run.id}", style="dim", highlight=False, soft_wrap=True
        )


@contextmanager
def ended_by_ctrl_c() -> Iterator[Brake]:
    """A brake that Ctrl-C pulls, so that the run ends in good order and is saved; a second Ctrl-C ends the program."""
    from kbnav.stopping import Brake

    brake = Brake()

    def end(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler
        signal.signal(signal.SIGINT, usual)
        # A thread of its own, because the code that was interrupted may hold the brake's lock.
        threading.Thread(target=brake.stop, args=("Interrupted; the run so far is saved: kbnav show last",)).start()

    usual = signal.signal(signal.SIGINT, end)
    try:
        yield brake
    finally:
        signal.signal(signal.SIGINT, usual)


def say_baseline(console: Console, agent: Agent) -> None:
    """Say that the answer comes without a language model, where it does."""
    if agent.model == "offline":
        console.print("offline policy: no language model, a baseline; --model names a better one", style="dim")


def say_error(error: Exception) -> None:
    """One line, or a few, on standard error."""
    from kbnav.apps.console import printable

    print(f"kbnav: {printable(str(error))}", file=sys.stderr)
