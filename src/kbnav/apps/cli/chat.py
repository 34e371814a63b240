"""``kbnav chat``: a session with follow-up questions."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import AskedOf
from kbnav.apps.cli.terminal import ended_by_ctrl_c, print_outcome, say_baseline, say_error

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.apps.cli.progress import Progress
    from kbnav.settings import Settings
    from kbnav.stopping import Brake
    from kbnav.trajectory import Run


def chat(
    of: AskedOf,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on with an earlier session.")
    ] = None,
) -> None:
    """A session with follow-up questions, saved after every step; --session goes on with it, also after a kill."""
    from rich.console import Console

    from kbnav.agents.common.choice import build_agent
    from kbnav.knowledge.open import open_kb
    from kbnav.session import Chat, sqlite_sessions
    from kbnav.trajectory import new_id

    settings = of.settings()
    console = Console()
    with open_kb(settings) as base, sqlite_sessions(settings.home) as saver:
        agent = build_agent(base, settings, of.system or "")
        talk = Chat(agent, session or new_id("chat"), saver)
        if session and not talk.exists:
            from kbnav.errors import UsageError

            raise UsageError(f"there is no session {session!r}")
        say_baseline(console, agent)
        where = f"session {talk.id} on {settings.kb} with {agent.model}"
        console.print(f"{where}; an empty line or Ctrl-D ends it", style="dim", highlight=False, markup=False)
        try:
            if talk.unfinished:
                console.print(f"going on with: {talk.unfinished}", style="dim", highlight=False, markup=False)
                _turn(lambda brake, seen: talk.resume(on_event=seen, brake=brake), settings, console)
            while question := _next_question(console):
                _turn(
                    lambda brake, seen, asked=question: talk.ask(asked, on_event=seen, brake=brake),  # type: ignore[misc]
                    settings,
                    console,
                )
        finally:
            options = _options(
                kb=of.kb, model=of.model, base_url=of.base_url, language=of.language, system=of.system, set=of.chosen
            )
            console.print(f"to go on later: kbnav chat --session {talk.id}{options}", style="dim", soft_wrap=True)


def _turn(answer: Callable[[Brake, Progress], Run], settings: Settings, console: Console) -> None:
    """One turn of a chat: what stops it is said, and the session goes on."""
    from kbnav.apps.cli.progress import Progress
    from kbnav.errors import StopRun

    try:
        with ended_by_ctrl_c() as brake, Progress(console, settings.model) as seen:
            run = answer(brake, seen)
        print_outcome(run, settings, False, False)
    except StopRun as error:
        say_error(error)


def _options(**given: str | list[str] | None) -> str:
    """The options that a command was given, to be given again."""
    pairs = (
        (name, one) for name, value in given.items() for one in ([value] if isinstance(value, str) else value or [])
    )
    return "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in pairs if value)


def _next_question(console: Console) -> str:
    """What is typed; empty at the end. A line that looks like a command is not asked, because asking may cost money."""
    try:
        while (typed := console.input("[bold]?[/bold] ").strip()).startswith("/"):
            console.print("questions only; an empty line or Ctrl-D ends the session", style="dim")
    except (EOFError, KeyboardInterrupt):
        console.print()
        return ""
    return typed
