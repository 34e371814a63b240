"""A sandbox and an API over the demo SKB."""

from collections.abc import Iterator

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.programs.api import Api
from kbnav.programs.sandbox import Sandbox, SandboxLimits


@pytest.fixture(scope="session")
def api(demo_kb: KnowledgeBase) -> Api:
    return Api(demo_kb)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """With time for a machine that does much else."""
    with Sandbox(SandboxLimits(seconds=2.0)) as found:
        yield found
