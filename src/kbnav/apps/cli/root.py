"""The command line. Each command reads its settings, calls one function, and prints.

Exit codes: 0 answered, 1 no answer found, 2 wrong use, 3 a service or credentials.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbnav.apps.cli import bot, endpoint, evaluation, mirror, planner, programs, skb, sparql, train
from kbnav.apps.cli.ask import ask
from kbnav.apps.cli.chat import chat
from kbnav.apps.cli.check import check
from kbnav.apps.cli.completion import completion, get_ready
from kbnav.apps.cli.config import config
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.models import models
from kbnav.apps.cli.retrieve import retrieve
from kbnav.apps.cli.runs import cite, export, runs, show
from kbnav.apps.cli.serve import mcp, opinions, serve
from kbnav.apps.cli.systems import systems
from kbnav.apps.cli.terminal import DISK, say_error, tell_of_retries

app = Commands("Ask questions of Wikidata or of your own knowledge base, and see how the answer was found.")
app.add(ask, section="Ask")
app.add(chat, section="Ask")
app.add(show, section="Ask")
app.add(runs, section="Ask")
app.add(export, section="Ask")
app.add(cite, section="Ask")
app.add(retrieve, section="Ask")
app.add(systems, section="Ask")
app.add(models, section="Ask")
app.add(serve, section="Serve")
app.add(mcp, section="Serve")
app.add(opinions, section="Serve")
app.add_typer(bot.app, name="bot", rich_help_panel="Serve")
app.add(check, section="Knowledge bases")
app.add_typer(mirror.app, name="mirror", rich_help_panel="Knowledge bases")
app.add_typer(endpoint.app, name="endpoint", rich_help_panel="Knowledge bases")
app.add_typer(skb.app, name="skb", rich_help_panel="Knowledge bases")
app.add_typer(sparql.app, name="sparql", rich_help_panel="Knowledge bases")
app.add_typer(evaluation.app, name="eval", rich_help_panel="Evaluation")
app.add_typer(planner.app, name="planner", rich_help_panel="Evaluation")
app.add_typer(programs.app, name="programs", rich_help_panel="Evaluation")
app.add_typer(train.app, name="train", rich_help_panel="Evaluation")
app.add(config, section="This program")
app.add(completion, section="This program")


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


def main() -> None:
    """Entry point: what stops a run ends with one clear line and its exit code."""
    from kbnav.errors import KbnavError, StopRun, UsageError

    get_ready()
    tell_of_retries()
    try:
        app(prog_name="kbnav")
    except StopRun as error:
        say_error(error)
        sys.exit(error.exit_code)
    except KbnavError as error:
        say_error(error)
        sys.exit(2)
    except OSError as error:
        if error.errno not in DISK:
            raise
        say_error(UsageError(f"{error.filename or 'a file'}: cannot be written: {error.strerror}"))
        sys.exit(2)
