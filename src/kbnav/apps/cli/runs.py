"""``kbnav show``, ``runs``, ``export`` and ``bot preview``: saved runs, printed, listed, and written to pass on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from kbnav.apps.bot.wikitext import ROWS, reply_text
from kbnav.apps.cli.options import Json, RunName, argument, flag, load, option
from kbnav.apps.cli.terminal import emit, print_error, print_json
from kbnav.apps.console import answer_json, print_run, print_runs, run_line
from kbnav.errors import KbnavError, UsageError
from kbnav.knowledge.evidence import MOST_ROWS, Provenance
from kbnav.runs.trajectory import Run, find_run, load_run, load_runs, saved_runs, to_json
from kbnav.settings.model import Settings, refuse_foreign


def show(
    run: RunName = "last",
    as_json: Json = False,
) -> None:
    """Print a saved run: every step, those taken back too, and the answer. For example: kbnav show last."""
    settings = load()
    saved, page = _find(run, settings), settings.endpoints.query_page
    if as_json:
        print(to_json(saved))
    else:
        print_run(Console(), saved, page)


def runs(
    limit: Annotated[int, option("--limit", "N", "How many, the newest last.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """List saved runs: id, how each ended, and what was asked; files that cannot be read are named.

    For example: kbnav runs --limit 5
    """
    found = load_runs(saved_runs(load().home / "runs")[-limit:], print_error)
    if as_json:
        print_json([*map(run_line, found)])
    else:
        print_runs(Console(), found)


def export(
    run: RunName,
    file: Annotated[Path, argument("FILE", ".html, .json, .wiki or, of the rows alone, .csv.")],
    evidence: Annotated[bool, flag("--evidence", "With the statements behind each row, which are looked up.")] = False,
    kb: Annotated[str | None, option("--kb", "KB", "Where the run's knowledge base is now.")] = None,
    as_json: Json = False,
) -> None:
    """Write a saved run to a file to pass on, as in kbnav export last answer.html: a page that fetches nothing."""
    from kbnav.apps.sharing import shared_page
    from kbnav.apps.web.downloads import answer_csv

    settings = load(kb=kb)
    saved, page = _find(run, settings), settings.endpoints.query_page
    moved = replace(saved, settings={**saved.settings, "kb": kb}) if kb else saved
    write: Mapping[str, Callable[[Provenance | None], str]] = {
        ".html": lambda found: shared_page([(saved, found)], page),
        ".json": lambda found: answer_json(saved, page, found),
        ".wiki": lambda found: reply_text(saved, settings, evidence=found),
        ".csv": lambda _: answer_csv(saved.outcome, _fields(moved, settings)),
    }
    if file.suffix not in write:
        raise UsageError(f"{file}: the name must end in .html, .json, .wiki or .csv")
    if evidence and file.suffix == ".csv":
        raise UsageError("--evidence goes into .html, .json or .wiki, not into .csv")
    text = write[file.suffix](_evidence(moved, settings) if evidence else None)
    if not text:
        raise UsageError(f"{saved.id} ended without rows or nodes: there is nothing to write into {file}")
    try:
        size = file.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    emit(as_json, {"file": str(file), "bytes": size}, f"{file}: {size:,} bytes")


def preview(run: RunName = "last") -> None:
    """Print a saved run as the bot would reply, without a wiki. For example: kbnav bot preview last."""
    settings = load()
    saved, found = _find(run, settings), None
    with suppress(KbnavError):  # a reply needs no knowledge base
        found = _evidence(saved, settings, ROWS)
    print(reply_text(saved, settings, evidence=found), end="")


def _evidence(run: Run, settings: Settings, most: int = MOST_ROWS) -> Provenance | None:
    """What makes a saved run's rows true, looked up in its knowledge base. Raises as ``_kb_of``."""
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence

    with open_kb(_kb_of(run, settings)) as base:
        return run_evidence(base, run, range(most))


def _fields(run: Run, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """The fields of a saved run's nodes; none where its knowledge base cannot be asked."""
    from kbnav.apps.cli.ask import node_fields
    from kbnav.knowledge.open import open_kb

    if run.outcome.ranking:
        with suppress(KbnavError), open_kb(_kb_of(run, settings)) as base:
            return node_fields(base, run.outcome.ranking)
    return ()


def _kb_of(run: Run, settings: Settings) -> Settings:
    """How its knowledge base opens. Raises UsageError as ``refuse_foreign``."""
    kb = str(run.settings.get("kb") or settings.kb)
    refuse_foreign({"kb": kb}, settings)
    return load(kb=kb)


def _find(name: str, settings: Settings) -> Run:
    """The run that a file holds, or, by its whole id, the database that servers share. Raises UsageError."""
    try:
        return load_run(find_run(name, settings.home / "runs"))
    except UsageError:
        if not settings.database.get_secret_value():
            raise
        from kbnav.apps.web.server import open_store

        with ExitStack() as stack:
            saved = open_store(settings, stack)[0].saved(name)
        if saved is None:
            raise
        return saved
