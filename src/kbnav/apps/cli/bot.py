"""``kbnav bot``: answer questions on a wiki's talk pages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.options import Asking, Json, load
from kbnav.apps.cli.terminal import stop_on_signals

if TYPE_CHECKING:
    from kbnav.apps.bot.bot import Answer, Bot, Evidence
    from kbnav.apps.bot.ledger import Ledger
    from kbnav.apps.bot.talk import Question
    from kbnav.apps.bot.wiki import Wiki
    from kbnav.apps.bot.wikitext import Style
    from kbnav.knowledge.evidence import Provenance
    from kbnav.runs.trajectory import Run
    from kbnav.settings.model import Settings

_NONE_SEEN = "no question has been seen"
_NAMED = 5
"""Questions that are named where an id is not that of one."""


def run(
    of: Asking,
    edit: Annotated[bool, typer.Option("--edit", help="Really edit; without it, edits are printed as diffs.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once, see to what is open, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Look for questions and answer them until interrupted. The wiki and the account are settings (bot.…)."""
    settings = of.settings()
    with _opened(settings, edit, of.system or "") as bot, stop_on_signals() as stop:
        for said in bot.tick() if once else bot.rounds(stop.wait):
            line = f"{said.question:16}  {said.text}"
            _say(json.dumps({"question": said.question, "said": said.text}, ensure_ascii=False) if as_json else line)
            if stop.is_set():
                break


DryOption = Annotated[bool, typer.Option("--dry", help="Of dry runs, whose state is kept apart.")]


def status(
    dry: DryOption = False,
    as_json: Json = False,
) -> None:
    """List the questions the bot has seen, and how far each is. It may be running."""
    with _ledger(load(), edit=not dry, alone=False) as ledger:
        entries = ledger.entries()
        if not entries:
            typer.echo(_NONE_SEEN, err=True)
        for entry in entries:
            question = entry.question
            if as_json:
                _say(json.dumps(asdict(entry), ensure_ascii=False))
                continue
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.changed_at))
            _say(f"{question.id}  {entry.status:8}  {when}  {question.page}: {question.author}: {question.text}")
            if entry.note:
                _say(f"{'':16}  {entry.note}")


def replay(
    of: Asking,
    question: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a question, or the start of one, as status prints it.")
    ],
    dry: DryOption = False,
    as_json: Json = False,
) -> None:
    """Answer a question again, and print the run and the reply's wikitext; nothing is posted or remembered."""
    from rich.console import Console

    from kbnav.answers.language import question_language
    from kbnav.apps.bot.bot import LANGUAGE, turns
    from kbnav.apps.bot.talk import marker
    from kbnav.apps.bot.wikitext import reply_text
    from kbnav.apps.console import answer_record, print_run

    settings = of.settings()
    with _ledger(settings, edit=not dry, alone=False) as ledger:
        asked = _named(question, [entry.question for entry in ledger.entries()])
        history = turns(ledger, asked, partial(_find_run, settings))
        language = question_language(asked.text, ledger.mark(LANGUAGE))
    with _asking(settings, of.system or "") as (answer, evidence):
        found = answer(asked, history)
        made_of = evidence(found)
    mark, depth = marker(asked.id), asked.depth + 1
    reply = reply_text(found, _style(settings), marker=mark, depth=depth, language=language, evidence=made_of)
    page = settings.endpoints.query_page
    if as_json:
        _say(json.dumps({**answer_record(found, page), "reply": reply}, ensure_ascii=False, indent=1))
    else:
        print_run(Console(), found, page)
        _say(reply)


def _named(start: str, questions: Sequence[Question]) -> Question:
    """The question whose id begins so. Raises UsageError with some that there are where that is none, or several."""
    from kbnav.errors import UsageError

    found = [question for question in questions if question.id.startswith(start)]
    if len(found) == 1:
        return found[0]
    told = f"{len(found)} questions begin with {start!r}" if found else f"no question begins with {start!r}"
    some = [f"{question.id}  {question.text}" for question in (found or questions)[-_NAMED:]]
    raise UsageError("\n".join([f"{told}; the last are:", *some] if some else [_NONE_SEEN]))


@contextmanager
def _opened(settings: Settings, edit: bool, system: str) -> Iterator[Bot]:
    """A bot that is logged in."""
    from kbnav.apps.bot.bot import Bot

    wiki = _wiki(settings)
    with _ledger(settings, edit=edit) as ledger, _asking(settings, system) as (answer, evidence):
        find_run = partial(_find_run, settings)
        yield Bot(wiki, ledger, answer, find_run, settings.bot, _style(settings), edits=edit, evidence=evidence)


@contextmanager
def _asking(settings: Settings, system: str) -> Iterator[tuple[Answer, Evidence]]:
    """What answers, the agent of the settings, which saves its runs; and what looks up why the rows are true."""
    from kbnav.agents.common.agent import build_agent
    from kbnav.apps.bot.wikitext import ROWS
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence
    from kbnav.sessions.session import ask

    with open_kb(settings) as base:
        agent = build_agent(base, settings, system)

        def evidence(run: Run) -> Provenance | None:
            return run_evidence(base, run, range(ROWS))

        yield lambda question, history: ask(agent, question.text, history=history), evidence


def _style(settings: Settings) -> Style:
    from kbnav.apps.bot.wikitext import Style

    return Style(settings.bot.entity_link, settings.endpoints.query_page)


def _wiki(settings: Settings) -> Wiki:
    """The wiki of the settings, logged in. Raises UsageError and CredentialsError naming what is missing."""
    from kbnav.apps.bot.wiki import Wiki
    from kbnav.errors import CredentialsError, UsageError
    from kbnav.knowledge.http import HttpClient
    from kbnav.knowledge.http_store import Throttle

    rules = settings.bot
    if not (rules.api and rules.user):
        raise UsageError("the bot needs bot.api (api.php of the wiki) and bot.user (Account@name) in kbnav.toml")
    if not rules.password.get_secret_value():
        raise CredentialsError("the bot needs its password: set KBNAV_BOT__PASSWORD")
    # Wikimedia counts no requests of accounts with the bot flag.
    throttle = None if rules.flagged else Throttle(settings.kept("limits.sqlite"))
    http = HttpClient(settings, cache=None, throttle=throttle, urls=[rules.api])
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
def _ledger(settings: Settings, *, edit: bool, alone: bool = True) -> Iterator[Ledger]:
    """The bot's state; that of dry runs is kept apart."""
    from kbnav.apps.bot.ledger import Ledger

    with closing(Ledger(settings.home / ("bot.sqlite" if edit else "bot-dry.sqlite"), alone=alone)) as ledger:
        yield ledger


def _find_run(settings: Settings, name: str) -> Run | None:
    """A saved run by its id; None where it was deleted."""
    from kbnav.runs.trajectory import load_run

    path = Path(settings.home / "runs" / f"{name}.json")
    return load_run(path) if name and path.is_file() else None


def _say(text: str) -> None:
    from kbnav.apps.console import printable

    print(printable(text), flush=True)
