"""``kbnav runs`` and ``kbnav show``: what was asked before."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kbnav.apps.cli import completion
from kbnav.apps.cli.arguments import JsonOption, load


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
    from kbnav.trajectory import find_run, load_run, to_json

    settings = load()
    saved = load_run(find_run(run, settings.home / "runs"))
    if as_json:
        print(to_json(saved))
        return
    print_run(Console(), saved, settings.endpoints.query_page)


def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, the newest last.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List saved runs: id, how each ended, and what was asked."""
    from rich.console import Console

    from kbnav.apps.console import print_runs, run_line
    from kbnav.trajectory import load_run, saved_runs

    found = saved_runs(load().home / "runs")[-limit:]
    if as_json:
        print(json.dumps([run_line(load_run(path)) for path in found], ensure_ascii=False, indent=1))
        return
    print_runs(Console(), map(load_run, found))
