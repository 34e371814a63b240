"""``kbnav ask``: one question, or a follow-up to the last."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import AskedWithout, JsonOption, load
from kbnav.apps.cli.terminal import ended_by_ctrl_c, print_outcome, say_baseline, say_error

if TYPE_CHECKING:
    from kbnav.runs.trajectory import Run, Turn


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="In any language; - reads it from standard input.")
    ],
    of: AskedWithout,
    follow_up: Annotated[
        bool, typer.Option("--continue", "-c", help="Ask it as a follow-up to the last question, of whom that was.")
    ] = False,
    as_json: JsonOption = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the whole table or ranking as CSV; steps go to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the steps.")] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also print the statements that make each row true; two queries more.")
    ] = False,
) -> None:
    """Ask one question; thoughts, actions and observations are shown as they happen."""
    from rich.console import Console

    from kbnav.answers.question import checked_question
    from kbnav.models.chat import check_key

    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    question = checked_question(sys.stdin.read() if question == "-" else question)
    earlier = _last_run() if follow_up else None
    if earlier:
        of = _as_before(of, earlier)
    settings = of.settings()
    check_key(settings)  # before the imports that take seconds
    from kbnav.agents.common.agent import build_agent
    from kbnav.apps.cli.progress import Progress
    from kbnav.apps.console import printable
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence
    from kbnav.sessions.session import ask as ask_agent

    console = Console(stderr=as_json or as_csv)
    with open_kb(settings) as base, ended_by_ctrl_c() as brake:
        agent = build_agent(base, settings, of.system or "")
        say_baseline(console, agent)
        if earlier:
            console.print(f"after: {printable(earlier.question)}", style="dim", highlight=False, markup=False)
        with Progress(console, agent.model, steps=not quiet) as seen:
            run = ask_agent(agent, question, on_event=seen, brake=brake, history=_history(earlier))
        found = run_evidence(base, run) if evidence else None
    print_outcome(run, settings, as_json, as_csv, found)
    raise typer.Exit(0 if run.outcome.status in ("answered", "best effort") else 1)


def _last_run() -> Run:
    """The last that was asked; what kbnav retrieve ranked is no answer. Raises UsageError where there is none."""
    from kbnav.errors import UsageError
    from kbnav.runs.trajectory import load_runs, saved_runs
    from kbnav.settings.systems import kind_of

    def ranked(run: Run) -> bool:
        # Of a builder that does not say what it builds, or is gone, the run tells: a ranking is in no language.
        return (kind_of(run.system) or ("agent" if run.language else "retriever")) == "retriever"

    asked = load_runs(reversed(saved_runs(load().home / "runs")), say_error)
    found = next((run for run in asked if not ranked(run)), None)
    if found is None:
        raise UsageError("nothing was asked before that could be followed up")
    return found


def _as_before(of: AskedWithout, earlier: Run) -> AskedWithout:
    """The same knowledge base, model and system as before, where no other is named."""
    from kbnav.settings.model import SEPARATOR

    before = earlier.settings
    return replace(
        of,
        kb=of.kb or ([str(before["kb"])] if before.get("kb") else None),
        model=of.model or before.get("model"),
        base_url=of.base_url or before.get("base_url") or None,
        system=of.system or (earlier.system if not of.kb or SEPARATOR.join(of.kb) == before.get("kb") else None),
    )


def _history(earlier: Run | None) -> list[Turn]:
    """What was asked and found before, as a chat has it."""
    from kbnav.runs.trajectory import Turn

    if earlier is None:
        return []
    return [*earlier.history, Turn.of(earlier.question, earlier.path, earlier.outcome)]
