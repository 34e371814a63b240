"""``kbnav eval view``: runs on a page while they go on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.arguments import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbnav.settings.model import Settings

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1.")
]
PortOption = Annotated[int | None, typer.Option("--port", metavar="PORT", help="0 picks a free one; default: 8080.")]


def view(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of runs, or of one run.")],
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Serve the runs of a folder live, as they go on: open questions, cost, the last step of each, single samples."""
    from kbnav.apps.web.routes.evaluation import view_router
    from kbnav.apps.web.server import small_app
    from kbnav.evaluation.monitoring import Monitor

    settings = at(load(), host, port)
    following = Monitor(folder)
    run_side(settings, lambda: small_app(settings, [view_router], following=following), "Runs")


def at(settings: Settings, host: str | None, port: int | None) -> Settings:
    """The settings with the address to listen on that was given."""
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    return settings.model_copy(update={"web": settings.web.model_copy(update=given)})


def run_side(settings: Settings, make: Callable[[], Any], what: str, *, err: bool = False) -> None:
    """Serve a few pages until interrupted, and say where, on standard error if ``err``. Raises StopRun."""
    from kbnav.apps.web.auth import checked
    from kbnav.apps.web.server import run_app

    def ready(address: str) -> None:
        print(f"{what} at {address}; Ctrl-C ends it", flush=True, file=sys.stderr if err else sys.stdout)

    run_app(make, checked(settings.web), ready=ready)
