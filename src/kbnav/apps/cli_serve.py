"""``kbnav serve``, ``kbnav mcp`` and ``kbnav opinions``: the chat page and its APIs, and what readers thought."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def serve(
    kb: Annotated[
        list[str] | None, typer.Option("--kb", help="A knowledge base to choose, as for ask; repeatable.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A model to choose, as for ask; repeatable.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Any OpenAI-compatible endpoint; default: OpenAI's.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on; default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="0 picks a free one; default: 8080.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; several share their sessions in web.database.")
    ] = None,
) -> None:
    """Serve the chat page, its APIs and their description until interrupted (docs/serve.md)."""
    from kbnav.apps.web.server import serve as serve_web
    from kbnav.settings import load_settings

    settings = load_settings(base_url=base_url)
    given = {"kbs": tuple(kb or ()), "models": tuple(model or ()), "host": host, "port": port, "workers": workers}
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    settings = settings.model_copy(update={"web": settings.web.model_copy(update=chosen)})
    serve_web(settings, ready=lambda address: print(f"kbnav at {address}; Ctrl-C ends it", flush=True))


def opinions() -> None:
    """Print what readers thought of answers, one JSON record a line, for evaluation."""
    from contextlib import ExitStack

    from kbnav.apps.web.server import open_store
    from kbnav.settings import load_settings

    with ExitStack() as stack:
        store, _ = open_store(load_settings(), stack)
        for record in store.opinions():
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
