"""The application: its parts opened, its routes, its connections and its log, and the server that runs it."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.auth import Gate, checked, is_loopback
from kbnav.apps.web.rendering import HERE, add_refusals
from kbnav.apps.web.service import PAUSE, Service, open_service
from kbnav.apps.web.store import Logouts, PostgresDatabase, Store, open_sqlite
from kbnav.errors import StopRun
from kbnav.knowledge.connections import Deadlines, listening
from kbnav.models.cancellation import end_with_parent
from kbnav.runs.database import alone, open_postgres
from kbnav.runs.trajectory import versions
from kbnav.sessions.checkpoints import shared_sessions
from kbnav.sessions.session import serializer, sqlite_sessions
from kbnav.settings.model import Settings, Web

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from kbnav.apps.web.routes.common import Parts

DATABASE = "web.sqlite"
DESCRIPTION = "Ask questions of knowledge bases, watch how they are answered, and page through the results."
LOGGER = "kbnav.web"
Ready = Callable[[str], None]
"""Called with the address when the server listens."""


def open_store(settings: Settings, stack: ExitStack) -> tuple[Store, BaseCheckpointSaver[Any]]:
    """Where sessions are kept: PostgreSQL where it is configured, else SQLite. Raises UsageError."""
    if url := settings.database.get_secret_value():
        pool = stack.enter_context(open_postgres(url))
        with alone(pool):
            store = Store(PostgresDatabase(pool))
            store.set_up()
            return store, shared_sessions(pool, serializer())
    store = Store(stack.enter_context(open_sqlite(settings.home / DATABASE)), settings.home / "runs")
    store.set_up()
    return store, stack.enter_context(sqlite_sessions(settings.home))


def make_app(settings: Settings, *, pause: float = PAUSE) -> FastAPI:
    """The application, its knowledge bases and its database open until it shuts down.

    A knowledge base at another place that does not answer is tried again every ``pause`` seconds.
    Raises StopRun where one of them cannot be opened, UsageError where the settings are not safe.
    """
    from kbnav.apps.web.queue import RunQueue
    from kbnav.apps.web.routes import ROUTERS
    from kbnav.apps.web.routes.common import ChatParts

    checked(settings)
    with ExitStack() as opened:
        store, saver = open_store(settings, opened)
        service = opened.enter_context(open_service(settings, pause=pause))
        hide = secrets_of(settings)
        queue = RunQueue(service, store, saver, hide)
        parts = ChatParts(settings, service, hide, store, queue)
        stack = opened.pop_all()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with stack:
            async with queue.running():
                yield

    app = FastAPI(
        title="kbnav",
        version=versions()["kbnav"],
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    return _with_routes(app, ROUTERS, parts, store.logouts)


def small_app(
    settings: Settings, routers: Sequence[APIRouter], service: Service | None = None, **state: Any
) -> FastAPI:
    """A few pages with the chat page's login and style; ``state`` is ``request.app.state``. Raises UsageError."""
    from kbnav.apps.web.routes.common import Parts
    from kbnav.apps.web.routes.pages import login_router

    checked(settings)
    app = FastAPI(title="kbnav", docs_url=None, redoc_url=None, openapi_url=None)
    for name, value in state.items():
        setattr(app.state, name, value)
    parts = Parts(settings, service or Service(settings, ()), secrets_of(settings))
    return _with_routes(app, (login_router, *routers), parts)


def _with_routes(app: FastAPI, routers: Sequence[APIRouter], parts: Parts, logouts: Logouts | None = None) -> FastAPI:
    app.state.parts = parts
    for router in routers:
        app.router.routes.extend(router.routes)  # in a router that is included FastAPI would look twice
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    add_refusals(app)
    app.add_middleware(Gate, web=parts.settings.web, logouts=logouts)
    return app


def serve(settings: Settings, *, ready: Ready) -> None:
    """Serve until interrupted. Raises StopRun where it cannot begin."""
    web = checked(settings)
    if web.workers == 1:
        run_app(lambda: make_app(settings), web, ready=ready)
        return
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    with listening(web.host, web.port) as listener, suppress(KeyboardInterrupt):
        ready(address_of(web, listener.getsockname()[1]))
        config = uvicorn.Config(partial(_worker_app, settings), factory=True, workers=web.workers, **_OPTIONS)
        Multiprocess(config, sockets=[listener]).run()


def run_app(make: Callable[[], Any], web: Web, *, ready: Ready) -> None:
    """Run an application until interrupted, in this process. Raises StopRun as ``make``, and where it cannot listen."""
    import uvicorn

    _prepare_process()
    with listening(web.host, web.port) as listener, suppress(KeyboardInterrupt):
        server = uvicorn.Server(uvicorn.Config(make(), **_OPTIONS))
        ready(address_of(web, listener.getsockname()[1]))
        server.run([listener])


def _worker_app(settings: Settings) -> FastAPI:
    """The application in one of several processes, which ends with the one that started it."""
    _prepare_process()
    end_with_parent()
    try:
        return make_app(settings)
    except StopRun as error:
        print(f"kbnav: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def address_of(web: Web, port: int) -> str:
    """An address that answers: other machines reach the server by its names alone."""
    host = web.host if is_loopback(web.host) else web.hosts[0]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


_OPTIONS: dict[str, Any] = {
    "http": Deadlines,
    "access_log": False,  # addresses may hold ids and questions; the gate logs routes
    "proxy_headers": False,  # only the configured proxy is believed
    "server_header": False,
    "timeout_graceful_shutdown": 5,
    "timeout_worker_healthcheck": 120,  # a worker that is still importing answers nothing
    "log_level": "warning",
    "ws": "none",
}


def _prepare_process() -> None:
    """Log to standard error, and open as many files as the system lets this process, each connection being one."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = hard if hard != resource.RLIM_INFINITY else 65_536
        if soft < wanted:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
