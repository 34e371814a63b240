"""Sandboxes and an API over the demo SKB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.programs.api import Api
from kbnav.programs.sandbox import SANDBOXES, Sandbox, SandboxLimits, open_sandbox


@pytest.fixture(scope="session")
def api(demo_kb: KnowledgeBase) -> Api:
    return Api(demo_kb)


@pytest.fixture(scope="session", params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Each sandbox, with time for a machine that does much else."""
    with opened(request.param, SandboxLimits(seconds=2.0)) as found:
        yield found


def opened(name: str, limits: SandboxLimits) -> Sandbox:
    """A sandbox; skips the test where it cannot be had on this machine."""
    try:
        return open_sandbox(name, limits)
    except UsageError as error:
        if name == "monty":  # which is a package that the lock has
            raise
        pytest.skip(str(error))
