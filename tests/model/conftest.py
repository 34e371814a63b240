"""One server of the small model for all tests."""

from collections.abc import Iterator

import pytest

from tests.model.served import Served, served


@pytest.fixture(scope="session")
def small_model() -> Iterator[Served]:
    """The model, told of tools."""
    with served() as one:
        yield one
