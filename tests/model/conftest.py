"""One server of the small model for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.base import KnowledgeBase
from tests.apps.web.conftest import linked_home
from tests.model.served import Served, served


@pytest.fixture(scope="session")
def small_model() -> Iterator[Served]:
    """The model, told of tools."""
    with served() as one:
        yield one


@pytest.fixture(scope="session")
def both_home(
    mini_home: Path,
    mini_kb: KnowledgeBase,
    demo_home: Path,
    demo_kb: KnowledgeBase,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A home that leads to both bundled knowledge bases."""
    return linked_home(tmp_path_factory.mktemp("model-home"), mini_home, demo_home)
