"""``kbnav bot``: answer questions on a wiki's talk pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kbnav.apps.bot.bot import Bot
    from kbnav.apps.bot.ledger import Ledger
    from kbnav.apps.bot.wiki import Wiki
    from kbnav.settings import Settings
    from kbnav.trajectory import Run

app = typer.Typer(
    help="Answer questions on the talk pages of a MediaWiki.", no_args_is_help=True, rich_markup_mode=None
)

KbOption = Annotated[str | None, typer.Option("--kb", help="What is asked, as in kbnav ask.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="offline, or the name of a chat model.")]
UrlOption = Annotated[str | None, typer.Option("--base-url", help="Any OpenAI-compatible endpoint.")]


@app.command()
def run(
    edit: Annotated[bool, typer.Option("--edit", help="Really edit; without it, edits are printed as diffs.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once, see to what is open, and end.")] = False,
    kb: KbOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
) -> None:
    """Look for questions and answer them until interrupted. The wiki and the account are settings (bot.…)."""
    from kbnav.apps.eval_console import stop_on_signals

    settings = _settings(kb=kb, model=model, base_url=base_url)
    with _opened(settings, edit) as bot, stop_on_signals() as stop:
        while not stop.is_set():
            for said in bot.tick():
                _say(f"{said.question}  {said.text}")
                if stop.is_set():
                    break
            if once or stop.wait(settings.bot.poll):
                break


@app.command()
def status() -> None:
    """List the questions the bot has seen, and how far each is."""
    with _ledger(_settings(), edit=True) as ledger:
        for entry in ledger.entries():
            question = entry.question
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.changed_at))
            _say(f"{question.id}  {entry.status:8}  {when}  {question.page}: {question.author}: {question.text}")
            if entry.note:
                _say(f"{'':16}  {entry.note}")


@app.command()
def replay(
    question: Annotated[str, typer.Argument(help="Id of a question, or the start of one, as status prints it.")],
) -> None:
    """Print how a question was answered, and the reply's wikitext; nothing is asked or edited."""
    from rich.console import Console

    from kbnav.apps.console import print_run
    from kbnav.errors import UsageError

    settings = _settings()
    with _ledger(settings, edit=True) as ledger:
        entry = ledger.entry(question)
    if entry is None:
        raise UsageError(f"no question {question!r}, or several")
    found = _find_run(settings, entry.run)
    if found:
        print_run(Console(), found, settings.endpoints.query_page)
    _say(entry.reply or "no reply was made")


@contextmanager
def _opened(settings: Settings, edit: bool) -> Iterator[Bot]:
    """A bot that is logged in."""
    from functools import partial

    from kbnav.agents.choice import build_agent
    from kbnav.apps.bot.bot import Bot
    from kbnav.apps.bot.wikitext import Style
    from kbnav.knowledge.open import open_kb
    from kbnav.session import ask

    wiki = _wiki(settings)
    with _ledger(settings, edit=edit) as ledger, open_kb(settings) as base:
        agent = build_agent(base, settings)
        style = Style(settings.bot.entity_link, settings.endpoints.query_page)
        yield Bot(
            wiki,
            ledger,
            lambda question, history: ask(agent, question.text, history=history),
            partial(_find_run, settings),
            settings.bot,
            style,
            edits=edit,
        )


def _wiki(settings: Settings) -> Wiki:
    """The wiki of the settings, logged in. Raises UsageError and CredentialsError naming what is missing."""
    from kbnav.apps.bot.wiki import Wiki
    from kbnav.errors import CredentialsError, UsageError
    from kbnav.knowledge.wikidata.http import HttpClient

    rules = settings.bot
    if not (rules.api and rules.user):
        raise UsageError("the bot needs bot.api (api.php of the wiki) and bot.user (Account@name) in kbnav.toml")
    if not rules.password.get_secret_value():
        raise CredentialsError("the bot needs its password: set KBNAV_BOT__PASSWORD")
    http = HttpClient(settings, cache=None, throttle=None, urls=[rules.api])
    wiki = Wiki(
        rules.api,
        http,
        user=rules.user,
        password=rules.password.get_secret_value(),
        flagged=rules.flagged,
        pause=rules.pause,
    )
    wiki.login()
    return wiki


@contextmanager
def _ledger(settings: Settings, *, edit: bool) -> Iterator[Ledger]:
    """The bot's state; that of dry runs is kept apart."""
    from kbnav.apps.bot.ledger import Ledger

    ledger = Ledger(settings.home / ("bot.sqlite" if edit else "bot-dry.sqlite"))
    try:
        yield ledger
    finally:
        ledger.close()


def _find_run(settings: Settings, name: str) -> Run | None:
    """A saved run by its id; None where it was deleted."""
    from kbnav.trajectory import load_run

    path = Path(settings.home / "runs" / f"{name}.json")
    return load_run(path) if name and path.is_file() else None


def _settings(**overrides: object) -> Settings:
    from kbnav.settings import load_settings

    return load_settings(**overrides)


def _say(text: str) -> None:
    from kbnav.apps.console import printable

    print(printable(text), flush=True)
