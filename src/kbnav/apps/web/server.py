"""The application: its parts opened, its routes, and the server that runs it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.database import PostgresDatabase, SqliteDatabase, open_sqlite
from kbnav.apps.web.metrics import open_metrics, shared_by_processes
from kbnav.apps.web.opening import PAUSE
from kbnav.apps.web.parts import HERE, Parts
from kbnav.apps.web.refusals import add_refusals
from kbnav.apps.web.runner import Runner
from kbnav.apps.web.saved import SavedFiles, SavedRows
from kbnav.apps.web.security import Gate, checked
from kbnav.apps.web.service import open_service
from kbnav.apps.web.store import Store
from kbnav.errors import StopRun, UsageError
from kbnav.runs.database import alone, open_postgres
from kbnav.runs.trajectory import versions
from kbnav.sessions.session import postgres_sessions, sqlite_sessions
from kbnav.settings.model import Settings, Web

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

DATABASE = "web.sqlite"
DESCRIPTION = "Ask questions of knowledge bases, watch how they are answered, and page through the results."


def open_store(settings: Settings, stack: ExitStack) -> tuple[Store, BaseCheckpointSaver[Any]]:
    """Where sessions are kept: PostgreSQL where it is configured, else SQLite. Raises UsageError."""
    saver: BaseCheckpointSaver[Any]
    url, files = settings.web.database.get_secret_value(), SavedFiles(settings.home / "runs")
    if url:
        pool = stack.enter_context(open_postgres(url))
        with alone(pool):
            shared = PostgresDatabase(pool)
            store, saver = Store(shared, SavedRows(shared, before=files)), postgres_sessions(pool)
            store.set_up()
    else:
        database: SqliteDatabase = stack.enter_context(open_sqlite(settings.home / DATABASE))
        store, saver = Store(database, files), stack.enter_context(sqlite_sessions(settings.home))
        store.set_up()
    return store, saver


def make_app(settings: Settings, *, pause: float = PAUSE) -> FastAPI:
    """The application, its knowledge bases and its database open until it shuts down.

    A knowledge base at another place that does not answer is tried again every ``pause`` seconds.
    Raises StopRun where one of them cannot be opened, UsageError where the settings are not safe.
    """
    checked(settings.web)
    with ExitStack() as stack:
        store, saver = open_store(settings, stack)
        service = stack.enter_context(open_service(settings, pause=pause))
        parts = Parts(settings, service, secrets_of(settings), store, saver, open_metrics(settings.web))
        return _build(parts, stack.pop_all())


def _build(parts: Parts, stack: ExitStack) -> FastAPI:
    from kbnav.apps.web.routes import ROUTERS

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with stack:
            runner = Runner(
                parts.service, parts.store, parts.saver, parts.hide, asyncio.get_running_loop(), parts.metrics
            )
            app.state.runner = runner
            with runner.told_of_the_end():
                runner.start()
                try:
                    yield
                finally:
                    await asyncio.to_thread(runner.close)

    app = FastAPI(
        title="kbnav",
        version=versions()["kbnav"],
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.parts = parts
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    add_refusals(app)
    app.add_middleware(Gate, web=parts.settings.web, over=parts.store.logouts, metrics=parts.metrics)
    return app


Ready = Callable[[str], None]
"""Told the address when the server listens."""


def serve(settings: Settings, *, ready: Ready) -> None:
    """Serve until interrupted. Raises StopRun where it cannot begin."""
    web = checked(settings.web)
    if web.workers == 1:
        run_app(lambda: make_app(settings), web, ready=ready)
        return
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    with (
        listening(web.host, web.port) as listener,
        shared_by_processes(web),
        contextlib.suppress(KeyboardInterrupt),
    ):
        ready(_address(web.host, listener))
        config = uvicorn.Config(partial(_worker_app, settings), factory=True, workers=web.workers, **_OPTIONS)
        Multiprocess(config, sockets=[listener]).run()


def _prepare_process(web: Web) -> None:
    from kbnav.apps.web.logs import start_logging
    from kbnav.knowledge.connections import open_files

    open_files()
    start_logging(web.log)


def run_app(make: Callable[[], Any], web: Web, *, ready: Ready) -> None:
    """Run an application until interrupted, in this process. Raises StopRun as ``make``, and where it cannot listen."""
    import uvicorn

    _prepare_process(web)
    with listening(web.host, web.port) as listener, contextlib.suppress(KeyboardInterrupt):
        server = uvicorn.Server(uvicorn.Config(make(), **_OPTIONS))
        ready(_address(web.host, listener))
        server.run([listener])


_OPTIONS: dict[str, Any] = {
    "http": "kbnav.knowledge.connections:Deadlines",
    "access_log": False,  # addresses may hold ids and questions; the gate logs routes
    "proxy_headers": False,  # only the configured proxy is believed
    "server_header": False,
    "timeout_graceful_shutdown": 5,
    "timeout_worker_healthcheck": 120,  # a worker that is still importing answers nothing
    "log_level": "warning",
    "ws": "none",
}


def _address(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"


def _worker_app(settings: Settings) -> FastAPI:
    _prepare_process(settings.web)
    try:
        return make_app(settings)
    except StopRun as error:
        print(f"kbnav: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A reply goes out in two pieces, of which the second would wait 40 ms for word of the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listener
