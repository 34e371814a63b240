"""``kbnav chat``: a session with follow-up questions, and what can be typed beside questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.console import Console

from kbnav.apps.cli.ask import print_baseline, print_outcome
from kbnav.apps.cli.options import Asking
from kbnav.apps.cli.terminal import RunProgress, print_error, stopped_by_ctrl_c
from kbnav.apps.console import labelled_query, printable, query_lines
from kbnav.errors import StopRun, UsageError
from kbnav.models.cancellation import Cancellation
from kbnav.runs.trajectory import Run, new_id
from kbnav.settings.model import Settings

_ENDS = ("", "/quit", "/exit")
_HELP = """\
/sparql  the query of the last answer that has one
/quit    end the session, as an empty line and Ctrl-D do
In a shell, `kbnav show last` prints the last answer's steps, `kbnav export last answer.html` writes it to a file."""
_PROMPT = "\001\x1b[1m\002?\001\x1b[0m\002 "
"""In bold; marked, so that the line editor knows that the codes have no width."""


def chat(
    of: Asking,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on with an earlier session.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the steps.")] = False,
) -> None:
    """Ask question after question, each knowing those before it; /help lists what else can be typed.

    A session is saved after every step; --session continues it, also after a kill.

    For example: kbnav chat --kb demo --session lutes
    """
    from kbnav.agents.common.agent import build_agent
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.session import Chat, sqlite_sessions

    settings, console = of.settings(), Console()
    settings.check_key()
    runs: list[Run] = []
    with sqlite_sessions(settings.home) as saver, open_kb(settings) as base:
        agent = build_agent(base, settings, of.system or "")
        talk = Chat(agent, session or new_id("chat"), saver)
        if session and not talk.exists:
            raise UsageError(f"there is no session {session!r}")
        print_baseline(console, agent, quiet)
        _print(console, f"session {talk.id} on {settings.kb} with {agent.model}")
        _print(console, "/help lists commands; /quit, an empty line or Ctrl-D ends the session")

        def answer(ask: Callable[[Cancellation, RunProgress], Run]) -> None:
            """Answer, and print that; what stops it is printed, and the session goes on."""
            try:
                progress = RunProgress(console, agent.model, steps=not quiet)
                with stopped_by_ctrl_c() as cancellation, progress:
                    runs.append(ask(cancellation, progress))
                print_outcome(runs[-1], settings)
            except StopRun as error:
                print_error(error)

        if question := talk.unfinished:
            _print(console, f"going on with: {question}")
            answer(lambda cancellation, progress: talk.resume(on_event=progress, cancellation=cancellation))
        read = _line_reader()
        while (line := read()) not in _ENDS:
            if line.startswith("/"):
                _command(line, console, runs)
            else:
                answer(
                    lambda cancellation, progress, line=line: talk.ask(  # type: ignore[misc]
                        line, on_event=progress, cancellation=cancellation
                    )
                )
        _print(console, f"to continue later: {_same_command(of, settings, talk.id)}")


def _print(console: Console, text: str) -> None:
    console.print(printable(text), style="dim", highlight=False, markup=False, soft_wrap=True)


def _command(line: str, console: Console, runs: list[Run]) -> None:
    if line == "/help":
        _print(console, _HELP)
    elif line != "/sparql":
        _print(console, f"there is no {line.split()[0]}; /help lists the commands")
    elif asked := next((run for run in reversed(runs) if run.outcome.query), None):
        console.print(query_lines(labelled_query(asked)), crop=False)
    else:
        _print(console, "no answer here has a query yet")


def _same_command(of: Asking, settings: Settings, session: str) -> str:
    options = {"kb": of.kb and settings.kb, "model": of.model, "base-url": of.base_url, "system": of.system}
    pairs = [(name, value) for name, value in options.items() if value]
    pairs += [("set", one) for one in of.given or ()] + [("notes", str(one)) for one in of.notes or ()]
    return f"kbnav chat --session {session}" + "".join(f" --{name} {shlex.quote(value)}" for name, value in pairs)


def _line_reader() -> Callable[[], str]:
    """A function that reads a line, empty at the end; on a terminal the arrow keys bring back earlier lines."""
    editor: Any = None
    if sys.stdin.isatty() and sys.stdout.isatty():
        with suppress(ImportError):  # Windows
            import readline as editor

    def read() -> str:
        try:
            return input(_PROMPT if editor else "? ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return ""

    return read
