"""The command line. Each command reads its settings, calls one function, and prints.

Exit codes: 0 answered, 1 no answer found, 2 wrong use, 3 a service or credentials.
"""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli_bot import app as bot_app
from kbnav.apps.cli_eval import app as eval_app
from kbnav.apps.cli_planner import app as planner_app
from kbnav.apps.cli_retrieve import retrieve
from kbnav.apps.cli_serve import mcp, opinions, serve
from kbnav.apps.cli_skb import app as skb_app

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.settings import Settings
    from kbnav.stopping import Brake
    from kbnav.trajectory import Run

app = typer.Typer(
    help="Ask questions of Wikidata or of your own knowledge base, and see how the answer was found.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts twice as fast
)
mirror_app = typer.Typer(
    help="Build and serve a local stand-in for Wikidata.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(mirror_app, name="mirror")
app.add_typer(bot_app, name="bot")
app.add_typer(eval_app, name="eval")
app.add_typer(skb_app, name="skb")
app.add_typer(planner_app, name="planner")
app.command()(retrieve)
app.command()(serve)
app.command()(mcp)
app.command()(opinions)

KbOption = Annotated[
    str | None,
    typer.Option("--kb", help="mini or demo (bundled), wikidata (live), the folder of an SKB or a mirror, or a URL."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="offline, replay:RUN.json, or the name of a chat model.")
]
UrlOption = Annotated[str | None, typer.Option("--base-url", help="Any OpenAI-compatible endpoint; default: OpenAI's.")]
LanguageOption = Annotated[
    str | None, typer.Option("--language", help="Language code of labels and answer; default: that of the question.")
]

SystemOption = Annotated[
    str | None, typer.Option("--system", help="Which agent answers: spinach, skb, pasemiqa, tog, rog, gog.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the agent; may be repeated.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"kbnav {version('kbnav')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Ask questions of Wikidata or of your own knowledge base, and see how the answer was found."""


@app.command()
def ask(
    question: str,
    kb: KbOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
    language: LanguageOption = None,
    system: SystemOption = None,
    chosen: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON; steps go to standard error.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the whole table or ranking as CSV; steps go to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the steps.")] = False,
) -> None:
    """Ask one question; thoughts, actions and observations are shown as they happen."""
    from kbnav.models.chat import check_key
    from kbnav.question import checked_question

    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    settings = _settings(kb=kb, model=model, base_url=base_url, language=language, options=_given(chosen))
    checked_question(question)
    check_key(settings)  # before the imports that take seconds
    from kbnav.agents.common.choice import build_agent
    from kbnav.apps.console import Progress
    from kbnav.knowledge.open import open_kb
    from kbnav.session import ask as ask_agent

    console = _console(error=as_json or as_csv)
    _say_baseline(console, settings)
    listener = None if quiet else Progress(console)
    with open_kb(settings) as base, _ended_by_ctrl_c() as brake:
        run = ask_agent(build_agent(base, settings, system or ""), question, on_event=listener, brake=brake)
    _print_answer(run, settings, as_json, as_csv)
    raise typer.Exit(0 if run.outcome.status in ("answered", "best effort") else 1)


def _print_answer(run: Run, settings: Settings, as_json: bool, as_csv: bool) -> None:
    from kbnav.apps.console import answer_json, print_answer

    page = settings.endpoints.query_page
    if as_json:
        print(answer_json(run, page))
    elif as_csv:
        if run.outcome.table is not None:
            sys.stdout.write(run.outcome.table.to_csv())
        elif run.outcome.ranking is not None:
            sys.stdout.write(run.outcome.ranking.to_csv())
    else:
        console = _console()
        console.rule()
        print_answer(console, run, page)
        console.print(f"every step: kbnav show {run.id}", style="dim", highlight=False)


@app.command()
def chat(
    session: Annotated[str | None, typer.Option("--session", help="Go on with an earlier session.")] = None,
    kb: KbOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
    language: LanguageOption = None,
    system: SystemOption = None,
    chosen: SetOption = None,
) -> None:
    """A session with follow-up questions, saved after every step; --session goes on with it, also after a kill."""
    from kbnav.agents.common.choice import build_agent
    from kbnav.apps.console import Progress
    from kbnav.knowledge.open import open_kb
    from kbnav.session import Chat, sqlite_sessions
    from kbnav.trajectory import new_id

    settings = _settings(kb=kb, model=model, base_url=base_url, language=language, options=_given(chosen))
    console = _console()
    with open_kb(settings) as base, sqlite_sessions(settings.home) as saver:
        talk = Chat(build_agent(base, settings, system or ""), session or new_id("chat"), saver)
        if session and not talk.exists:
            from kbnav.errors import UsageError

            raise UsageError(f"there is no session {session!r}")
        _say_baseline(console, settings)
        where = f"session {talk.id} on {settings.kb} with {settings.model}"
        console.print(f"{where}; an empty line or Ctrl-D ends it", style="dim", highlight=False, markup=False)
        try:
            if talk.unfinished:
                console.print(f"going on with: {talk.unfinished}", style="dim", highlight=False, markup=False)
                _turn(lambda brake: talk.resume(on_event=Progress(console), brake=brake), settings)
            while question := _next_question(console):
                _turn(
                    lambda brake, asked=question: talk.ask(asked, on_event=Progress(console), brake=brake),  # type: ignore[misc]
                    settings,
                )
        finally:
            options = _options(kb=kb, model=model, base_url=base_url, language=language, system=system, set=chosen)
            console.print(f"to go on later: kbnav chat --session {talk.id}{options}", style="dim", soft_wrap=True)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[Brake]:
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


def _turn(answer: Callable[[Brake], Run], settings: Settings) -> None:
    """One turn of a chat: what stops it is said, and the session goes on."""
    from kbnav.errors import StopRun

    try:
        with _ended_by_ctrl_c() as brake:
            run = answer(brake)
        _print_answer(run, settings, False, False)
    except StopRun as error:
        _say_error(error)


def _options(**given: str | list[str] | None) -> str:
    """The options that a command was given, to be given again."""
    pairs = (
        (name, one) for name, value in given.items() for one in ([value] if isinstance(value, str) else value or [])
    )
    return "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in pairs if value)


def _given(pairs: list[str] | None) -> dict[str, Any] | None:
    """What ``--set`` was given; None leaves the settings' own options."""
    from kbnav.options import parse_set

    return parse_set(pairs) if pairs else None


def _next_question(console: Console) -> str:
    """What is typed; empty at the end. A line that looks like a command is not asked, because asking may cost money."""
    try:
        while (typed := console.input("[bold]?[/bold] ").strip()).startswith("/"):
            console.print("questions only; an empty line or Ctrl-D ends the session", style="dim")
    except (EOFError, KeyboardInterrupt):
        console.print()
        return ""
    return typed


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's id, the start of one, the path of its file, or 'last'.")],
) -> None:
    """Print a saved run: every step, those taken back too, and the answer."""
    from kbnav.apps.console import print_run
    from kbnav.trajectory import find_run, load_run

    settings = _settings()
    saved = load_run(find_run(run, settings.home / "runs"))
    print_run(_console(), saved, settings.endpoints.query_page)


@app.command()
def runs(limit: Annotated[int, typer.Option(min=1, help="How many, the newest last.")] = 20) -> None:
    """List saved runs: id, how each ended, and what was asked."""
    from kbnav.apps.console import print_runs
    from kbnav.trajectory import load_run, saved_runs

    found = saved_runs(_settings().home / "runs")[-limit:]
    print_runs(_console(), map(load_run, found))


@mirror_app.command("build")
def mirror_build(
    sources: Annotated[list[Path], typer.Argument(help="RDF (.nt, .ttl) or entity JSON (.json, .ndjson), also .gz.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the mirror; an old one is replaced when the new one is whole.")
    ],
) -> None:
    """Build a mirror from RDF or entity documents."""
    from kbnav.knowledge.wikidata.mirror.build import build_mirror

    console = _console(error=True)
    info = build_mirror(sources, out, progress=lambda state: console.print(str(state), highlight=False))
    print(f"{out}: {info.triples:,} triples, {info.entities:,} entities, {info.names:,} names")


@mirror_app.command("serve")
def mirror_serve(
    folder: Annotated[Path, typer.Argument(help="Folder of the mirror.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 picks a free one.")] = 7878,
) -> None:
    """Serve a mirror over Wikidata's own HTTP interfaces until it is interrupted."""
    from kbnav.knowledge.wikidata.mirror.server import MirrorServer, serve

    def ready(server: MirrorServer) -> None:
        print(f"{folder} ({server.info.triples:,} triples) at {server.url}; Ctrl-C ends it", flush=True)

    serve(folder, host, port, ready=ready)


def _say_baseline(console: Console, settings: Settings) -> None:
    if settings.model == "offline":
        console.print("offline policy: no language model, a baseline; --model names a better one", style="dim")


def _settings(**overrides: object) -> Settings:
    from kbnav.settings import load_settings

    return load_settings(**overrides)


def _console(*, error: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=error)


def main() -> None:
    """Entry point: what stops a run ends with one clear line and its exit code."""
    from kbnav.errors import KbnavError, StopRun

    try:
        app()
    except StopRun as error:
        _say_error(error)
        sys.exit(error.exit_code)
    except KbnavError as error:
        _say_error(error)
        sys.exit(2)


def _say_error(error: Exception) -> None:
    from kbnav.apps.console import printable

    print(f"kbnav: {printable(str(error))}", file=sys.stderr)
