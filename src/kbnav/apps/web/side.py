"""Servers of a few pages beside the chat page, for who evaluates: with its doors, its style and its languages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.parts import HERE, Base
from kbnav.apps.web.refusals import add_refusals
from kbnav.apps.web.routes.doors import router as doors
from kbnav.apps.web.security import Gate, checked
from kbnav.apps.web.service import Service
from kbnav.settings.model import Settings


def side_app(settings: Settings, routers: Sequence[APIRouter], service: Service | None = None, **state: Any) -> FastAPI:
    """The application; ``state`` is what its routes find in ``request.app.state``.

    Raises UsageError where the settings are not safe to serve with.
    """
    checked(settings.web)
    app = FastAPI(title="kbnav", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.parts = Base(settings, service or Service(settings, ()), secrets_of(settings))
    for name, value in state.items():
        setattr(app.state, name, value)
    for router in (doors, *routers):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(HERE) / "static"), name="static")
    add_refusals(app)
    app.add_middleware(Gate, web=settings.web)
    return app
