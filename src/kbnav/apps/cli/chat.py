"""``kbnav chat``: a session with follow-up questions, and what can be typed beside questions."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.arguments import AskedWithout
from kbnav.apps.cli.prompt import Prompt
from kbnav.apps.cli.terminal import ended_by_ctrl_c, print_outcome, say_baseline, say_error

if TYPE_CHECKING:
    from kbnav.agents.common.agent import Agent
    from kbnav.apps.cli.progress import Progress
    from kbnav.models.cancellation import Brake
    from kbnav.runs.trajectory import Run
    from kbnav.sessions.session import Chat
    from kbnav.settings.model import Settings


def chat(
    of: AskedWithout,
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
            say_error(UsageError(line))

        saver = stack.enter_context(sqlite_sessions(settings.home, on_loss=lose))
        talk = Conversation(settings, of, session or new_id("chat"), saver, quiet=quiet)
        stack.callback(talk.close)
        talk.open(settings, of.system or "")
        if session and not talk.chat.exists:
            raise UsageError(f"there is no session {session!r}")
        talk.greet()
        stack.callback(lambda: None if lost else talk.say_how_to_go_on())
        with Prompt(settings.home, [f"/{name}" for name in COMMANDS]) as prompt:
            talk.finish_what_was_begun()
            while line := prompt.read():
                talk.take(line)


class Conversation:
    """A chat at a terminal: the knowledge base and the model of the moment, and what was answered last."""

    def __init__(self, settings: Settings, of: AskedWithout, session: str, saver: Any, *, quiet: bool) -> None:
        """``saver`` keeps the session ``session``; ``of`` is what the command was given."""
        from rich.console import Console

        self.console = Console()
        self.settings = settings
        self.runs: list[Run] = []
        """Those of this sitting."""
        self._of, self._first = of, settings
        self._id = session
        self._saver = saver
        self._quiet = quiet
        self._system = ""
        self._opened = ExitStack()
        self._choices: list[Callable[[], None]] = []
        """What the numbers stand for that were offered with a question back."""

    chat: Chat
    agent: Agent

    def open(self, settings: Settings, system: str) -> None:
        """Ask under these settings from now on; what was asked before stays known. Raises StopRun, nothing changed."""
        from kbnav.agents.common.agent import build_agent
        from kbnav.knowledge.open import open_kb
        from kbnav.models.chat import check_key
        from kbnav.sessions.session import Chat

        check_key(settings)
        with ExitStack() as opened:
            base = opened.enter_context(open_kb(settings))
            agent = build_agent(base, settings, system)
            self.chat = Chat(agent, self._id, self._saver)
            self._opened.close()
            self._opened = opened.pop_all()
        self.agent, self.settings, self._system = agent, settings, system

    def close(self) -> None:
        """Close the knowledge base."""
        self._opened.close()

    def greet(self) -> None:
        """Say what is asked, and how to end."""
        say_baseline(self.console, self.agent)
        self.say(f"session {self._id} on {self.settings.kb} with {self.agent.model}")
        self.say("/help lists commands; an empty line or Ctrl-D ends the session")

    def say_how_to_go_on(self) -> None:
        """The command that goes on with this session."""
        given = {
            "kb": self.settings.kb if self._of.kb or self.settings.kb != self._first.kb else None,
            "model": self._of.model if self.settings.model == self._first.model else self.settings.model,
            "base-url": self._of.base_url,
            "language": self._of.language,
            "system": self._system,
        }
        pairs = [(name, value) for name, value in given.items() if value]
        pairs += [("set", one) for one in self._of.chosen or ()]
        pairs += [("tool", one) for one in self._of.tools or ()]
        pairs += [("without", one) for one in self._of.without or ()]
        options = "".join(f" --{name} {shlex.quote(value)}" for name, value in pairs)
        self.say(f"to go on later: kbnav chat --session {self._id}{options}")

    def say(self, text: str) -> None:
        """A line beside questions and answers."""
        from kbnav.apps.console import printable

        self.console.print(printable(text), style="dim", highlight=False, markup=False, soft_wrap=True)

    def finish_what_was_begun(self) -> None:
        """Go on with a question during which the session was killed."""
        if self.chat.unfinished:
            self.say(f"going on with: {self.chat.unfinished}")
            self._turn(lambda brake, seen: self.chat.resume(on_event=seen, brake=brake))

    def take(self, line: str) -> None:
        """A question, or a command: a line that looks like one is never asked, because asking may cost money."""
        from kbnav.errors import KbnavError

        choices, self._choices = self._choices, []
        if line.isdigit() and 0 < int(line) <= len(choices):
            choices[int(line) - 1]()
            return
        if not line.startswith("/"):
            self._turn(lambda brake, seen: self.chat.ask(line, on_event=seen, brake=brake))
            return
        name, _, rest = line[1:].partition(" ")
        if name not in COMMANDS:
            self.say(f"there is no /{name}; /help lists what there is")
            return
        try:
            COMMANDS[name][1](self, rest.strip())
        except KbnavError as error:
            say_error(error)

    def _turn(self, answer: Callable[[Brake, Progress], Run]) -> None:
        """One turn: what stops it is said, and the session goes on."""
        from kbnav.apps.cli.progress import Progress
        from kbnav.errors import StopRun

        try:
            progress = Progress(self.console, self.agent.model, steps=not self._quiet)
            with ended_by_ctrl_c() as brake, progress:
                self.runs.append(answer(brake, progress))
            self._tell(self.runs[-1])
        except StopRun as error:
            say_error(error)

    def _tell(self, run: Run) -> None:
        """The answer; where a name means several things, also theirs, or a question back, as the settings have it."""
        from kbnav.sessions.disambiguation import named, other_answers

        way = self.settings.ask_back
        others = other_answers(run, self.agent.kb) if way != "never" else []
        if not others or way == "both":
            print_outcome(run, self.settings, False, False)
            for one in others:
                self.say(f"if “{one.name}” is {named(one.meant)}: {one.text}")
            return
        self.say(f"Which “{others[0].name}” do you mean? Type its number:")
        here = [one for one in others if one.name == others[0].name]
        for number, meant in enumerate([here[0].taken, *(one.meant for one in here)], 1):
            self.say(f"{number}. {named(meant)}")
        asked = [partial(self._turn, partial(self._ask_again, one.question(run.question))) for one in here]
        self._choices = [partial(print_outcome, run, self.settings, False, False), *asked]

    def _ask_again(self, question: str, brake: Brake, seen: Progress) -> Run:
        return self.chat.ask(question, on_event=seen, brake=brake)

    def show_help(self, _: str) -> None:
        """List the commands."""
        for name, (said, _action) in COMMANDS.items():
            self.say(f"/{name:8} {said}")
        self.say("an empty line or Ctrl-D ends the session")

    def last(self) -> Run:
        """The last answer. Raises UsageError where there is none."""
        from kbnav.errors import UsageError

        if not self.runs:
            raise UsageError("nothing was asked yet in this sitting")
        return self.runs[-1]

    def show_query(self, _: str) -> None:
        """The query of the last answer."""
        from kbnav.apps.console import labelled_query, query_lines

        run = self.last()
        if run.outcome.query:
            self.console.print(query_lines(labelled_query(run)), crop=False)
        else:
            self.say("the last answer has no query")

    def show_steps(self, _: str) -> None:
        """Every step of the last answer."""
        from kbnav.apps.console import print_run

        print_run(self.console, self.last(), self.settings.endpoints.query_page)

    def change(self, setting: str, value: str) -> None:
        """Say or change the model or the knowledge base."""
        if not value:
            self.say(f"{setting}: {getattr(self.settings, setting)}")
            return
        self.open(self.settings.model_copy(update={setting: value}), self._system if setting == "model" else "")
        self.say(f"from now on on {self.settings.kb} with {self.agent.model}")

    def save(self, name: str) -> None:
        """Write the questions and answers of this sitting to a file. Raises UsageError where it cannot be written."""
        from kbnav.apps.cli.transcript import write_transcript

        self.last()
        path = Path(name or f"{self._id}.md")
        write_transcript(self.runs, path, self.settings.endpoints.query_page)
        self.say(f"{path}: {len(self.runs)} question{'s' if len(self.runs) != 1 else ''}")


COMMANDS: dict[str, tuple[str, Callable[[Conversation, str], None]]] = {
    "help": ("this list", Conversation.show_help),
    "sparql": ("the query of the last answer", Conversation.show_query),
    "steps": ("every step of the last answer", Conversation.show_steps),
    "model": ("the model; /model NAME changes it", lambda talk, value: talk.change("model", value)),
    "kb": ("the knowledge base; /kb NAME changes it", lambda talk, value: talk.change("kb", value)),
    "save": (
        "write questions and answers; /save FILE: .html .md .json, or .csv of the last table",
        Conversation.save,
    ),
}
"""What can be typed beside questions: one line of help, and what is done with the rest of the line."""
