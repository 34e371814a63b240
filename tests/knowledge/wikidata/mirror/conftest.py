from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from kbnav.knowledge.open import bundled_mirror
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.wikidata.mirror.pool import QueryLimits

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundled_mirror(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def server(mini: Path) -> Iterator[MirrorServer]:
    with MirrorServer(mini, limits=QueryLimits(1.0, 1 << 30, 2)) as running:
        yield running


@pytest.fixture
def api(server: MirrorServer) -> Ask:
    def ask(**parameters: Any) -> Any:
        return requests.get(server.endpoints.api, params={"format": "json", **parameters}, timeout=10).json()

    return ask
