"""``kbnav runs`` and ``kbnav show``: what was asked before."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli import completion
from kbnav.apps.cli.arguments import JsonOption, load

if TYPE_CHECKING:
    from kbnav.runs.trajectory import Run
    from kbnav.settings.model import Settings


def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            autocompletion=completion.saved,
            help="A run's id, the start of one, the path of its file, or 'last'.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print a saved run: every step, those taken back too, and the answer."""
    from rich.console import Console

    from kbnav.apps.console import print_run
    from kbnav.runs.trajectory import to_json

    settings = load()
    saved = _found(run, settings)
    if as_json:
        print(to_json(saved))
        return
    print_run(Console(), saved, settings.endpoints.query_page)


def _found(name: str, settings: Settings) -> Run:
    """The run that a file holds, or, by its whole id, the database that servers share. Raises UsageError."""
    from kbnav.errors import UsageError
    from kbnav.runs.trajectory import find_run, load_run

    try:
        return load_run(find_run(name, settings.home / "runs"))
    except UsageError:
        if not settings.web.database.get_secret_value():
            raise
        from kbnav.apps.web.server import open_store

        with ExitStack() as stack:
            saved = open_store(settings, stack)[0].saved(name)
        if saved is None:
            raise
        return saved


RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", autocompletion=completion.saved, help="A run's id, the start of one, or 'last'."),
]


def export(
    run: RunName,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=".html, .md, .json, .csv."),
    ],
    evidence: Annotated[
        bool, typer.Option("--evidence", help="With the statements behind each row, looked up where it was asked.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a saved run to a file that can be passed on: a page that fetches nothing, Markdown, JSON or CSV."""
    from kbnav.apps.cli.transcript import write_transcript
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence

    settings = load()
    saved = _found(run, settings)
    page = settings.endpoints.query_page
    if evidence:
        with open_kb(load(kb=str(saved.settings.get("kb") or settings.kb))) as base:
            write_transcript([saved], file, page, lambda one: run_evidence(base, one))
    else:
        write_transcript([saved], file, page)
    told = {"file": str(file), "bytes": file.stat().st_size}
    print(json.dumps(told) if as_json else f"{file}: {told['bytes']:,} bytes")


def cite(
    run: RunName,
    as_bibtex: Annotated[bool, typer.Option("--bibtex", help="As an entry of BibTeX.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say how to cite a saved answer: question, knowledge base and its state, system, versions, date and query."""
    from kbnav.apps.console import printable
    from kbnav.sessions.evidence import asked_with, bibtex, citation, knowledge_base, link_of

    settings = load()
    saved = _found(run, settings)
    page = settings.endpoints.query_page
    if as_json:
        told = {
            "question": saved.question,
            "query": saved.outcome.query,
            "knowledge_base": knowledge_base(saved),
            "by": asked_with(saved),
            "date": saved.started,
            "versions": dict(saved.versions),
            "run": saved.id,
            "link": link_of(saved, page),
            "text": citation(saved, page),
        }
        print(json.dumps(told, ensure_ascii=False, indent=1))
        return
    print(printable(bibtex(saved, page) if as_bibtex else citation(saved, page)))


def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, the newest last.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List saved runs: id, how each ended, and what was asked; files that cannot be read are named."""
    from rich.console import Console

    from kbnav.apps.cli.terminal import say_error
    from kbnav.apps.console import print_runs, run_line
    from kbnav.runs.trajectory import load_runs, saved_runs

    found = load_runs(saved_runs(load().home / "runs")[-limit:], say_error)
    if as_json:
        print(json.dumps([*map(run_line, found)], ensure_ascii=False, indent=1))
        return
    print_runs(Console(), found)
