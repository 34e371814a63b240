"""What these tests share: the page's homes and PostgreSQL, and a Ray cluster."""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.apps.web.conftest import database, fresh_home, web_home

__all__ = ["database", "fresh_home", "web_home"]
_NICENESS = "RAY_worker_niceness"


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of two processors and, so it believes, two GPUs."""
    os.environ[_NICENESS] = "0"  # or everything else on the machine would go first
    import ray

    ray.init(num_cpus=2, num_gpus=2, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
    del os.environ[_NICENESS]
