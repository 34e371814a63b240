"""``kbnav serve``, ``kbnav mcp`` and ``kbnav opinions``: the chat page and its APIs, and what readers thought."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from kbnav.apps.cli.arguments import AskedWithout, BaseUrlOption, JsonOption, SetOption, WithoutOption, load, parts
from kbnav.errors import UsageError


def serve(
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="A knowledge base to choose, as for ask; repeatable.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", metavar="MODEL", help="A model to choose, as for ask; repeatable.")
    ] = None,
    base_url: BaseUrlOption = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", metavar="SYSTEM", help="An agent or retriever to choose; repeatable. Default: all."),
    ] = None,
    chosen: SetOption = None,
    without: WithoutOption = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="0 picks a free one; default: 8080.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Processes; several share their sessions in web.database."),
    ] = None,
) -> None:
    """Serve the chat page, its APIs and their description until interrupted (docs/serve.md)."""
    from kbnav.apps.web.server import serve as serve_web
    from kbnav.evaluation.evaluate import leave_out
    from kbnav.settings.options import parse_set

    if chosen and len(system or ()) != 1:
        raise UsageError("--set is for one system: name it with --system")
    settings = leave_out(load(base_url=base_url, options=parse_set(chosen) if chosen else None), parts(without))
    lists = {"kbs": tuple(kb or ()), "models": tuple(model or ()), "systems": tuple(system or ())}
    given = _given(**lists, host=host, port=port, workers=workers)
    settings = settings.model_copy(update={"web": settings.web.model_copy(update=given)})
    serve_web(settings, ready=lambda address: print(f"kbnav at {address}; Ctrl-C ends it", flush=True))


def mcp(
    of: AskedWithout,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP at /mcp instead of standard input.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="0 picks a free one; default: 8080.")
    ] = None,
) -> None:
    """Offer an agent's tools, and ask, to clients of the Model Context Protocol."""
    import asyncio

    from kbnav.agents.common.agent import build_agent
    from kbnav.apps.mcp import LocalBackend, build_server, http_app, offered_at, open_shared, run_stdio
    from kbnav.apps.secrets import secrets_of
    from kbnav.knowledge.open import open_kb

    settings = of.settings()
    web = settings.web.model_copy(update=_given(host=host, port=port))
    settings = settings.model_copy(update={"web": web})
    hide = secrets_of(settings)
    with open_kb(settings) as base:
        if not http:
            first, *rest = offered_at(base, of.system or "")
            agent = build_agent(base, settings, first.name) if first.kind != "retriever" else None
            backend = LocalBackend(base, settings, agent, rest if agent else [first])
            asyncio.run(run_stdio(build_server(backend, hide)))
            return
        from kbnav.apps.web.auth import checked
        from kbnav.apps.web.server import run_app

        with open_shared(settings, base, of.system or "") as shared:
            server = build_server(shared, hide)
            run_app(
                lambda: http_app(server, web),
                checked(web),
                ready=lambda address: print(f"MCP at {address}mcp; Ctrl-C ends it", flush=True),
            )


def _given(**options: object) -> dict[str, object]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


def opinions(as_json: JsonOption = False) -> None:  # noqa: ARG001 - JSON is all it prints
    """Print what readers thought of answers, one JSON record a line, for evaluation."""
    from contextlib import ExitStack

    from kbnav.apps.web.server import open_store

    with ExitStack() as stack:
        store, _ = open_store(load(), stack)
        records = store.opinions()
        if not records:
            typer.echo("nobody has given an opinion", err=True)
        for record in records:
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
