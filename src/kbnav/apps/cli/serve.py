"""``kbnav serve`` and ``kbnav mcp``: the chat page with its APIs, and tools for programs that speak MCP."""

from __future__ import annotations

from typing import Annotated, Any

from kbnav.apps.cli.options import Asking, BaseUrl, Given, Host, Port, flag, load, option
from kbnav.errors import UsageError
from kbnav.settings.model import Settings


def serve(
    kb: Annotated[list[str] | None, option("--kb", "KB", "A knowledge base to choose, as for ask; repeatable.")] = None,
    model: Annotated[list[str] | None, option("--model", "MODEL", "A model to choose, as for ask; repeatable.")] = None,
    base_url: BaseUrl = None,
    system: Annotated[
        list[str] | None, option("--system", "SYSTEM", "An agent or retriever to choose; repeatable. Default: all.")
    ] = None,
    given: Given = None,
    host: Host = None,
    port: Port = None,
) -> None:
    """Serve the chat page, its APIs and their description until interrupted (docs/serve.md).

    For example: kbnav serve --kb mini --kb demo --port 8081
    """
    from kbnav.apps.web.server import serve as serve_web

    alone = system[0] if system and len(system) == 1 else None
    settings = load(given, alone, base_url=base_url)
    if settings.options != load().options and not alone:
        raise UsageError("an option of a system is for one alone: name it with --system")
    chosen = {"kbs": tuple(kb or ()), "models": tuple(model or ()), "systems": tuple(system or ())}
    settings = at(settings, host, port, **{name: value for name, value in chosen.items() if value})
    serve_web(settings, ready=lambda address: print(f"kbnav at {address}; Ctrl-C ends it", flush=True))


def mcp(
    of: Asking,
    http: Annotated[bool, flag("--http", "Serve over HTTP at /mcp instead of standard input.")] = False,
    host: Host = None,
    port: Port = None,
) -> None:
    """Offer an agent's tools, and ask, to clients of the Model Context Protocol.

    For example: kbnav mcp --kb mini
    """
    import asyncio

    from kbnav.agents.common.agent import build_agent
    from kbnav.apps.mcp import LocalBackend, build_server, http_app, offered_at, open_shared, run_stdio
    from kbnav.apps.secrets import secrets_of
    from kbnav.knowledge.open import open_kb

    settings = at(of.settings(), host, port)
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
                lambda: http_app(server, settings.web),
                checked(settings),
                ready=lambda address: print(f"MCP at {address}mcp; Ctrl-C ends it", flush=True),
            )


def at(settings: Settings, host: str | None, port: int | None, **web: Any) -> Settings:
    """The settings with the address to listen on, where one is given, and other settings of ``web``."""
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    return settings.model_copy(update={"web": settings.web.model_copy(update=given | web)})
