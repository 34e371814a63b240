"""``kbnav show``, ``runs`` and ``export``: saved runs, printed, listed, and written to files to pass on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.options import Json, RunName, load
from kbnav.apps.cli.terminal import emit, print_error, print_json
from kbnav.errors import UsageError

if TYPE_CHECKING:
    from kbnav.knowledge.evidence import Provenance
    from kbnav.runs.trajectory import Run
    from kbnav.settings.model import Settings

FORMS = (".html", ".md", ".json", ".csv")


def show(
    run: RunName,
    cite: Annotated[bool, typer.Option("--cite", help="Print how to cite the answer.")] = False,
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print that as an entry of BibTeX.")] = False,
    as_json: Json = False,
) -> None:
    """Print a saved run: every step, those taken back too, and the answer. For example: kbnav show last."""
    from rich.console import Console

    from kbnav.apps.console import print_run, printable
    from kbnav.runs.trajectory import to_json
    from kbnav.sessions.evidence import bibtex as bibtex_of
    from kbnav.sessions.evidence import citation

    settings = load()
    saved, page = _find(run, settings), settings.endpoints.query_page
    if bibtex or cite:
        print(printable(bibtex_of(saved, page) if bibtex else citation(saved, page)))
    elif as_json:
        print(to_json(saved))
    else:
        print_run(Console(), saved, page)


def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, the newest last.")] = 20,
    as_json: Json = False,
) -> None:
    """List saved runs: id, how each ended, and what was asked; files that cannot be read are named."""
    from rich.console import Console

    from kbnav.apps.console import print_runs, run_line
    from kbnav.runs.trajectory import load_runs, saved_runs

    found = load_runs(saved_runs(load().home / "runs")[-limit:], print_error)
    if as_json:
        print_json([*map(run_line, found)])
    else:
        print_runs(Console(), found)


def export(
    run: RunName,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=".html, .md, .json or .csv."),
    ],
    evidence: Annotated[
        bool, typer.Option("--evidence", help="With the statements behind each row, looked up in its knowledge base.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a saved run to a file to pass on, as in kbnav export last answer.html: a page that fetches nothing."""
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence

    settings = load()
    saved, page = _find(run, settings), settings.endpoints.query_page
    if evidence:
        with open_kb(load(kb=str(saved.settings.get("kb") or settings.kb))) as base:
            write_transcript([saved], file, page, lambda one: run_evidence(base, one))
    else:
        write_transcript([saved], file, page)
    size = file.stat().st_size
    emit(as_json, {"file": str(file), "bytes": size}, f"{file}: {size:,} bytes")


def _find(name: str, settings: Settings) -> Run:
    """The run that a file holds, or, by its whole id, the database that servers share. Raises UsageError."""
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


def write_transcript(
    runs: Sequence[Run],
    path: Path,
    query_page: str,
    evidence: Callable[[Run], Provenance | None] = lambda run: None,  # noqa: ARG005
) -> None:
    """Write the runs in the format that the file's name ends in; ``evidence`` looks up what makes the rows true.

    Raises UsageError.
    """
    from kbnav.apps.sharing import SharedAnswer, shared_page

    if path.suffix == ".html":
        text = shared_page([SharedAnswer(run, evidence(run)) for run in runs], query_page)
        content = text.encode("utf-8", "replace")
    elif path.suffix in FORMS:
        content = _text(runs, path.suffix, query_page).encode("utf-8", "surrogatepass")
    else:
        raise UsageError(f"{path}: the name must end in one of {' '.join(FORMS)}")
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _text(runs: Sequence[Run], form: str, query_page: str) -> str:
    from kbnav.apps.console import answer_record

    if form == ".json":
        return json.dumps([answer_record(run, query_page) for run in runs], ensure_ascii=False, indent=1) + "\n"
    if form == ".md":
        return "\n".join(_markdown(run, query_page) for run in runs)
    found = runs[-1].outcome.table or runs[-1].outcome.ranking
    if found is None:
        raise UsageError("the last answer has no table")
    return found.to_csv()


def _markdown(run: Run, query_page: str) -> str:
    from kbnav.answers.tables import markdown_table
    from kbnav.apps.console import labelled_query, printable, spent_words
    from kbnav.knowledge.sparql.presentation import page_for, query_link
    from kbnav.knowledge.sparql.verbalization import verbalize_answer
    from kbnav.tools.show import cell_text

    outcome = run.outcome
    parts = [f"## {printable(run.question)}", printable(outcome.text or outcome.note or outcome.status)]
    if outcome.table is not None and outcome.table.columns:
        rows = [[printable(cell_text(cell, outcome.table, 200)) for cell in row] for row in outcome.table.rows]
        parts.append(markdown_table(list(outcome.table.columns), rows).rstrip())
    if words := verbalize_answer(outcome.query, outcome.table, run.language):
        parts.append(f"```text\n{printable(words.text())}\n```")
    if outcome.query:
        parts.append(f"```sparql\n{labelled_query(run)}\n```")
        if page := page_for(run.kb, query_page, outcome.query):
            parts.append(f"<{query_link(outcome.query, page)}>")
    parts.append(f"{spent_words(run)}; {run.system} with {run.model}; kbnav show {run.id}")
    return "\n\n".join(parts) + "\n"
