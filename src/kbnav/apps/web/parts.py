"""The parts of a server, which its routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.apps.secrets import Secrets
from kbnav.apps.web.metrics import Metrics
from kbnav.apps.web.service import Service
from kbnav.apps.web.store import Store
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

HERE = Path(__file__).parent
"""Where templates and static files are."""


@dataclass(frozen=True)
class Base:
    """What the routes work with that only look things up."""

    settings: Settings
    service: Service
    hide: Secrets


@dataclass(frozen=True)
class Parts(Base):
    """What the routes of the chat page work with."""

    store: Store
    saver: BaseCheckpointSaver[Any]
    metrics: Metrics
