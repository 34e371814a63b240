"""``kbnav ask``: one question, or a follow-up to the last."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.answers.question import checked_question
from kbnav.apps.cli.options import Asking, Json, load
from kbnav.apps.cli.terminal import RunProgress, print_error, stopped_by_ctrl_c
from kbnav.apps.console import answer_csv, answer_json, print_answer, printable, spent_words
from kbnav.apps.evidence import answer_table, evidence_lines
from kbnav.errors import UsageError
from kbnav.runs.trajectory import Run, load_runs, saved_runs
from kbnav.settings.model import OFFLINE, SEPARATOR, Settings
from kbnav.settings.systems import kind_of

if TYPE_CHECKING:
    from kbnav.knowledge.evidence import Provenance


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="In any language; - reads it from standard input.")
    ],
    of: Asking,
    follow_up: Annotated[bool, typer.Option("--continue", "-c", help="Ask a follow-up to the last question.")] = False,
    as_json: Json = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the whole table or ranking as CSV; steps go to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the steps.")] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also print the statements that make each row true; two queries more.")
    ] = False,
) -> None:
    """Ask one question; thoughts, actions and observations are shown as they happen.

    For example: kbnav ask --kb demo --set budget.steps=9 "Who makes lutes?"
    """
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    question = checked_question(sys.stdin.read() if question == "-" else question)
    earlier = _last_run() if follow_up else None
    of = _as_before(of, earlier) if earlier else of
    settings = of.settings()
    settings.check_key()  # before the imports that take seconds
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.session import ask as ask_agent

    console = Console(stderr=as_json or as_csv)
    history = earlier.turns if earlier else ()
    with open_kb(settings) as base, stopped_by_ctrl_c() as cancellation:
        agent = build_agent(base, settings, of.system or "")
        print_baseline(console, agent, quiet)
        if earlier:
            console.print(f"after: {printable(earlier.question)}", style="dim", highlight=False, markup=False)
        with RunProgress(console, agent.model, steps=not quiet) as progress:
            run = ask_agent(agent, question, on_event=progress, cancellation=cancellation, history=history)
        found = None
        if evidence:
            from kbnav.sessions.evidence import run_evidence

            found = run_evidence(base, run)
    print_outcome(run, settings, as_json, as_csv, found)
    raise typer.Exit(0 if run.outcome.status in ("answered", "best effort") else 1)


def print_baseline(console: Console, agent: Agent, quiet: bool) -> None:
    """Print that the answer comes without a language model, where it does and is not to be ``quiet``."""
    if agent.model == OFFLINE and not quiet:
        console.print("offline policy: no language model, a baseline; --model names a better one", style="dim")


def print_outcome(
    run: Run, settings: Settings, as_json: bool = False, as_csv: bool = False, evidence: Provenance | None = None
) -> None:
    """Print the answer, for people or for programs; with the evidence for it where that was looked up."""
    page = settings.endpoints.query_page
    saved = (settings.home / "runs" / f"{run.id}.json").is_file()
    if as_json:
        print(answer_json(run, page, evidence))
    elif as_csv:
        sys.stdout.write(answer_csv(run.outcome))
        if not saved:
            print_error(run.outcome.error)
    else:
        from rich.console import Console

        console = Console()
        console.rule()
        print_answer(console, run, page)
        for line in evidence_lines(evidence, answer_table(run.outcome)) if evidence else ():
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
        steps = f"every step: kbnav show {run.id}" if saved else "not saved"
        told = f"asked: {printable(str(run.settings.get('kb')))}; {spent_words(run)}; {steps}"
        console.print(told, markup=False, style="dim", highlight=False, soft_wrap=True)


def _last_run() -> Run:
    """The last run of an agent; what ``kbnav retrieve`` ranked is no answer. Raises UsageError where there is none."""
    for run in load_runs(reversed(saved_runs(load().home / "runs")), print_error):
        # A builder that does not say what it builds, or is gone: the run shows it, as a ranking has no language.
        if (kind_of(run.system) or ("agent" if run.language else "retriever")) == "agent":
            return run
    raise UsageError("there is no earlier question to follow up")


def _as_before(of: Asking, earlier: Run) -> Asking:
    """The same knowledge base, model and system as before, where no other is named."""
    before = earlier.settings
    same_kb = not of.kb or SEPARATOR.join(of.kb) == before.get("kb")
    return replace(
        of,
        kb=of.kb or ([str(before["kb"])] if before.get("kb") else None),
        model=of.model or before.get("model"),
        base_url=of.base_url or before.get("base_url") or None,
        system=of.system or (earlier.system if same_kb else None),
    )
