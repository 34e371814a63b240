"""``kbnav serve``, ``mcp`` and ``bot``: the page with its APIs, tools for MCP clients, answers on talk pages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.agents.common.agent import build_agent
from kbnav.apps.cli.options import Asking, BaseUrl, Given, Host, Json, Many, Port, flag, load, option
from kbnav.apps.cli.terminal import stop_on_signals
from kbnav.apps.console import printable
from kbnav.errors import CredentialsError, UsageError
from kbnav.runs.trajectory import Run, load_run
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.apps.bot.bot import Bot
    from kbnav.apps.bot.ledger import Ledger
    from kbnav.apps.bot.wiki import Wiki


def serve(
    kb: Annotated[Many, option("--kb", "KB", "A knowledge base to choose, as for ask; repeatable.")] = None,
    model: Annotated[Many, option("--model", "MODEL", "A model to choose, as for ask; repeatable.")] = None,
    base_url: BaseUrl = None,
    system: Annotated[Many, option("--system", "SYSTEM", "A system to choose; repeatable. Default: all.")] = None,
    given: Given = None,
    host: Host = None,
    port: Port = None,
) -> None:
    """Serve the chat page, its APIs and their description until interrupted (docs/serve.md).

    For example: kbnav serve --kb mini --kb demo --port 8081
    """
    from kbnav.apps.web.server import serve as serve_web

    alone = system[0] if system and len(system) == 1 else None
    settings = load(given, alone, base_url=base_url)
    if settings.options != load().options and not alone:
        raise UsageError("an option of a system is for one alone: name it with --system")
    chosen = {"kbs": tuple(kb or ()), "models": tuple(model or ()), "systems": tuple(system or ())}
    settings = at(settings, host, port, **{name: value for name, value in chosen.items() if value})
    others = " (web.hosts has its names)" if settings.web.hosts else ""
    serve_web(settings, ready=lambda address: print(f"kbnav at {address}{others}; Ctrl-C ends it", flush=True))


def mcp(
    of: Asking,
    http: Annotated[bool, flag("--http", "Serve over HTTP at /mcp instead of standard input.")] = False,
    host: Host = None,
    port: Port = None,
) -> None:
    """Offer an agent's tools, and ask, to clients of the Model Context Protocol.

    For example: kbnav mcp --kb mini
    """
    from kbnav.apps.mcp import LocalBackend, build_server, http_app, offered_at, open_shared, run_stdio
    from kbnav.apps.secrets import secrets_of
    from kbnav.knowledge.open import open_kb

    settings = at(of.settings(), host, port)
    hide = secrets_of(settings)
    with open_kb(settings) as base:
        if not http:
            backend = LocalBackend(offered_at(settings, base, of.system or ""))
            asyncio.run(run_stdio(build_server(backend, hide)))
            return
        from kbnav.apps.web.auth import checked
        from kbnav.apps.web.server import run_app

        with open_shared(settings, base, of.system or "") as shared:
            server = build_server(shared, hide)
            run_app(
                lambda: http_app(server, settings.web),
                checked(settings),
                ready=lambda address: print(f"MCP at {address}mcp; Ctrl-C ends it", flush=True),
            )


def at(settings: Settings, host: str | None, port: int | None, **web: Any) -> Settings:
    """The settings with the address to listen on, where one is given, and other settings of ``web``."""
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    return settings.model_copy(update={"web": settings.web.model_copy(update=given | web)})


def run_bot(
    of: Asking,
    edit: Annotated[bool, flag("--edit", "Really edit; without it, edits are printed as diffs.")] = False,
    once: Annotated[bool, flag("--once", "Look once, answer what is open, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Look for questions and answer them until interrupted. The wiki and the account are settings (bot.…).

    For example: kbnav bot run --kb wikidata --model gpt-4o --edit
    """
    settings = of.settings()
    with _opened(settings, edit, of.system or "") as bot, stop_on_signals() as stop:
        for said in bot.tick() if once else bot.rounds(stop.wait):
            line = f"{said.question:16}  {said.text}"
            _say(json.dumps({"question": said.question, "said": said.text}, ensure_ascii=False) if as_json else line)
            if stop.is_set():
                break


def bot_status(
    dry: Annotated[bool, flag("--dry", "Show dry runs, whose state is kept apart.")] = False,
    as_json: Json = False,
) -> None:
    """List the questions the bot has seen, and how far each is, also while it runs.

    For example: kbnav bot status --json
    """
    with _ledger(load(), edit=not dry, alone=False) as ledger:
        entries = ledger.entries()
        if not entries:
            typer.echo("no question has been seen", err=True)
        for entry in entries:
            question = entry.question
            if as_json:
                _say(json.dumps(asdict(entry), ensure_ascii=False))
                continue
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.changed_at))
            _say(f"{question.id}  {entry.status:8}  {when}  {question.page}: {question.author}: {question.text}")
            if entry.note:
                _say(f"{'':16}  {entry.note}")


@contextmanager
def _opened(settings: Settings, edit: bool, system: str) -> Iterator[Bot]:
    """A bot that is logged in, and answers by the agent of the settings, which saves its runs."""
    from kbnav.apps.bot.bot import Bot
    from kbnav.apps.bot.wikitext import ROWS
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence
    from kbnav.sessions.session import ask

    def saved_run(name: str) -> Run | None:
        path = settings.home / "runs" / f"{name}.json"
        return load_run(path) if name and path.is_file() else None

    wiki = _wiki(settings)
    with _ledger(settings, edit=edit) as ledger, open_kb(settings) as base:
        agent = build_agent(base, settings, system)
        yield Bot(
            wiki, ledger, lambda question, history: ask(agent, question.text, history=history),
            saved_run, settings, edits=edit,
            evidence=lambda run: run_evidence(base, run, range(ROWS)),
        )  # fmt: skip


def _wiki(settings: Settings) -> Wiki:
    """The wiki of the settings, logged in. Raises UsageError and CredentialsError naming what is missing."""
    from kbnav.apps.bot.wiki import Wiki
    from kbnav.knowledge.http import HttpClient
    from kbnav.knowledge.http_store import Throttle

    rules = settings.bot
    if not (rules.api and rules.user):
        raise UsageError("the bot needs bot.api (api.php of the wiki) and bot.user (Account@name) in kbnav.toml")
    if not rules.password.get_secret_value():
        raise CredentialsError("the bot needs its password: set KBNAV_BOT__PASSWORD")
    # Wikimedia counts no requests of accounts with the bot flag.
    throttle = None if rules.flagged else Throttle(settings.shared_path("limits.sqlite"))
    http = HttpClient(settings, cache=None, throttle=throttle, urls=[rules.api])
    wiki = Wiki(rules.api, http, user=rules.user, password=rules.password.get_secret_value(), flagged=rules.flagged)
    wiki.login()
    return wiki


def _ledger(settings: Settings, *, edit: bool, alone: bool = True) -> closing[Ledger]:
    """The bot's state; that of dry runs is kept apart."""
    from kbnav.apps.bot.ledger import Ledger

    return closing(Ledger(settings.home / ("bot.sqlite" if edit else "bot-dry.sqlite"), alone=alone))


def _say(text: str) -> None:
    print(printable(text), flush=True)
