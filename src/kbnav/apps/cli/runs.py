"""``kbnav runs`` and ``kbnav show``: what was asked before."""

from __future__ import annotations

from typing import Annotated

import typer

from kbnav.apps.cli.arguments import load


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id, the start of one, the path of its file, or 'last'.")
    ],
) -> None:
    """Print a saved run: every step, those taken back too, and the answer."""
    from rich.console import Console

    from kbnav.apps.console import print_run
    from kbnav.trajectory import find_run, load_run

    settings = load()
    saved = load_run(find_run(run, settings.home / "runs"))
    print_run(Console(), saved, settings.endpoints.query_page)


def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many, the newest last.")] = 20,
) -> None:
    """List saved runs: id, how each ended, and what was asked."""
    from rich.console import Console

    from kbnav.apps.console import print_runs
    from kbnav.trajectory import load_run, saved_runs

    found = saved_runs(load().home / "runs")[-limit:]
    print_runs(Console(), map(load_run, found))
