"""A company's small graph behind an endpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings
from tests.knowledge.endpoint.served import Served, serving

COMPANY = Path(__file__).with_name("company.ttl").read_text(encoding="utf-8")


@pytest.fixture
def served() -> Iterator[Served]:
    """The graph, served."""
    with serving(COMPANY) as one:
        yield one


@pytest.fixture
def company(served: Served, tmp_path: Path) -> Iterator[EndpointKB]:
    """The graph as a knowledge base."""
    with open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        yield kb
