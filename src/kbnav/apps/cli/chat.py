"""``kbnav chat``: a session with follow-up questions, and what can be typed beside questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.ask import print_baseline, print_outcome
from kbnav.apps.cli.options import Asking
from kbnav.apps.cli.terminal import RunProgress, print_error, stopped_by_ctrl_c

if TYPE_CHECKING:
    from kbnav.agents.common.agent import Agent
    from kbnav.models.cancellation import Cancellation
    from kbnav.runs.trajectory import Run
    from kbnav.sessions.session import Chat
    from kbnav.settings.model import Settings

_HISTORY = 1000
"""Lines of history that are saved."""
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

    A session is saved after every step; --session goes on with it, also after a kill.
    """
    from kbnav.errors import UsageError
    from kbnav.runs.trajectory import new_id
    from kbnav.sessions.session import sqlite_sessions

    settings = of.settings()
    with ExitStack() as stack:
        lost: list[str] = []

        def lose(line: str) -> None:
            lost.append(line)
            print_error(line)

        saver = stack.enter_context(sqlite_sessions(settings.home, on_loss=lose))
        talk = Conversation(settings, of, session or new_id("chat"), saver, quiet=quiet)
        stack.callback(talk.close)
        talk.open(settings, of.system or "")
        if session and not talk.chat.exists:
            raise UsageError(f"there is no session {session!r}")
        talk.greet()
        stack.callback(lambda: None if lost else talk.print_how_to_go_on())
        with _line_reader(settings.home / "chat-history") as read:
            talk.finish_unfinished()
            while line := read():
                talk.take(line)


class Conversation:
    """A chat at a terminal: the current knowledge base and model, and what was answered last."""

    chat: Chat
    agent: Agent

    def __init__(self, settings: Settings, of: Asking, session: str, saver: Any, *, quiet: bool) -> None:
        """``saver`` saves the session ``session``; ``of`` are the command's options."""
        from rich.console import Console

        self.console = Console()
        self.settings = settings
        self.runs: list[Run] = []
        """Those since the program began."""
        self._of, self._first = of, settings
        self._id, self._saver, self._quiet = session, saver, quiet
        self._system = ""
        self._opened = ExitStack()

    def open(self, settings: Settings, system: str) -> None:
        """Ask under these settings from now on; earlier turns stay known. Raises StopRun, nothing changed."""
        from kbnav.agents.common.agent import build_agent
        from kbnav.knowledge.open import open_kb
        from kbnav.models.chat import check_key
        from kbnav.sessions.session import Chat

        check_key(settings)
        with ExitStack() as opened:
            agent = build_agent(opened.enter_context(open_kb(settings)), settings, system)
            self.chat = Chat(agent, self._id, self._saver)
            self._opened.close()
            self._opened = opened.pop_all()
        self.agent, self.settings, self._system = agent, settings, system

    def close(self) -> None:
        """Close the knowledge base."""
        self._opened.close()

    def print(self, text: str) -> None:
        """A line beside questions and answers."""
        from kbnav.apps.console import printable

        self.console.print(printable(text), style="dim", highlight=False, markup=False, soft_wrap=True)

    def greet(self) -> None:
        """Print what is asked, and how to end."""
        print_baseline(self.console, self.agent)
        self.print(f"session {self._id} on {self.settings.kb} with {self.agent.model}")
        self.print("/help lists commands; an empty line or Ctrl-D ends the session")

    def print_how_to_go_on(self) -> None:
        """Print the command that goes on with this session."""
        of = self._of
        options = {
            "kb": self.settings.kb if of.kb or self.settings.kb != self._first.kb else None,
            "model": of.model if self.settings.model == self._first.model else self.settings.model,
            "base-url": of.base_url,
            "system": self._system,
        }
        pairs = [(name, value) for name, value in options.items() if value]
        pairs += [("set", one) for one in of.given or ()] + [("notes", str(one)) for one in of.notes or ()]
        text = "".join(f" --{name} {shlex.quote(value)}" for name, value in pairs)
        self.print(f"to go on later: kbnav chat --session {self._id}{text}")

    def finish_unfinished(self) -> None:
        """Go on with a question during which the session was killed."""
        if self.chat.unfinished:
            self.print(f"going on with: {self.chat.unfinished}")
            self._turn(lambda cancellation, progress: self.chat.resume(on_event=progress, cancellation=cancellation))

    def take(self, line: str) -> None:
        """A question, or a command: a line that looks like one is never asked, because asking may cost money."""
        from kbnav.errors import KbnavError

        if not line.startswith("/"):
            self._ask(line)
            return
        name, _, rest = line[1:].partition(" ")
        if name not in COMMANDS:
            self.print(f"there is no /{name}; /help lists the commands")
            return
        try:
            COMMANDS[name][1](self, rest.strip())
        except KbnavError as error:
            print_error(error)

    def _ask(self, question: str) -> None:
        self._turn(lambda cancellation, progress: self.chat.ask(question, on_event=progress, cancellation=cancellation))

    def _turn(self, answer: Callable[[Cancellation, RunProgress], Run]) -> None:
        """One turn; what stops it is printed, and the session goes on."""
        from kbnav.errors import StopRun

        try:
            progress = RunProgress(self.console, self.agent.model, steps=not self._quiet)
            with stopped_by_ctrl_c() as cancellation, progress:
                self.runs.append(answer(cancellation, progress))
            print_outcome(self.runs[-1], self.settings)
        except StopRun as error:
            print_error(error)

    def print_help(self, _: str) -> None:
        """List the commands."""
        for name, (about, _action) in COMMANDS.items():
            self.print(f"/{name:8} {about}")
        self.print("an empty line or Ctrl-D ends the session")

    def print_query(self, _: str) -> None:
        """The query of the last answer."""
        from kbnav.apps.console import labelled_query, query_lines

        if self.runs and self.runs[-1].outcome.query:
            self.console.print(query_lines(labelled_query(self.runs[-1])), crop=False)
        else:
            self.print("no answer here has a query yet" if not self.runs else "the last answer has no query")

    def change(self, setting: str, value: str) -> None:
        """Print or change the model or the knowledge base."""
        if not value:
            self.print(f"{setting}: {getattr(self.settings, setting)}")
            return
        self.open(self.settings.model_copy(update={setting: value}), self._system if setting == "model" else "")
        self.print(f"now asking {self.settings.kb} with {self.agent.model}")


COMMANDS: dict[str, tuple[str, Callable[[Conversation, str], None]]] = {
    "help": ("this list", Conversation.print_help),
    "sparql": ("the query of the last answer", Conversation.print_query),
    "model": ("the model; /model NAME changes it", lambda talk, value: talk.change("model", value)),
    "kb": ("the knowledge base; /kb NAME changes it", lambda talk, value: talk.change("kb", value)),
}
"""What can be typed beside questions: one line of help, and what is done with the rest of the line."""


@contextmanager
def _line_reader(file: Path) -> Iterator[Callable[[], str]]:
    """A function that reads a line, empty at the end.

    On a terminal the arrow keys bring back lines of earlier sessions, from ``file``.
    """
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

    if not editor:
        yield read
        return
    from kbnav.runs.journal import private_file

    editor.clear_history()
    with suppress(OSError):  # a history that cannot be read is none
        editor.read_history_file(file)
    try:
        yield read
    finally:
        editor.set_history_length(_HISTORY)
        try:
            private_file(file)
            editor.write_history_file(file)
        except OSError as error:
            print_error(f"{file}: the lines that were typed are not saved: {error.strerror}")
