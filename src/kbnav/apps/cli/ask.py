"""``kbnav ask``: one question."""

from __future__ import annotations

from typing import Annotated

import typer

from kbnav.apps.cli.arguments import AskedOf, JsonOption
from kbnav.apps.cli.terminal import ended_by_ctrl_c, print_outcome, say_baseline


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="In any language.")],
    of: AskedOf,
    as_json: JsonOption = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the whole table or ranking as CSV; steps go to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the steps.")] = False,
) -> None:
    """Ask one question; thoughts, actions and observations are shown as they happen."""
    from rich.console import Console

    from kbnav.models.chat import check_key
    from kbnav.question import checked_question

    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    settings = of.settings()
    checked_question(question)
    check_key(settings)  # before the imports that take seconds
    from kbnav.agents.common.choice import build_agent
    from kbnav.apps.cli.progress import Progress
    from kbnav.knowledge.open import open_kb
    from kbnav.session import ask as ask_agent

    console = Console(stderr=as_json or as_csv)
    with open_kb(settings) as base, ended_by_ctrl_c() as brake:
        agent = build_agent(base, settings, of.system or "")
        say_baseline(console, agent)
        with Progress(console, agent.model, steps=not quiet) as listener:
            run = ask_agent(agent, question, on_event=listener, brake=brake)
    print_outcome(run, settings, as_json, as_csv)
    raise typer.Exit(0 if run.outcome.status in ("answered", "best effort") else 1)
